//! lldb, with its script.
//!
//! Driven through its Python, in a process of its own, because the command line of lldb 14 cannot freeze one thread while the others run: the
//! user's stop, then `SBThread.Suspend`, then continue. Assisted mode, the default of its script.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use stopworld::debugger::scripts;

use super::{Ability, Driver, ThreadView, seen};
use crate::facts::{Facts, TestResult};
use crate::program::{Program, Talker};

/// Where Debian installs the modules of lldb 14, which its own Python does not find.
const MODULES: &str = "/usr/lib/llvm-14/lib/python3.11/dist-packages";

/// The system's Python: lldb's modules are built for it.
fn python() -> Command {
    let mut python = Command::new("/usr/bin/python3");
    python.env("PYTHONPATH", MODULES).env("LLDB_DEBUGSERVER_PATH", "/usr/lib/llvm-14/bin/lldb-server");
    python
}

/// If set, lldb's cases are run.
const WANTED: &str = "STOPWORLD_CONFORMANCE_LLDB";

pub fn is_missing() -> Option<String> {
    if std::env::var_os(WANTED).is_none() {
        // The cases are slow, and a detach of lldb 14 still hangs sometimes.
        return Some(format!("needs {WANTED}=1: it is slow, and not all of its cases hold yet"));
    }
    let probe = python().args(["-c", &format!("{IMPORT}lldb.SBDebugger.Create()")]).stderr(Stdio::null()).status();
    if probe.is_ok_and(|status| status.success()) { None } else { Some("needs lldb with Python".into()) }
}

/// In Debian's package the link from the modules to the library is broken.
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

/// lldb's part: each line is a function call, and its result is the answer.
///
/// lldb runs the callback of a breakpoint when the stop's event is taken out of its queue. A thread does that all the time; until then, the program
/// is stopped at the notification.
const HELPERS: &str = r#"
import os
import sys
import threading
import time

lines, answers = sys.stdin, os.fdopen(os.dup(1), "w")
# What lldb and the script print is for nobody.
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

debugger = lldb.SBDebugger.Create()
debugger.SetAsync(True)
listener = debugger.GetListener()
frozen = set()

# Whoever has it takes events out of lldb's queue, and with them runs the script, or stops and resumes the process.
busy = threading.Lock()

def drain():
    event, any = lldb.SBEvent(), False
    while listener.GetNextEvent(event):
        any = True
    return any

def pump():
    while True:
        with busy:
            drain()
        time.sleep(0.0002)

def process():
    return debugger.GetSelectedTarget().GetProcess()

def until(states, what):
    for _ in range(60000):
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
    threading.Thread(target=pump, daemon=True).start()
    until([lldb.eStateStopped], "attach")
    with busy:
        halt_at_attach(script)
    return ""

def halt_at_attach(script):
    debugger.HandleCommand("command script import " + script)
    debugger.HandleCommand("stopworld attach")
    drain()
    go()

def halt():
    for _ in range(100):
        drain()
        error = process().Stop()
        drain()
        if process().GetState() == lldb.eStateStopped:
            return
        time.sleep(0.001)
    raise Exception("lldb does not stop: %s" % error.GetCString())

def go():
    """Continues the process. Returns whether it was stopped."""
    return process().Continue().Success()

def thread(tid):
    found = process().GetThreadByID(tid)
    if not found.IsValid():
        raise LookupError("lldb knows no thread %d" % tid)
    return found

def halted(action):
    """Runs an action on the stopped process; retries if the stop was a notification, which resumes by itself."""
    with busy:
        for _ in range(100):
            halt()
            try:
                action()
                trouble = None
            except LookupError as error:
                # A list of threads that is about to be renewed.
                trouble = error
            if go() and trouble is None:
                return ""
    raise trouble or Exception("lldb does not stop")

def freeze(tid):
    def action():
        thread(tid).Suspend()
        frozen.add(tid)
    return halted(action)

def thaw(tid):
    def action():
        thread(tid).Resume()
        frozen.discard(tid)
    return halted(action)

def session():
    return sys.modules["stopworld_lldb"].session_of(process())

class Memory:
    """Reads memory through /proc, because lldb cannot read that of a running process."""
    def __init__(self, pid):
        self.pid = pid

    def read(self, address, size):
        with open("/proc/%d/mem" % self.pid, "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)

def mutators():
    memory = Memory(process().GetProcessID())
    contracts = [type(c)(memory, c.address) for c in session().contracts]
    mutators = [t for c in contracts for w in c.worlds_now() for t in c.threads_of(w)]
    return " ".join("%d=%s/%s" % (t.tid, t.name, "frozen" if t.tid in frozen else "running") for t in mutators)

def stops():
    return "stops=%d" % session().stops

def detach():
    with busy:
        for _ in range(100):
            halt()
            debugger.HandleCommand("stopworld detach")
            if session().attached:
                continue
            left = process()
            error = left.Detach()
            for _ in range(500):
                # It may say that it has, and stand at a notification instead.
                if error.Success() and left.GetState() in (lldb.eStateDetached, lldb.eStateInvalid):
                    return ""
                drain()
                time.sleep(0.001)
    raise Exception("lldb does not detach: %s" % error.GetCString())

for line in lines:
    try:
        answer = "ok " + eval(line)
    except Exception as error:
        answer = "error " + str(error).replace("\n", " | ")
    answers.write(answer + "\n")
    answers.flush()
os._exit(0)
"#;

pub struct Lldb {
    lldb: Option<Talker>,
    files: tempfile::TempDir,
    /// The program that lldb is attached to.
    pid: i32,
}

impl Lldb {
    pub fn new() -> Self {
        let files = tempfile::tempdir().expect("a directory for lldb's scripts");
        std::fs::write(files.path().join("stopworld_lldb.py"), scripts::LLDB).expect("room for a script");
        std::fs::write(files.path().join("helpers.py"), [IMPORT, HELPERS].concat()).expect("room for a script");
        Self { lldb: None, files, pid: 0 }
    }

    fn ask(&mut self, call: &str) -> TestResult<Facts> {
        self.lldb.as_mut().ok_or("lldb is not attached")?.ask(call)
    }
}

impl Driver for Lldb {
    fn attach(&mut self, program: &mut Program) -> TestResult<()> {
        let mut command = python();
        command.arg(self.files.path().join("helpers.py")).stderr(Stdio::null());
        self.lldb = Some(Talker::start("lldb", &mut command)?);
        self.pid = program.pid();
        let script = self.files.path().join("stopworld_lldb.py");
        self.ask(&format!("attach({}, {:?})", program.pid(), script)).map(drop)
    }

    fn detach(&mut self, _: &mut Program) -> TestResult<()> {
        self.ask("detach()")?;
        self.lldb = None;
        Ok(())
    }

    fn die(&mut self) -> TestResult<()> {
        Err("not supported by this debugger".into())
    }

    fn freeze(&mut self, _: &mut Program, tid: i32) -> TestResult<()> {
        self.ask(&format!("freeze({tid})")).map(drop)
    }

    fn thaw(&mut self, _: &mut Program, tid: i32) -> TestResult<()> {
        self.ask(&format!("thaw({tid})")).map(drop)
    }

    fn threads(&mut self, _: &mut Program) -> TestResult<BTreeMap<i32, ThreadView>> {
        Ok(seen(&self.ask("mutators()")?))
    }

    fn stops(&mut self, _: &mut Program) -> TestResult<u64> {
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
