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
use support::library::{self, Library, Settings};
use support::programs::{Program, Size};
use support::run::{Finished, run, tail};

/// No run takes a tenth of it on an idle machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a program in an empty folder; `None` if it is not installed, which is reported.
fn finished(program: &Program, size: Size, with: Library, settings: Settings<'_>, limit: Duration) -> Option<Finished> {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut command) = program.command(folder.path(), size).unwrap() else {
        skipped::skipped(program.package);
        return None;
    };
    with.select(&mut command);
    library::watch_loading(&mut command, folder.path());
    command.envs(settings.iter().copied());
    let finished = run(&mut command, limit).unwrap_or_else(|error| panic!("{}, {with:?}: {error}", program.name));
    let loaded = library::loaded(folder.path());
    let ours: Vec<&PathBuf> = loaded.iter().filter(|path| path.starts_with(library::folder())).collect();
    let expected = match with {
        Library::Ours => ours.len() == 1 && loaded.len() == 1,
        Library::Debian => ours.is_empty() && loaded.len() == 1,
    };
    assert!(expected, "{}, {with:?}: loaded {loaded:?}\n{}", program.name, tail(&finished.stderr));
    Some(finished)
}

/// Runs a program with both libraries, and compares.
fn same(program: &Program, size: Size, settings: Settings<'_>, limit: Duration) {
    let Some(mut theirs) = finished(program, size, Library::Debian, &[], limit) else { return };
    let expected = theirs.stdout();
    assert!(theirs.status.success() && !expected.is_empty(), "{}: {theirs:?}", program.name);
    let Some(mut ours) = finished(program, size, Library::Ours, settings, limit) else { return };
    let output = ours.stdout();
    if ours.status != theirs.status || output != expected {
        let (expected, output) = (String::from_utf8_lossy(&expected), String::from_utf8_lossy(&output));
        let same = expected.lines().zip(output.lines()).take_while(|(theirs, ours)| theirs == ours).count();
        panic!(
            "{}: {} instead of {}, output differs in line {}: {:?} instead of {:?}\n{}",
            program.name,
            ours.status,
            theirs.status,
            same + 1,
            output.lines().nth(same),
            expected.lines().nth(same),
            tail(&ours.stderr)
        );
    }
}

#[rstest]
#[case::mmv("mmv")]
#[case::w3m("w3m")]
#[case::nix("nix")]
#[case::poke("poke")]
#[case::asymptote("asymptote")]
#[case::crystal("crystal")]
#[case::ecl("ecl")]
#[case::guile("guile")]
fn a_program_prints_the_same_as_with_bdwgc(#[case] name: &str) {
    same(Program::named(name), Size::Small, &[], LIMIT);
}
