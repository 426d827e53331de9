//! The world's three locks, and the only order in which they are taken.
//!
//! ```text
//!   collection  →  allocation  →  thread list
//! ```
//!
//! * **Collection**: one collection at a time (`.stop.two-collectors`).
//! * **Allocation**: the heap's shared structures; and whoever tells the thread vtable about a thread, so that the
//!   vtable hears of a thread before it can allocate, and never in the middle of a stop
//!   (`.vtable.created-under-lock`).
//! * **Thread list**: which records are threads. A thread comes to life and goes under it, so the set of threads
//!   stands still from the first signal of a stop to the restart (`.stop.create-race`, `.stop.exit-race`).
//!
//! A stop takes all three before its first signal and keeps them until the threads are let go: then no stopped thread
//! holds one, since to be stopped it must have been outside. A thread that *waits* for one of them is stopped where
//! it waits: by a signal in its futex, or, under cooperative stopping, because it counts as blocking there.
//!
//! All zero bytes are three free locks.

use crate::sabotage::{Guard, removed};
use crate::sync::lock::Patience;
use crate::sync::{HeldBy, Lock, LockGuard, const_new, interrupt_point};

/// One of the world's locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The collection lock.
    Collection,
    /// The allocation lock.
    Allocation,
    /// The thread list lock.
    List,
}

/// A stop could not begin: a lock was not let go in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    /// Which lock.
    pub(crate) which: Which,
    /// Who held it at the end of our patience: the kernel's thread number (`.debug.frozen-owner`).
    pub(crate) holder: HeldBy,
}

/// The three locks of a world.
#[derive(Debug)]
pub(crate) struct WorldLocks {
    /// One collection at a time.
    pub(crate) collection: Lock,
    /// The heap's shared structures, and what the vtable is told.
    pub(crate) allocation: Lock,
    /// Which records are threads.
    pub(crate) list: Lock,
}

/// What a stop holds. Let go in the reverse order.
#[derive(Debug)]
#[must_use = "the locks of a stop are let go when this is dropped"]
pub(crate) struct StopLocks<'a> {
    // In the order in which they are dropped.
    pub(crate) list: LockGuard<'a>,
    pub(crate) allocation: LockGuard<'a>,
    _collection: LockGuard<'a>,
}

impl WorldLocks {
    const_new! {
        /// Three free locks.
        pub(crate) fn new() -> Self {
            Self { collection: Lock::new(), allocation: Lock::new(), list: Lock::new() }
        }
    }

    /// Takes all three for a stop, or none.
    ///
    /// `as_blocking` runs what it is given as a blocking region of the calling thread, if that is one of the threads
    /// that stops hold: then whoever has the locks can stop the world without it (`.stop.two-collectors`). When the
    /// thread has the locks, no collection holds anything, so that it comes back from the region at once. A user may have
    /// suspended it meanwhile; then `as_blocking` drops the locks before the thread stands, and asks for them anew
    /// (`.debug.frozen-waiter`).
    pub(crate) fn for_stop<'a>(
        &'a self,
        as_blocking: impl FnOnce(&mut dyn FnMut() -> Result<StopLocks<'a>, Denied>) -> Result<StopLocks<'a>, Denied>,
        patience: &mut impl Patience,
    ) -> Result<StopLocks<'a>, Denied> {
        let mut take = || self.in_order(patience);
        if removed(Guard::StopTwoCollectors) { take() } else { as_blocking(&mut take) }
    }

    fn in_order(&self, patience: &mut impl Patience) -> Result<StopLocks<'_>, Denied> {
        let denied = |which| move |holder| Denied { which, holder };
        let collection = self.collection.lock_within(patience).map_err(denied(Which::Collection))?;
        interrupt_point();
        let allocation = self.allocation.lock_within(patience).map_err(denied(Which::Allocation))?;
        interrupt_point();
        let list = self.list.lock_within(patience).map_err(denied(Which::List))?;
        Ok(StopLocks { list, allocation, _collection: collection })
    }

    /// Takes all three, however long that takes.
    pub(crate) fn all(&self) -> StopLocks<'_> {
        let collection = self.collection.lock();
        let allocation = self.allocation.lock();
        StopLocks { list: self.list.lock(), allocation, _collection: collection }
    }

    /// A thread comes to life: `enlist` makes its record visible to stops, under the list lock, whose guard it gets; `created` tells
    /// the vtable. When this returns the thread may allocate.
    pub(crate) fn thread_created<R>(
        &self,
        enlist: impl FnOnce(&mut LockGuard<'_>) -> R,
        created: impl FnOnce(&R),
    ) -> R {
        let allocation = (!removed(Guard::VtableCreatedUnderLock)).then(|| self.allocation.lock());
        let record = if removed(Guard::StopCreateRace) {
            // SAFETY: none: this is the known-bad variant, which enlists without the lock.
            enlist(&mut *unsafe { self.list.assume_held() })
        } else {
            enlist(&mut self.list.lock())
        };
        interrupt_point();
        created(&record);
        drop(allocation);
        record
    }

    /// A thread detaches: `exited` notifies the vtable while the record is still whole; then `delist`, which gets the guard of
    /// the list lock, gives the record up.
    ///
    /// Returns `None`, and has done nothing, if a user has suspended the thread while it waited for the locks: the thread must
    /// then park without the locks and call again (`.debug.frozen-waiter`). Suspensions are made under the list lock; one that is
    /// made after the check, when the vtable has been notified already, ends with the record.
    pub(crate) fn thread_exited<R>(
        &self,
        is_suspended: impl FnOnce() -> bool,
        exited: impl FnOnce(),
        delist: impl FnOnce(&mut LockGuard<'_>) -> R,
    ) -> Option<R> {
        let _allocation = self.allocation.lock();
        {
            let _list = self.list.lock();
            if is_suspended() && !removed(Guard::DebugFrozenWaiter) {
                return None;
            }
        }
        exited();
        Some(delist(&mut self.list.lock()))
    }

    /// In the child of a `fork`, whose only thread took them before the fork under its parent's number.
    ///
    /// # Safety
    /// The caller is the only thread of the process and has no guard of these locks.
    pub(crate) unsafe fn reset_in_child(&self) {
        for lock in [&self.list, &self.allocation, &self.collection] {
            // SAFETY: the caller's promise.
            unsafe { lock.reset_in_child() };
        }
    }
}
