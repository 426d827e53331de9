//! Programs of Debian on this library beside bdwgc, and the marking of untyped objects: `cargo bench -p stopworld-libgc --bench programs`.
//!
//! Both sides run in turns, as whole processes, with the same binary and the same input; only the library differs. Printed are the
//! medians of both sides, and the median of the ratios of the rounds. Processor time is that of the program with its children, in user mode;
//! memory is the largest resident set. Collections are counted in runs of their own, because bdwgc's log and our trace cost time.
//!
//! For marking, the shapes are those of `benches/peers/pause.c`: a tree, a list and a random graph of 32-byte objects, 100 MB, one marker.
//! `benches/peers/mark.c` is the bare limit: no size classes, no test of what is a reference.
//!
//! `-- w3m graph` selects rows, `-- --rounds 20` sets the number of rounds, `-- --quick` runs small inputs once. With `-- --strict`, the
//! exit status is 1 if a limit is missed. Programs that are not installed are skipped, and named.

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use support::collections;
use support::library::Library;
use support::programs::{PROGRAMS, Program, Size};
use support::run::{Cost, run, tail};

const LIMIT: Duration = Duration::from_secs(300);

/// The shapes of the marking rows, with the least speed relative to bdwgc.
const SHAPES: [(&str, f64); 3] = [("tree", 2.0), ("list", 1.0), ("graph", 5.0)];

struct Options {
    rows: Vec<String>,
    rounds: usize,
    size: Size,
    strict: bool,
}

impl Options {
    fn parse() -> Result<Options, String> {
        let mut options = Options { rows: Vec::new(), rounds: 10, size: Size::Large, strict: false };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // cargo bench passes it to every bench
                "--bench" => {}
                "--quick" => (options.rounds, options.size) = (1, Size::Small),
                "--strict" => options.strict = true,
                "--rounds" => {
                    let rounds = arguments.next().and_then(|value| value.parse().ok()).filter(|rounds| *rounds > 0);
                    options.rounds = rounds.ok_or("--rounds needs a number of at least 1")?;
                }
                unknown if unknown.starts_with('-') => return Err(format!("unknown option {unknown}")),
                row => options.rows.push(row.to_owned()),
            }
        }
        Ok(options)
    }

    fn selects(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|selected| row.contains(selected.as_str()))
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// The figures of both sides, round by round: ours, and those of bdwgc.
#[derive(Default)]
struct Pairs(Vec<(f64, f64)>);

impl Pairs {
    fn ours(&self) -> f64 {
        median(&self.0.iter().map(|(ours, _)| *ours).collect::<Vec<_>>())
    }

    fn theirs(&self) -> f64 {
        median(&self.0.iter().map(|(_, theirs)| *theirs).collect::<Vec<_>>())
    }

    fn ratio(&self) -> f64 {
        median(&self.0.iter().map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>())
    }
}

/// Calls `side` for both libraries, in turns: ours first in even rounds.
fn in_turns<T>(rounds: usize, mut side: impl FnMut(Library) -> Result<T, String>) -> Result<Vec<(T, T)>, String> {
    let mut pairs = Vec::new();
    for round in 0..rounds {
        pairs.push(if round % 2 == 0 {
            let ours = side(Library::Ours)?;
            (ours, side(Library::Debian)?)
        } else {
            let theirs = side(Library::Debian)?;
            (side(Library::Ours)?, theirs)
        });
    }
    Ok(pairs)
}

/// Runs a program once. `more` sets what the run needs beside; it gets the folder of the run.
fn run_once(
    program: &Program,
    size: Size,
    library: Library,
    more: impl FnOnce(&mut Command, &Path),
) -> Result<(Cost, tempfile::TempDir), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let command = program.command(folder.path(), size).map_err(|error| error.to_string())?;
    let mut command = command.ok_or_else(|| format!("skipped: needs {}", program.package))?;
    library.select(&mut command);
    more(&mut command, folder.path());
    let finished = run(&mut command, LIMIT).map_err(|error| format!("failed with {library:?}: {error}"))?;
    if !finished.status.success() {
        return Err(format!("failed with {library:?}: {}\n{}", finished.status, tail(&finished.stderr)));
    }
    Ok((finished.cost, folder))
}

fn collections(program: &Program, size: Size) -> Result<(u64, u64), String> {
    let count = |library| {
        let (_, folder) = run_once(program, size, library, |command, folder| match library {
            Library::Ours => drop(command.env("STOPWORLD_TRACE", folder.join("run.nettrace"))),
            Library::Debian => drop(command.env("GC_PRINT_STATS", "1").env("GC_LOG_FILE", folder.join("run.log"))),
        })?;
        match library {
            Library::Ours => collections::in_trace(&folder.path().join("run.nettrace")),
            Library::Debian => collections::in_log_of_bdwgc(&folder.path().join("run.log")),
        }
        .map_err(|error| error.to_string())
    };
    Ok((count(Library::Ours)?, count(Library::Debian)?))
}

/// Prints the row of a program. Returns whether it is within its limits: as fast as bdwgc, in 1.1 times the memory.
fn program_row(program: &Program, options: &Options) -> Result<bool, String> {
    let costs = in_turns(options.rounds, |library| Ok(run_once(program, options.size, library, |_, _| {})?.0))?;
    let pairs =
        |figure: fn(&Cost) -> f64| Pairs(costs.iter().map(|(ours, theirs)| (figure(ours), figure(theirs))).collect());
    // The kernel's account is coarser than a short run.
    let user = pairs(|cost| cost.user.as_secs_f64().max(0.001));
    let wall = pairs(|cost| cost.wall.as_secs_f64());
    let peak = pairs(|cost| cost.peak_kib as f64 / 1024.0);
    let (ours, theirs) = collections(program, options.size)?;
    let holds = user.ratio() <= 1.0 && peak.ratio() <= 1.1;
    println!(
        "{:10} {:8.3} s {:8.3} s {:6.2} {:9.2} {:8.1} MiB {:8.1} MiB {:6.2} {ours:9} {theirs:6}  {}",
        program.name,
        user.ours(),
        user.theirs(),
        user.ratio(),
        wall.ratio(),
        peak.ours(),
        peak.theirs(),
        peak.ratio(),
        if holds { "HOLDS" } else { "FALLS SHORT" },
    );
    Ok(holds)
}

/// Builds the C programs of `benches/peers`; an error names what is missing.
fn peers() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/peers");
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(source).arg(format!("OUT={}", folder.display())).env_remove("MAKEFLAGS");
    make.args(["pause", "mark"].map(|program| folder.join(program)));
    let finished = run(&mut make, LIMIT).map_err(|error| format!("skipped: needs make ({error})"))?;
    match finished.status.success() {
        true => Ok(folder),
        false => Err(format!("skipped: needs cc and libgc-dev\n{}", tail(&finished.stderr))),
    }
}

/// Runs a C program and returns the millions of objects that it marked each second.
fn marked(command: &mut Command) -> Result<f64, String> {
    let mut finished = run(command.env("GC_MARKERS", "1"), LIMIT).map_err(|error| error.to_string())?;
    let output = finished.stdout();
    let output = String::from_utf8_lossy(&output);
    let speed = output.split_whitespace().find_map(|pair| pair.strip_prefix("mobj_s=")?.parse().ok());
    speed.ok_or_else(|| format!("{command:?}: {}\n{}", finished.status, tail(&finished.stderr)))
}

/// Prints the row of a shape. Returns whether it is within its limit.
fn marking_row(shape: &str, least: f64, peers: &Path, options: &Options) -> Result<bool, String> {
    let (megabytes, collections) = if options.size == Size::Small { ("8", "3") } else { ("100", "10") };
    let speeds = in_turns(options.rounds, |library| {
        let mut command = Command::new(peers.join("pause"));
        library.select(&mut command);
        let speed = marked(command.args([megabytes, "32", shape, collections]))?;
        let bare = marked(Command::new(peers.join("mark")).args([megabytes, shape, collections]))?;
        Ok((speed, bare))
    })?;
    let peer = Pairs(speeds.iter().map(|(ours, theirs)| (ours.0, theirs.0)).collect());
    let bare = Pairs(speeds.iter().map(|(ours, _)| *ours).collect());
    let holds = peer.ratio() >= least;
    println!(
        "{shape:10} {:8.1} {:8.1} {:8.1} million/s {:10.2} {:10.2}  at least {least} times bdwgc: {}",
        peer.ours(),
        peer.theirs(),
        bare.theirs(),
        peer.ratio(),
        bare.ratio(),
        if holds { "HOLDS" } else { "FALLS SHORT" },
    );
    Ok(holds)
}

fn main() -> ExitCode {
    let options = match Options::parse() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("programs: {error}");
            return ExitCode::from(2);
        }
    };
    let mut missed = 0;
    let mut count = |row: &str, outcome: Result<bool, String>| match outcome {
        Ok(holds) => missed += usize::from(!holds),
        Err(reason) => {
            println!("{row:10} {reason}");
            missed += usize::from(!reason.starts_with("skipped"));
        }
    };
    println!("{} rounds in turns; medians, ratios ours / bdwgc by round\n", options.rounds);
    println!(
        "{:10} {:>10} {:>10} {:>6} {:>9} {:>12} {:>12} {:>6} {:>9} {:>6}",
        "program", "user: ours", "bdwgc", "ratio", "real time", "memory: ours", "bdwgc", "ratio", "coll.ours", "bdwgc"
    );
    for program in PROGRAMS.iter().filter(|program| options.selects(program.name)) {
        count(program.name, program_row(program, &options));
    }
    if SHAPES.iter().any(|(shape, _)| options.selects(shape)) {
        println!(
            "\n{:10} {:>8} {:>8} {:>8} {:>20} {:>10}",
            "marking", "ours", "bdwgc", "bare", "ours/bdwgc", "ours/bare"
        );
        let peers = peers();
        for (shape, least) in SHAPES.iter().filter(|(shape, _)| options.selects(shape)) {
            count(shape, peers.clone().and_then(|peers| marking_row(shape, *least, &peers, &options)));
        }
    }
    if missed > 0 && options.strict { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
