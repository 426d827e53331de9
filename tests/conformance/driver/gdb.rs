//! gdb, with the script that is embedded in every program.
//!
//! gdb is driven as by a user at its prompt: commands on stdin, in its own language, and some Python that answers in the suite's line format.
//! Assisted mode uses gdb's non-stop mode, where a user freezes one thread by `interrupt` while the others run; full mode uses its all-stop mode,
//! where that is impossible.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stopworld::debugger::scripts;

use super::{Ability, Driver, Mode, ThreadView, seen};
use crate::facts::{Facts, TestResult};
use crate::program::{PATIENCE, Program, Talker, wait_for};

/// Returns the reason why no gdb on this machine can trace; `None` if one can.
pub fn is_missing() -> Option<String> {
    let there = Command::new("gdb").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_ok_and(|status| status.success()) { None } else { Some("needs gdb".into()) }
}

/// The Python functions that are called in gdb.
const HELPERS: &str = r#"
import hashlib
import sys
import gdb

def say(answer):
    try:
        print("\nok " + answer())
    except Exception as error:
        print("\nerror " + str(error).replace("\n", " | "))
    sys.stdout.flush()

def all_threads():
    return gdb.selected_inferior().threads()

def thread_of(tid):
    for thread in all_threads():
        if thread.ptid[1] == tid:
            return thread
    raise Exception("gdb knows no thread %d" % tid)

def freeze(tid):
    thread = thread_of(tid)
    if not thread.is_stopped():
        thread.switch()
        gdb.execute("interrupt", to_string=True)
    return ""

def thaw(tid):
    thread_of(tid).switch()
    gdb.execute("continue &", to_string=True)
    return ""

def stopped():
    return "stopped=%d all=%d" % (sum(t.is_stopped() for t in all_threads()), len(all_threads()))

def is_stopped(tid):
    return "stopped=%d" % thread_of(tid).is_stopped()

def mutators():
    known = {thread.ptid[1]: thread for thread in all_threads()}
    found = [thread for contract, world in sys.modules["stopworld"].worlds() for thread in contract.threads_of(world)]
    is_held = lambda tid: tid in known and known[tid].is_stopped()
    return " ".join("%d=%s/%s" % (t.tid, t.name, "frozen" if is_held(t.tid) else "running") for t in found)

def fingerprint(tid):
    script = sys.modules["stopworld"]
    registers, stack_pointer = script.registers_of(tid)
    return "fingerprint=%s" % hashlib.sha1(registers + script.TARGET.read(stack_pointer - 128, 128)).hexdigest()

def stops():
    return "stops=%d" % sys.modules["stopworld"].Session.current().stops
"#;

pub struct Gdb {
    mode: Mode,
    gdb: Option<Talker>,
    /// The program that gdb is attached to.
    pid: i32,
    files: tempfile::TempDir,
}

impl Gdb {
    pub fn new(mode: Mode) -> Self {
        let files = tempfile::tempdir().expect("a directory for gdb's scripts");
        std::fs::write(files.path().join("stopworld.py"), scripts::GDB).expect("room for a script");
        std::fs::write(files.path().join("helpers.py"), HELPERS).expect("room for a script");
        Self { mode, gdb: None, pid: 0, files }
    }

    fn gdb(&mut self) -> TestResult<&mut Talker> {
        self.gdb.as_mut().ok_or_else(|| "gdb is not attached".into())
    }

    fn say(&mut self, command: &str) -> TestResult<()> {
        self.gdb()?.say(command)
    }

    /// Returns a helper's answer.
    fn ask(&mut self, helper: &str) -> TestResult<Facts> {
        let gdb = self.gdb()?;
        gdb.say(&format!("python say(lambda: {helper})"))?;
        let begun = Instant::now();
        let mut said = String::new();
        while begun.elapsed() < PATIENCE {
            let line = gdb.line(PATIENCE).map_err(|error| format!("{helper}: {error}; before: {said}"))?;
            if line == "ok" || line.starts_with("ok ") || line.starts_with("error ") {
                return Facts::answered(&line).map_err(|error| format!("{helper}: {error}; before: {said}"));
            }
            said.push_str(&line);
            said.push('|');
        }
        Err(format!("{helper}: no answer; gdb said {said}"))
    }

    /// Waits until the number of stopped threads is as required.
    fn until_stopped(&mut self, what: &str, is_so: impl Fn(usize, usize) -> bool) -> TestResult<()> {
        wait_for(what, || {
            let facts = self.ask("stopped()")?;
            Ok(is_so(facts.number("stopped")?, facts.number("all")?))
        })
    }
}

impl Driver for Gdb {
    fn attach(&mut self, program: &mut Program) -> TestResult<()> {
        let mut command = Command::new("gdb");
        command.args(["-nx", "-q", "-iex", "set pagination off", "-iex", "set confirm off", "-iex", "set prompt"]);
        command.args(["-iex", "set auto-load python-scripts off", "-iex", "set debuginfod enabled off"]);
        // gdb need not wait for the symbols of the program, because nothing in it is looked up by name.
        let non_stop = if self.mode == Mode::Assisted { "on" } else { "off" };
        command.args(["-ex", &format!("set non-stop {non_stop}")]);
        for script in ["stopworld.py", "helpers.py"] {
            command.arg("-x").arg(self.files.path().join(script));
        }
        command.stderr(Stdio::null());
        self.gdb = Some(Talker::start("gdb", &mut command)?);
        self.pid = program.pid();
        let which = match self.mode {
            Mode::Assisted => "-a ",
            Mode::Full => "",
        };
        self.say(&format!("attach {}", program.pid()))?;
        self.until_stopped("gdb to have all threads", |stopped, all| all > 0 && stopped == all)?;
        self.say(&format!("stopworld mode {}", self.mode.name()))?;
        self.say("stopworld attach")?;
        self.say(&format!("continue {which}&"))?;
        match self.mode {
            Mode::Assisted => self.until_stopped("gdb to let all threads run", |stopped, _| stopped == 0),
            Mode::Full => self.ask("\"\"").map(drop),
        }
    }

    fn detach(&mut self, _: &mut Program) -> TestResult<()> {
        if self.mode == Mode::Full {
            self.say("interrupt")?;
            self.until_stopped("gdb to stop all threads", |stopped, all| stopped == all)?;
        }
        self.say("stopworld detach")?;
        self.say("detach")?;
        wait_for("gdb to have detached", || Ok(self.ask("stopped()")?.text("all") == "0"))?;
        self.gdb = None;
        Ok(())
    }

    fn die(&mut self) -> TestResult<()> {
        self.gdb()?.kill()?;
        self.gdb = None;
        // gdb stops threads by SIGSTOP. Killed while doing so, it leaves a SIGSTOP pending, which stops the process as any SIGSTOP does.
        // SAFETY: a plain system call.
        unsafe { libc::kill(self.pid, libc::SIGCONT) };
        Ok(())
    }

    fn freeze(&mut self, _: &mut Program, tid: i32) -> TestResult<()> {
        self.ask(&format!("freeze({tid})"))?;
        let begun = Instant::now();
        while self.ask(&format!("is_stopped({tid})"))?.text("stopped") != "1" {
            if begun.elapsed() > PATIENCE {
                return Err(format!("gdb does not stop thread {tid}"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn thaw(&mut self, _: &mut Program, tid: i32) -> TestResult<()> {
        self.ask(&format!("thaw({tid})")).map(drop)
    }

    fn threads(&mut self, _: &mut Program) -> TestResult<BTreeMap<i32, ThreadView>> {
        Ok(seen(&self.ask("mutators()")?))
    }

    fn fingerprint(&mut self, tid: i32) -> TestResult<String> {
        Ok(self.ask(&format!("fingerprint({tid})"))?.text("fingerprint").into())
    }

    fn stops(&mut self, _: &mut Program) -> TestResult<u64> {
        self.ask("stops()")?.number("stops")
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        match (self.mode, ability) {
            (Mode::Full, Ability::FreezeOne) => Some("in its all-stop mode gdb stops all threads or none"),
            (Mode::Full, Ability::LeaveCallsAlone) => {
                Some("it leaves no frame to wait in should it die, so each thread gets the suspend signal, too")
            }
            (Mode::Assisted, Ability::LeaveCallsAlone) => {
                Some("in the assisted mode the collector's signal stops threads")
            }
            _ => None,
        }
    }
}
