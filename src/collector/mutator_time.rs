//! Time for the mutators between collections that a program requests (`.stop.progress`).
//!
//! # The problem
//!
//! A thread that a collection has released runs when a processor is free for it: after some tens of microseconds, or later on a busy
//! machine. A collection of a small heap takes less. If a thread requests one collection after the other, each stop finds the other
//! threads before their first instruction: they are still PARKED, or they run only to the next signal. They make no progress, although
//! processors are free.
//!
//! # The rule
//!
//! After a collection, the threads that it has stopped run for at least as long as the pause was, but not less than [`SHORTEST_NS`] and
//! not more than [`LONGEST_NS`]. A thread that requests a collection earlier waits in a blocking region.
//!
//! # Limits
//!
//! The rule does not concern collections that allocation causes: a thread has allocated a whole budget since the last one. Several
//! threads that wait for their turn collect one after the other, and the rule holds for them together. A thread that gets no
//! processor for longer than [`LONGEST_NS`] may be stopped again before it runs.

use super::report::Reason;
use crate::os::clock::now_ns;
use crate::os::thread::sleep_ns;
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU64, Ordering};
use crate::world::registry::Threads;

/// Longer than an idle processor needs to wake up and to run a thread.
const SHORTEST_NS: u64 = 200_000;

/// A program that requests a collection waits no longer than this.
const LONGEST_NS: u64 = 1_000_000;

/// The time that the mutators of one world have to run.
pub(super) struct MutatorTime {
    /// When their time ends, by the monotonic clock.
    ends_at: AtomicU64,
}

impl MutatorTime {
    pub(super) fn new() -> Self {
        Self { ends_at: AtomicU64::new(0) }
    }

    /// Begins their time, after a pause of this length. Called by the collecting thread when the world runs again.
    pub(super) fn begin(&self, pause_ns: u64) {
        let ends_at = now_ns() + pause_ns.clamp(SHORTEST_NS, LONGEST_NS);
        self.ends_at.store(ends_at, Ordering::Relaxed);
    }

    /// Waits for the end of their time before a collection that is requested. Called without a lock.
    pub(super) fn wait(&self, threads: &Threads, reason: Reason) {
        let ends_at = self.ends_at.load(Ordering::Relaxed);
        if reason != Reason::Explicit || now_ns() >= ends_at || removed(Guard::StopProgress) {
            return;
        }
        threads.blocking_until(|| {
            while let Some(ns) = ends_at.checked_sub(now_ns()).filter(|&ns| ns > 0) {
                sleep_ns(ns);
            }
        });
    }
}
