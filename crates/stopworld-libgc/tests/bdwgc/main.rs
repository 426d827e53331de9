//! The tests of bdwgc itself, with this crate's library.
//!
//! Their sources are not part of this repository: `.ci/bdwgc-source` unpacks Debian's source package. Each test is compiled against the headers
//! of that package and linked with Debian's library, which it must pass with; then the same binary runs with ours.

#[path = "../../../../tests/skipped/mod.rs"]
mod skipped;
#[path = "../support/mod.rs"]
mod support;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rstest::rstest;
use support::library::{self, Library, Settings};
use support::run::{run, tail};

/// The slowest takes 4 s with bdwgc on an idle machine.
const LIMIT: Duration = Duration::from_secs(600);

/// The unpacked source package; `None`, with a report, if there is none.
fn sources() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bdwgc");
    let folder = env::var_os("STOPWORLD_BDWGC").map_or(target, PathBuf::from);
    if !folder.join("tests/test.c").exists() {
        skipped::skipped("bdwgc-source");
        return None;
    }
    Some(folder)
}

/// Compiles these files of the bdwgc tests to one program, or, with `-shared` among the options, to a shared library.
fn compiled(sources: &Path, output: &Path, files: &[&str], options: &[&str]) {
    let is_cpp = files.iter().any(|file| file.ends_with(".cc"));
    let finished = Command::new(if is_cpp { "c++" } else { "cc" })
        .args(["-O1", "-w", "-DGC_THREADS", "-DGC_BUILTIN_ATOMIC", "-DALL_INTERIOR_POINTERS"])
        .arg("-I")
        .arg(sources.join("include"))
        .args(files.iter().map(|file| sources.join("tests").join(file)))
        .arg("-o")
        .arg(output)
        .args(if is_cpp { ["-lgccpp"].as_slice() } else { &[] })
        .args(options)
        .args(["-lgc", "-lpthread"])
        .output()
        .unwrap();
    assert!(finished.status.success(), "{files:?}: {}", String::from_utf8_lossy(&finished.stderr));
}

/// Runs a program with one of the libraries: it must end with status 0.
fn passes(program: &Path, with: Library, settings: Settings<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.current_dir(folder.path()).env("LD_LIBRARY_PATH", program.parent().unwrap());
    with.select(&mut command);
    library::watch_loading(&mut command, folder.path());
    command.envs(settings.iter().copied());
    let mut finished =
        run(&mut command, LIMIT).unwrap_or_else(|error| panic!("{}, {with:?}: {error}", program.display()));
    let loaded = library::loaded(folder.path());
    let ours = loaded.iter().filter(|path| path.starts_with(library::folder())).count();
    assert!(loaded.len() == 1 && ours == usize::from(with == Library::Ours), "{with:?}: loaded {loaded:?}");
    let output = finished.stdout();
    assert!(
        finished.status.success(),
        "{}, {with:?}: {}\n{}\n{}",
        program.display(),
        finished.status,
        tail(&String::from_utf8_lossy(&output)),
        tail(&finished.stderr)
    );
}

/// Compiles a test, and runs it with both libraries.
fn passes_with_both(files: &[&str], options: &[&str], settings: Settings<'_>) {
    let Some(sources) = sources() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    compiled(&sources, &program, files, options);
    passes(&program, Library::Debian, &[]);
    passes(&program, Library::Ours, settings);
}

#[rstest]
#[case::huge(&["huge_test.c"])]
#[case::middle(&["middle.c"])]
#[case::realloc(&["realloc_test.c"])]
#[case::smash(&["smash_test.c"])]
#[case::secondary_thread(&["initsecondarythread.c"])]
#[case::threads_that_create_threads(&["subthread_create.c"])]
#[case::thread_keys(&["threadkey_test.c"])]
#[case::leaks(&["leak_test.c"])]
#[case::leaks_of_threads(&["thread_leak_test.c"])]
#[case::disclaim(&["disclaim_test.c"])]
#[case::disclaim_often(&["disclaim_bench.c"])]
#[case::disclaim_in_a_weak_map(&["disclaim_weakmap_test.c"])]
fn bdwgcs_own_test_passes(#[case] files: &[&str]) {
    passes_with_both(files, &[], &[]);
}

/// The library of the test is a shared object, and its data are roots.
#[test]
fn bdwgcs_test_of_static_roots_passes() {
    let Some(sources) = sources() else { return };
    let folder = tempfile::tempdir().unwrap();
    compiled(&sources, &folder.path().join("libroots.so"), &["staticrootslib.c"], &["-shared", "-fPIC"]);
    compiled(
        &sources,
        &folder.path().join("libroots2.so"),
        &["staticrootslib.c"],
        &["-shared", "-fPIC", "-DSTATICROOTSLIB2"],
    );
    let program = folder.path().join("program");
    let libraries = format!("-L{}", folder.path().display());
    let options = ["-DSTATICROOTSLIB2", &libraries, "-lroots", "-lroots2"];
    compiled(&sources, &program, &["staticrootstest.c"], &options);
    passes(&program, Library::Debian, &[]);
    passes(&program, Library::Ours, &[]);
}

/// gctest, which calls most of the interface and compares sizes, defaults and counts.
#[test]
fn gctest_passes() {
    passes_with_both(&["test.c"], &[], &[]);
}
