//! lldb, with its script.
//!
//! Driven through its Python, in a process of its own, since the command line of lldb 14 has no way to freeze one thread while the
//! others run: the user's stop, then `SBThread.Suspend`, then on. Assisted, as is its script's default.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use stopworld::debugger::scripts;

use super::{Ability, Driver, Seen, seen};
use crate::facts::{Facts, Told};
use crate::program::{Program, Talker};

/// Where Debian has the modules of lldb 14, which its own Python does not find.
const MODULES: &str = "/usr/lib/llvm-14/lib/python3.11/dist-packages";

/// The system's own: lldb's modules are made for it.
fn python() -> Command {
    let mut python = Command::new("/usr/bin/python3");
    python.env("PYTHONPATH", MODULES).env("LLDB_DEBUGSERVER_PATH", "/usr/lib/llvm-14/bin/lldb-server");
    python
}

/// Says that lldb's cases are to be run all the same.
const WANTED: &str = "STOPWORLD_CONFORMANCE_LLDB";

pub fn is_missing() -> Option<String> {
    if std::env::var_os(WANTED).is_none() {
        // With lldb 14 the program stands for good at its first notification.
        return Some(format!(
            "needs a driver by which the program goes on after a notification; {WANTED}=1 runs it as it is"
        ));
    }
    let probe = python().args(["-c", &format!("{IMPORT}lldb.SBDebugger.Create()")]).stderr(Stdio::null()).status();
    if probe.is_ok_and(|status| status.success()) { None } else { Some("needs lldb with Python".into()) }
}

/// In Debian's package the link from the modules to the library leads nowhere.
const IMPORT: &str = r#"
import importlib.machinery, importlib.util, sys

def load(path):
    loader = importlib.machinery.ExtensionFileLoader("_lldb", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("_lldb", path, loader=loader))
    loader.exec_module(module)
    sys.modules["lldb._lldb"] = module

try:
    import lldb
    lldb.SBDebugger
except (ImportError, AttributeError):
    for name in [name for name in sys.modules if name.startswith("lldb")]:
        del sys.modules[name]
    load("/usr/lib/llvm-14/lib/liblldb.so.1")
    import lldb
"#;

/// lldb's part: a line is a call of a function, its result the answer.
const HELPERS: &str = r#"
import os
import sys
import time

lines, answers = sys.stdin, os.fdopen(os.dup(1), "w")
# What lldb and the script print is for nobody.
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

debugger = lldb.SBDebugger.Create()
debugger.SetAsync(True)
debugger.HandleCommand("settings set target.disable-aslr false")
listener = debugger.GetListener()
frozen = set()

def process():
    return debugger.GetSelectedTarget().GetProcess()

def until(states, what):
    for _ in range(60000):
        event = lldb.SBEvent()
        while listener.GetNextEvent(event):
            pass
        if process().GetState() in states:
            return
        time.sleep(0.001)
    raise Exception("waited for lldb to " + what)

def attach(pid, script):
    error = lldb.SBError()
    target = debugger.CreateTarget("")
    debugger.SetSelectedTarget(target)
    target.AttachToProcessWithID(listener, pid, error)
    if not error.Success():
        raise Exception(error.GetCString())
    until([lldb.eStateStopped], "attach")
    frozen.clear()
    debugger.HandleCommand("command script import " + script)
    debugger.HandleCommand("stopworld attach")
    go()
    return ""

def halt():
    if process().GetState() != lldb.eStateStopped:
        process().Stop()
        until([lldb.eStateStopped], "stop")

def go():
    process().Continue()
    until([lldb.eStateRunning], "go on")

def thread(tid):
    found = process().GetThreadByID(tid)
    if not found.IsValid():
        go()
        raise Exception("lldb knows no thread %d" % tid)
    return found

def freeze(tid):
    halt()
    thread(tid).Suspend()
    frozen.add(tid)
    go()
    return ""

def thaw(tid):
    halt()
    thread(tid).Resume()
    frozen.discard(tid)
    go()
    return ""

def session():
    return sys.modules["stopworld_lldb"].session_of(process())

def mutators():
    mutators = [t for c in session().contracts for w in c.worlds_now() for t in c.threads_of(w)]
    return " ".join("%d=%s/%s" % (t.tid, t.name, "frozen" if t.tid in frozen else "running") for t in mutators)

def stops():
    return "stops=%d" % session().stops

def detach():
    halt()
    debugger.HandleCommand("stopworld detach")
    process().Detach()
    return ""

for line in lines:
    try:
        answer = "ok " + eval(line)
    except Exception as error:
        answer = "error " + str(error).replace("\n", " | ")
    answers.write(answer + "\n")
    answers.flush()
"#;

pub struct Lldb {
    lldb: Option<Talker>,
    files: tempfile::TempDir,
    /// The program that it is attached to.
    pid: i32,
}

impl Lldb {
    pub fn new() -> Self {
        let files = tempfile::tempdir().expect("a directory for lldb's scripts");
        std::fs::write(files.path().join("stopworld_lldb.py"), scripts::LLDB).expect("room for a script");
        std::fs::write(files.path().join("helpers.py"), [IMPORT, HELPERS].concat()).expect("room for a script");
        Self { lldb: None, files, pid: 0 }
    }

    fn ask(&mut self, call: &str) -> Told<Facts> {
        self.lldb.as_mut().ok_or("lldb is not attached")?.ask(call)
    }
}

impl Driver for Lldb {
    fn attach(&mut self, program: &mut Program) -> Told<()> {
        let mut command = python();
        command.arg(self.files.path().join("helpers.py")).stderr(Stdio::null());
        self.lldb = Some(Talker::start("lldb", &mut command)?);
        self.pid = program.pid();
        let script = self.files.path().join("stopworld_lldb.py");
        self.ask(&format!("attach({}, {:?})", program.pid(), script)).map(drop)
    }

    fn detach(&mut self, _: &mut Program) -> Told<()> {
        self.ask("detach()")?;
        self.lldb = None;
        Ok(())
    }

    fn die(&mut self) -> Told<()> {
        Err("it can't".into())
    }

    fn freeze(&mut self, _: &mut Program, tid: i32) -> Told<()> {
        self.ask(&format!("freeze({tid})")).map(drop)
    }

    fn thaw(&mut self, _: &mut Program, tid: i32) -> Told<()> {
        self.ask(&format!("thaw({tid})")).map(drop)
    }

    fn threads(&mut self, _: &mut Program) -> Told<BTreeMap<i32, Seen>> {
        Ok(seen(&self.ask("mutators()")?))
    }

    fn stops(&mut self, _: &mut Program) -> Told<u64> {
        self.ask("stops()")?.number("stops")
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::FreezeOne | Ability::ManyWorlds | Ability::StayBesideAnother => None,
            Ability::Die => Some("lldb-server holds the program, and ends it with its client"),
            Ability::LeaveCallsAlone => Some("in the assisted mode the collector's signal stops threads"),
            Ability::FollowExec => Some("its script is for the program to which it was attached"),
            Ability::ShowRegisters => Some("not read by this driver"),
        }
    }
}
