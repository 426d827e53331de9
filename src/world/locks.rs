//! The three locks of a world, and the only order in which they are taken.
//!
//! ```text
//!   collection  →  allocation  →  thread list
//! ```
//!
//! * **Collection**: one collection at a time (`.stop.two-collectors`).
//! * **Allocation**: guards the heap's shared structures. The thread vtable is notified of new and ended threads under it, so it
//!   is notified of a thread before the thread can allocate, and never in the middle of a stop
//!   (`.vtable.created-under-lock`).
//! * **Thread list**: guards the list of attached threads. Threads attach and detach under it, so the set of threads
//!   is constant from the first signal of a stop to the restart (`.stop.create-race`, `.stop.exit-race`).
//!
//! A stop takes all three locks before its first signal and keeps them until the threads are resumed. So no stopped thread
//! holds one of them. A thread that *waits* for one of them is stopped where it waits: by a signal in its futex, or, under
//! cooperative stopping, because it counts as blocking there.
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

/// A stop could not begin: a lock was not released in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    /// The lock that was not released.
    pub(crate) which: Which,
    /// The thread that held the lock when the time limit was reached: the kernel's thread id (`.debug.frozen-owner`).
    pub(crate) holder: HeldBy,
}

/// The three locks of a world.
#[derive(Debug)]
pub(crate) struct WorldLocks {
    /// Held by a collection: there is one at a time.
    pub(crate) collection: Lock,
    /// Guards the heap's shared structures; held while the vtable is notified of a thread.
    pub(crate) allocation: Lock,
    /// Guards the list of attached threads.
    pub(crate) list: Lock,
}

/// The three locks, held for a stop. Released in the reverse order.
#[derive(Debug)]
#[must_use = "the locks of a stop are released when this is dropped"]
pub(crate) struct StopLocks<'a> {
    // In the order in which they are dropped.
    pub(crate) list: LockGuard<'a>,
    pub(crate) allocation: LockGuard<'a>,
    collection: LockGuard<'a>,
}

impl StopLocks<'_> {
    /// Returns whether a thread may be waiting for one of the locks.
    pub(crate) fn are_contended(&self) -> bool {
        [&self.list, &self.allocation, &self.collection].iter().any(|lock| lock.is_contended())
    }
}

impl WorldLocks {
    const_new! {
        /// Creates three free locks.
        pub(crate) fn new() -> Self {
            Self { collection: Lock::new(), allocation: Lock::new(), list: Lock::new() }
        }
    }

    /// Takes all three locks for a stop, or none of them.
    ///
    /// `as_blocking` runs its argument in a blocking region of the calling thread, if the thread is attached. So a thread that has
    /// the locks can stop the world without waiting for this thread (`.stop.two-collectors`). Once this thread has the locks, no
    /// collection holds it, and it leaves the region at once. If a user has suspended this thread meanwhile, `as_blocking`
    /// drops the locks before the thread parks, and takes them again afterwards (`.debug.frozen-waiter`).
    pub(crate) fn for_stop<'a>(
        &'a self,
        as_blocking: impl FnOnce(&mut dyn FnMut() -> Result<StopLocks<'a>, Denied>) -> Result<StopLocks<'a>, Denied>,
        patience: &mut impl Patience,
    ) -> Result<StopLocks<'a>, Denied> {
        let mut take = || self.in_order(patience);
        if removed(Guard::StopTwoCollectors) { take() } else { as_blocking(&mut take) }
    }

    /// Returns the lock that a denied stop waits for in the end, and its holder: the holder of a lock may itself wait for the next one. A thread
    /// that forks does so, and one that collects. A hint: locks may have changed hands meanwhile.
    pub(crate) fn in_the_way(&self, denied: Denied) -> Denied {
        let later: &[_] = match denied.which {
            Which::Collection => &[(Which::Allocation, &self.allocation), (Which::List, &self.list)],
            Which::Allocation => &[(Which::List, &self.list)],
            Which::List => &[],
        };
        later.iter().fold(denied, |found, (which, lock)| match lock.holder() {
            Some(holder) if holder != found.holder.0 => Denied { which: *which, holder: HeldBy(holder) },
            _ => found,
        })
    }

    fn in_order(&self, patience: &mut impl Patience) -> Result<StopLocks<'_>, Denied> {
        let denied = |which| move |holder| Denied { which, holder };
        let collection = self.collection.lock_within(patience).map_err(denied(Which::Collection))?;
        interrupt_point();
        let allocation = self.allocation.lock_within(patience).map_err(denied(Which::Allocation))?;
        interrupt_point();
        let list = self.list.lock_within(patience).map_err(denied(Which::List))?;
        Ok(StopLocks { list, allocation, collection })
    }

    /// Takes all three locks, without a time limit.
    pub(crate) fn all(&self) -> StopLocks<'_> {
        let collection = self.collection.lock();
        let allocation = self.allocation.lock();
        StopLocks { list: self.list.lock(), allocation, collection }
    }

    /// Attaches a thread: calls `enlist` under the list lock, with its guard, to make the thread's record visible to stops; then `created`,
    /// to notify the vtable. When this returns the thread may allocate.
    pub(crate) fn thread_created<R>(
        &self,
        enlist: impl FnOnce(&mut LockGuard<'_>) -> R,
        created: impl FnOnce(&R),
    ) -> R {
        let allocation = (!removed(Guard::VtableCreatedUnderLock)).then(|| self.allocation.lock());
        let record = if removed(Guard::StopCreateRace) {
            // SAFETY: not sound on purpose: this is the known-bad variant, which enlists without the lock.
            enlist(&mut *unsafe { self.list.assume_held() })
        } else {
            enlist(&mut self.list.lock())
        };
        interrupt_point();
        created(&record);
        drop(allocation);
        record
    }

    /// Detaches a thread: calls `exited` to notify the vtable while the record still belongs to the thread; then `delist`, with the guard of
    /// the list lock, to free the record.
    ///
    /// Returns `None`, without having done anything, if a user has suspended the thread while it waited for the locks. The thread
    /// must then park without the locks and call this again (`.debug.frozen-waiter`). Suspensions are made under the list lock. A
    /// suspension that is made after the check, when the vtable has been notified already, ends when the record is freed.
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

    /// In the child of a `fork`: resets the locks to free. The child's only thread took them before the fork, under its id in the parent.
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
