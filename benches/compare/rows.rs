//! The table of comparisons. A contest is a set of processes that run in turns; its rows define which of their
//! numbers are shown and which limits apply.

/// The role of a process, which is also its column in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    Us,
    /// bdwgc.
    Peer,
    /// The same work without a collector, or our own program under easier conditions (described by `Side::note`).
    Base,
}

/// The origin of a side's program.
#[derive(Clone, Copy)]
pub enum Source {
    /// This binary, as a child.
    Ours,
    /// `benches/peers`, with libgc.
    Libgc,
    /// `benches/peers`, plain C.
    PlainC,
    /// `benches/peers`, under an LTTng session.
    Lttng,
}

pub struct Side {
    pub role: Role,
    pub source: Source,
    pub command: Vec<String>,
    pub environment: Vec<(&'static str, String)>,
    /// A description of the base, if that is not the bare limit.
    pub note: &'static str,
}

/// How a side is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// One process runs `rounds` rounds.
    Served { rounds: usize },
    /// A process per round: its total time and its peak memory are measured.
    WholeProcess,
}

/// A limit, relative to another side or absolute.
#[derive(Clone, Copy, PartialEq)]
pub enum Limit {
    /// Our number must be at most x times the peer's.
    PeerAtMost(f64),
    /// Our number must be at least x times the peer's.
    PeerAtLeast(f64),
    /// Our number must be at most x times the base's.
    BaseAtMost(f64),
    /// Our number must be at least x times the base's.
    BaseAtLeast(f64),
    /// Our number must be at most x, in the row's unit.
    AtMost(f64),
}

pub struct Row {
    pub group: &'static str,
    pub name: String,
    /// The key of this row's number in the lines `key=number` that the measuring programs print.
    pub key: &'static str,
    pub unit: &'static str,
    pub limits: Vec<Limit>,
}

pub struct Contest {
    pub pace: Pace,
    pub sides: Vec<Side>,
    pub rows: Vec<Row>,
}

impl Contest {
    /// The number of rounds after which the processes are restarted.
    pub fn rounds_of_a_life(&self) -> usize {
        match self.pace {
            Pace::Served { rounds } => rounds,
            Pace::WholeProcess => usize::MAX,
        }
    }

    /// Replaces our side by the bare limit, if the contest has one, so that both sides are equal, and the row shows
    /// the effect of noise on their ratio. Returns false if there is no bare limit.
    pub fn calibrate(&mut self) -> bool {
        let is_bare = |side: &&Side| side.role == Role::Base && side.note.is_empty();
        let Some(bare) = self.sides.iter().find(is_bare) else { return false };
        let (source, command) = (bare.source, bare.command.clone());
        for side in self.sides.iter_mut().filter(|side| side.role == Role::Us) {
            (side.source, side.command) = (source, command.clone());
        }
        true
    }
}

/// A process with many threads settles into a fixed pattern (which thread wakes on which CPU). So processes are restarted
/// often, which takes little time.
const STOPPING: Pace = Pace::Served { rounds: 3 };

/// A heap of 100 MB takes longer to build than to mark.
const MARKING: Pace = Pace::Served { rounds: 10 };

const ALLOCATING: Pace = Pace::Served { rounds: 5 };

/// Returns the contests with the selected rows. Contests without a selected row are left out.
pub fn chosen(words: &[String]) -> Vec<Contest> {
    let is_chosen = |row: &Row| {
        words.is_empty() || words.iter().any(|word| row.group == word || row.name.to_lowercase().contains(word))
    };
    let mut contests = all();
    for contest in &mut contests {
        contest.rows.retain(is_chosen);
    }
    contests.retain(|contest| !contest.rows.is_empty());
    contests
}

fn all() -> Vec<Contest> {
    let mut contests = Vec::new();
    contests.extend([8, 32, 128, 512].map(blocked));
    contests.extend([128, 512].map(blocking));
    contests.extend([8, 32].map(busy));
    contests.push(mark("tree", vec![Limit::PeerAtLeast(3.0), Limit::BaseAtLeast(1.5)]));
    contests.push(mark("graph", vec![Limit::PeerAtLeast(8.0), Limit::BaseAtLeast(0.8)]));
    contests.push(mark("list", vec![Limit::BaseAtLeast(2.0)]));
    contests.push(mark_with_two());
    contests.push(step_by_two("handles", "2000000", "pause_ms", "2 million root handles", 0.8));
    contests.push(step_by_two("stack", "262144", "pause_ms", "a stack of 256 MiB", 0.8));
    contests.push(step_by_two("sweep", "32000000", "sweep_ms", "set-up of the sweep, 32 million dead", 0.8));
    contests.push(step_by_two("finalizers", "8000000", "weak_ms", "8 million finalizers, all live", 0.8));
    contests.push(step_by_two("weak", "8000000", "weak_ms", "8 million weak references, cleared", 0.9));
    contests.extend([16, 32, 64].map(allocate));
    contests.extend([16, 32, 64].map(allocate_by_two));
    for threads in [1, 2] {
        contests.push(program("gcbench", &[threads]));
        contests.push(program("bintrees", &[18, threads]));
    }
    contests.push(events());
    contests.push(recording("to /dev/null", "/dev/null"));
    contests.push(recording("to a file", "file"));
    contests
}

/// Measures threads in `read()`, each of which must be signalled. With many threads a round has fewer collections, because each collection
/// takes longer.
fn blocked(threads: u32) -> Contest {
    let collections = if threads >= 128 { 5 } else { 11 };
    Contest {
        pace: STOPPING,
        sides: stopping(threads, "read", collections, collections),
        rows: vec![
            row("stop", format!("stop {threads} blocked threads"), "stop_us", "µs", [Limit::BaseAtMost(1.15)]),
            row("restart", format!("restart {threads} blocked threads"), "restart_us", "µs", [Limit::PeerAtMost(0.7)]),
        ],
    }
}

/// Measures spinning threads. At each stop it is a matter of chance whether the woken threads preempt the thread that wakes them, so a
/// round needs many collections. bdwgc waits for all threads at each stop, so for bdwgc one collection is enough.
fn busy(threads: u32) -> Contest {
    let collections = if threads >= 32 { 9 } else { 21 };
    let rows = vec![
        row("stop", format!("stop {threads} spinning threads"), "stop_us", "µs", []),
        row(
            "restart",
            format!("restart {threads} spinning threads"),
            "restart_us",
            "µs",
            [Limit::BaseAtMost(1.2), Limit::PeerAtMost(1.0 / 20.0)],
        ),
    ];
    Contest { pace: STOPPING, sides: stopping(threads, "busy", collections, 1), rows }
}

/// Stop and restart together, divided by the number of threads.
fn blocking(threads: u32) -> Contest {
    let mut sides = stopping(threads, "blocking", 11, 11);
    sides.retain(|side| side.role != Role::Base);
    let name = format!("per thread of {threads} in blocking regions");
    Contest {
        pace: STOPPING,
        sides,
        rows: vec![row("stop", name, "per_thread_ns", "ns", [Limit::PeerAtMost(1.0), Limit::AtMost(50.0)])],
    }
}

fn stopping(threads: u32, mode: &str, collections: u32, peers_collections: u32) -> Vec<Side> {
    let (n, k, pk) = (threads.to_string(), collections.to_string(), peers_collections.to_string());
    vec![
        side(Role::Us, Source::Ours, &["stw", &n, mode, &k, "serve"]),
        side(Role::Peer, Source::Libgc, &["stw", &n, mode, &pk, "serve"]),
        side(Role::Base, Source::Ours, &["stwproto", &n, mode, &k, "bare", "serve"]),
    ]
}

fn mark(shape: &'static str, limits: Vec<Limit>) -> Contest {
    let sides = [
        side(Role::Us, Source::Ours, &["pause", "100", "32", shape, "1", "serve"]),
        side(Role::Peer, Source::Libgc, &["pause", "100", "32", shape, "1", "serve"]),
        side(Role::Base, Source::PlainC, &["mark", "100", shape, "1", "serve"]),
    ]
    .map(|side| with_markers(1, side))
    .into();
    let name = format!("{shape} of 100 MB, 1 marker");
    Contest { pace: MARKING, sides, rows: vec![row("mark", name, "mobj_s", "M/s", limits)] }
}

fn mark_with_two() -> Contest {
    let command = ["pause", "100", "32", "tree", "1", "serve"];
    let mut sides = two_markers_and_one(&command);
    sides.push(with_markers(2, side(Role::Peer, Source::Libgc, &command)));
    let name = "tree of 100 MB, 2 markers".into();
    Contest { pace: MARKING, sides, rows: vec![row("mark", name, "mobj_s", "M/s", [Limit::BaseAtLeast(1.7)])] }
}

/// Measures a step of a collection before or after marking.
fn step_by_two(step: &str, count: &str, key: &'static str, title: &str, limit: f64) -> Contest {
    let command = ["steps", step, count, "serve"];
    let sides = two_markers_and_one(&command);
    let name = format!("{title}, 2 markers");
    Contest { pace: MARKING, sides, rows: vec![row("steps", name, key, "ms", [Limit::BaseAtMost(limit)])] }
}

/// Our program with two markers, and as the base with one.
fn two_markers_and_one(command: &[&str]) -> Vec<Side> {
    let one = Side { note: "us, 1 marker", ..side(Role::Base, Source::Ours, command) };
    vec![with_markers(2, side(Role::Us, Source::Ours, command)), with_markers(1, one)]
}

/// Sets the environment variable of libgc, which our child program also reads.
fn with_markers(markers: u32, mut side: Side) -> Side {
    side.environment.push(("GC_MARKERS", markers.to_string()));
    side
}

/// The number of objects per thread and round, in thousands.
const THOUSANDS: &str = "2000";

/// The same for two threads, which are new in each round: with fewer objects, the row would measure how soon the kernel gives each of them a
/// processor of its own.
const THOUSANDS_BY_TWO: &str = "8000";

fn allocate(size: u32) -> Contest {
    let size = size.to_string();
    Contest {
        pace: ALLOCATING,
        sides: vec![
            side(Role::Us, Source::Ours, &["alloc", &size, "1", THOUSANDS, "serve"]),
            side(Role::Peer, Source::Libgc, &["alloc", &size, "1", THOUSANDS, "serve"]),
        ],
        rows: vec![row("allocate", format!("{size} bytes, 1 thread"), "ns", "ns", [Limit::PeerAtMost(0.5)])],
    }
}

fn allocate_by_two(size: u32) -> Contest {
    let size = size.to_string();
    Contest {
        pace: ALLOCATING,
        sides: vec![
            side(Role::Us, Source::Ours, &["alloc", &size, "2", THOUSANDS_BY_TWO, "serve"]),
            side(Role::Peer, Source::Libgc, &["alloc", &size, "2", THOUSANDS_BY_TWO, "serve"]),
            Side {
                note: "us, 1 thread",
                ..side(Role::Base, Source::Ours, &["alloc", &size, "1", THOUSANDS_BY_TWO, "serve"])
            },
        ],
        rows: vec![row("allocate", format!("{size} bytes, each of 2 threads"), "ns", "ns", [Limit::BaseAtMost(1.1)])],
    }
}

fn program(name: &'static str, arguments: &[u32]) -> Contest {
    let mut command = vec![name.to_owned()];
    command.extend(arguments.iter().map(u32::to_string));
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let title = command.join(" ");
    Contest {
        pace: Pace::WholeProcess,
        sides: vec![side(Role::Us, Source::Ours, &command), side(Role::Peer, Source::Libgc, &command)],
        rows: vec![
            row("programs", format!("{title}: wall time"), "wall_ms", "ms", [Limit::PeerAtMost(0.5)]),
            row("programs", format!("{title}: peak memory"), "peak_rss_mb", "MB", [Limit::PeerAtMost(1.0)]),
        ],
    }
}

fn events() -> Contest {
    Contest {
        pace: ALLOCATING,
        sides: vec![side(Role::Us, Source::Ours, &["events", "serve"])],
        rows: vec![row("events", "disabled event, minus empty loop".into(), "extra_ns", "ns", [Limit::AtMost(0.5)])],
    }
}

/// Measures ten million events of two words in each round, written in blocks of 256 KiB. The peers are LTTng-UST (binary; it drops events
/// when its buffers are full) and the `tracing` crate, with a thread that writes its lines.
fn recording(title: &str, file: &str) -> Contest {
    let name = |what: &str| format!("recorded {title}, peer LTTng: {what}");
    Contest {
        pace: Pace::Served { rounds: 5 },
        sides: vec![
            side(Role::Us, Source::Ours, &["recording", file, "10", "serve"]),
            side(Role::Peer, Source::Lttng, &["lttng", "10", "serve"]),
            Side { note: "tracing", ..side(Role::Base, Source::Ours, &["tracing", file, "1", "serve"]) },
        ],
        rows: vec![
            row("events", name("in the mutator"), "on_cpu_ns", "ns", [Limit::AtMost(20.0)]),
            row("events", name("with waits"), "on_ns", "ns", []),
        ],
    }
}

fn side(role: Role, source: Source, command: &[&str]) -> Side {
    let command = command.iter().map(|&word| word.to_owned()).collect();
    Side { role, source, command, environment: Vec::new(), note: "" }
}

fn row(
    group: &'static str,
    name: String,
    key: &'static str,
    unit: &'static str,
    limits: impl IntoIterator<Item = Limit>,
) -> Row {
    Row { group, name, key, unit, limits: limits.into_iter().collect() }
}
