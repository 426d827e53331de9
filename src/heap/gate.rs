//! The sweep gate: no stop begins while a thread is sweeping a block that it has taken from its list and not yet installed.
//!
//! A thread that takes a block from its list sweeps it outside the allocation lock; otherwise two threads could not sweep at the
//! same time. But when the world stops, no block may be half swept (its marks are those of the previous collection). So a
//! thread enters the gate while it still holds the allocation lock, and leaves it when the block is installed. The collecting
//! thread takes that lock, so that no other thread can enter, and then waits here before it sends the first signal. A sweep takes
//! a microsecond or two.

use crate::os::clock::Budget;
use crate::os::futex;
use crate::sync::{AtomicU32, LockGuard, Ordering};

/// Set while a thread waits for the gate to be empty.
const AWAITED: u32 = 1 << 31;
/// The length of one wait in the kernel, after which the budget is checked again.
const SLICE_NS: u64 = 5_000_000;

/// Counts the threads that are sweeping.
pub(crate) struct SweepGate {
    word: AtomicU32,
}

impl SweepGate {
    pub(crate) const fn new() -> Self {
        Self { word: AtomicU32::new(0) }
    }

    /// Enters the gate. The caller holds the allocation lock.
    pub(crate) fn enter(&self, _held: &LockGuard<'_>) -> Sweeping<'_> {
        // Release: pairs with the Acquire of `wait_until_empty`: the block that the thread recorded before (`while_sweeping`) is visible.
        self.word.fetch_add(1, Ordering::Release);
        Sweeping(self)
    }

    /// Waits, under the allocation lock, until no thread is sweeping. Returns false if the time budget is used up before that.
    pub(crate) fn wait_until_empty(&self, _held: &LockGuard<'_>, budget: &mut Budget) -> bool {
        let empty = loop {
            // Acquire: pairs with the Release of `Sweeping::drop`: the whole swept block is visible.
            let word = self.word.load(Ordering::Acquire);
            if word & !AWAITED == 0 {
                break true;
            }
            if word & AWAITED == 0 {
                self.word.fetch_or(AWAITED, Ordering::Relaxed);
                continue;
            }
            if budget.slice(SLICE_NS, |ns| futex::wait(&self.word, word, Some(ns))).is_none() {
                break false;
            }
        };
        self.word.fetch_and(!AWAITED, Ordering::Relaxed);
        empty
    }

    /// Called in a child process, where the threads that were sweeping do not exist.
    pub(crate) fn reset(&self) {
        self.word.store(0, Ordering::Relaxed);
    }
}

/// A thread's presence in the gate, which ends when this is dropped.
pub(crate) struct Sweeping<'a>(&'a SweepGate);

impl Drop for Sweeping<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of `wait_until_empty`.
        if self.0.word.fetch_sub(1, Ordering::Release) == AWAITED | 1 {
            futex::wake(&self.0.word, 1);
        }
    }
}
