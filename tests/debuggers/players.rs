//! Child processes that run a test of this program in a role: debugged programs and debuggers.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The environment variable with the role of a child process.
const PART: &str = "STOPWORLD_PART";

/// Returns the rest of this process's role, if the role begins like this. `None` in the test harness itself.
pub fn role(begins: &str) -> Option<String> {
    Some(std::env::var(PART).ok()?.strip_prefix(begins)?.to_owned())
}

/// A child process that runs one of this program's roles (`part`).
pub struct Player {
    pub child: Child,
    says: std::io::Lines<BufReader<ChildStdout>>,
}

impl Player {
    /// Starts a process that runs only this test, in this role.
    pub fn new(test: &str, part: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(PART, part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, says }
    }

    /// Returns the next line that the process prints.
    pub fn hear(&mut self) -> Option<String> {
        self.says.by_ref().map(Result::unwrap).find_map(|line| line.strip_prefix(':').map(str::to_owned))
    }

    /// Sends a line, and returns the next one that the process prints.
    pub fn ask(&mut self, what: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{what}").unwrap();
        self.hear().expect("the process has ended")
    }

    /// Returns the number of collections and of the workers' rounds so far.
    pub fn progress(&mut self) -> (u64, u64) {
        let said = self.ask("?");
        let mut numbers = said.split(' ').skip(1).map(|number| number.parse().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
