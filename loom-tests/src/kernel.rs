//! A small Linux for the models: thread numbers, futexes, signals.
//!
//! The shipped files see it as `crate::sync::port` and as `crate::sync::interrupt_point`.
//!
//! **Futexes.** One table of sleepers under one lock, as the kernel's hash bucket: [`wait`] compares and queues under
//! the lock, [`wake`] takes from the queue under it. A sleeper sleeps on a condition variable of its own. Timed waits
//! sleep like others, until some thread of the model says that time is up ([`time_is_up`]); a model in which nobody says
//! so is one in which no timeout ever fires. A wait of `u64::MAX` nanoseconds is as good as untimed.
//!
//! **Signals.** [`Kernel::signal`] makes a signal pending. It is delivered as the real one is: at any protocol step of
//! the thread ([`interrupt_point`]), or in its futex wait, which it ends. The handler runs on the interrupted thread,
//! inside the interrupted step; the signal itself is blocked meanwhile. A signal that is pending twice is delivered
//! once.
//!
//! The lock orders more than the real port promises (a waker's past before the woken thread's future). Protocols may
//! not rely on that; loom sees them also in all executions in which nobody had to sleep, where it does not help.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

/// Why [`wait`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FutexWait {
    Woken,
    Changed,
    TimedOut,
    Interrupted,
}

/// The machine of one execution of a model.
pub(crate) struct Kernel {
    sleepers: Mutex<Sleepers>,
    tasks: Vec<Task>,
}

#[derive(Default)]
struct Sleepers {
    queue: Vec<Sleeper>,
    time_is_up: bool,
}

struct Sleeper {
    word: usize,
    tid: u32,
    timed: bool,
    ended: Option<FutexWait>,
}

struct Task {
    wakeup: Condvar,
    pending: AtomicBool,
}

type Handler = Rc<dyn Fn()>;

#[derive(Default)]
struct Current {
    kernel: RefCell<Option<Arc<Kernel>>>,
    tid: Cell<u32>,
    handler: RefCell<Option<Handler>>,
    in_handler: Cell<bool>,
}

loom::thread_local! {
    static CURRENT: Current = Current::default();
}

impl Kernel {
    /// A machine for this many threads, the calling one among them: it is number 1.
    pub(crate) fn boot(threads: u32) -> Arc<Self> {
        let task = |_| Task { wakeup: Condvar::new(), pending: AtomicBool::new(false) };
        let kernel =
            Arc::new(Self { sleepers: Mutex::new(Sleepers::default()), tasks: (0..threads).map(task).collect() });
        kernel.enter(1);
        kernel
    }

    /// Starts a thread with this number, 2 or more.
    pub(crate) fn spawn(self: &Arc<Self>, tid: u32, body: impl FnOnce() + 'static) -> thread::JoinHandle<()> {
        let kernel = Arc::clone(self);
        thread::spawn(move || {
            kernel.enter(tid);
            body();
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

    /// tgkill.
    pub(crate) fn signal(&self, tid: u32) {
        let sleepers = self.sleepers.lock().expect("no panic goes on");
        // Release: pairs with the Acquire in `interrupt_point`; the kernel's locks do that for a real signal.
        self.task(tid).pending.store(true, Ordering::Release);
        if sleepers.queue.iter().any(|s| s.tid == tid) {
            self.task(tid).wakeup.notify_one();
        }
    }
}

fn kernel() -> Arc<Kernel> {
    CURRENT.with(|current| current.kernel.borrow().clone()).expect("the thread was started by the kernel")
}

/// The calling thread's number.
pub(crate) fn current_tid() -> u32 {
    CURRENT.with(|current| current.tid.get())
}

/// What the calling thread does when it gets a signal. Threads that never say so ignore signals.
pub(crate) fn on_signal(handler: impl Fn() + 'static) {
    CURRENT.with(|current| *current.handler.borrow_mut() = Some(Rc::new(handler)));
}

/// A step of a protocol: the handler may run here.
#[track_caller]
pub(crate) fn interrupt_point() {
    let here = Location::caller();
    let handler = CURRENT.with(|current| match current.in_handler.get() {
        true => None,
        false => current.handler.borrow().clone(),
    });
    let Some(handler) = handler else { return };
    let kernel = kernel();
    let pending = &kernel.task(current_tid()).pending;
    if pending.load(Ordering::Relaxed) && pending.swap(false, Ordering::Acquire) {
        INTERRUPTED.lock().expect("no panic goes on").insert((here.file(), here.line()));
        CURRENT.with(|current| current.in_handler.set(true));
        handler();
        CURRENT.with(|current| current.in_handler.set(false));
    }
}

/// The steps (file, line) at which a handler has run so far, in all models of this process.
pub(crate) fn interrupted_steps() -> BTreeSet<(&'static str, u32)> {
    INTERRUPTED.lock().expect("no panic goes on").clone()
}

static INTERRUPTED: std::sync::Mutex<BTreeSet<(&'static str, u32)>> = std::sync::Mutex::new(BTreeSet::new());

fn can_be_interrupted() -> bool {
    CURRENT.with(|current| !current.in_handler.get() && current.handler.borrow().is_some())
}

/// FUTEX_WAIT.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) -> FutexWait {
    let kernel = kernel();
    let tid = current_tid();
    let task = kernel.task(tid);
    let mut sleepers = kernel.sleepers.lock().expect("no panic goes on");
    if word.load(Ordering::Relaxed) != expected {
        return FutexWait::Changed;
    }
    let word = std::ptr::from_ref(word) as usize;
    let timed = timeout_ns.is_some_and(|ns| ns < u64::MAX);
    if timed && sleepers.time_is_up {
        return FutexWait::TimedOut;
    }
    sleepers.queue.push(Sleeper { word, tid, timed, ended: None });
    // A thread sleeps at most twice: once itself, and once in its handler.
    let mine = |queue: &[Sleeper]| queue.iter().rposition(|s| s.tid == tid).expect("queued above");
    loop {
        let at = mine(&sleepers.queue);
        let ended = match sleepers.queue[at].ended {
            None if can_be_interrupted() && task.pending.load(Ordering::Relaxed) => Some(FutexWait::Interrupted),
            ended => ended,
        };
        if let Some(ended) = ended {
            sleepers.queue.remove(at);
            drop(sleepers);
            interrupt_point();
            return ended;
        }
        sleepers = task.wakeup.wait(sleepers).expect("no panic goes on");
    }
}

/// FUTEX_WAKE.
pub(crate) fn wake(word: &AtomicU32, n: u32) -> u32 {
    let word = std::ptr::from_ref(word) as usize;
    end(n, FutexWait::Woken, |s| s.word == word)
}

/// Every timed wait, those that sleep now and those to come, runs out of time.
pub(crate) fn time_is_up() {
    kernel().sleepers.lock().expect("no panic goes on").time_is_up = true;
    end(u32::MAX, FutexWait::TimedOut, |s| s.timed);
}

fn end(most: u32, how: FutexWait, which: impl Fn(&Sleeper) -> bool) -> u32 {
    let kernel = kernel();
    let mut sleepers = kernel.sleepers.lock().expect("no panic goes on");
    let mut count = 0;
    for sleeper in sleepers.queue.iter_mut().filter(|s| s.ended.is_none() && which(s)).take(most as usize) {
        sleeper.ended = Some(how);
        kernel.task(sleeper.tid).wakeup.notify_one();
        count += 1;
    }
    count
}
