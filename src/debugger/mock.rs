//! A debugger inside the process.
//!
//! [`MockDebugger`] does what the Mono debugger did for Boehm's collector in 2006, so that the contract between them can be tested in one
//! process, without ptrace. It is a thread vtable. While it is in use it *really* stops the threads, by its own signal, on each thread's
//! alternate stack, because a debugger leaves the thread's own stack as it is. Then it does what the debugger did:
//!
//! ```text
//!   own stack of a stopped thread
//!      ... frames ...
//!   rsp ──> ┌───────────────────────────┐
//!           │ red zone, 128 bytes       │  may hold the thread's data: never written
//!           ├───────────────────────────┤
//!           │ rax … r15, rip, flags …   │  pushed by the debugger, all of them,
//!           │ x87, xmm, ymm, zmm        │  the extended state too
//!   stack_ptr ─> └──────────────────────┘  written into the slot that it was given
//! ```
//!
//! rsp itself is not changed: the thread does not use the memory below its red zone. If the stack has no room there, the registers are
//! written into the save area of the thread's record. A thread without an alternate stack is stopped on its own stack, and the kernel's
//! signal frame, which contains all registers, replaces the pushed registers.
//!
//! # The thread lock
//!
//! The debugger has one lock for its own state. It is held from the stop of the world to its start and while a user freezes a thread, like
//! the global thread lock of Mono's debugger. So a freeze waits for the end of a collection, and a collection for the end of a freeze.
//!
//! # Two kinds of stop, counted separately
//!
//! A user freezes and thaws single threads ([`freeze`](MockDebugger::freeze)); a collection stops all threads. For each thread the debugger
//! has a handshake of its own, with one hold for the user and one for the collection. A thread runs only if it has neither hold: a frozen
//! thread stays frozen after a collection (`.vtable.nested`), and a thread that was running runs again (`.vtable.exact-restore`).
//!
//! # The other contract
//!
//! [`assisted`](MockDebugger::assisted) creates a debugger of the second kind: the collector signals the threads itself, and the debugger
//! answers for those that a user has frozen (`assisted.rs`).
//!
//! # Limits
//!
//! The mock debugger cannot stop a thread that masks its signal; a ptrace debugger could. The stop's error names such a thread.

mod assisted;
mod handler;
mod log;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::sync::Arc;

use crate::os::{Errno, Tid, thread};
use crate::sabotage::{Guard, removed};
use crate::sync::{Lock, LockGuard, Locked, Ordering};
use crate::world::handshake::{Abandoned, Handshake, HandshakeState, HoldOutcome, Holder};
use crate::world::handshake_stop;
use crate::world::inside;
use crate::world::{
    AtFork, AtSwap, ForkStep, LostStop, RevocableStop, SetupError, SilentThread, Slot, StopAttempts, StopError,
    StopRequest, ThreadName, ThreadStopInfo, ThreadVtable,
};

use crate::debugger::contract::Mode;
use handler::{Debuggee, Pushed};
use log::Log;
pub use log::MockEvent;

/// The signal by which the mock stops threads by default: a real-time signal that is probably not used by other code in this process.
pub const DEFAULT_SIGNAL: i32 = 43;

/// A debugger inside the process that it debugs. See the module documentation.
pub struct MockDebugger {
    signal: i32,
    mode: Mode,
    /// The debugger's global thread lock.
    thread_lock: Lock,
    /// The debugger's handshake. It is never freed: a handler that runs late may still access it.
    handshake: &'static Handshake,
    /// The number of worlds for which the thread lock is held over a fork, with a lock of its own. A thread takes this lock while it holds
    /// the thread lock, except a thread that thaws another one while a fork holds the thread lock.
    forking: Locked<u32>,
    /// Accessed only through [`with`](Self::with).
    inner: RefCell<Inner>,
}

/// Guarded by the thread lock.
struct Inner {
    debuggees: Vec<&'static Debuggee>,
    log: Log,
}

// SAFETY: `inner` is accessed only by `with`, which checks that its thread holds the thread lock; everything else is Sync.
unsafe impl Sync for MockDebugger {}
// SAFETY: no part of the debugger is bound to one thread.
unsafe impl Send for MockDebugger {}

/// The state of a thread, as the debugger shows it.
#[derive(Clone, Copy, Debug)]
pub struct MockThread {
    /// The thread's name, from the record to which its slot belongs.
    pub name: ThreadName,
    /// The thread's id.
    pub tid: Tid,
    /// Whether a user has frozen the thread.
    pub frozen: bool,
    /// The value that the debugger last wrote, or would write, to the thread's slot; 0 for a thread that it never stopped.
    pub stack_ptr: usize,
    /// The instruction pointer and the stack pointer at which the thread was last stopped.
    pub at: (usize, usize),
}

impl MockDebugger {
    /// Creates a debugger that is attached to nothing yet.
    pub fn new() -> Result<Arc<Self>, SetupError> {
        Self::with_signal(DEFAULT_SIGNAL)
    }

    /// Creates a debugger that stops threads by this signal, which must be the same for all mock debuggers of the process.
    pub fn with_signal(signal: i32) -> Result<Arc<Self>, SetupError> {
        Self::by(signal, Mode::Full)
    }

    fn by(signal: i32, mode: Mode) -> Result<Arc<Self>, SetupError> {
        handler::install(signal)?;
        Ok(Arc::new(Self {
            signal,
            mode,
            thread_lock: Lock::new(),
            handshake: Box::leak(Box::new(Handshake::new())),
            forking: Locked::new(0),
            inner: RefCell::new(Inner { debuggees: Vec::new(), log: Log::new() }),
        }))
    }

    /// Freezes one thread until [`thaw`](Self::thaw). Waits for the end of a collection in progress. Freezing a frozen thread changes
    /// nothing.
    pub fn freeze(&self, tid: Tid) -> Result<(), StopError> {
        let _lock = self.thread_lock.lock();
        let Some(debuggee) = self.find(tid) else {
            return Err(self.refuse(format!("thread {tid} was not announced to this debugger")));
        };
        if tid == thread::gettid() {
            return Err(self.refuse("a thread cannot freeze itself".into()));
        }
        if debuggee.state.is_held_by(Holder::User) {
            return Ok(());
        }
        // No thread is frozen during a thaw: the frozen thread could hold a lock that the next thaw needs.
        let _no_thaw = self.forking.lock().lock();
        let epoch = self.handshake.begin(Holder::User, 1);
        if debuggee.state.hold(Holder::User, epoch) == HoldOutcome::MustPark {
            let mut budget = crate::os::clock::Budget::new(FREEZE_WITHIN);
            loop {
                // SAFETY: the mock's own signal, whose handler is installed.
                let _ = unsafe { thread::tgkill(tid, self.signal) };
                match budget.slice(u64::MAX, |ns| self.handshake.wait_slice(Holder::User, ns)) {
                    Some(0) => break,
                    Some(_) => {}
                    None => {
                        self.handshake.close(Holder::User);
                        if debuggee.state.take_back(Holder::User) == Abandoned::Unanswered {
                            let silent = SilentThread::describe(tid, Some(debuggee.info().name()), self.signal);
                            let threads = vec![silent];
                            return Err(StopError::Unanswered {
                                stopper: NAME,
                                within: FREEZE_WITHIN,
                                of: 1,
                                threads,
                                attempts: StopAttempts::default(),
                            });
                        }
                        // The thread acknowledged at the last moment.
                        break;
                    }
                }
            }
        }
        self.with(|inner| inner.log.note(MockEvent::Frozen { tid, stack_ptr: debuggee.stack_ptr() }));
        Ok(())
    }

    /// Thaws a frozen thread; returns `false` if it was not frozen. Waits for the end of a collection in progress, but not for a fork: the
    /// forking thread may be waiting for a lock that the frozen thread holds, such as `malloc`'s (`.fork.thaw`). A thaw during a fork is
    /// not logged.
    pub fn thaw(&self, tid: Tid) -> bool {
        loop {
            if let Ok(_lock) = self.thread_lock.lock_slice(THAW_SLICE_NS) {
                let frozen = self.find(tid).filter(|debuggee| debuggee.state.is_held_by(Holder::User));
                if let Some(debuggee) = frozen {
                    debuggee.state.release(Holder::User);
                    self.with(|inner| inner.log.note(MockEvent::Thawed { tid }));
                }
                return frozen.is_some();
            }
            let held = self.forking.lock().lock();
            if *self.forking.get(&held) > 0 && !removed(Guard::ForkThaw) {
                // No collection is in progress: the forking thread has the collector's lock. A frozen thread does not give up its record.
                let debuggee = handler::find(tid).filter(|debuggee| debuggee.is_of(self.handshake));
                let frozen = debuggee.filter(|debuggee| debuggee.state.is_held_by(Holder::User));
                frozen.inspect(|debuggee| debuggee.state.release(Holder::User));
                return frozen.is_some();
            }
        }
    }

    /// Returns the threads that the collector has announced to the mock debugger and that have not ended.
    pub fn threads(&self) -> Vec<MockThread> {
        let _lock = self.thread_lock.lock();
        self.with(|inner| inner.debuggees.iter().map(|debuggee| debuggee.show()).collect())
    }

    /// Returns the events so far, and the number of events that the log had no room for.
    pub fn log(&self) -> (Vec<MockEvent>, u64) {
        let _lock = self.thread_lock.lock();
        self.with(|inner| (inner.log.events().to_vec(), inner.log.missed()))
    }

    /// Empties the log.
    pub fn clear_log(&self) {
        let _lock = self.thread_lock.lock();
        self.with(|inner| inner.log.clear());
    }

    /// Returns where the debugger writes the registers of a thread that it stops.
    fn pushes(&self) -> Pushed {
        if self.mode == Mode::Full { Pushed::OnStack } else { Pushed::InRecord }
    }

    fn refuse(&self, what: String) -> StopError {
        StopError::Vtable { stopper: NAME, what }
    }

    /// Calls `f` with the data that the thread lock guards.
    ///
    /// # Panics
    /// If the calling thread does not hold the lock, or is already inside this function.
    fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        assert!(self.thread_lock.is_mine(), "the debugger's thread lock is not held");
        f(&mut self.inner.borrow_mut())
    }

    fn find(&self, tid: Tid) -> Option<&'static Debuggee> {
        self.with(|inner| inner.debuggees.iter().copied().find(|debuggee| debuggee.tid() == tid))
    }

    /// Takes the thread lock for a stop: the wait counts against the stop's time limit.
    fn lock_for(&self, stop: &StopRequest<'_>) -> Result<LockGuard<'_>, StopError> {
        let mut attempt = self.thread_lock.try_lock();
        loop {
            match attempt {
                Ok(guard) => return Ok(guard),
                Err(holder) => {
                    attempt = match stop.wait_slice(u64::MAX, |ns| self.thread_lock.lock_slice(ns)) {
                        Some(next) => next,
                        None => {
                            // No thread has been stopped yet.
                            inside::leave();
                            let holder = Box::new(SilentThread::describe(Tid(holder.0 as i32), None, self.signal));
                            return Err(StopError::LockHeld {
                                lock: "debugger's thread",
                                within: stop.within(),
                                holder,
                            });
                        }
                    }
                }
            }
        }
    }

    /// Holds every debuggee of the request, and waits until they are stopped. The mock also knows threads of other worlds and the
    /// collecting thread; these continue to run.
    fn stop_all(&self, stop: &StopRequest<'_>, debuggees: &[&'static Debuggee]) -> Result<(), StopError> {
        let epoch = self.handshake.begin(Holder::Collection, debuggees.len() as u32);
        let mut satisfied = 0;
        for debuggee in debuggees {
            let is_stopped = !stop.concerns(debuggee.info())
                || debuggee.state.hold(Holder::Collection, epoch) == HoldOutcome::Already
                || self.signal(debuggee) == Signalled::Gone;
            satisfied += u32::from(is_stopped);
        }
        self.handshake.satisfied(Holder::Collection, epoch, satisfied);
        loop {
            match stop.wait_slice(u64::MAX, |ns| self.handshake.wait_slice(Holder::Collection, ns)) {
                Some(0) => return Ok(()),
                Some(_) => {
                    let silent = debuggees.iter().filter(|d| stop.concerns(d.info()) && !d.state.has_answered());
                    let gone = silent.filter(|d| !d.info().is_gone() && self.signal(d) == Signalled::Gone).count();
                    self.handshake.satisfied(Holder::Collection, epoch, gone as u32);
                }
                None => return self.give_up(stop, debuggees),
            }
        }
    }

    fn signal(&self, debuggee: &Debuggee) -> Signalled {
        // SAFETY: the mock's own signal, whose handler is installed.
        if unsafe { thread::tgkill(debuggee.tid(), self.signal) } != Err(Errno::ESRCH) {
            return Signalled::Maybe;
        }
        debuggee.info().mark_gone();
        // The acknowledgement of this thread will not come, unless it acknowledged before it ended.
        match debuggee.state.abandon(Holder::Collection) {
            Abandoned::Unanswered => Signalled::Gone,
            Abandoned::Answered => Signalled::Maybe,
        }
    }

    /// Called when the time limit has passed. Unless the last thread has acknowledged meanwhile, resumes the threads that it holds, and
    /// only then reports those that did not acknowledge.
    fn give_up(&self, stop: &StopRequest<'_>, debuggees: &[&'static Debuggee]) -> Result<(), StopError> {
        self.handshake.close(Holder::Collection);
        let mut all_stopped = true;
        for debuggee in debuggees.iter().filter(|d| stop.concerns(d.info())) {
            let silent = debuggee.state.take_back(Holder::Collection) == Abandoned::Unanswered;
            debuggee.silent.store(u32::from(silent), Ordering::Relaxed);
            all_stopped &= !silent;
        }
        if all_stopped {
            return Ok(());
        }
        debuggees.iter().filter(|d| stop.concerns(d.info())).for_each(|d| d.state.release(Holder::Collection));
        // From here on the world runs, and memory may be allocated.
        inside::leave();
        let silent: Vec<_> =
            debuggees.iter().filter(|d| d.silent.swap(0, Ordering::Relaxed) != 0).map(|d| d.info()).collect();
        Err(stop.unanswered(NAME, self.signal, &silent))
    }
}

const NAME: &str = "mock-debugger";
const ASSISTED: &str = "mock-debugger (assisted)";

/// How long a thaw waits for the thread lock before it checks whether a fork has it.
const THAW_SLICE_NS: u64 = 1_000_000;

/// The time limit of a freeze.
const FREEZE_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Signalled {
    Maybe,
    Gone,
}

// SAFETY: a thread counts as stopped when its handler has pushed the registers and acknowledged; it resumes only when both of its holds are
// gone. Between stop and start only atomics, system calls and preallocated memory are used.
unsafe impl ThreadVtable for MockDebugger {
    fn name(&self) -> &'static str {
        if self.mode == Mode::Full { NAME } else { ASSISTED }
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        if self.mode == Mode::Assisted {
            return self.stop_assisted(stop);
        }
        let lock = self.lock_for(stop)?;
        self.with(|inner| {
            inner.log.note(MockEvent::StopBegins { epoch: stop.epoch() });
            if let Err(error) = self.stop_all(stop, &inner.debuggees) {
                inner.log.note(MockEvent::StopFailed { epoch: stop.epoch() });
                return Err(error);
            }
            for debuggee in inner.debuggees.iter().filter(|d| stop.concerns(d.info()) && !d.info().is_gone()) {
                let stack_ptr = debuggee.write_stack_ptr();
                inner.log.note(MockEvent::Stopped { tid: debuggee.tid(), stack_ptr });
            }
            inner.log.note(MockEvent::WorldStopped { epoch: stop.epoch() });
            Ok(())
        })?;
        // The lock is held until `start_world`, which the same thread calls.
        std::mem::forget(lock);
        Ok(())
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        if self.mode == Mode::Assisted {
            return handshake_stop::start(stop);
        }
        self.with(|inner| {
            for debuggee in inner.debuggees.iter().filter(|d| stop.concerns(d.info())) {
                let tid = debuggee.tid();
                let frozen = debuggee.state.is_held_by(Holder::User);
                inner.log.note(if frozen { MockEvent::StaysFrozen { tid } } else { MockEvent::LetGo { tid } });
                debuggee.state.release(Holder::Collection);
                if frozen && removed(Guard::VtableExactRestore) {
                    debuggee.state.release(Holder::User);
                }
            }
            inner.log.note(MockEvent::WorldStarted { epoch: stop.epoch() });
        });
        // SAFETY: this thread acquired it in `stop_world`, whose guard is forgotten.
        unsafe { self.thread_lock.release() };
    }

    fn thread_created(&self, tid: Tid, slot: Slot) {
        let _lock = self.thread_lock.lock();
        let debuggee = handler::enlist(tid, slot, self.handshake, self.pushes());
        self.with(|inner| {
            inner.debuggees.extend(debuggee);
            inner.log.note(MockEvent::Created { tid });
        });
    }

    fn thread_exited(&self, tid: Tid, _slot: Slot) {
        let _lock = self.thread_lock.lock();
        self.with(|inner| {
            if let Some(index) = inner.debuggees.iter().position(|debuggee| debuggee.tid() == tid) {
                handler::delist(inner.debuggees.swap_remove(index), self.handshake);
            }
            inner.log.note(MockEvent::Exited { tid });
        });
    }

    fn revocable_stop(&self) -> Option<&dyn RevocableStop> {
        (self.mode == Mode::Assisted).then_some(self)
    }

    fn at_swap(&self) -> Option<&dyn AtSwap> {
        Some(self)
    }

    fn at_fork(&self) -> Option<&dyn AtFork> {
        Some(self)
    }
}

// SAFETY: `holds_assisted` looks at each thread that the debugger has answered for; all others have parked in the handshake. It tries the
// thread lock and waits for none.
unsafe impl RevocableStop for MockDebugger {
    fn still_holds(&self, stop: &StopRequest<'_>) -> Result<(), LostStop> {
        if self.holds_assisted(stop) { Ok(()) } else { Err(LostStop::Released) }
    }

    fn stops_whole_process(&self) -> bool {
        false
    }
}

impl AtSwap for MockDebugger {
    fn add_all_threads(&self, threads: &[&'static ThreadStopInfo]) {
        let _lock = self.thread_lock.lock();
        self.with(|inner| {
            inner.log.note(MockEvent::Attached { threads: threads.len() as u32 });
            for thread in threads {
                inner.debuggees.extend(handler::enlist(thread.tid(), thread.slot(), self.handshake, self.pushes()));
                inner.log.note(MockEvent::Announced { tid: thread.tid() });
            }
        });
    }

    fn remove_all_threads(&self, threads: &[&'static ThreadStopInfo]) {
        let _lock = self.thread_lock.lock();
        self.with(|inner| {
            // Only the threads of this world are removed: another world may use the same debugger.
            let is_removed = |debuggee: &&Debuggee| threads.iter().any(|info| std::ptr::eq(*info, debuggee.info()));
            for debuggee in inner.debuggees.extract_if(.., |debuggee| is_removed(&&**debuggee)) {
                if debuggee.state.is_held_by(Holder::User) {
                    inner.log.note(MockEvent::Thawed { tid: debuggee.tid() });
                }
                handler::delist(debuggee, self.handshake);
            }
            inner.log.note(MockEvent::Detached);
        });
    }
}

impl AtFork for MockDebugger {
    unsafe fn fork(&self, step: ForkStep) {
        // Each world that uses this debugger calls this function.
        match step {
            ForkStep::Prepare => {
                if !self.thread_lock.is_mine() {
                    self.thread_lock.acquire();
                }
                *self.forking.get_mut(&mut self.forking.lock().lock()) += 1;
            }
            ForkStep::Parent => {
                let mut held = self.forking.lock().lock();
                let forking = self.forking.get_mut(&mut held);
                *forking -= 1;
                if *forking == 0 {
                    // SAFETY: this thread took the lock before the fork, without a guard.
                    unsafe { self.thread_lock.release() };
                }
            }
            ForkStep::Child { before, now } => {
                // SAFETY: the child's only thread, which took the first lock before the fork; a thread that held the second does not exist
                // here.
                unsafe {
                    self.thread_lock.reset_in_child();
                    self.forking.lock().reset_in_child();
                }
                *self.forking.get_mut(&mut self.forking.lock().lock()) = 0;
                self.handshake.reset_in_child();
                handler::forked(before, now);
            }
        }
    }
}

impl Debuggee {
    fn show(&self) -> MockThread {
        MockThread {
            name: self.info().name(),
            tid: self.tid(),
            frozen: self.state.is_held_by(Holder::User) && self.state.handshake_state() == HandshakeState::Parked,
            stack_ptr: self.stack_ptr(),
            at: self.at(),
        }
    }
}
