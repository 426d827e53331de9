//! Checks the structure that DESIGN.md draws: no files import each other in a circle, no file is too long, and no crate depends on one
//! below it in the list. Also checks the list of public items; the documentation (every page is in the book, every link has a target); the
//! requirements that code and tests cite; and the scripts of `.ci/`.

mod ci_scripts;
mod imports;
mod links;
mod modules;
mod public;
mod requirements;
#[path = "../skipped/mod.rs"]
mod skipped;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use imports::Imports;

/// The longest that a source file may be, in lines.
const MAX_LINES: usize = 800;

/// The crates under crates/, each with the crates of this repository on which it may depend. A crate depends only on crates above it in the
/// list.
const CRATES: &[(&str, &[&str])] = &[
    ("trace-io", &[]),
    ("nettrace", &["trace-io"]),
    ("mps-telemetry", &["trace-io"]),
    ("ghc-eventlog", &["trace-io"]),
    ("heap-snapshot", &["trace-io"]),
    ("trace-event", &["trace-io"]),
    ("stopworld-platform", &[]),
    ("stopworld-derive", &[]),
    ("stopworld", &["stopworld-platform", "stopworld-derive"]),
    (
        "stopworld-trace",
        &["trace-io", "nettrace", "mps-telemetry", "ghc-eventlog", "trace-event", "stopworld-platform", "stopworld"],
    ),
    ("stopworld-diagnostics", &["nettrace", "stopworld-platform", "stopworld", "stopworld-trace"]),
    ("stopworld-metrics", &["stopworld"]),
    ("stopworld-libgc", &["stopworld-platform", "stopworld", "stopworld-trace", "stopworld-diagnostics"]),
    ("stopworld-ptrace", &["stopworld-platform", "stopworld"]),
    ("stopworld-workloads", &["stopworld-platform", "stopworld"]),
    ("stopworld-postmortem", &["heap-snapshot", "stopworld"]),
    (
        "stopworld-analysis",
        &[
            "trace-io",
            "nettrace",
            "mps-telemetry",
            "ghc-eventlog",
            "heap-snapshot",
            "trace-event",
            "stopworld-platform",
            "stopworld",
            "stopworld-trace",
        ],
    ),
    ("stopworld-parquet", &["stopworld-analysis"]),
    ("stopworld-sqlite", &["mps-telemetry"]),
    (
        "stopworld-cli",
        &[
            "trace-io",
            "nettrace",
            "mps-telemetry",
            "ghc-eventlog",
            "heap-snapshot",
            "stopworld-platform",
            "stopworld",
            "stopworld-trace",
            "stopworld-diagnostics",
            "stopworld-metrics",
            "stopworld-postmortem",
            "stopworld-ptrace",
            "stopworld-workloads",
            "stopworld-analysis",
            "stopworld-parquet",
            "stopworld-sqlite",
        ],
    ),
    ("stopworld-host", &["stopworld"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The root file of each library.
fn libraries() -> Vec<PathBuf> {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let folders = [root().to_owned(), root().join("host")].into_iter().chain(crates);
    folders.map(|folder| folder.join("src/lib.rs")).collect()
}

fn name(file: &Path) -> String {
    file.strip_prefix(root()).unwrap().display().to_string()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        // Folders of build output have generated sources.
        .filter(|path| path.file_name().is_none_or(|name| name != "target"))
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => Vec::from([path]),
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

#[test]
fn no_file_imports_in_a_circle() {
    let mut report = String::new();
    for library in libraries() {
        let imports = Imports::of_crate(&library);
        for circle in imports.circles() {
            report += &format!("a circle of {} files:\n", circle.len());
            for (from, to, names) in imports.within(&circle) {
                let names: Vec<_> = names.iter().take(8).map(String::as_str).collect();
                report += &format!("  {} -> {}: {}\n", name(from), name(to), names.join(", "));
            }
        }
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn no_file_is_too_long() {
    let folders = ["src", "crates", "host", "tests", "benches", "examples", "loom-tests", "shuttle-tests"];
    let files = folders.iter().flat_map(|folder| sources(&root().join(folder)));
    let long = files.filter(|file| fs::read_to_string(file).unwrap().lines().count() > MAX_LINES);
    let long: Vec<String> = long.map(|file| name(&file)).collect();
    assert!(long.is_empty(), "{long:?} have more than {MAX_LINES} lines");
}

#[test]
fn crates_depend_only_on_crates_above_them() {
    let packages: Vec<(PathBuf, String)> = libraries()
        .iter()
        .map(|library| library.parent().unwrap().parent().unwrap().to_owned())
        .map(|folder| (folder.clone(), package(&folder)))
        .collect();
    let mut seen = Vec::new();
    for (name, may) in CRATES {
        let Some((folder, _)) = packages.iter().find(|(_, package)| package == name) else {
            panic!("there is no crate {name} any more: take it off the list")
        };
        let known: Vec<String> =
            dependencies(folder).into_iter().filter(|on| packages.iter().any(|(_, p)| p == on)).collect();
        assert!(known.iter().all(|on| may.contains(&on.as_str())), "{name} depends on {known:?}, and may on {may:?}");
        assert!(may.iter().all(|on| seen.contains(on)), "{name} is listed before {may:?}");
        seen.push(name);
    }
    let missing: Vec<_> = packages.iter().map(|(_, name)| name).filter(|name| !seen.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}: say what they may depend on");
}

/// Returns the names under `[dependencies]` of the package in this folder, without the dependencies of its tests.
fn dependencies(folder: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name.to_owned()).collect()
}

/// The name of the package in this folder.
fn package(folder: &Path) -> String {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let line = manifest.lines().find_map(|line| line.strip_prefix("name = \"")).unwrap();
    line.trim_end_matches('"').to_owned()
}

/// Writes a crate of these files.
fn planted(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// The circles of a crate of these files, by file name.
fn circles_of(files: &[(&str, &str)]) -> Vec<BTreeSet<String>> {
    let folder = planted(files);
    let relative = |file: &PathBuf| file.strip_prefix(folder.path()).unwrap().display().to_string();
    let imports = Imports::of_crate(&folder.path().join("lib.rs"));
    imports.circles().iter().map(|circle| circle.iter().map(relative).collect()).collect()
}

#[test]
fn a_circle_is_found_through_imports_paths_and_macros() {
    let circle = |b: &str| {
        circles_of(&[("lib.rs", "mod a; mod b;"), ("a.rs", "pub struct A; fn f(_: super::b::B) {}"), ("b.rs", b)])
    };
    let both = [BTreeSet::from(["a.rs".to_owned(), "b.rs".to_owned()])];
    assert_eq!(circle("use super::a::A; pub struct B(A);"), both);
    assert_eq!(circle("pub struct B(crate::a::A);"), both);
    assert_eq!(circle("pub struct B; fn g() { println!(\"{:?}\", crate::a::A); }"), both);
    assert_eq!(circle("pub struct B; #[cfg(test)] mod tests { use crate::a::A; fn g(_: A) {} }"), []);
    assert_eq!(circle("pub struct B;"), []);
}

#[test]
fn a_name_that_is_handed_on_is_looked_through() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod one; mod two; pub use one::One; pub use two::Two;"),
        ("a/one.rs", "pub struct One;"),
        ("a/two.rs", "use super::One; pub struct Two(One);"),
    ];
    assert_eq!(circles_of(&files), [], "two.rs uses one.rs, and mod.rs only hands it on");
}

/// The Markdown pages below this folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| match path.is_dir() {
        true => pages(&path),
        false => Vec::from([path]),
    });
    found.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

#[test]
fn every_page_is_in_the_book() {
    let docs = root().join("docs");
    let summary = links::links(&fs::read_to_string(docs.join("SUMMARY.md")).unwrap());
    let listed: BTreeSet<PathBuf> = summary.iter().map(|link| docs.join(&link.target)).collect();
    let mut found: BTreeSet<PathBuf> = pages(&docs).into_iter().collect();
    found.remove(&docs.join("SUMMARY.md"));
    assert_eq!(found, listed, "the pages below docs/, and those that docs/SUMMARY.md lists");
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let folders = ["docs", "crates", "benches", "fuzz", "host", "examples", "loom-tests", "shuttle-tests"];
    let in_root = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let in_root = in_root.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let all = in_root.chain(folders.iter().flat_map(|folder| pages(&root().join(folder))));
    // Folders of build output have pages of other projects.
    let all = all.filter(|page| !page.components().any(|part| part.as_os_str() == "target"));
    let broken: Vec<String> = all.flat_map(|page| links::broken(root(), page.strip_prefix(root()).unwrap())).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// A registry shows the README of a package without the repository's files, so a relative link leads nowhere there.
#[test]
fn readmes_of_packages_have_no_relative_links() {
    let readmes = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path().join("README.md"));
    let relative: Vec<String> = readmes
        .flat_map(|readme| {
            let links = links::links(&fs::read_to_string(&readme).unwrap());
            links.into_iter().map(move |link| format!("{}:{}: {}", name(&readme), link.line, link.target))
        })
        .collect();
    assert!(relative.is_empty(), "relative links:\n{}", relative.join("\n"));
}
