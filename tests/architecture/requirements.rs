//! DESIGN.md's requirements are cited by the code that guards them and by the tests that check them.

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

fn text_of<S: AsRef<str>>(directories: &[S]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let this_file = root.join(file!());
    let files = directories.iter().flat_map(|directory| sources(&root.join(directory.as_ref())));
    files.filter(|file| *file != this_file).map(|file| fs::read_to_string(file).unwrap()).collect()
}

/// The folders of the sources of all libraries, relative to the project.
fn code_folders() -> Vec<String> {
    let crates = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates")).unwrap();
    let crates = crates.map(|entry| format!("crates/{}/src", entry.unwrap().file_name().display()));
    crates.chain(["src".to_owned(), "host/src".to_owned()]).collect()
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

/// Whether a text cites a tag as comments do: `.stop.late`. A longer tag that begins with this one is not a citation of it.
fn cites(text: &str, tag: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
    text.match_indices(tag).any(|(at, _)| ends(&text[at + tag.len()..]))
}

/// The guards: variants and tags.
fn guards() -> Vec<(String, String)> {
    let list =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/stopworld-platform/src/sabotage.rs"))
            .unwrap();
    let guard = |line: &str| {
        let (variant, tag) = line.trim().strip_suffix("\",")?.split_once(" = \"")?;
        Some((variant.to_owned(), tag.to_owned()))
    };
    list.lines().filter_map(guard).collect()
}

/// The guard of a requirement, by the name with which the models remove it.
fn guard_of(tag: &str) -> Option<String> {
    guards().into_iter().find(|(_, guard)| guard == tag).map(|(variant, _)| variant)
}

#[test]
fn every_requirement_is_cited_by_the_code_and_by_a_test() {
    let tags = tags();
    assert!(tags.len() > 40, "the table of requirements was not found: {tags:?}");
    let code = text_of(&code_folders());
    let guards = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/guards")).unwrap();
    let tests = text_of(&["tests", "crates/stopworld-cli/tests", "host/tests", "loom-tests", "shuttle-tests"]);
    let models = text_of(&["loom-tests", "shuttle-tests"]);
    for tag in &tags {
        let bare = &tag[1..];
        assert!(cites(&code, tag) || code.contains(&format!("\"{bare}\"")), "{tag}: no code cites it");
        let by_table = guards.lines().any(|line| line.split('|').next().unwrap().trim() == bare);
        let by_model = guard_of(bare).is_some_and(|variant| models.contains(&format!("Guard::{variant}")));
        assert!(cites(&tests, tag) || by_table || by_model, "{tag}: no test cites it");
    }
}

/// The tags that a text cites in backquotes, among them names of the form of a tag that are none.
fn cited(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c))
    };
    text.split('`').filter(move |quoted| match quoted.strip_prefix('.').and_then(|tag| tag.split_once('.')) {
        Some((area, name)) => is_word(area) && is_word(name),
        None => false,
    })
}

#[test]
fn every_tag_in_code_and_tests_is_in_the_table() {
    /// ELF sections and an object file's suffixes, whose names have the form of a tag.
    const OTHER_NAMES: [&str; 4] = [".stapsdt.base", ".note.stapsdt", ".note.stopworld", ".probes.places"];
    let mut folders = code_folders();
    folders.extend(
        ["tests", "crates/stopworld-cli/tests", "host/tests", "loom-tests", "shuttle-tests"].map(str::to_owned),
    );
    let text = text_of(&folders);
    let tags = tags();
    let unknown: Vec<_> =
        cited(&text).filter(|tag| !tags.iter().any(|known| known == tag) && !OTHER_NAMES.contains(tag)).collect();
    assert!(unknown.is_empty(), "DESIGN.md's table of requirements has none of {unknown:?}");
}

#[test]
fn every_guard_is_a_requirement() {
    let (requirements, guards) = (tags(), guards());
    assert!(guards.len() > 30, "the list of guards was not found: {guards:?}");
    for (_, tag) in guards {
        assert!(requirements.contains(&format!(".{tag}")), "{tag} is a guard, but no requirement in DESIGN.md");
    }
}

/// The rows of the table of requirements: tags, and the contents of the last two columns.
fn rows() -> Vec<(Vec<String>, String, String)> {
    let design = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("DESIGN.md")).unwrap();
    let rows = design.lines().filter(|line| line.starts_with("| `."));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').collect();
        let quoted = cells[1].split('`').filter(|tag| tag.starts_with('.')).map(str::to_owned);
        (quoted.collect(), cells[3].to_owned(), cells[4].to_owned())
    })
    .collect()
}

fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn the_files_that_a_requirement_names_exist_and_the_tests_among_them_cite_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guards = fs::read_to_string(root.join(".ci/guards")).unwrap();
    for (tags, guarded_in, held_by) in rows() {
        for file in quoted(&guarded_in).filter(|file| file.contains('/')) {
            let places = ["", "src", "crates", "crates/stopworld-platform/src"];
            assert!(places.iter().any(|place| root.join(place).join(file).exists()), "{tags:?}: there is no {file}");
        }
        // A path under tests/ of the project or of one of its crates.
        let tests = ["", "host/", "stopworld-cli/"].map(|folder| format!("{folder}tests/"));
        for file in quoted(&held_by) {
            let Some(in_tests) = tests.iter().find_map(|folder| file.strip_prefix(folder.as_str())) else { continue };
            let path = ["", "crates"].map(|place| root.join(place).join(file)).into_iter().find(|path| path.exists());
            let path = path.unwrap_or_else(|| panic!("{tags:?}: there is no {file}"));
            let text = fs::read_to_string(path).unwrap();
            let target = in_tests.trim_end_matches(".rs").split('/').next().unwrap();
            let taken_out = |tag: &String| {
                let row = |line: &str| line.split('|').map(str::trim).take(2).eq([&tag[1..], target]);
                guards.lines().any(row)
            };
            assert!(tags.iter().any(|tag| cites(&text, tag) || taken_out(tag)), "{file} cites none of {tags:?}");
        }
    }
}

#[test]
fn every_guard_is_in_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = code_folders();
    let files = folders.iter().flat_map(|folder| sources(&root.join(folder)));
    let files = files.filter(|file| !file.ends_with("sabotage.rs"));
    let code: String = files.map(|file| fs::read_to_string(file).unwrap()).collect();
    for (variant, _) in guards() {
        assert!(
            code.contains(&format!("removed(Guard::{variant})")),
            "no code depends on whether {variant} is removed"
        );
    }
}
