//! The proof that a heap's world is stopped.

use std::marker::PhantomData;

use crate::sync::LockGuard;

/// Proof that no thread allocates in a heap or sweeps it: all threads of its world are stopped, none of them inside the sweep
/// gate, and the collecting thread holds the allocation lock. Functions that only the collector may call require this proof; the
/// lock shows to which world it belongs.
#[derive(Clone, Copy)]
pub(crate) struct WorldStopped<'a> {
    allocation: &'a LockGuard<'a>,
}

/// What the helpers of the collecting thread get of the proof: no thread allocates or sweeps. They do not have the allocation lock.
#[derive(Clone, Copy)]
pub(crate) struct NoMutatorRuns<'a> {
    proof: PhantomData<&'a ()>,
}

impl<'a> WorldStopped<'a> {
    /// Makes the proof for the world to whose allocation lock this guard belongs.
    ///
    /// # Safety
    /// For as long as the guard is borrowed, every thread of that world except the calling one is stopped; the calling one
    /// neither allocates nor sweeps; and no thread is inside the sweep gate.
    pub(crate) unsafe fn assume(allocation: &'a LockGuard<'_>) -> Self {
        Self { allocation }
    }

    /// The part of the proof that helpers may have.
    pub(crate) fn for_helpers(self) -> NoMutatorRuns<'a> {
        NoMutatorRuns { proof: PhantomData }
    }

    /// The guard of the allocation lock.
    #[inline]
    pub(crate) fn allocation(self) -> &'a LockGuard<'a> {
        self.allocation
    }
}
