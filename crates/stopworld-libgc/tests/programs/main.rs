//! Programs of Debian that use bdwgc run unchanged on this collector: with the same output and the same exit status, and their collections
//! appear in a trace.
//!
//! Each program runs with Debian's library, which shows that the harness and the input are right, and with the library of this crate. The
//! log of the dynamic loader shows that no run had the other one.

#[path = "../../../../tests/skipped/mod.rs"]
mod skipped;
#[path = "../support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::time::Duration;

use rstest::rstest;
use support::collections;
use support::library::{self, Library, Settings};
use support::programs::{Program, Size};
use support::run::{Finished, run, tail};
use tempfile::TempDir;

/// Far longer than any run takes on an idle machine.
const LIMIT: Duration = Duration::from_secs(1200);

/// Returns a small budget, so that a program with little work has many collections: the smallest one of the collector, 64 KiB, but for two
/// programs that a collection breaks while they start. With bdwgc their first collection comes later.
///
/// nix 2.8 builds its table of builtin values before any root refers to it. The function by which crystal adds roots allocates a list
/// before the first fiber exists; and its heap is so large that a smaller budget would take minutes.
fn often(name: &str) -> (&'static str, &'static str) {
    let budget = match name {
        "crystal" => "16M",
        "nix" => "512k",
        _ => "64k",
    };
    ("STOPWORLD_BUDGET", budget)
}

/// Dead memory is overwritten, and the heap is verified after each collection.
const PARANOID: (&str, &str) = ("STOPWORLD_PARANOID", "1");

/// A run in a folder of its own, which holds what the program wrote.
struct Run {
    finished: Finished,
    folder: TempDir,
}

/// Runs a program in an empty folder; `None` if it is not installed, which is reported.
fn run_with(program: &Program, size: Size, with: Library, settings: Settings<'_>) -> Option<Run> {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut command) = program.command(folder.path(), size).unwrap() else {
        skipped::skipped(program.package);
        return None;
    };
    with.select(&mut command);
    library::watch_loading(&mut command, folder.path());
    command.envs(settings.iter().copied());
    let finished = run(&mut command, LIMIT).unwrap_or_else(|error| panic!("{}, {with:?}: {error}", program.name));
    let loaded = library::loaded(folder.path());
    let ours: Vec<&PathBuf> = loaded.iter().filter(|path| path.starts_with(library::folder())).collect();
    let expected = match with {
        Library::Ours => ours.len() == 1 && loaded.len() == 1,
        Library::Debian => ours.is_empty() && loaded.len() == 1,
    };
    assert!(expected, "{}, {with:?}: loaded {loaded:?}\n{}", program.name, tail(&finished.stderr));
    Some(Run { finished, folder })
}

/// Runs a program with both libraries, and compares. Returns the run with ours.
fn same(name: &str, size: Size, settings: Settings<'_>) -> Option<Run> {
    let program = Program::named(name);
    let mut theirs = run_with(program, size, Library::Debian, &[])?.finished;
    let expected = theirs.stdout();
    assert!(theirs.status.success() && !expected.is_empty(), "{name}: {theirs:?}");
    let mut ours = run_with(program, size, Library::Ours, settings)?;
    let (status, output) = (ours.finished.status, ours.finished.stdout());
    if status != theirs.status || output != expected {
        let (expected, output) = (String::from_utf8_lossy(&expected), String::from_utf8_lossy(&output));
        let same = expected.lines().zip(output.lines()).take_while(|(theirs, ours)| theirs == ours).count();
        panic!(
            "{name}: {status} instead of {}, output differs in line {}: {:?} instead of {:?}\n{}",
            theirs.status,
            same + 1,
            output.lines().nth(same),
            expected.lines().nth(same),
            tail(&ours.finished.stderr)
        );
    }
    Some(ours)
}

#[rstest]
fn a_program_prints_the_same_as_with_bdwgc(
    #[values("mmv", "w3m", "nix", "poke", "asymptote", "crystal", "ecl", "guile")] name: &str,
) {
    same(name, Size::Small, &[]);
}

#[rstest]
fn a_program_that_is_collected_all_the_time_never_loses_an_object(
    #[values("mmv", "w3m", "nix", "poke", "asymptote", "crystal", "ecl", "guile")] name: &str,
) {
    same(name, Size::Small, &[PARANOID, often(name)]);
}

#[rstest]
fn a_trace_of_a_program_has_its_collections(
    #[values("mmv", "w3m", "nix", "poke", "asymptote", "crystal", "ecl", "guile")] name: &str,
) {
    let Some(run) = same(name, Size::Small, &[often(name), ("STOPWORLD_TRACE", "run.nettrace")]) else { return };
    let collections = collections::in_trace(&run.folder.path().join("run.nettrace")).unwrap();
    println!("{name}: {collections} collections");
    assert!(collections >= 3, "{name}: {collections} collections");
}

/// By safepoints only programs with one thread: a thread that waits in the system reaches none.
#[rstest]
fn a_program_runs_with_another_stopper(
    #[values("w3m", "nix", "poke")] name: &str,
    #[values("safepoints", "mock-debugger")] stopper: &str,
) {
    same(name, Size::Small, &[often(name), ("STOPWORLD_STOPPER", stopper)]);
}

/// Not ecl: its thread for signals blocks those of the mock debugger.
#[rstest]
fn a_program_with_threads_runs_with_the_mock_debugger(#[values("asymptote", "crystal", "guile")] name: &str) {
    same(name, Size::Small, &[often(name), ("STOPWORLD_STOPPER", "mock-debugger")]);
}

#[rstest]
#[ignore = "takes a minute"]
fn a_program_with_much_work_prints_the_same_as_with_bdwgc(
    #[values("mmv", "w3m", "nix", "poke", "asymptote", "crystal", "ecl", "guile")] name: &str,
    #[values(&[], &[("STOPWORLD_TRACE", "run.nettrace")])] settings: Settings<'_>,
) {
    same(name, Size::Large, settings);
}

#[rstest]
#[ignore = "takes minutes"]
fn a_program_with_much_work_never_loses_an_object(
    #[values("mmv", "w3m", "nix", "poke", "asymptote", "crystal", "ecl", "guile")] name: &str,
) {
    let budget = if name == "crystal" { "16M" } else { "2M" };
    same(name, Size::Large, &[PARANOID, ("STOPWORLD_BUDGET", budget)]);
}
