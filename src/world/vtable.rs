//! How the world is stopped, as a value.
//!
//! In 2006 Mono's collector got a table of functions, so that the debugger could stop the threads its own way: a thread
//! that sits at a breakpoint can't run a signal handler, but its registers can be read and its stack pointer written into
//! the collector's record. Here the table is a trait, and can be swapped while the program runs.
//!
//! # What a vtable promises
//!
//! After [`stop_world`](ThreadVtable::stop_world) every thread of the request but the collecting one stands still, and its slot holds
//! the lowest address of its live stack, registers included: all of them (vector registers too) must lie between that address and the
//! base of the stack, or in the record's save area. [`start_world`](ThreadVtable::start_world) restores exactly the earlier state:
//! who was stopped before by somebody else stays stopped (`.vtable.exact-restore`, `.vtable.nested`).
//!
//! # What the common wrapper promises in return
//!
//! * The slots are 0 when `stop_world` is called, and are checked after it: one that is still 0 or points to no stack
//!   of its thread is an error, and `start_world` is called.
//! * The vtable that stopped is the one that starts; a swap waits (`.vtable.swap`).
//! * `thread_created` comes under the allocation lock, before the thread can allocate (`.vtable.created-under-lock`);
//!   `thread_exited` before the record is freed, also for threads that a fork has left behind (`.vtable.exited-before-free`).
//! * A vtable that goes out of force is notified that all threads are gone for it; then the one that comes into force is
//!   notified of them, both before the swap returns (`.vtable.attach`). In this order, because the two may share what
//!   they know of threads. To set the vtable that is in force already changes nothing, and notifies nothing.
//! * One vtable may be in force in several worlds, unless it refuses ([`enter_world`](ThreadVtable::enter_world)). It
//!   is asked to stop the threads of one of them at a time, or of several at once by different threads.

use std::cell::Cell;
use std::time::Duration;

use crate::os::Tid;
use crate::os::clock::Budget;
use crate::sync::Ordering;

use super::error::{FalseAnswer, SilentThread, StopAttempts, StopError};
use super::handshake::Handshake;
use super::inside;
use super::published::{Phase, PublishedWorld};
use super::stop_info::{Slot, ThreadStopInfo};

/// A way to stop the world. See the module's text.
///
/// # Safety
/// The collector reclaims memory on the strength of what `stop_world` says: after `Ok(())` no thread of the request
/// runs until `start_world`, and each slot is right. Nothing that the compiler or the collector can check keeps a wrong
/// implementation from that, so the trait is `unsafe`. Neither function may allocate from malloc, print, panic, or
/// take a lock that a stopped thread may hold (`.stop.no-malloc`).
///
/// Every function here is called under locks of the world, `stop_world`, `start_world`, `still_holds` and most calls of `phase` in a
/// collection. None of them allocates in the collected heap, makes, reads or drops a [`Root`](crate::Root), attaches or detaches
/// a thread, or asks the [`World`](crate::World) for anything: in a collection and in a swap of vtables such a call aborts
/// the process with one line that names it (`.stop.no-mutator`); in the others it may wait for a lock that its own thread holds.
pub unsafe trait ThreadVtable: Send + Sync {
    /// What errors and reports call it.
    fn name(&self) -> &'static str;

    /// Stops all threads of the request but the collecting one and fills their slots. An error means that every
    /// thread that had been stopped has been let go.
    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError>;

    /// Lets them go. Also called after a `stop_world` whose result did not pass the wrapper's checks.
    fn start_world(&self, stop: &StopRequest<'_>);

    /// The signal by which it tells threads that they are held, if it holds and releases them by the world's own handshake, as the
    /// built-in stoppers do; 0 if threads look by themselves.
    fn handshake_signal(&self) -> Option<i32> {
        None
    }

    /// Whether debuggers outside of the process are asked and told of stops. Published.
    fn answers_debuggers(&self) -> bool {
        false
    }

    /// Whether this stop freezes every thread of the process but the collecting one, or may do so, the collector's own
    /// markers included: then the collecting thread marks alone and waits for nobody.
    fn stops_whole_process(&self) -> bool {
        false
    }

    /// Whether the stop still holds. Asked once, after marking and before anything is cleared or freed: if whoever
    /// stopped the world has died meanwhile, the marks are discarded.
    fn still_holds(&self, stop: &StopRequest<'_>) -> bool {
        let _ = stop;
        true
    }

    /// Why [`still_holds`](Self::still_holds) said no, if that was because a debugger's answer was found to be false.
    fn false_answer(&self) -> Option<FalseAnswer> {
        None
    }

    /// The vtable is to serve this world from now on. Called under the world's locks or before the world has threads. A
    /// vtable that can serve only one world refuses the second one.
    ///
    /// # Errors
    /// Why it refuses, and what to do instead.
    fn enter_world(&self, world: &PublishedWorld) -> Result<(), String> {
        let _ = world;
        Ok(())
    }

    /// The vtable does not serve this world any more: once for each [`enter_world`](Self::enter_world) that was granted.
    fn leave_world(&self, world: &PublishedWorld) {
        let _ = world;
    }

    /// A thread is about to become a mutator. Called on that thread, under the allocation lock.
    fn thread_created(&self, tid: Tid, slot: Slot) {
        let _ = (tid, slot);
    }

    /// A thread is no mutator any more. Called on that thread or, if it ended without a word, on another.
    fn thread_exited(&self, tid: Tid, slot: Slot) {
        let _ = (tid, slot);
    }

    /// The vtable has come into force; these are the world's threads. Under the world's locks: none comes or goes, and no
    /// stop begins, meanwhile.
    fn add_all_threads(&self, threads: &[&'static ThreadStopInfo]) {
        for thread in threads {
            self.thread_created(thread.tid(), thread.slot());
        }
    }

    /// The vtable is out of force in the world of these threads. It must leave each of them as it would be without it, and
    /// other worlds' threads alone.
    fn remove_all_threads(&self, threads: &[&'static ThreadStopInfo]) {
        for thread in threads {
            self.thread_exited(thread.tid(), thread.slot());
        }
    }

    /// Makes one thread look at its state soon, if this vtable has a way to; used to suspend single threads.
    fn nudge(&self, thread: &ThreadStopInfo) {
        let _ = thread;
    }

    /// A collection of the world has come to this phase. Called by the collecting thread, under the world's locks except at
    /// [`Phase::RestartEnd`].
    fn phase(&self, world: &PublishedWorld, phase: Phase) {
        let _ = (world, phase);
    }

    /// What there is to tell of debuggers outside of the process since this was asked last, one at a time.
    fn debugger_news(&self) -> Option<DebuggerNews> {
        None
    }

    /// The process forks, and the vtable's own locks must come through. All of the world's locks are held.
    ///
    /// # Safety
    /// The process forks, and is at this step; called once for each step by the collector, or by a vtable that lies over this one and
    /// has been called so itself. (It takes and releases locks without a guard.)
    unsafe fn fork(&self, step: ForkStep) {
        let _ = step;
    }
}

/// A debugger outside of the process came or went. `control` is the word by which it said that it is in control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebuggerNews {
    /// A stop was begun under a word that was not there at the stop before.
    Attached {
        /// The word.
        control: u64,
    },
    /// The word is not there any more.
    Detached {
        /// The word.
        control: u64,
    },
    /// Nobody answered for the word; it has been taken away, and the world is stopped without a debugger again.
    Lost {
        /// The word.
        control: u64,
        /// Where the collection was when it was noticed.
        phase: Phase,
    },
}

/// A step of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkStep {
    /// Before it: take the locks.
    Prepare,
    /// After it, in the parent: let them go.
    Parent,
    /// After it, in the child: make them free. The one thread has a new id; `thread_exited` follows for the others.
    Child {
        /// Its id in the parent.
        before: Tid,
        /// Its id here.
        now: Tid,
    },
}

/// What `stop_world` and `start_world` are asked to do.
pub struct StopRequest<'a> {
    pub(super) live: &'a [&'static ThreadStopInfo],
    pub(super) collecting: Option<&'static ThreadStopInfo>,
    pub(super) handshake: &'a Handshake,
    pub(super) epoch: u64,
    pub(super) world: &'a PublishedWorld,
    pub(super) budget: &'a Cell<Budget>,
}

impl StopRequest<'_> {
    /// The threads to stop: all but the collecting one, and but those that the kernel knows no more.
    pub fn threads(&self) -> impl Iterator<Item = &'static ThreadStopInfo> + '_ {
        let skipped = self.collecting.map_or(std::ptr::null(), std::ptr::from_ref);
        self.live.iter().copied().filter(move |thread| !std::ptr::eq(*thread, skipped) && !thread.is_gone())
    }

    /// Whether this thread is one of the world's and not the collecting one, in constant time: for a vtable that knows
    /// threads of several worlds. Threads that are gone count, too: a vtable releases them as well.
    pub fn concerns(&self, thread: &ThreadStopInfo) -> bool {
        // The index of another world's thread may change meanwhile; then it leads to a different record, or to none.
        let listed = self.live.get(thread.index.load(Ordering::Relaxed) as usize);
        let is_collecting = self.collecting.is_some_and(|collecting| std::ptr::eq(collecting, thread));
        listed.is_some_and(|listed| std::ptr::eq(*listed, thread)) && !is_collecting
    }

    /// The thread that collects, if it is one of the world's, also when it does so from a blocking region. It is not to
    /// be stopped, and its slot is filled.
    pub fn collecting(&self) -> Option<&'static ThreadStopInfo> {
        self.collecting
    }

    /// What debuggers see of the world.
    pub fn world(&self) -> &PublishedWorld {
        self.world
    }

    pub(crate) fn handshake(&self) -> &Handshake {
        self.handshake
    }

    /// Numbers the stops of this world.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The configured time for a stop.
    pub fn within(&self) -> Duration {
        self.budget.get().total()
    }

    /// Runs `wait` with the length of the next slice in nanoseconds and charges what it took, at most that length: time in
    /// which the whole process stood still does not count (`.stop.jobcontrol`). `None` when the time is over.
    pub fn wait_slice<R>(&self, longest_ns: u64, wait: impl FnOnce(u64) -> R) -> Option<R> {
        let mut budget = self.budget.get();
        let result = budget.slice(longest_ns, wait);
        self.budget.set(budget);
        result
    }

    /// How much of the time is spent.
    pub fn spent(&self) -> Duration {
        self.budget.get().spent()
    }

    /// The error for threads that did not answer. Reads /proc and allocates: only when every thread has been let go.
    pub fn unanswered(&self, stopper: &'static str, signal: i32, silent: &[&'static ThreadStopInfo]) -> StopError {
        inside::leave();
        StopError::Unanswered {
            stopper,
            within: self.within(),
            of: self.threads().count(),
            threads: silent.iter().map(|thread| SilentThread::of(thread, signal)).collect(),
            attempts: StopAttempts::default(),
        }
    }
}
