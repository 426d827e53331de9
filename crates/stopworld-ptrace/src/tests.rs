//! Tests that need access to the debugger's private state. The others are in tests/ptrace/debugger.rs.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::sys::Report;
use super::{Debugger, Options, TargetState};
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
    let mut debugger = Debugger::attach(sleeper.pid(), Options::default()).unwrap();
    // A call that returned at the moment at which it was aborted leaves the mark like this.
    debugger.tracees.get_mut(&sleeper.pid()).unwrap().interrupt_pending = true;
    debugger.freeze(Tid(sleeper.pid())).unwrap();
}

#[test]
fn control_is_taken_again_when_the_last_silent_thread_has_ended() {
    let sleeper = Sleeper::new();
    let mut debugger = Debugger::attach(sleeper.pid(), Options::default()).unwrap();
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
    let mut debugger = Debugger::attach(sleeper.pid(), Options::default()).unwrap();
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
