//! The ptrace debugger against programs that are hard on it: `.vtable.exact-restore`, `.vtable.nested`, `.vtable.attach`,
//! `.stop.registers`, `.debug.dies` with a debugger that is a process of its own.
//!
//! The program is `examples/debuggee.rs`, compiled into this test and run as a process of its own.
#![cfg(feature = "debugger")]

#[allow(dead_code, reason = "its main function is the example's")]
#[path = "../examples/debuggee.rs"]
mod debuggee;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rstest::rstest;
use stopworld::Tid;
use stopworld::debugger::ptrace::{Channel, Debugger, Event, Mode, OnDeath, Options, Phases, RunState, TargetState};

/// In the environment of the program that is debugged: its arguments.
const ARGUMENTS: &str = "STOPWORLD_DEBUGGEE";

/// Not a test by itself: the program.
#[test]
fn the_debuggee() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    debuggee::run(arguments.split_whitespace().map(str::to_owned)).unwrap();
}

/// A program that runs, and what it prints.
struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(arguments: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_debuggee", "--nocapture", "--test-threads=1"]).env(ARGUMENTS, arguments);
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut program = Self { child, output };
        program.line("ready");
        program
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Reads until a line that has this word.
    fn line(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the program ended without a line of \"{word}\"");
            if line.contains(word) {
                return line;
            }
        }
    }

    /// What the program says at its end, and that it ended well.
    fn end(mut self) -> Outcome {
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        let line = text.lines().find(|line| line.contains("collections")).map(str::to_owned);
        let line = line.unwrap_or_else(|| panic!("the program ended by {status} without its line: {text}"));
        assert!(status.success(), "{status}: {text}");
        Outcome::parse(&line[line.find("collections").unwrap()..])
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The numbers of the program's last line.
#[derive(Debug)]
struct Outcome(HashMap<String, u64>);

impl Outcome {
    fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split_whitespace().collect();
        Self(words.chunks_exact(2).map(|pair| (pair[0].to_owned(), pair[1].parse().unwrap())).collect())
    }

    fn get(&self, name: &str) -> u64 {
        self.0[name]
    }

    /// Nothing was lost, changed or refused.
    fn is_sound(&self) -> bool {
        ["lost", "clobbered", "failed"].iter().all(|name| self.get(name) == 0)
    }
}

fn options(mode: Mode) -> Options {
    Options { mode, ..Options::default() }
}

/// Serves until the process has ended, or for so long. Says what was told.
fn serve(debugger: &mut Debugger, within: Duration) -> Vec<Event> {
    let until = Instant::now() + within;
    let mut events = Vec::new();
    while debugger.state() == TargetState::Alive && Instant::now() < until {
        if let Some(event) = debugger.poll(Duration::from_millis(100)).unwrap() {
            assert!(!matches!(event, Event::Refused(_) | Event::Silent { .. }), "{event:?}");
            if !matches!(event, Event::ThreadCreated { .. } | Event::ThreadExited { .. }) {
                events.push(event);
            }
        }
    }
    events
}

const LONG: Duration = Duration::from_secs(120);

/// `.stop.registers`, `.vtable.exact-restore`
#[rstest]
#[case::full(Mode::Full, OnDeath::Park, Channel::Signal)]
#[case::full_without_a_place_to_wait(Mode::Full, OnDeath::RunOn, Channel::Signal)]
#[case::full_by_breakpoint(Mode::Full, OnDeath::Park, Channel::Breakpoint)]
#[case::assisted(Mode::Assisted, OnDeath::Park, Channel::Signal)]
fn a_program_collects_under_the_debugger_and_nothing_is_lost_or_touched(
    #[case] mode: Mode,
    #[case] on_death: OnDeath,
    #[case] channel: Channel,
) {
    let program = Program::start("--threads 8 --collections 300");
    let options = Options { mode, on_death, channel, ..Options::default() };
    let mut debugger = Debugger::attach(program.pid(), options).unwrap();
    assert_eq!(debugger.libraries().len(), 1);
    let events = serve(&mut debugger, LONG);
    assert_eq!(debugger.state(), TargetState::Exited(0));
    let outcome = program.end();
    let statistics = debugger.statistics();
    println!("{outcome:?}\n{statistics:?}",);
    assert!(outcome.is_sound(), "{outcome:?}");
    assert!(statistics.stops >= 250 && statistics.stops <= statistics.starts + 1, "{statistics:?}");
    assert!(statistics.mutators_created > 10 && statistics.mutators_exited > 10);
    assert_eq!(events.iter().filter(|e| matches!(e, Event::WorldStopped { .. })).count() as u64, statistics.stops);
    if mode == Mode::Full {
        // Only collections before the debugger came cut naps short.
        let before = outcome.get("collections") - statistics.stops;
        assert!(outcome.get("interrupted") <= before, "{before}: {outcome:?}");
        assert!(statistics.slots_written > 7 * statistics.stops);
        assert_eq!(statistics.parked_stops > 0, on_death == OnDeath::Park);
    }
}
