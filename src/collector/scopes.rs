//! Scopes of arenas (`Arena`): no collection begins while a thread of the world is in one.
//!
//! In a scope, safe code keeps references wherever it likes, so nothing may be freed. A thread enters while it holds the allocation lock. The
//! collecting thread waits here without a lock, because a thread in a scope allocates; then it takes the world's locks, and looks
//! again: while it holds them, no thread can enter (`.arena.scopes`).

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, LockGuard, Ordering, const_new, port};

/// Set while a thread waits for the last scope to end.
const AWAITED: u32 = 1 << 31;
/// The length of one wait in the kernel, after which the state is read again.
pub(crate) const SLICE_NS: u64 = 5_000_000;

/// Counts the threads that are in a scope.
pub(crate) struct Scopes {
    word: AtomicU32,
}

impl Scopes {
    const_new! {
        pub(crate) fn new() -> Self {
            Self { word: AtomicU32::new(0) }
        }
    }

    /// Waits a moment if a collection waits for the scopes to end. Returns whether it does not: then a thread may enter. For a thread that
    /// counts as blocking.
    pub(crate) fn may_enter(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let is_awaited = word & AWAITED != 0;
        if is_awaited {
            port::wait(&self.word, word, Some(SLICE_NS));
        }
        !is_awaited
    }

    /// Enters a scope. The caller holds the allocation lock.
    pub(crate) fn enter(&self, _held: &LockGuard<'_>) {
        // Relaxed: the allocation lock orders it before the second look of a collecting thread.
        self.word.fetch_add(1, Ordering::Relaxed);
    }

    /// Leaves a scope.
    pub(crate) fn leave(&self) {
        // Release: pairs with the Acquire of `count`: what the thread did in the scope happens before the collection.
        if self.word.fetch_sub(1, Ordering::Release) == AWAITED | 1 {
            port::wake(&self.word, u32::MAX);
        }
    }

    /// The number of threads in a scope.
    pub(crate) fn count(&self) -> u32 {
        // Acquire: pairs with the Release of `leave`.
        self.word.load(Ordering::Acquire) & !AWAITED
    }

    /// Takes the locks of a stop by `lock`, when no thread is in a scope. No thread enters one while they are held. `wait` waits a slice of
    /// time until the word is not the value, and returns false if its time is used up: then this returns the number of threads in a scope.
    ///
    /// # Errors
    /// Those of `lock`.
    pub(crate) fn lock_outside<B, L, E>(
        &self,
        budget: &mut B,
        wait: impl Fn(&mut B, &AtomicU32, u32) -> bool,
        lock: impl Fn(&mut B) -> Result<L, E>,
    ) -> Result<Result<L, u32>, E> {
        if removed(Guard::ArenaScopes) {
            return lock(budget).map(Ok);
        }
        loop {
            if let Err(threads) = self.wait_until_empty(|word, value| wait(budget, word, value)) {
                return Ok(Err(threads));
            }
            let locks = lock(budget)?;
            if self.count() == 0 {
                return Ok(Ok(locks));
            }
        }
    }

    fn wait_until_empty(&self, mut wait: impl FnMut(&AtomicU32, u32) -> bool) -> Result<(), u32> {
        let is_empty = loop {
            if self.count() == 0 {
                break Ok(());
            }
            let word = self.word.fetch_or(AWAITED, Ordering::Relaxed) | AWAITED;
            if word != AWAITED && !wait(&self.word, word) {
                break Err(word & !AWAITED);
            }
        };
        if self.word.fetch_and(!AWAITED, Ordering::Relaxed) & AWAITED != 0 {
            // Threads that want to enter, and other threads that collect.
            port::wake(&self.word, u32::MAX);
        }
        is_empty
    }

    /// Called in the child of a fork, where only the calling thread exists, which is in a scope or is not.
    pub(crate) fn forget_others_in_child(&self, is_in_scope: bool) {
        self.word.store(u32::from(is_in_scope), Ordering::Relaxed);
    }
}
