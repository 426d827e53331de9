//! Stopping and starting the world, with any vtable.
//!
//! ```text
//!   take the three locks ─> latch the vtable ─> zero the slots ─> stop_world ─> check every slot
//!                                                                                   │
//!   release the locks <─── unlatch <──── start_world <──── the collection  <────────┘
//! ```
//!
//! Everything about a vtable that can be checked is checked: if a slot is still 0, or points to no stack of its
//! thread, the stop fails with a typed error, nothing is scanned, and the world continues to run.

use std::cell::Cell;
use std::time::Duration;

use crate::os::clock::{self, Budget};
use crate::os::{Tid, thread};
use crate::sync::Ordering;

use super::capabilities::LostStop;
use super::error::{SilenceReason, SilentThread, StopAttempts, StopError};
use super::handler;
use super::handshake::HandshakeState;
use super::inside;
use super::latch::Latched;
use super::locks::{Denied, StopLocks, Which};
use super::name::ThreadName;
use super::region::OwnStack;
use super::registry::{Threads, Vtable};
use super::stacks::{self, Location, OtherStacks, RegisteredStack};
use super::stop_info::ThreadStopInfo;
use super::stop_request::StopRequest;
use crate::sabotage::{Guard, removed};

/// The vtable to stop the world with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopBy {
    /// The installed vtable.
    InForce,
    /// The vtable that the world was built with, which needs no debugger. Used after a stop with the installed vtable has failed
    /// (`.debug.dies`).
    BuiltIn,
}

/// The vtable of a stop, which will also start the world (`.vtable.swap`).
enum Stopper<'a> {
    InForce(Latched<'a, Vtable>),
    BuiltIn(&'a Vtable),
}

impl Stopper<'_> {
    fn with<R>(&self, call: impl FnOnce(&Vtable) -> R) -> R {
        match self {
            Self::InForce(latched) => latched.with(call),
            Self::BuiltIn(vtable) => call(vtable),
        }
    }
}

/// The stopped world: it is stopped while this exists. Dropping it starts the world, also when the collector panics.
pub(crate) struct StoppedWorld<'a> {
    threads: &'a Threads,
    vtable: Option<Stopper<'a>>,
    // Released last: fields drop in their order, after `drop` has started the world.
    locks: StopLocks<'a>,
    collecting: Option<&'static ThreadStopInfo>,
    budget: Cell<Budget>,
    epoch: u64,
    asked_at: u64,
    summary: StopSummary,
}

/// The thread that took the longest to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slowest {
    pub(crate) name: ThreadName,
    pub(crate) ns: u64,
}

/// What a thread did when a stop was requested: the codes of the event ThreadStopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ThreadActivity {
    /// It ran, and stopped.
    Running,
    /// It ran, and entered a blocking region.
    Entering,
    /// It was in a blocking region.
    InRegion,
    /// It was stopped already: suspended by the program, or held by a debugger.
    Suspended,
    /// It collects.
    Collecting,
}

/// A summary of the threads at a stop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StopSummary {
    /// All threads of the world, the collecting one included.
    pub(crate) threads: u32,
    /// The threads that were in a blocking region.
    pub(crate) blocking: u32,
    /// The last thread to stop, if the stop had to wait for any.
    pub(crate) slowest: Option<Slowest>,
}

/// How many records ahead of the one that is in use are fetched into the cache.
const RECORDS_AHEAD: usize = 16;

/// The name of the collection lock in errors.
const COLLECTION: &str = "collection";

impl Threads {
    /// Takes the world's three locks, in their order. May be called by any thread. An attached thread is in a blocking
    /// region while it waits, so the collection for which it waits need not wait for it (`.stop.two-collectors`).
    pub(crate) fn lock_for_stop(&self, budget: &mut Budget) -> Result<StopLocks<'_>, StopError> {
        // A thread that waited for another thread's failed collection must keep some of its time for the stop. Otherwise the stop would
        // fail at the first thread that it waits for, and the error would name that thread and not the one that really blocks the stop.
        let locks = budget.sparing_a_quarter(|budget| self.locks.for_stop(|take| self.blocking_until(take), budget));
        locks.map_err(|denied| {
            let Denied { which, holder } = self.locks.in_the_way(denied);
            let lock = match which {
                Which::Collection => COLLECTION,
                Which::Allocation => "allocation",
                Which::List => "thread list",
            };
            self.lock_denied(lock, Tid(holder.0 as i32), budget.spent())
        })
    }

    /// Makes the error that names the holder of a lock that a stop needs (`.debug.frozen-owner`). Allocates.
    pub(crate) fn lock_denied(&self, lock: &'static str, holder: Tid, within: Duration) -> StopError {
        let tid = if removed(Guard::DebugFrozenOwner) { Tid(0) } else { holder };
        // SAFETY: null or a record, which is never unmapped. The record may belong to another thread by now; it is only used for the text.
        let record = unsafe { handler::TABLE.find(tid).as_ref() };
        let mut holder = match record {
            Some(record) => SilentThread::of(record, self.signal()),
            None => SilentThread::describe(tid, None, self.signal()),
        };
        if lock == COLLECTION && holder.reason == SilenceReason::Unknown {
            holder.reason = SilenceReason::IsCollecting;
        }
        StopError::LockHeld { lock, within, holder: Box::new(holder) }
    }

    /// Makes the error for a stop that cannot begin because of some threads. It may allocate, because no thread is stopped yet.
    pub(crate) fn blocked_by(
        &self,
        locks: &StopLocks<'_>,
        within: Duration,
        is_in_the_way: impl Fn(&ThreadStopInfo) -> bool,
    ) -> StopError {
        let live = self.live(&locks.list);
        let silent = live.iter().filter(|record| is_in_the_way(record));
        StopError::Unanswered {
            stopper: self.vtable.latch().with(|vtable| vtable.name()),
            within,
            of: live.len(),
            threads: silent.map(|record| SilentThread::of(record, self.signal())).collect(),
            attempts: StopAttempts::default(),
        }
    }

    /// Stops every thread of the world except the calling one.
    ///
    /// A caller that is attached to this world passes its own stack in `own`, unless it is in a blocking region: then the stack
    /// pointer that it published at the entry of the region is used. In both cases the caller is the collecting thread, which a
    /// vtable never has to stop (`.stop.own-stack`).
    pub(crate) fn stop<'a>(
        &'a self,
        locks: StopLocks<'a>,
        own: Option<&OwnStack>,
        by: StopBy,
        budget: Budget,
    ) -> Result<StoppedWorld<'a>, StopError> {
        let in_region = if own.is_some() { None } else { self.own_record() };
        assert!(
            in_region.is_none_or(|me| me.state.handshake_state() != HandshakeState::Running),
            "an attached thread that collects must show its own stack"
        );
        let epoch = self.epoch.load(Ordering::Relaxed) + 1;
        self.epoch.store(epoch, Ordering::Relaxed);
        let collecting = own.map(OwnStack::record).or(in_region);
        let tid = id_of(collecting);
        self.published().set_collecting(tid, epoch);
        let live = self.live(&locks.list);
        for (i, thread) in live.iter().enumerate() {
            live.get(i + RECORDS_AHEAD).into_iter().for_each(|later| later.prefetch());
            thread.stack_ptr.store(0, Ordering::Relaxed);
            if thread.save_area_used.load(Ordering::Relaxed) != 0 {
                thread.save_area_used.store(0, Ordering::Relaxed);
            }
        }
        match own {
            Some(own) => own.record().stack_ptr.store(own.stack_ptr(), Ordering::Relaxed),
            None => in_region.into_iter().for_each(ThreadStopInfo::use_saved_sp),
        }
        let mut world = StoppedWorld {
            threads: self,
            vtable: Some(match by {
                StopBy::InForce => Stopper::InForce(self.vtable.latch()),
                StopBy::BuiltIn => Stopper::BuiltIn(&self.built_in),
            }),
            locks,
            collecting,
            budget: Cell::new(budget),
            epoch,
            asked_at: clock::now_ns(),
            summary: StopSummary::default(),
        };
        inside::enter_as(tid);
        let stopped = world.with_vtable(|vtable, request| vtable.stop_world(request));
        if let Err(error) = stopped {
            inside::leave_as(tid);
            // The vtable has resumed every thread: nothing to start.
            world.vtable = None;
            self.published().stop_is_over();
            return Err(error);
        }
        match world.look_at_threads() {
            None => Ok(world),
            Some(bad) => {
                let stack_ptr = bad.stack_ptr();
                let stopper = world.stopper();
                drop(world);
                Err(bad_slot(bad, stack_ptr, stopper))
            }
        }
    }
}

/// Returns the calling thread's id, given its record if it is attached to the world.
fn id_of(collecting: Option<&ThreadStopInfo>) -> Tid {
    collecting.map_or_else(thread::gettid, ThreadStopInfo::tid)
}

/// Makes the error for a wrong slot, after the world runs again.
fn bad_slot(info: &ThreadStopInfo, stack_ptr: usize, stopper: &'static str) -> StopError {
    let (name, tid) = (info.name(), info.tid());
    match stack_ptr {
        0 => StopError::NoStackPointer { name, tid, stopper },
        _ => StopError::UnknownStack { name, tid, stack_ptr, stack: info.stack(), stopper },
    }
}

impl StoppedWorld<'_> {
    /// Returns every thread of the world, the collecting one included. Takes no lock, allocates nothing.
    pub(crate) fn live(&self) -> &[&'static ThreadStopInfo] {
        self.threads.live(&self.locks.list)
    }

    /// Calls `scan(low, high)` with each range of the thread's stack and registers. `stop` has checked that the stack pointer is
    /// in a known stack.
    pub(crate) fn scan_ranges(&self, info: &ThreadStopInfo, scan: impl FnMut(usize, usize)) {
        if info.is_gone() {
            return;
        }
        if self.is_collecting(info) && removed(Guard::StopOwnStack) {
            return;
        }
        let stack_ptr = info.stack_ptr();
        stacks::ranges(info, stack_ptr, stacks::locate(info, stack_ptr, self.other_stacks()), scan);
    }

    /// Calls `scan(low, high)` with each registered stack (`.stop.coroutine`).
    pub(crate) fn scan_registered_stacks(&self, mut scan: impl FnMut(usize, usize)) {
        if removed(Guard::StopCoroutine) {
            return;
        }
        for stack in self.registered() {
            scan(stack.bounds.low, stack.bounds.high);
        }
    }

    /// Returns the locks of the stop.
    pub(crate) fn locks(&self) -> &StopLocks<'_> {
        &self.locks
    }

    /// Looks at each thread once, after all have stopped: notes those that have ended without detaching, and makes the summary. Returns the
    /// first thread whose stack pointer is in no stack of its own.
    fn look_at_threads(&mut self) -> Option<&'static ThreadStopInfo> {
        let mut summary = StopSummary::default();
        let mut bad = None;
        for &thread in self.live() {
            // A thread in a blocking region was not signalled. If it has ended there, its stack may have been unmapped
            // (`.stop.silent-death`).
            if thread.has_died() {
                thread.mark_gone();
            }
            summary.threads += 1;
            summary.blocking += u32::from(thread.is_blocking());
            let ns = thread.stopped_at().saturating_sub(self.asked_at);
            if ns > summary.slowest.map_or(0, |slowest| slowest.ns) {
                summary.slowest = Some(Slowest { name: thread.name(), ns });
            }
            if bad.is_none() && !thread.is_gone() {
                let location = stacks::locate(thread, thread.stack_ptr(), self.other_stacks());
                bad = (location == Location::Nowhere).then_some(thread);
            }
        }
        self.summary = summary;
        bad
    }

    /// Returns the summary of the threads at this stop.
    pub(crate) fn summary(&self) -> StopSummary {
        self.summary
    }

    /// Returns whether other threads go on when the world is started: those that are stopped, and those that wait for a lock of the stop.
    pub(crate) fn holds_others_up(&self) -> bool {
        let is_stopped = |thread: &ThreadStopInfo| !thread.is_blocking() && !self.is_collecting(thread);
        self.live().iter().any(|thread| is_stopped(thread)) || self.locks.are_contended()
    }

    /// Calls `report(thread, activity, ns)` with each living thread, what it did when the stop was requested, and the nanoseconds until it had
    /// stopped.
    pub(crate) fn thread_stops(&self, mut report: impl FnMut(Tid, ThreadActivity, u64)) {
        for thread in self.live().iter().filter(|thread| !thread.is_gone()) {
            if self.is_collecting(thread) {
                report(thread.tid(), ThreadActivity::Collecting, 0);
                continue;
            }
            // A thread notes the time when it stops for a request. If it was stopped already, the time is that of an earlier stop.
            let (activity, ns) = match (thread.stopped_at().checked_sub(self.asked_at), thread.is_blocking()) {
                (Some(ns), false) => (ThreadActivity::Running, ns),
                (Some(ns), true) => (ThreadActivity::Entering, ns),
                (None, true) => (ThreadActivity::InRegion, 0),
                (None, false) => (ThreadActivity::Suspended, 0),
            };
            report(thread.tid(), activity, ns);
        }
    }

    fn is_collecting(&self, thread: &ThreadStopInfo) -> bool {
        self.collecting.is_some_and(|collecting| std::ptr::eq(collecting, thread))
    }

    /// Returns the name of the vtable that stopped the world.
    pub(crate) fn stopper(&self) -> &'static str {
        self.vtable.as_ref().map_or("", |vtable| vtable.with(|vtable| vtable.name()))
    }

    /// Returns whether threads of the process that belong to no world are stopped too.
    pub(crate) fn is_whole_process(&self) -> bool {
        self.with_vtable(|vtable, _| vtable.revocable_stop().is_some_and(|stop| stop.stops_whole_process()))
    }

    /// Returns whether the vtable that stopped the world still holds all its threads.
    pub(crate) fn still_holds(&self) -> Result<(), LostStop> {
        self.with_vtable(|vtable, request| match vtable.revocable_stop() {
            Some(stop) => stop.still_holds(request),
            None => Ok(()),
        })
    }

    /// Starts the world. Returns the nanoseconds that the call took.
    pub(crate) fn start(mut self) -> u64 {
        let began = clock::now_ns();
        self.let_go();
        clock::now_ns() - began
    }

    fn let_go(&mut self) {
        if self.vtable.is_some() {
            self.with_vtable(|vtable, request| vtable.start_world(request));
            inside::leave_as(id_of(self.collecting));
            self.vtable = None;
            self.threads.published().stop_is_over();
        }
        // No thread is stopped any more: allocation is allowed again.
        self.threads.remove_ended_threads(&mut self.locks);
    }

    fn with_vtable<R>(&self, call: impl FnOnce(&Vtable, &StopRequest<'_>) -> R) -> R {
        let request = StopRequest {
            live: self.live(),
            collecting: self.collecting,
            handshake: &self.threads.handshake,
            epoch: self.epoch,
            requested_at: self.asked_at,
            world: self.threads.published(),
            budget: &self.budget,
        };
        // `vtable` is set from the stop to the start; only `let_go` and a failed stop clear it.
        self.vtable.as_ref().expect("latched").with(|vtable| call(vtable, &request))
    }

    fn registered(&self) -> &[RegisteredStack] {
        self.threads.registered(&self.locks.list)
    }

    fn other_stacks(&self) -> OtherStacks<'_> {
        OtherStacks { registered: self.registered(), foreign: self.threads.foreign() }
    }
}

impl Drop for StoppedWorld<'_> {
    fn drop(&mut self) {
        self.let_go();
    }
}
