//! This project's own debugger: its library, in a process of its own, so that it can be killed.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::BufRead;
use std::process::Command;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use stopworld::Tid;
use stopworld_ptrace::{Debugger, DebuggerError, DebuggerOptions, Event, Restored};

use super::{Ability, Driver, Mode, ThreadView, seen};
use crate::facts::{Facts, TestResult, answer};
use crate::program::{Program, Talker};

pub fn is_missing() -> Option<String> {
    None
}

pub struct Ptrace {
    mode: Mode,
    engine: Option<Talker>,
}

impl Ptrace {
    pub fn new(mode: Mode) -> Self {
        Self { mode, engine: None }
    }

    fn ask(&mut self, line: &str) -> TestResult<Facts> {
        self.engine.as_mut().ok_or("the debugger is not attached")?.ask(line)
    }
}

impl Driver for Ptrace {
    fn attach(&mut self, program: &mut Program) -> TestResult<()> {
        if self.engine.is_none() {
            let me = std::env::current_exe().map_err(|error| error.to_string())?;
            self.engine = Some(Talker::start("the debugger", Command::new(me).args(["engine", self.mode.name()]))?);
        }
        self.ask(&format!("attach {}", program.pid())).map(drop)
    }

    fn detach(&mut self, _: &mut Program) -> TestResult<()> {
        self.ask("detach").map(drop)
    }

    fn die(&mut self) -> TestResult<()> {
        self.engine.take().map_or(Ok(()), |mut engine| engine.kill())
    }

    fn freeze(&mut self, _: &mut Program, tid: i32) -> TestResult<()> {
        self.ask(&format!("freeze {tid}")).map(drop)
    }

    fn thaw(&mut self, _: &mut Program, tid: i32) -> TestResult<()> {
        self.ask(&format!("thaw {tid}")).map(drop)
    }

    fn threads(&mut self, _: &mut Program) -> TestResult<BTreeMap<i32, ThreadView>> {
        Ok(seen(&self.ask("threads")?))
    }

    fn fingerprint(&mut self, tid: i32) -> TestResult<String> {
        Ok(self.ask(&format!("fingerprint {tid}"))?.text("fingerprint").into())
    }

    fn stops(&mut self, _: &mut Program) -> TestResult<u64> {
        self.ask("stops")?.number("stops")
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        match (self.mode, ability) {
            (Mode::Assisted, Ability::LeaveCallsAlone) => {
                Some("in the assisted mode the collector's signal stops threads")
            }
            _ => None,
        }
    }
}

/// The debugger's process: serves the program, and executes commands.
pub fn engine(arguments: &[String]) -> TestResult<()> {
    let mode = match arguments.first().map(String::as_str) {
        Some("full") => stopworld_ptrace::Mode::Full,
        Some("assisted") => stopworld_ptrace::Mode::Assisted,
        other => return Err(format!("{other:?} is no mode")),
    };
    let (sender, lines) = channel();
    // On a machine with too few processors a thread may not run for seconds; that must not count as a thread that does not stop.
    let stop_within = Duration::from_secs(20);
    let options = DebuggerOptions { mode, stop_within, restored: Restored::Compared, ..DebuggerOptions::default() };
    let mut engine = Engine { options, debugger: None };
    // Without a debugger this process only waits for lines; each debugger has a waker of its own.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    loop {
        match lines.try_recv() {
            Ok(line) => answer(&engine.execute(&line.split_whitespace().collect::<Vec<_>>())),
            Err(TryRecvError::Disconnected) => return Ok(()),
            Err(TryRecvError::Empty) => engine.serve()?,
        }
    }
}

struct Engine {
    options: DebuggerOptions,
    debugger: Option<Debugger>,
}

/// Formats the debugger's error.
fn text(error: DebuggerError) -> String {
    error.to_string()
}

impl Engine {
    /// Serves the program for a short time.
    fn serve(&mut self) -> TestResult<()> {
        match &mut self.debugger {
            Some(debugger) => match debugger.poll(Duration::from_millis(1)).map_err(text)? {
                // In a full stop each thread of the process is compared, not only those that the user holds.
                Some(Event::Changed { tid, difference }) => {
                    Err(format!("a stop has changed thread {tid}: {difference}"))
                }
                _ => Ok(()),
            },
            None => {
                std::thread::sleep(Duration::from_millis(1));
                Ok(())
            }
        }
    }

    fn execute(&mut self, words: &[&str]) -> TestResult<Facts> {
        if let ["attach", pid] = words {
            let pid = pid.parse().map_err(|_| "no process id")?;
            self.debugger = Some(Debugger::attach(pid, self.options).map_err(text)?);
            return Ok(Facts::new());
        }
        let debugger = self.debugger.as_mut().ok_or("the debugger is not attached")?;
        let tid = |word: &str| word.parse().map(Tid).map_err(|_| format!("{word:?} is no thread id"));
        match words {
            ["freeze", thread] => debugger.freeze(tid(thread)?).map_err(text).map(|()| Facts::new()),
            ["thaw", thread] => match debugger.thaw(tid(thread)?).map_err(text)? {
                true => Ok(Facts::new()),
                false => Err(format!("{thread} was not frozen")),
            },
            ["threads"] => {
                let mut facts = Facts::new();
                for thread in debugger.threads().map_err(text)? {
                    if let Some(managed) = &thread.managed {
                        let frozen = if thread.frozen { "frozen" } else { "running" };
                        facts = facts.with(&thread.tid.to_string(), format!("{}/{frozen}", managed.record.name));
                    }
                }
                Ok(facts)
            }
            ["fingerprint", thread] => {
                let snapshot = debugger.snapshot().map_err(text)?;
                let of_thread = snapshot.threads.get(&tid(thread)?).and_then(|thread| thread.registers.as_ref());
                let registers = of_thread.ok_or("it is not stopped")?;
                let mut hasher = DefaultHasher::new();
                registers.general.iter().for_each(|register| register.hash(&mut hasher));
                (&registers.extended, registers.blocked, &registers.red_zone).hash(&mut hasher);
                Ok(Facts::new().with("fingerprint", hasher.finish()))
            }
            ["stops"] => {
                let statistics = debugger.statistics();
                // In each full stop there is at least the thread that requested it.
                let is_full = self.options.mode == stopworld_ptrace::Mode::Full;
                if is_full && statistics.compared < statistics.starts {
                    return Err(format!("{} threads compared in {} stops", statistics.compared, statistics.starts));
                }
                Ok(Facts::new().with("stops", statistics.stops))
            }
            ["detach"] => {
                let done = debugger.detach().map_err(text);
                self.debugger = None;
                done.map(|()| Facts::new())
            }
            _ => Err(format!("unknown command {words:?}")),
        }
    }
}
