//! Runs the command for tests of its traces: in a directory of its own, without the environment variables that configure traces.

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

/// Runs the command to its end.
pub fn run(directory: &Path, arguments: &str) -> Output {
    stopworld(directory, arguments).output().unwrap()
}

/// Starts the command, with its output and errors in pipes.
pub fn begin(directory: &Path, arguments: &str) -> Child {
    stopworld(directory, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Waits for a condition, with a timeout longer than the condition takes on any machine.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(600), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the process has a handler for this signal.
pub fn catches(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
    u64::from_str_radix(caught.trim(), 16).is_ok_and(|caught| caught & 1 << (signal as u32 - 1) != 0)
}

/// Returns the size of a file; 0 if there is none.
pub fn size(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |data| data.len())
}

/// Sends a signal. If it can be caught, waits until its handler is installed, because a program that has created its files may not have
/// handlers yet.
pub fn signal(child: &Child, signal: Signal) {
    let needs_no_handler = matches!(signal, Signal::SIGKILL | Signal::SIGSTOP | Signal::SIGCONT);
    wait_until("it has its signal handlers", || needs_no_handler || catches(child.id(), signal));
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}
