//! A small simulation of Linux for the models: thread ids, futexes, signals.
//!
//! The shipped files use it as `crate::sync::port` and as `crate::sync::interrupt_point`.
//!
//! **Futexes.** One table of sleepers under one lock, like a hash bucket in the kernel: [`wait`] compares and queues under
//! the lock, [`wake`] takes from the queue under it. Each sleeper sleeps on a separate condition variable. Timed waits
//! sleep like others, until a thread of the model ends them with [`time_is_up`]; in a model without such a call no timeout
//! ever fires. A wait of `u64::MAX` nanoseconds counts as untimed.
//!
//! **Signals.** [`Kernel::signal`] makes a signal pending. It is delivered like a real signal: at any protocol step of
//! the thread ([`interrupt_point`]), or in its futex wait, which it ends. The handler runs on the interrupted thread,
//! inside the interrupted step, and the signal is blocked while the handler runs. A signal that is pending twice is delivered
//! once.
//!
//! **ptrace.** A thread stopped by a tracer stops at its next step, or where it sleeps: see [`ptrace`].
//!
//! The lock orders more than the real port promises: everything that the waker did before the wake happens before everything that the
//! woken thread does after it. Protocols must not rely on that. loom also explores all executions in which no thread has to sleep, and
//! there the lock orders nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use crate::checker::atomic::{AtomicU32, Ordering};
use crate::checker::{Condvar, Mutex, thread, thread_local};

#[path = "kernel/ptrace.rs"]
pub(crate) mod ptrace;

/// Why [`wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FutexWait {
    Woken,
    Changed,
    TimedOut,
    Interrupted,
}

/// The simulated machine of one execution of a model.
pub(crate) struct Kernel {
    sleepers: Mutex<Sleepers>,
    tasks: Vec<Task>,
    tracer_waits: Condvar,
    may_be_traced: bool,
}

#[derive(Default)]
struct Sleepers {
    queue: Vec<Sleeper>,
    time_is_up: bool,
    ticks: u32,
    time_has_passed: bool,
    ptrace: ptrace::Ptrace,
}

struct Sleeper {
    word: usize,
    tid: u32,
    timed: bool,
    ended: Option<FutexWait>,
}

struct Task {
    wakeup: Condvar,
    flags: AtomicU32,
}

/// Flag of a task: a signal is pending.
const PENDING: u32 = 1;
/// Flag of a task: a tracer has stopped the task.
const STOPPED: u32 = 2;
/// Flag of a task: its registers point to `park`, which the task enters when it is resumed.
const AT_PARK: u32 = 4;

type Handler = Rc<dyn Fn()>;

#[derive(Default)]
struct Current {
    kernel: RefCell<Option<Arc<Kernel>>>,
    tid: Cell<u32>,
    handler: RefCell<Option<Handler>>,
    in_handler: Cell<bool>,
    traced: Cell<bool>,
}

thread_local! {
    static CURRENT: Current = Current::default();
}

impl Kernel {
    /// Creates a machine for `threads` threads, including the calling thread, which is number 1.
    pub(crate) fn boot(threads: u32) -> Arc<Self> {
        Self::boot_for(threads, false)
    }

    /// Like [`boot`](Self::boot), for a process that tracers may attach to.
    pub(crate) fn boot_for_tracers(threads: u32) -> Arc<Self> {
        Self::boot_for(threads, true)
    }

    fn boot_for(threads: u32, may_be_traced: bool) -> Arc<Self> {
        let task = |_| Task { wakeup: Condvar::new(), flags: AtomicU32::new(0) };
        let kernel = Arc::new(Self {
            sleepers: Mutex::new(Sleepers::default()),
            tasks: (0..threads).map(task).collect(),
            tracer_waits: Condvar::new(),
            may_be_traced,
        });
        kernel.enter(1);
        kernel
    }

    /// Starts a thread with this number, 2 or more.
    pub(crate) fn spawn(self: &Arc<Self>, tid: u32, body: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
        let kernel = Arc::clone(self);
        thread::spawn(move || {
            kernel.enter(tid);
            body();
            if kernel.may_be_traced {
                kernel.ended(tid);
            }
        })
    }

    fn enter(self: &Arc<Self>, tid: u32) {
        CURRENT.with(|current| {
            *current.kernel.borrow_mut() = Some(Arc::clone(self));
            current.tid.set(tid);
        });
    }

    fn task(&self, tid: u32) -> &Task {
        &self.tasks[tid as usize - 1]
    }

    /// Simulates `tgkill`.
    pub(crate) fn signal(&self, tid: u32) {
        let sleepers = self.sleepers.lock().expect("not poisoned");
        // Release: pairs with the Acquire in `interrupt_point`; the kernel's locks do that for a real signal.
        self.task(tid).flags.fetch_or(PENDING, Ordering::Release);
        if sleepers.queue.iter().any(|s| s.tid == tid) {
            self.task(tid).wakeup.notify_one();
        }
    }
}

fn kernel() -> Arc<Kernel> {
    CURRENT.with(|current| current.kernel.borrow().clone()).expect("the thread was started by the kernel")
}

/// Returns the calling thread's number.
pub(crate) fn current_tid() -> u32 {
    CURRENT.with(|current| current.tid.get())
}

/// Sets the calling thread's signal handler. Threads without a handler ignore signals, and tracers do not stop them.
pub(crate) fn on_signal(handler: impl Fn() + 'static) {
    let may_be_traced = kernel().may_be_traced;
    CURRENT.with(|current| {
        *current.handler.borrow_mut() = Some(Rc::new(handler));
        current.traced.set(may_be_traced);
    });
}

/// Marks a step of a protocol: the handler may run here, and a tracer may stop the thread.
#[track_caller]
pub(crate) fn interrupt_point() {
    let here = Location::caller();
    let handler = CURRENT.with(|current| match current.in_handler.get() {
        true => None,
        false => current.handler.borrow().clone(),
    });
    let traced = CURRENT.with(|current| current.traced.get());
    if handler.is_none() && !traced {
        return;
    }
    let kernel = kernel();
    let flags = &kernel.task(current_tid()).flags;
    // Under a tracer, this reads the latest value: to see the flag later would have the same effect as running later, which
    // the checker explores anyway.
    let seen = if traced { flags.fetch_or(0, Ordering::AcqRel) } else { flags.load(Ordering::Relaxed) };
    let seen = if seen & (STOPPED | AT_PARK) != 0 { ptrace::stand() } else { seen };
    let is_pending = |flags: u32| flags & PENDING != 0;
    if let Some(handler) = handler
        && is_pending(seen)
        && is_pending(flags.fetch_and(!PENDING, Ordering::Acquire))
    {
        INTERRUPTED.lock().expect("not poisoned").insert((here.file(), here.line()));
        run_as_handler(&handler);
    }
}

fn run_as_handler(handler: &Handler) {
    let outer = CURRENT.with(|current| current.in_handler.replace(true));
    handler();
    CURRENT.with(|current| current.in_handler.set(outer));
}

/// Returns the steps (file, line) at which a handler has run so far, in all models of this process.
pub(crate) fn interrupted_steps() -> BTreeSet<(&'static str, u32)> {
    INTERRUPTED.lock().expect("not poisoned").clone()
}

static INTERRUPTED: std::sync::Mutex<BTreeSet<(&'static str, u32)>> = std::sync::Mutex::new(BTreeSet::new());

/// Returns whether a sleeping thread with these flags must wake up.
fn is_interrupted(flags: u32) -> bool {
    let takes_signals = CURRENT.with(|current| !current.in_handler.get() && current.handler.borrow().is_some());
    flags & STOPPED == 0 && (takes_signals && flags & PENDING != 0 || flags & AT_PARK != 0)
}

/// Simulates FUTEX_WAIT.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) -> FutexWait {
    let kernel = kernel();
    let tid = current_tid();
    let task = kernel.task(tid);
    let mut sleepers = kernel.sleepers.lock().expect("not poisoned");
    if word.load(Ordering::Relaxed) != expected {
        return FutexWait::Changed;
    }
    let word = std::ptr::from_ref(word) as usize;
    let timed = timeout_ns.is_some_and(|ns| ns < u64::MAX);
    if timeout_ns == Some(0) {
        return FutexWait::TimedOut;
    }
    if timed && (sleepers.time_is_up || sleepers.ticks > 0) {
        sleepers.ticks = sleepers.ticks.saturating_sub(1);
        return FutexWait::TimedOut;
    }
    sleepers.queue.push(Sleeper { word, tid, timed, ended: None });
    if kernel.may_be_traced {
        kernel.tracer_waits.notify_all();
    }
    // A thread sleeps at most twice: once itself, and once in its handler.
    let mine = |queue: &[Sleeper]| queue.iter().rposition(|s| s.tid == tid).expect("queued above");
    loop {
        let at = mine(&sleepers.queue);
        let ended = match sleepers.queue[at].ended {
            None if is_interrupted(task.flags.load(Ordering::Relaxed)) => Some(FutexWait::Interrupted),
            ended => ended,
        };
        if let Some(ended) = ended {
            sleepers.queue.remove(at);
            drop(sleepers);
            interrupt_point();
            return ended;
        }
        sleepers = task.wakeup.wait(sleepers).expect("not poisoned");
    }
}

/// Simulates FUTEX_WAKE.
pub(crate) fn wake(word: &AtomicU32, n: u32) -> u32 {
    let word = std::ptr::from_ref(word) as usize;
    end(n, FutexWait::Woken, |s| s.word == word)
}

/// Makes all timed waits time out, both present and future ones.
pub(crate) fn time_is_up() {
    kernel().sleepers.lock().expect("not poisoned").time_is_up = true;
    end(u32::MAX, FutexWait::TimedOut, |s| s.timed);
}

/// Returns whether a timed wait has timed out since the last call.
pub(crate) fn time_has_passed() -> bool {
    std::mem::take(&mut kernel().sleepers.lock().expect("not poisoned").time_has_passed)
}

/// Makes one timed wait time out: a wait that is sleeping now, or else the next one.
pub(crate) fn tick() {
    let kernel = kernel();
    let mut sleepers = kernel.sleepers.lock().expect("not poisoned");
    sleepers.time_has_passed = true;
    if kernel.end_some(&mut sleepers, 1, FutexWait::TimedOut, |s| s.timed) == 0 {
        sleepers.ticks += 1;
    }
}

fn end(most: u32, how: FutexWait, which: impl Fn(&Sleeper) -> bool) -> u32 {
    let kernel = kernel();
    let mut sleepers = kernel.sleepers.lock().expect("not poisoned");
    kernel.end_some(&mut sleepers, most, how, which)
}

impl Kernel {
    fn end_some(&self, sleepers: &mut Sleepers, most: u32, how: FutexWait, which: impl Fn(&Sleeper) -> bool) -> u32 {
        let mut count = 0;
        for sleeper in sleepers.queue.iter_mut().filter(|s| s.ended.is_none() && which(s)).take(most as usize) {
            sleeper.ended = Some(how);
            self.task(sleeper.tid).wakeup.notify_one();
            count += 1;
        }
        count
    }
}
