//! The traces and logs that tests go over: ours to carry, and those that are not, where they lie beside the repository.

#![allow(dead_code, reason = "each test program uses its part")]

use crate::skipped;

use std::path::{Path, PathBuf};

/// A folder of shared data, if it is beside the repository or beside its worktrees.
pub fn beside(folder: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = ["..", "../.."].map(|up| here.join(up).join("shared").join(folder)).into_iter().find(|at| at.exists());
    if found.is_none() {
        skipped::skipped(&format!("../shared/{folder}"));
    }
    found
}

/// The traces and logs of a format that are not ours to carry.
pub fn third_party(format: &str) -> Option<PathBuf> {
    beside(&format!("data/third-party/{format}"))
}

/// The files of a folder whose names end so, sorted.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == ending)).collect();
    files.sort();
    files
}

/// A folder of this repository's tests.
pub fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder)
}

/// Every .nettrace that there is.
pub fn nettraces() -> Vec<PathBuf> {
    let mut all = files(&fixtures("nettrace"), "nettrace");
    all.extend(third_party("nettrace").into_iter().flat_map(|folder| files(&folder, "nettrace")));
    all
}

/// Every telemetry stream that there is.
pub fn streams() -> Vec<PathBuf> {
    let mut all = files(&fixtures("mps"), "bin");
    all.extend(files(&fixtures("mps/v1"), "bin"));
    all
}
