//! What can only be seen from inside of the debugger. The rest is in tests/ptrace_debugger.rs.

use std::process::{Child, Command, Stdio};

use super::{Debugger, Options};
use crate::os::Tid;

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
fn a_thread_that_is_thought_to_have_been_asked_is_asked() {
    let sleeper = Sleeper::new();
    let mut debugger = Debugger::attach(sleeper.pid(), Options::default()).unwrap();
    // As a call leaves it that came back in the moment in which it was given up.
    debugger.tracees.get_mut(&sleeper.pid()).unwrap().asked = true;
    debugger.freeze(Tid(sleeper.pid())).unwrap();
}
