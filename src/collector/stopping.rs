//! Stops the world for a collection: takes every lock that the stopped world needs, then stops the threads.

use std::ops::Deref;

use super::caches::cache_of;
use super::error::CollectError;
use super::scopes::SLICE_NS;
use super::state::Collector;
use crate::heap::stopped::WorldStopped;
use crate::os::clock::Budget;
use crate::os::futex;
use crate::sync::{AtomicU32, HeldBy, Lock, LockGuard, Ordering};
use crate::world::Tid;
use crate::world::error::{SilenceReason, StopError};
use crate::world::locks::StopLocks;
use crate::world::region::OwnStack;
use crate::world::stop::{StopBy, StoppedWorld};
use crate::world::stop_info::ThreadStopInfo;

impl Collector {
    /// Takes the world's locks, when no thread is in a scope. No thread enters one while they are held.
    ///
    /// # Errors
    /// A scope did not end in time, or the calling thread is in one; or a lock could not be taken in time.
    pub(super) fn lock_outside_scopes(&self, budget: &mut Budget) -> Result<StopLocks<'_>, CollectError> {
        if self.own_thread_is_in_scope() {
            return Err(CollectError::InScope);
        }
        let wait = |budget: &mut Budget, word: &AtomicU32, value| {
            budget.slice(SLICE_NS, |ns| futex::wait(word, value, Some(ns))).is_some()
        };
        let locks = self.scopes.lock_outside(budget, wait, |budget| self.threads.lock_for_stop(budget))?;
        locks.map_err(|threads| CollectError::ScopesOpen { threads, within: budget.total() })
    }

    /// Whether the calling thread is in a scope of an arena of this world.
    pub(crate) fn own_thread_is_in_scope(&self) -> bool {
        let record = self.threads.own_record();
        // SAFETY: the calling thread's own record; the thread does not detach here.
        record.and_then(|record| unsafe { cache_of(record) }).is_some_and(|cache| cache.arena.is_in_scope())
    }

    /// Takes the finalizer tables' lock, whose holder a debugger may have suspended (`.debug.frozen-owner`).
    pub(super) fn lock_finalizers(&self, budget: &mut Budget) -> Result<LockGuard<'_>, StopError> {
        let held = |HeldBy(tid), within| self.threads.lock_denied("finalizer", Tid(tid as i32), within);
        self.finalizers.lock.lock_within(budget).map_err(|holder| held(holder, budget.total()))
    }

    /// Takes the locks of the tables of handles and ranges. Threads that no stop reaches (unattached threads, those in blocking
    /// regions) may clone and drop handles too. A handle that is cloned into a slot that the scan has passed, and dropped in a
    /// slot that the scan has not reached, would be missed (`.root.race`).
    pub(super) fn lock_handles<'a>(&'a self, budget: &mut Budget) -> Result<(LockGuard<'a>, LockGuard<'a>), StopError> {
        let mut lock = |table: &'static str, lock: &'a Lock| {
            let held = |HeldBy(tid), within| self.threads.lock_denied(table, Tid(tid as i32), within);
            lock.lock_within(budget).map_err(|holder| held(holder, budget.total()))
        };
        let roots = lock("root handle", &self.roots.lock)?;
        let ranges = lock("registered range", &self.ranges.lock)?;
        Ok((ranges, roots))
    }

    /// Takes the lock of the sampled allocations, if the world has them.
    pub(super) fn lock_samples(&self, budget: &mut Budget) -> Result<Option<LockGuard<'_>>, StopError> {
        let Some(samples) = &self.samples else { return Ok(None) };
        let held = |HeldBy(tid), within| self.threads.lock_denied("allocation samples", Tid(tid as i32), within);
        samples.lock().lock_within(budget).map(Some).map_err(|holder| held(holder, budget.total()))
    }

    /// Waits until no thread is sweeping a block: no thread may be in the middle of a sweep when the world stops.
    pub(super) fn wait_for_sweeps<'a>(
        &self,
        locks: StopLocks<'a>,
        budget: &mut Budget,
    ) -> Result<QuietLocks<'a>, StopError> {
        loop {
            if self.heap.wait_for_sweeps(&locks.allocation, budget) {
                return Ok(QuietLocks(locks));
            }
            let is_sweeping = |record: &ThreadStopInfo| {
                // SAFETY: the allocation lock and the list lock are held.
                unsafe { cache_of(record) }.is_some_and(|cache| cache.sweeping().is_some())
            };
            let error = self.threads.blocked_by(&locks, budget.total(), is_sweeping);
            if error.unanswered() > 0 {
                return Err(error);
            }
            // The threads that were sweeping have left the gate, and no thread can enter it.
        }
    }

    /// Calls [`Threads::stop`]. `locks` prove that no thread is sweeping.
    pub(super) fn stop<'a>(
        &'a self,
        locks: QuietLocks<'a>,
        own: Option<&OwnStack>,
        by: StopBy,
        budget: Budget,
    ) -> Result<Stopped<'a>, StopError> {
        self.threads.stop(locks.0, own, by, budget).map(Stopped)
    }

    /// Names the finalizer, if the finalizer thread is among those that did not stop and there is no other explanation.
    pub(super) fn with_finalizer(&self, mut error: StopError) -> StopError {
        let StopError::Unanswered { threads, .. } = &mut error else { return error };
        let runner = Tid(self.finalizers.thread.load(Ordering::Relaxed) as i32);
        let is_unexplained =
            |reason: &SilenceReason| matches!(reason, SilenceReason::NoSafepoint | SilenceReason::Unknown);
        if let Some(running) = self.finalizers.running()
            && let Some(thread) =
                threads.iter_mut().find(|thread| thread.tid == runner && is_unexplained(&thread.reason))
        {
            thread.reason = SilenceReason::InFinalizer { type_name: running.type_name, running: running.since };
        }
        error
    }
}

/// The locks of a stop, held when no thread is in the sweep gate. While they are held, no thread can enter the gate.
pub(super) struct QuietLocks<'a>(StopLocks<'a>);

/// The stopped world. No thread is sweeping its heap.
pub(super) struct Stopped<'a>(pub(super) StoppedWorld<'a>);

impl Stopped<'_> {
    /// The heap's proof that the world is stopped.
    pub(super) fn proof(&self) -> WorldStopped<'_> {
        // SAFETY: every other thread is stopped as long as `self` exists. It was made from `QuietLocks`, so no thread is in the
        // sweep gate. Only the collecting thread has it, and that thread neither allocates nor sweeps.
        unsafe { WorldStopped::assume(&self.0.locks().allocation) }
    }
}

impl<'a> Deref for Stopped<'a> {
    type Target = StoppedWorld<'a>;

    fn deref(&self) -> &StoppedWorld<'a> {
        &self.0
    }
}
