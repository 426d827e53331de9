//! DESIGN.md's requirements are cited by the code that guards them and by the tests that hold them.

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file below `directory`.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn text_of(directories: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let this_file = root.join(file!());
    let files = directories.iter().flat_map(|directory| sources(&root.join(directory)));
    files.filter(|file| *file != this_file).map(|file| fs::read_to_string(file).unwrap()).collect()
}

/// The tags in the first column of the table of requirements.
fn tags() -> Vec<String> {
    let design = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("DESIGN.md")).unwrap();
    let rows = design.lines().filter(|line| line.starts_with("| `."));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap().to_owned());
    cells
        .flat_map(|cell| cell.split('`').filter(|tag| tag.starts_with('.')).map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// As comments cite it: `.stop.late`. A longer tag that begins with a shorter one does not cite that.
fn cites(text: &str, tag: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
    text.match_indices(tag).any(|(at, _)| ends(&text[at + tag.len()..]))
}

#[test]
fn every_requirement_is_cited_by_the_code_and_by_a_test() {
    let tags = tags();
    assert!(tags.len() > 40, "the table of requirements was not found: {tags:?}");
    let code = text_of(&["src"]);
    let tests = text_of(&["tests", "loom-tests"]);
    for tag in &tags {
        let bare = &tag[1..];
        assert!(cites(&code, tag) || code.contains(&format!("\"{bare}\"")), "{tag}: no code cites it");
        assert!(cites(&tests, tag) || tests.contains(&format!("\"{bare}\"")), "{tag}: no test cites it");
    }
}

#[test]
fn every_guard_is_a_requirement() {
    let design = tags();
    let guards = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sabotage.rs")).unwrap();
    for line in guards.lines() {
        if let Some((_, tag)) = line.split_once(" = \"")
            && let Some(tag) = tag.strip_suffix("\",")
        {
            assert!(design.contains(&format!(".{tag}")), "{tag} is a guard, but no requirement in DESIGN.md");
        }
    }
}
