//! A process that answers questions line by line: the debugged program, or a debugger.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::facts::{Facts, TestResult};

/// The time limit for an answer. It allows for a loaded machine; an answer that takes longer will never arrive.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A child process with line-based input and output. It is killed when this is dropped.
pub struct Talker {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// Its name in errors.
    name: &'static str,
}

impl Talker {
    pub fn start(name: &'static str, command: &mut Command) -> TestResult<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: a plain system call between fork and exec: a child ends with its parent.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, input, lines, name })
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn say(&mut self, line: &str) -> TestResult<()> {
        let said = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        said.map_err(|error| format!("{}: \"{line}\": {error}", self.name))
    }

    /// Returns the next line that it prints.
    pub fn line(&self, within: Duration) -> TestResult<String> {
        self.lines.recv_timeout(within).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("{} printed nothing for {within:?}", self.name),
            RecvTimeoutError::Disconnected => format!("{} has ended", self.name),
        })
    }

    /// Sends a command and waits for the answer.
    pub fn ask(&mut self, line: &str) -> TestResult<Facts> {
        self.say(line)?;
        self.answer().map_err(|error| format!("\"{line}\": {error}"))
    }

    pub fn answer(&self) -> TestResult<Facts> {
        Facts::answered(&self.line(PATIENCE)?)
    }

    /// Kills the program at once.
    pub fn kill(&mut self) -> TestResult<()> {
        self.child.kill().map_err(|error| error.to_string())?;
        // A process traced by another thread of this process may have been reaped there.
        let _ = self.child.wait();
        Ok(())
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// The debugged program.
pub struct Program(Talker);

impl Program {
    pub fn start() -> TestResult<Self> {
        Self::with_stop_timeout(Duration::from_secs(30))
    }

    pub fn with_stop_timeout(timeout: Duration) -> TestResult<Self> {
        let me = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(me);
        let talker = Talker::start("the program", command.arg("debuggee").arg(timeout.as_millis().to_string()))?;
        let program = Self(talker);
        program.is_ready()?;
        Ok(program)
    }

    /// Waits for the program's first line.
    pub fn is_ready(&self) -> TestResult<()> {
        self.0.answer().map(drop)
    }

    pub fn pid(&self) -> i32 {
        self.0.pid()
    }

    pub fn ask(&mut self, line: &str) -> TestResult<Facts> {
        self.0.ask(line)
    }

    pub fn say(&mut self, line: &str) -> TestResult<()> {
        self.0.say(line)
    }

    /// Waits for an answer that takes minutes.
    pub fn long_answer(&self) -> TestResult<Facts> {
        Facts::answered(&self.0.line(PATIENCE * 20)?)
    }

    /// Starts a mutator; returns its thread's id.
    pub fn start_mutator(&mut self, name: &str, kind: &str) -> TestResult<i32> {
        self.ask(&format!("start {name} {kind}"))?.number("tid")
    }

    pub fn count(&mut self, name: &str) -> TestResult<u64> {
        self.ask(&format!("facts {name}"))?.number("count")
    }

    /// Asserts that a mutator continues to count.
    pub fn runs(&mut self, name: &str) -> TestResult<()> {
        let before = self.count(name)?;
        wait_for(&format!("{name} to run"), || Ok(self.count(name)? > before + 2))
    }

    /// Asserts that a mutator does not count.
    pub fn stays_stopped(&mut self, name: &str) -> TestResult<()> {
        let before = self.count(name)?;
        std::thread::sleep(Duration::from_millis(30));
        let now = self.count(name)?;
        if now == before { Ok(()) } else { Err(format!("{name} should be stopped, and counted {}", now - before)) }
    }

    /// Collects `times` times; all must succeed. Returns the number of weak references that were cleared.
    pub fn collect(&mut self, times: u32) -> TestResult<u64> {
        self.ask(&format!("collect {times}"))?.number("killed")
    }

    /// Returns what /proc reports of a thread: the letter of its state, and its tracer.
    pub fn status(&self, tid: i32) -> TestResult<(char, i32)> {
        let path = format!("/proc/{}/task/{tid}/status", self.pid());
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).ok_or(format!("{path}: no {name}"))
        };
        let state = field("State:")?.chars().next().ok_or("no state")?;
        Ok((state, field("TracerPid:")?.parse().map_err(|_| "no number")?))
    }

    /// Returns every thread of the process.
    pub fn tids(&self) -> TestResult<Vec<i32>> {
        let path = format!("/proc/{}/task", self.pid());
        let entries = std::fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }

    /// Waits until the process has no tracer and no stopped thread.
    pub fn is_left_alone(&self) -> TestResult<()> {
        wait_for("the program to be neither traced nor stopped", || {
            let mut alone = true;
            for tid in self.tids()? {
                // The thread may have ended by now.
                let Ok((state, tracer)) = self.status(tid) else { continue };
                alone &= tracer == 0 && !matches!(state, 't' | 'T');
            }
            Ok(alone)
        })
    }
}

/// Waits for a condition that must become true.
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> TestResult<bool>) -> TestResult<()> {
    let begun = Instant::now();
    while !is_so()? {
        if begun.elapsed() > PATIENCE {
            return Err(format!("waited {PATIENCE:?} for {what}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
