//! The two libraries that a program can run with.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The settings of the library for a run, as environment variables.
pub type Settings<'a> = &'a [(&'a str, &'a str)];

/// Which `libgc.so.1` a program loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The one that this crate builds.
    Ours,
    /// Debian's bdwgc.
    Debian,
}

impl Library {
    /// Lets the command load this library, before any folder that the command already has in `LD_LIBRARY_PATH`.
    pub fn select(self, command: &mut Command) {
        if self == Library::Debian {
            return;
        }
        let set = command.get_envs().find(|(name, _)| *name == "LD_LIBRARY_PATH");
        let folders = set.and_then(|(_, value)| value).map(|value| env::split_paths(value).collect::<Vec<_>>());
        let path = env::join_paths([folder()].into_iter().chain(folders.unwrap_or_default()));
        command.env("LD_LIBRARY_PATH", path.expect("folders without a colon"));
    }
}

/// A folder in which the library that cargo has built for this program has the name `libgc.so.1`.
///
/// cargo puts the library beside the program. In `target/PROFILE/libgc` there is one only after a build of the crate itself, and it may be
/// an older one.
pub fn folder() -> PathBuf {
    let this = env::current_exe().expect("the path of this program");
    let library = this.with_file_name("libstopworld_gc.so");
    assert!(library.exists(), "{} was not built", library.display());
    let folder = this.with_file_name("libgc");
    let made = fs::create_dir_all(&folder).and_then(|()| symlink("../libstopworld_gc.so", folder.join("libgc.so.1")));
    if let Err(error) = made
        && error.kind() != ErrorKind::AlreadyExists
    {
        panic!("{}/libgc.so.1: {error}", folder.display());
    }
    folder
}

/// Lets the dynamic loader write which objects the command and its children load; [`loaded`] reads that.
pub fn watch_loading(command: &mut Command, folder: &Path) {
    command.env("LD_DEBUG", "files").env("LD_DEBUG_OUTPUT", folder.join("loader"));
}

/// Returns the paths of the `libgc.so.1` that were loaded in runs with [`watch_loading`], each once.
pub fn loaded(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder of the run") {
        let entry = entry.expect("the folder of the run");
        if !entry.file_name().to_string_lossy().starts_with("loader.") {
            continue;
        }
        let log = fs::read(entry.path()).expect("the loader's log");
        let log = String::from_utf8_lossy(&log);
        let initialized = log.lines().filter_map(|line| line.split_once("calling init: "));
        let libraries =
            initialized.map(|(_, path)| PathBuf::from(path.trim())).filter(|path| path.ends_with("libgc.so.1"));
        found.extend(libraries);
    }
    found.sort();
    found.dedup();
    found
}
