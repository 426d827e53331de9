//! From events to what is shown: pauses with their phases, the heap, threads, rates.
//!
//! The events of a pause are, in the order of their times:
//!
//! ```text
//!   SuspendBegin   SuspendEnd   (ThreadStopped …) Start … (Times) … Stats     RestartBegin   RestartEnd
//!   ├─── stop ─────┤                              ├─ collection ────┤          ├── restart ───┤
//!   ├─── pause ───────────────────────────────────────────────────────────────────────────────┤
//! ```
//!
//! The thread that suspends the others also restarts them, so a pause is identified by that thread: several worlds of a process may pause at
//! once. The start, the times and the sizes may be reported by another thread (the server collector of .NET); if only one pause is open, they
//! belong to it.
//! A background collection of .NET has two pauses, and the start is in the first only. A suspension for another purpose than a collection
//! (a sampler stops the process a thousand times a second) is counted, and is not a pause here. A pause whose beginning was before the session
//! is left out. If events of that thread were lost during a pause, it may be two pauses, so it is counted as incomplete and left out too.
//!
//! All memory is bounded: the oldest entries leave the [`Ring`]s. A thread has an entry if it has a name or a stop has waited for it; if there are
//! too many, those are kept for which a stop waited longest.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ring::Ring;
use stopworld_diagnostics::watched::CounterValue;

/// The number of pauses, and of sizes of the heap, that are kept.
pub const MOST_PAUSES: usize = 8192;
/// The number of seconds for which rates are kept: two hours.
pub const MOST_SECONDS: usize = 7200;
/// The number of threads with an entry of their own.
pub const MOST_THREADS: usize = 512;
/// The number of threads of one stop that are kept: the last ones to stop.
pub const MOST_STOPS: usize = 16;
/// The number of pauses that can be open at once.
const MOST_OPEN: usize = 64;
/// The number of worlds whose sizes are added up: the newest.
const MOST_WORLDS: usize = 256;
/// The number of counters that are kept.
const MOST_COUNTERS: usize = 128;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Number of [`Phase`]s.
pub const PHASES: usize = 8;

/// A part of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Until every thread is stopped.
    Stop,
    /// Roots are scanned, and objects marked.
    Mark,
    /// Weak references and finalizers.
    Weak,
    /// .NET: where survivors will be.
    Plan,
    /// Dead objects are freed, or the sweep is set up; .NET: also relocation.
    Sweep,
    /// .NET: survivors are moved.
    Compact,
    /// Threads are resumed.
    Restart,
    /// The rest; the whole collection if the runtime does not report its phases.
    Other,
}

impl Phase {
    /// All phases, in the order of a pause.
    pub const ALL: [Phase; PHASES] = [
        Phase::Stop,
        Phase::Mark,
        Phase::Weak,
        Phase::Plan,
        Phase::Sweep,
        Phase::Compact,
        Phase::Restart,
        Phase::Other,
    ];

    /// Returns the name to show.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Stop => "stop",
            Phase::Mark => "mark",
            Phase::Weak => "weak",
            Phase::Plan => "plan",
            Phase::Sweep => "sweep",
            Phase::Compact => "compact",
            Phase::Restart => "restart",
            Phase::Other => "other",
        }
    }
}

/// Generations in the numbering of .NET: 0, 1, 2, large objects, pinned objects.
pub const SPACES: usize = 5;

/// The runtime of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// No event has shown it yet.
    #[default]
    Unknown,
    /// This project's collector.
    Stopworld,
    /// .NET.
    DotNet,
}

impl Runtime {
    /// Returns the names of the spaces in [`HeapSize::bytes`]. An empty name is that of a space that the runtime does not have.
    pub fn spaces(self) -> [&'static str; SPACES] {
        match self {
            Runtime::Stopworld => ["", "", "small", "large", "pinned"],
            _ => ["generation 0", "generation 1", "generation 2", "large", "pinned"],
        }
    }
}

/// Why threads are suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// For a collection.
    Collection,
    /// To end the marking of a background collection.
    Preparation,
    /// For another purpose.
    Other,
}

/// What an event reports.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// Threads are about to be suspended.
    SuspendBegin(Purpose),
    /// All threads are suspended.
    SuspendEnd,
    /// A collection starts.
    Start {
        /// Its number.
        number: i32,
        /// The oldest generation that is collected.
        generation: u32,
        /// Why it was started.
        reason: &'static str,
        /// Whether it runs with the program: its times are then not those of its pauses.
        is_background: bool,
    },
    /// The times of the collection's phases, in microseconds, by the numbers of .NET.
    Times([u32; 8]),
    /// The sizes of the spaces.
    Stats([u64; SPACES]),
    /// Threads are about to be resumed.
    RestartBegin,
    /// Threads run again.
    RestartEnd,
    /// The stop was abandoned: the pause is over.
    Abandoned,
    /// The marks of the collection were discarded.
    Discarded,
    /// A thread has stopped.
    ThreadStopped {
        /// Its id.
        thread: u64,
        /// Nanoseconds from the request to stop.
        ns: u64,
        /// Whether the stop waited for it.
        waited: bool,
    },
    /// A thread has a name.
    ThreadNamed {
        /// Its id.
        thread: u64,
        /// The name.
        name: String,
    },
    /// A thread has left its world.
    ThreadLeft {
        /// Its id.
        thread: u64,
    },
    /// A counter has a new value.
    Counter(CounterValue),
    /// Anything else.
    Other,
}

/// A pause of the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Pause {
    /// When it began, in nanoseconds since the session began.
    pub begin: u64,
    /// How long it was, in nanoseconds.
    pub ns: u64,
    /// Nanoseconds in each [`Phase`].
    pub phases: [u64; PHASES],
    /// The number of the collection that started in it.
    pub number: Option<i32>,
    /// The oldest generation that was collected.
    pub generation: u32,
    /// Why the collection was started.
    pub reason: &'static str,
    /// Whether the collection ran with the program.
    pub background: bool,
    /// Whether the stop was abandoned, or the collection discarded.
    pub failed: bool,
    /// The world of the process, from 0.
    pub world: u16,
    /// Bytes of the heap of its world after it.
    pub heap: Option<u64>,
    /// The threads that stopped last, with the nanoseconds that they took.
    pub stops: Vec<(u64, u64)>,
}

/// The sizes of the spaces at a time, in all worlds. No event reports which world was closed: its last sizes stay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HeapSize {
    /// Nanoseconds since the session began.
    pub time: u64,
    /// Bytes, by space.
    pub bytes: [u64; SPACES],
}

/// The events of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Second {
    /// Which second since the session began.
    pub second: u64,
    /// Events received.
    pub events: u64,
    /// Events lost.
    pub lost: u64,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Stops that waited for it.
    pub waited: u64,
    /// Stops for which it was the last one.
    pub last: u64,
    /// Nanoseconds of its latest stop.
    pub latest: u64,
    /// Nanoseconds of its slowest stop.
    pub slowest: u64,
    /// Whether it has left its world.
    pub left: bool,
}

/// A counter, as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counter {
    /// Its label.
    pub label: String,
    /// Its units.
    pub units: String,
    /// Its latest value.
    pub value: f64,
}

/// A pause that is not over.
#[derive(Debug)]
struct Open {
    thread: u64,
    pause: Pause,
    suspended: Option<u64>,
    times: Option<[u32; 8]>,
    restarting: Option<u64>,
}

/// Everything that is shown of a process.
#[derive(Debug)]
pub struct History {
    /// The runtime of the process.
    pub runtime: Runtime,
    /// The pauses that are over.
    pub pauses: Ring<Pause>,
    /// The sizes of the heap.
    pub heaps: Ring<HeapSize>,
    /// The rates, for each second in which something arrived. The newest may still grow.
    pub seconds: Ring<Second>,
    /// The threads, by their ids.
    pub threads: BTreeMap<u64, Thread>,
    /// The counters, by their names.
    pub counters: BTreeMap<String, Counter>,
    /// The number of events, counters excepted.
    pub events: u64,
    /// The number of events that were lost.
    pub lost: u64,
    /// The nanoseconds of all pauses.
    pub paused: u64,
    /// The nanoseconds of the longest pause.
    pub longest: u64,
    /// Suspensions for another purpose than a collection.
    pub other_stops: u64,
    /// Pauses of which events were lost. They are in no other figure.
    pub incomplete: u64,
    /// The time of the latest event, in nanoseconds since the session began.
    pub now: u64,
    /// Why the session has ended.
    pub ended: Option<String>,
    /// Whether it ended by a failure: the stream is damaged.
    pub is_broken: bool,
    /// Changes with each change that is worth showing.
    pub version: u64,
    open: Vec<Open>,
    /// The latest sizes of each world.
    worlds: BTreeMap<u16, [u64; SPACES]>,
}

impl Default for History {
    fn default() -> History {
        History {
            runtime: Runtime::Unknown,
            pauses: Ring::new(MOST_PAUSES),
            heaps: Ring::new(MOST_PAUSES),
            seconds: Ring::new(MOST_SECONDS),
            threads: BTreeMap::new(),
            counters: BTreeMap::new(),
            events: 0,
            lost: 0,
            paused: 0,
            longest: 0,
            other_stops: 0,
            incomplete: 0,
            now: 0,
            ended: None,
            is_broken: false,
            version: 0,
            open: Vec::new(),
            worlds: BTreeMap::new(),
        }
    }
}

impl History {
    /// Adds an event of this time and thread, of this world of the process.
    pub fn add(&mut self, time: u64, thread: u64, world: u16, what: Observation) {
        self.now = self.now.max(time);
        if let Observation::Counter(counter) = what {
            self.second(time);
            self.counter(counter);
            return;
        }
        self.events += 1;
        self.second(time).events += 1;
        match what {
            Observation::SuspendBegin(Purpose::Other) => {
                // The end of an earlier pause of this thread was lost.
                self.interrupt(thread);
                self.other_stops += 1;
            }
            Observation::SuspendBegin(purpose) => self.suspend(time, thread, world, purpose),
            Observation::RestartEnd => self.restart(time, thread),
            Observation::Abandoned => self.abandon(time, thread),
            Observation::Stats(bytes) => {
                if let Some(open) = self.nearest_pause(thread) {
                    open.pause.heap = Some(bytes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size)));
                }
                self.sizes(time, world, bytes);
            }
            Observation::ThreadStopped { thread: stopped, ns, waited } => {
                self.stopped(stopped, ns, waited);
                if let Some(open) = self.open_pause(thread).filter(|_| waited) {
                    keep_slowest(&mut open.pause.stops, (stopped, ns));
                }
            }
            Observation::ThreadNamed { thread, name } => {
                // The kernel gives the id of a thread that has ended to a new one.
                self.forget_left(thread);
                if let Some(entry) = self.thread(thread, 0) {
                    entry.name = name;
                }
            }
            Observation::ThreadLeft { thread } => {
                if let Some(entry) = self.threads.get_mut(&thread) {
                    entry.left = true;
                }
            }
            Observation::Start { .. } | Observation::Times(_) => {
                if let Some(open) = self.nearest_pause(thread) {
                    open.note(time, world, &what);
                }
            }
            what => {
                if let Some(open) = self.open_pause(thread) {
                    open.note(time, world, &what);
                }
            }
        }
    }

    /// Adds a loss of this many events.
    pub fn add_lost(&mut self, count: u64) {
        self.lost = self.lost.saturating_add(count);
        let now = self.now;
        let second = self.second(now);
        second.lost = second.lost.saturating_add(count);
        self.version += 1;
    }

    /// Notes that events of this thread were lost before its next event.
    pub fn interrupt(&mut self, thread: u64) {
        if let Some(at) = self.open.iter().position(|open| open.thread == thread) {
            self.open.remove(at);
            self.incomplete += 1;
            self.version += 1;
        }
    }

    /// Returns whether a pause of this thread has begun and not ended.
    pub fn is_pausing(&self, thread: u64) -> bool {
        self.open.iter().any(|open| open.thread == thread)
    }

    /// Notes that the session has ended, why, and whether by a failure.
    pub fn end(&mut self, reason: String, is_broken: bool) {
        self.ended = Some(reason);
        self.is_broken = is_broken;
        self.version += 1;
    }

    /// Returns the entry of a thread for which a stop waited for this many nanoseconds. `None` if the thread has no entry, and there is no room
    /// for a new one: all are of threads for which a stop waited at least as long.
    fn thread(&mut self, thread: u64, ns: u64) -> Option<&mut Thread> {
        if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&thread) {
            // A thread that has left makes room.
            let least = self.threads.iter().min_by_key(|(_, entry)| (!entry.left, entry.slowest));
            let (id, _) = least.filter(|(_, entry)| entry.left || entry.slowest < ns)?;
            let id = *id;
            self.threads.remove(&id);
        }
        Some(self.threads.entry(thread).or_default())
    }

    /// Removes the entry of a thread that has left.
    fn forget_left(&mut self, thread: u64) {
        if self.threads.get(&thread).is_some_and(|entry| entry.left) {
            self.threads.remove(&thread);
        }
    }

    /// Sets the name of a thread that has an entry without one.
    pub fn name(&mut self, thread: u64, name: String) {
        if let Some(entry) = self.threads.get_mut(&thread).filter(|entry| entry.name.is_empty()) {
            entry.name = name;
            self.version += 1;
        }
    }

    /// Returns the bucket of this time, or the newest one if that is later.
    fn second(&mut self, time: u64) -> &mut Second {
        let second = time / SECOND;
        if self.seconds.last().is_none_or(|last| last.second < second) {
            self.seconds.push(Second { second, ..Second::default() });
            self.version += 1;
        }
        self.seconds.last_mut().expect("a bucket was just added")
    }

    fn counter(&mut self, value: CounterValue) {
        if self.counters.len() >= MOST_COUNTERS && !self.counters.contains_key(&value.name) {
            return;
        }
        let label = if value.display.is_empty() { value.name.clone() } else { value.display };
        let counter = Counter { label, units: value.units, value: value.value };
        if self.counters.get(&value.name) != Some(&counter) {
            self.counters.insert(value.name, counter);
            self.version += 1;
        }
    }

    /// The open pause of this thread.
    fn open_pause(&mut self, thread: u64) -> Option<&mut Open> {
        self.open.iter_mut().find(|open| open.thread == thread)
    }

    /// The open pause to which an event belongs that another thread may report.
    fn nearest_pause(&mut self, thread: u64) -> Option<&mut Open> {
        let at = self.open.iter().position(|open| open.thread == thread);
        let at = at.or_else(|| (self.open.len() == 1).then_some(0))?;
        Some(&mut self.open[at])
    }

    fn sizes(&mut self, time: u64, world: u16, bytes: [u64; SPACES]) {
        self.worlds.insert(world, bytes);
        if self.worlds.len() > MOST_WORLDS {
            self.worlds.pop_first();
        }
        let mut sum = [0u64; SPACES];
        for sizes in self.worlds.values() {
            sum.iter_mut().zip(sizes).for_each(|(sum, size)| *sum = sum.saturating_add(*size));
        }
        self.heaps.push(HeapSize { time, bytes: sum });
        self.version += 1;
    }

    fn suspend(&mut self, begin: u64, thread: u64, world: u16, purpose: Purpose) {
        // The end of an earlier pause of this thread was lost.
        self.interrupt(thread);
        if self.open.len() >= MOST_OPEN {
            self.interrupt(self.open[0].thread);
        }
        let mut pause = Pause { begin, world, ..Pause::default() };
        if purpose == Purpose::Preparation {
            (pause.background, pause.reason) = (true, "end of background marking");
        }
        self.open.push(Open { thread, pause, suspended: None, times: None, restarting: None });
    }

    fn restart(&mut self, time: u64, thread: u64) {
        let Some(at) = self.open.iter().position(|open| open.thread == thread) else { return };
        let pause = self.open.remove(at).finish(time);
        self.push(pause);
    }

    fn abandon(&mut self, time: u64, thread: u64) {
        let Some(at) = self.open.iter().position(|open| open.thread == thread) else { return };
        let mut open = self.open.remove(at);
        // The whole time was spent on the attempt to stop.
        open.suspended = Some(time);
        let mut pause = open.finish(time);
        pause.failed = true;
        self.push(pause);
    }

    fn push(&mut self, mut pause: Pause) {
        pause.stops.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        if let Some((last, _)) = pause.stops.first()
            && let Some(thread) = self.threads.get_mut(last)
        {
            thread.last += 1;
        }
        self.paused += pause.ns;
        self.longest = self.longest.max(pause.ns);
        self.pauses.push(pause);
        self.version += 1;
    }

    fn stopped(&mut self, thread: u64, ns: u64, waited: bool) {
        self.forget_left(thread);
        if !waited {
            return;
        }
        let Some(entry) = self.thread(thread, ns) else { return };
        entry.waited += 1;
        entry.latest = ns;
        entry.slowest = entry.slowest.max(ns);
    }
}

impl Open {
    fn note(&mut self, time: u64, world: u16, what: &Observation) {
        match *what {
            Observation::SuspendEnd => self.suspended = Some(time),
            // A pause contains at most one blocking collection; a background one may begin in the same pause, after it.
            Observation::Start { number, generation, reason, is_background }
                if self.pause.number.is_none() || !is_background =>
            {
                self.pause.number = Some(number);
                self.pause.generation = generation;
                self.pause.reason = reason;
                self.pause.background = is_background;
                self.pause.world = world;
            }
            Observation::Times(times) if !self.pause.background => self.times = Some(times),
            Observation::RestartBegin => self.restarting = Some(time),
            Observation::Discarded => self.pause.failed = true,
            _ => {}
        }
    }

    fn finish(self, end: u64) -> Pause {
        let mut pause = self.pause;
        pause.ns = end.saturating_sub(pause.begin);
        let mut left = pause.ns;
        let mut take = |phase: Phase, ns: u64| {
            // Times of phases are rounded to microseconds: together they may exceed the pause by a few.
            let ns = ns.min(left);
            pause.phases[phase as usize] = ns;
            left -= ns;
        };
        take(Phase::Stop, self.suspended.map_or(0, |time| time.saturating_sub(pause.begin)));
        take(Phase::Restart, self.restarting.map_or(0, |time| end.saturating_sub(time)));
        if let Some(times) = self.times {
            let ns = |phases: &[usize]| phases.iter().map(|phase| u64::from(times[*phase]) * 1000).sum();
            take(Phase::Mark, ns(&[0, 1]));
            take(Phase::Weak, ns(&[2, 3, 4]));
            take(Phase::Plan, ns(&[5]));
            take(Phase::Sweep, ns(&[6]));
            take(Phase::Compact, ns(&[7]));
        }
        pause.phases[Phase::Other as usize] = left;
        pause
    }
}

/// Keeps the slowest threads of a stop.
fn keep_slowest(stops: &mut Vec<(u64, u64)>, stop: (u64, u64)) {
    stops.push(stop);
    if stops.len() > MOST_STOPS {
        let fastest = stops.iter().enumerate().min_by_key(|(_, (_, ns))| *ns).map(|(index, _)| index);
        fastest.map(|index| stops.swap_remove(index));
    }
}
