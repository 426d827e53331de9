//! The proof that a heap's world is stopped.

use crate::sync::LockGuard;

/// Proof that no thread allocates in a heap or sweeps it: all threads of its world are stopped, none of them inside the sweep gate,
/// and the collecting thread holds the allocation lock. What only the collector may do asks for one; which world's it
/// is can be checked by the lock.
#[derive(Clone, Copy)]
pub(crate) struct WorldStopped<'a> {
    allocation: &'a LockGuard<'a>,
}

impl<'a> WorldStopped<'a> {
    /// The proof for the world whose allocation lock this is the guard of.
    ///
    /// # Safety
    /// For as long as the guard is borrowed, every thread of that world is stopped but the calling one, which neither allocates nor
    /// sweeps, and none is inside the sweep gate.
    pub(crate) unsafe fn assume(allocation: &'a LockGuard<'_>) -> Self {
        Self { allocation }
    }

    /// The guard of the allocation lock.
    #[inline]
    pub(crate) fn allocation(self) -> &'a LockGuard<'a> {
        self.allocation
    }
}
