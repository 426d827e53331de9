//! The command, as tests of its traces use it: run in a directory of its own, without what the environment says of traces.

#![allow(dead_code, reason = "each test program uses its part")]

pub mod scenarios;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub const STOPWORLD: &str = env!("CARGO_BIN_EXE_stopworld");

pub fn stopworld(directory: &Path, arguments: &str) -> Command {
    let mut command = Command::new(STOPWORLD);
    command.args(arguments.split_whitespace()).current_dir(directory).stdin(Stdio::null());
    command.env_remove("MPS_TELEMETRY_CONTROL").env_remove("MPS_TELEMETRY_FILENAME");
    command
}

/// Runs it to its end.
pub fn run(directory: &Path, arguments: &str) -> Output {
    stopworld(directory, arguments).output().unwrap()
}

/// Starts it, with what it says going to pipes.
pub fn begin(directory: &Path, arguments: &str) -> Child {
    stopworld(directory, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Waits, a minute at most.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// 0 if there is no such file.
pub fn size(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |data| data.len())
}

pub fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}
