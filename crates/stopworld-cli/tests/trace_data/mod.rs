//! The traces and logs for tests: those in this repository, and those that it may not distribute, in a folder next to it.

#![allow(dead_code, reason = "each test program uses its part")]

use crate::skipped;

use std::path::{Path, PathBuf};

/// A folder of shared data, if it is next to the repository or to its worktrees.
pub fn outside_activity(folder: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = ["../../..", "../../../.."]
        .map(|up| here.join(up).join("shared").join(folder))
        .into_iter()
        .find(|at| at.exists());
    if found.is_none() {
        skipped::skipped(&format!("../shared/{folder}"));
    }
    found
}

/// The traces and logs of a format that this repository may not distribute.
pub fn third_party(format: &str) -> Option<PathBuf> {
    outside_activity(&format!("data/third-party/{format}"))
}

/// The files in a folder whose names end like this, sorted.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == ending)).collect();
    files.sort();
    files
}

/// A folder of this repository's test data.
pub fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(folder)
}

/// Every available .nettrace file.
pub fn nettraces() -> Vec<PathBuf> {
    let mut all = files(&fixtures("nettrace"), "nettrace");
    all.extend(third_party("nettrace").into_iter().flat_map(|folder| files(&folder, "nettrace")));
    all
}

/// Every available telemetry stream.
pub fn streams() -> Vec<PathBuf> {
    let mut all = files(&fixtures("mps"), "bin");
    all.extend(files(&fixtures("mps/v1"), "bin"));
    all
}
