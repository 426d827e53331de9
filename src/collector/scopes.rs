//! Scopes of arenas ([`crate::Arena`]): no collection begins while a thread of the world is in one.
//!
//! In a scope, safe code keeps references wherever it likes, so nothing may be freed. A thread enters while it holds the allocation lock. The
//! collecting thread waits here without a lock, because a thread in a scope allocates; then it takes the world's locks, and looks
//! again: while it holds them, no thread can enter (`.arena.scopes`).

use crate::os::clock::Budget;
use crate::os::futex;
use crate::sync::{AtomicU32, LockGuard, Ordering};

/// Set while a thread waits for the last scope to end.
const AWAITED: u32 = 1 << 31;
/// The length of one wait in the kernel, after which the state is read again.
const SLICE_NS: u64 = 5_000_000;

/// Counts the threads that are in a scope.
pub(crate) struct Scopes {
    word: AtomicU32,
}

impl Scopes {
    pub(super) const fn new() -> Self {
        Self { word: AtomicU32::new(0) }
    }

    /// Enters a scope. The caller holds the allocation lock.
    pub(crate) fn enter(&self, _held: &LockGuard<'_>) {
        // Relaxed: the allocation lock orders it before the look of a collecting thread.
        self.word.fetch_add(1, Ordering::Relaxed);
    }

    /// Leaves a scope.
    pub(crate) fn leave(&self) {
        // Release: pairs with the Acquire of `wait_until_empty`. The stop that follows orders the objects themselves.
        if self.word.fetch_sub(1, Ordering::Release) == AWAITED | 1 {
            futex::wake(&self.word, u32::MAX);
        }
    }

    /// Waits a moment if a collection waits for the scopes to end. Returns whether it does not: then a thread may enter. For a thread that
    /// counts as blocking.
    pub(crate) fn may_enter(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let is_awaited = word & AWAITED != 0;
        if is_awaited {
            futex::wait(&self.word, word, Some(SLICE_NS));
        }
        !is_awaited
    }

    /// The number of threads in a scope.
    pub(super) fn count(&self) -> u32 {
        // Acquire: pairs with the Release of `leave`.
        self.word.load(Ordering::Acquire) & !AWAITED
    }

    /// Waits until no thread is in a scope. Returns false if the time budget is used up before that.
    pub(super) fn wait_until_empty(&self, budget: &mut Budget) -> bool {
        let is_empty = loop {
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
        if self.word.fetch_and(!AWAITED, Ordering::Relaxed) & AWAITED != 0 {
            // Threads that want to enter, and other threads that collect.
            futex::wake(&self.word, u32::MAX);
        }
        is_empty
    }

    /// Called in the child of a fork, where only the calling thread exists, which is in a scope or is not.
    pub(crate) fn forget_others_in_child(&self, is_in_scope: bool) {
        self.word.store(u32::from(is_in_scope), Ordering::Relaxed);
    }
}
