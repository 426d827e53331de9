//! Tests that need access to the debugger's private state. The others are in tests/ptrace/debugger.rs.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::memory::Address;
use super::sys::Report;
use super::target::{REQUEST, Record, Shape, THREAD, WORLD, check_signal};
use super::{Debugger, DebuggerOptions, TargetState};
use stopworld::OFFSETS;
use stopworld_platform::os::Tid;

/// A process that sleeps, and has no collector.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_thread_that_is_marked_as_interrupted_is_interrupted_again() {
    let sleeper = Sleeper::new();
    let mut debugger = Debugger::attach(sleeper.pid(), DebuggerOptions::default()).unwrap();
    // A call that returned at the moment at which it was aborted leaves the mark like this.
    debugger.tracees.get_mut(&sleeper.pid()).unwrap().interrupt_pending = true;
    debugger.freeze(Tid(sleeper.pid())).unwrap();
}

#[test]
fn control_is_taken_again_when_the_last_silent_thread_has_ended() {
    let sleeper = Sleeper::new();
    let mut debugger = Debugger::attach(sleeper.pid(), DebuggerOptions::default()).unwrap();
    let who = debugger.who;
    // Two threads that did not stop in time, and never will.
    debugger.silent.extend([1, 2]);
    debugger.settle(1, Report::Exited(0));
    assert_eq!(debugger.who, who);
    debugger.settle(2, Report::Killed(libc::SIGKILL));
    assert_ne!(debugger.who, who);
}

#[test]
fn a_killed_process_has_ended_for_its_debugger_and_for_its_parent() {
    // The kernel returns the end of this child first, again and again.
    let mut stranger = Command::new("true").spawn().unwrap();
    let mut sleeper = Sleeper::new();
    let mut debugger = Debugger::attach(sleeper.pid(), DebuggerOptions::default()).unwrap();
    debugger.freeze(Tid(sleeper.pid())).unwrap();
    sleeper.0.kill().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while debugger.state() == TargetState::Alive && Instant::now() < until {
        debugger.poll(Duration::from_millis(10)).unwrap();
    }
    assert_eq!(debugger.state(), TargetState::Killed(libc::SIGKILL));
    assert_eq!(sleeper.0.wait().unwrap().signal(), Some(libc::SIGKILL));
    assert!(stranger.wait().unwrap().success());
}

/// Returns the fields of a table of offsets in the C header, with the width that its comment gives each.
fn in_the_header(table: &str) -> Vec<(String, usize)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../debugger/include/stopworld-debugger.h");
    let header = std::fs::read_to_string(path).unwrap();
    let (_, fields) = header.split_once(&format!("typedef struct {table} {{\n    uint64_t size;\n")).unwrap();
    let (fields, _) = fields.split_once('}').unwrap();
    let widths = [("uint64_t", 8), ("8 bytes", 8), ("pointer", 8), ("opaque", 8), ("uint32_t", 4), ("int32_t", 4)];
    let field = |line: &str| {
        let (name, comment) = line.trim().strip_prefix("uint64_t ")?.split_once(';')?;
        let comment = comment.trim().strip_prefix("/* ")?;
        // A name: one byte of length, then the text.
        let width = widths.iter().find(|(kind, _)| comment.starts_with(kind)).map_or(0, |(_, width)| *width);
        Some((name.to_owned(), width))
    };
    fields.lines().map(|line| field(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

#[test]
fn the_fields_of_each_structure_have_the_widths_that_the_header_gives() {
    let fields =
        |shape: Shape| shape.fields.iter().map(|(name, width)| ((*name).to_owned(), *width)).collect::<Vec<_>>();
    assert_eq!(fields(REQUEST), in_the_header("stopworld_request_offsets"));
    assert_eq!(fields(WORLD), in_the_header("stopworld_world_offsets"));
    assert_eq!(fields(THREAD), in_the_header("stopworld_thread_offsets"));
}

#[test]
fn all_eight_bytes_of_a_state_word_are_read() {
    let state = 0x0123_4567_89ab_cdef_u64;
    let mut record = vec![0; OFFSETS.size];
    record[OFFSETS.state..][..8].copy_from_slice(&state.to_le_bytes());
    assert_eq!(Record::parse(Address(0), &record, &OFFSETS).state, state);
}

#[test]
fn an_impossible_signal_number_is_reported_as_a_signal() {
    let error = |signal| check_signal("the suspend signal", Address(0x1000), signal).unwrap_err().to_string();
    assert_eq!(
        [error(65), error(-1)],
        [
            "the suspend signal in the descriptor at 0x1000 is 65; expected 0 for none, or 1 to 64",
            "the suspend signal in the descriptor at 0x1000 is -1; expected 0 for none, or 1 to 64",
        ]
    );
    for signal in [0, 1, 64] {
        check_signal("the suspend signal", Address(0x1000), signal).unwrap();
    }
}
