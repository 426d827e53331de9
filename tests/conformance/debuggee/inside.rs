//! Actions of the program that affect itself: the debugger inside it, the vtable that keeps threads in `thread_created`, fork and exec.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stopworld::debugger::mock::{MockDebugger, MockEvent};
use stopworld::{
    AtFork, AtPhase, AtSwap, ByHandshake, DebuggerClient, RevocableStop, SafepointStopper, Slot, StopError,
    StopRequest, ThreadVtable, Tid, World,
};

use super::number;
use crate::facts::{Facts, TestResult};

/// The vtable that is temporarily replaced.
static TAKEN_OUT: Mutex<Option<Arc<dyn ThreadVtable>>> = Mutex::new(None);

pub fn take_out(vtable: Arc<dyn ThreadVtable>) {
    *TAKEN_OUT.lock().unwrap() = Some(vtable);
}

pub fn taken_out() -> TestResult<Arc<dyn ThreadVtable>> {
    TAKEN_OUT.lock().unwrap().take().ok_or_else(|| "no vtable was taken out".into())
}

/// The debugger inside the program, and the vtable that was in force before it.
#[derive(Default)]
pub struct Mock {
    debugger: Option<Arc<MockDebugger>>,
    outgoing: Vec<Arc<dyn ThreadVtable>>,
    stops: AtomicU64,
}

impl Mock {
    pub fn execute(&mut self, worlds: &[World], words: &[&str]) -> TestResult<Facts> {
        match words {
            ["attach", mode] => {
                let mock = if *mode == "full" { MockDebugger::new() } else { MockDebugger::assisted() };
                let mock = mock.map_err(|error| error.to_string())?;
                for world in worlds {
                    let outgoing = world.set_thread_vtable(mock.clone()).map_err(|error| error.to_string())?;
                    self.outgoing.push(outgoing);
                }
                self.debugger = Some(mock);
                Ok(Facts::new())
            }
            ["detach"] => {
                for (world, outgoing) in worlds.iter().zip(std::mem::take(&mut self.outgoing)) {
                    world.set_thread_vtable(outgoing).map_err(|error| error.to_string())?;
                }
                self.debugger = None;
                Ok(Facts::new())
            }
            ["freeze", tid] => {
                self.debugger()?.freeze(Tid(number(tid)?)).map_err(|error| error.to_string())?;
                Ok(Facts::new())
            }
            ["thaw", tid] => match self.debugger()?.thaw(Tid(number(tid)?)) {
                true => Ok(Facts::new()),
                false => Err(format!("{tid} was not frozen")),
            },
            ["threads"] => {
                let threads = self.debugger()?.threads().into_iter();
                let frozen = |frozen| if frozen { "frozen" } else { "running" };
                Ok(threads.fold(Facts::new(), |facts, thread| {
                    facts.with(&thread.tid.to_string(), format!("{}/{}", thread.name, frozen(thread.frozen)))
                }))
            }
            // The mock debugger is installed, so it serves every stop; in assisted mode it counts only the stops in which it acknowledged
            // for a thread.
            ["stops"] if self.debugger()?.name().contains("assisted") => {
                let stops: u64 = worlds.iter().map(|world| u64::from(world.totals().collections)).sum();
                Ok(Facts::new().with("stops", stops))
            }
            ["stops"] => {
                let mock = self.debugger()?;
                let is_stop = |event: &&MockEvent| matches!(event, MockEvent::WorldStopped { .. });
                let new = mock.log().0.iter().filter(is_stop).count() as u64;
                mock.clear_log();
                Ok(Facts::new().with("stops", self.stops.fetch_add(new, Ordering::Relaxed) + new))
            }
            _ => Err(format!("the debugger inside does not know {words:?}")),
        }
    }

    fn debugger(&self) -> TestResult<&MockDebugger> {
        self.debugger.as_deref().ok_or_else(|| "the debugger inside is not attached".into())
    }
}

/// A vtable around the one in force, which keeps new threads in `thread_created`: under the allocation lock.
pub struct Dwelling {
    around: Arc<dyn ThreadVtable>,
    closed: AtomicBool,
    inside: AtomicI32,
}

impl Dwelling {
    pub fn over_the_one_in_force(world: &World) -> TestResult<Arc<Self>> {
        let swap = |vtable| world.set_thread_vtable(vtable).map_err(|error: StopError| error.to_string());
        let around = swap(Arc::new(SafepointStopper))?;
        let dwelling = Arc::new(Self { around, closed: AtomicBool::new(false), inside: AtomicI32::new(0) });
        swap(dwelling.clone())?;
        Ok(dwelling)
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub fn open(&self) {
        self.closed.store(false, Ordering::Relaxed);
    }

    /// Returns the id of the thread inside, or 0.
    pub fn inside(&self) -> i32 {
        self.inside.load(Ordering::Relaxed)
    }
}

// SAFETY: the wrapped vtable does all the work; the only addition is a wait where a wait is allowed.
unsafe impl ThreadVtable for Dwelling {
    fn name(&self) -> &'static str {
        "dwelling"
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        self.around.stop_world(stop)
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        self.around.start_world(stop);
    }

    fn thread_created(&self, tid: Tid, slot: Slot) {
        self.around.thread_created(tid, slot);
        self.inside.store(tid.0, Ordering::Relaxed);
        while self.closed.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.inside.store(0, Ordering::Relaxed);
    }

    fn thread_exited(&self, tid: Tid, slot: Slot) {
        self.around.thread_exited(tid, slot);
    }

    fn revocable_stop(&self) -> Option<&dyn RevocableStop> {
        self.around.revocable_stop()
    }

    fn by_handshake(&self) -> Option<&dyn ByHandshake> {
        self.around.by_handshake()
    }

    fn at_swap(&self) -> Option<&dyn AtSwap> {
        self.around.at_swap()
    }

    fn at_phase(&self) -> Option<&dyn AtPhase> {
        self.around.at_phase()
    }

    fn debugger_client(&self) -> Option<&dyn DebuggerClient> {
        self.around.debugger_client()
    }

    fn at_fork(&self) -> Option<&dyn AtFork> {
        self.around.at_fork()
    }
}

/// Forks; the child collects. Returns how it ended: its exit code, or 1000 plus its signal.
pub fn fork(world: &World) -> TestResult<Facts> {
    let code = crate::hazard::fork(|| {
        for round in 1..=3 {
            match world.collect() {
                // This thread is the only one of the child.
                Ok(report) if report.threads_stopped == 0 => {}
                _ => return round,
            }
        }
        if world.verify().is_ok() { 0 } else { 9 }
    });
    Ok(Facts::new().with("code", code))
}

/// Executes another program: this one, from its beginning. Returns only if that fails.
pub fn exec(timeout: Duration) -> String {
    let Ok(me) = std::env::current_exe() else { return "the path of this program is unknown".into() };
    Command::new(me).arg("debuggee").arg(timeout.as_millis().to_string()).exec().to_string()
}
