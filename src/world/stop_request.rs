//! One stop, as a stopper sees it: the threads to stop, and the time that is left.

use std::cell::Cell;
use std::time::Duration;

use crate::os::clock::Budget;
use crate::sync::Ordering;

use super::error::{SilentThread, StopAttempts, StopError};
use super::handshake::Handshake;
use super::inside;
use super::published::PublishedWorld;
use super::stop_info::ThreadStopInfo;

/// One stop of one world: the argument of [`stop_world`](crate::ThreadVtable::stop_world) and
/// [`start_world`](crate::ThreadVtable::start_world).
pub struct StopRequest<'a> {
    pub(super) live: &'a [&'static ThreadStopInfo],
    pub(super) collecting: Option<&'static ThreadStopInfo>,
    pub(super) handshake: &'a Handshake,
    pub(super) epoch: u64,
    pub(super) requested_at: u64,
    pub(super) world: &'a PublishedWorld,
    pub(super) budget: &'a Cell<Budget>,
}

impl StopRequest<'_> {
    /// Returns the threads to stop: all threads of the world, except the collecting one and those that do not exist any more.
    pub fn threads(&self) -> impl Iterator<Item = &'static ThreadStopInfo> + '_ {
        let skipped = self.collecting.map_or(std::ptr::null(), std::ptr::from_ref);
        self.live.iter().copied().filter(move |thread| !std::ptr::eq(*thread, skipped) && !thread.is_gone())
    }

    /// Returns whether `thread` belongs to the world and is not the collecting one, in constant time: for a vtable that serves
    /// several worlds. Also `true` for threads that do not exist any more: a vtable releases those too.
    pub fn concerns(&self, thread: &ThreadStopInfo) -> bool {
        // The index of another world's thread may change at this moment; it then selects a different record, or none.
        let listed = self.live.get(thread.index.load(Ordering::Relaxed) as usize);
        let is_collecting = self.collecting.is_some_and(|collecting| std::ptr::eq(collecting, thread));
        listed.is_some_and(|listed| std::ptr::eq(*listed, thread)) && !is_collecting
    }

    /// Returns the collecting thread, if it is attached to the world; it may be in a blocking region. The vtable must not stop it.
    /// Its slot is filled already.
    pub fn collecting(&self) -> Option<&'static ThreadStopInfo> {
        self.collecting
    }

    /// Returns the part of the world that debuggers can read.
    pub fn world(&self) -> &PublishedWorld {
        self.world
    }

    pub(crate) fn handshake(&self) -> &Handshake {
        self.handshake
    }

    /// Returns the number of this stop: 1 for the first stop of the world, then one more for each.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the time of this request, by CLOCK_MONOTONIC in nanoseconds. The events of a collection measure from it how long each
    /// thread took to stop, until its [`stopped_at`](ThreadStopInfo::stopped_at).
    pub fn requested_at(&self) -> u64 {
        self.requested_at
    }

    /// Returns the configured time for a stop.
    pub fn within(&self) -> Duration {
        self.budget.get().total()
    }

    /// Calls `wait` with the length of the next slice of waiting, in nanoseconds, at most `longest_ns`, and returns its result.
    /// Returns `None` when the time for this stop is used up. The time that `wait` took is charged, but at most the slice's
    /// length: time in which the whole process was stopped does not count (`.stop.jobcontrol`).
    pub fn wait_slice<R>(&self, longest_ns: u64, wait: impl FnOnce(u64) -> R) -> Option<R> {
        let mut budget = self.budget.get();
        let result = budget.slice(longest_ns, wait);
        self.budget.set(budget);
        result
    }

    /// Returns how much of the time for this stop is used up.
    pub fn spent(&self) -> Duration {
        self.budget.get().spent()
    }

    /// Makes the error for threads that did not stop; `signal` is the signal that was sent to them, or 0. Reads /proc and
    /// allocates: call it only after every thread has been resumed.
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
