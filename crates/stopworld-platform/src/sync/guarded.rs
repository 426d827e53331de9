//! Data behind a lock, and the proof that the lock is held.
//!
//! The world's locks are taken in several ways: without a time limit, with a time budget, in a blocking region, several together
//! for a stop, or without a guard across a `fork`. So, unlike a `std::sync::Mutex`, the type of the data does not determine how
//! their lock is taken. The lock's guard permits access to the data, in whatever way it was obtained:
//!
//! * a shared borrow of the guard gives a shared reference, an exclusive borrow an exclusive one, each for as long as the guard is
//!   borrowed. A guard neither leaves its thread nor is shared with another, so both are sound;
//! * the guard must be one of *this* lock. Another world's guard is refused by a panic: one comparison of addresses.
//!
//! | type | where the lock is |
//! |---|---|
//! | [`Locked`] | in the value itself |
//! | [`Guarded`] | elsewhere; the owner names it in one place |
//! | [`SharedLock`] | in a value that a reference count keeps alive; the owner of a [`Guarded`] may store this handle to the lock |
//!
//! `Lock::release` and `Lock::reset_in_child` are `unsafe`, because a guard proves nothing if its lock can be released while the
//! guard exists.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::Arc;

use super::{Lock, LockGuard};

/// Data that are guarded by a lock elsewhere. See the module's text.
pub struct Guarded<T>(UnsafeCell<T>);

// SAFETY: only a holder of the lock's guard gets a reference to the data, so one thread at a time. Different threads may get one, one
// after another, so `T` must be `Send`.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    /// Wraps data that are guarded by a lock elsewhere.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The data, for reading.
    ///
    /// # Safety
    /// `lock` is the same lock in all calls for these data.
    ///
    /// # Panics
    /// If `held` is a guard of another lock.
    #[inline]
    pub unsafe fn get<'a>(&'a self, lock: &Lock, held: &'a LockGuard<'_>) -> &'a T {
        assert!(held.is_of(lock), "the guard of another lock");
        // SAFETY: the lock is held by this thread, and its guard is borrowed for as long as the reference lives. An exclusive
        // reference would need an exclusive borrow of the guard.
        unsafe { &*self.0.get() }
    }

    /// The data, for changing.
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    ///
    /// # Panics
    /// As [`get`](Self::get).
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "the guard is borrowed exclusively")]
    pub unsafe fn get_mut<'a>(&'a self, lock: &Lock, held: &'a mut LockGuard<'_>) -> &'a mut T {
        assert!(held.is_of(lock), "the guard of another lock");
        // SAFETY: the lock is held by this thread, and its only guard is borrowed exclusively for as long as the reference lives.
        unsafe { &mut *self.0.get() }
    }

    /// Returns the data without checking the lock.
    ///
    /// # Safety
    /// No thread changes them while the reference lives, nor is any thread stopped in the middle of a change.
    pub unsafe fn peek(&self) -> &T {
        // SAFETY: the caller's promise.
        unsafe { &*self.0.get() }
    }

    /// Returns the data; exclusive access to `self` replaces the lock.
    pub fn own(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// Data and their lock.
pub struct Locked<T> {
    lock: Lock,
    data: Guarded<T>,
}

impl<T> Locked<T> {
    /// Creates data with a lock of their own.
    pub const fn new(value: T) -> Self {
        Self { lock: Lock::new(), data: Guarded::new(value) }
    }

    /// Returns the lock. The caller takes it in the way that it needs.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// The data, for reading.
    ///
    /// # Panics
    /// If `held` is a guard of another lock.
    #[inline]
    pub fn get<'a>(&'a self, held: &'a LockGuard<'_>) -> &'a T {
        // SAFETY: always this lock.
        unsafe { self.data.get(&self.lock, held) }
    }

    /// The data, for changing.
    ///
    /// # Panics
    /// If `held` is a guard of another lock.
    #[inline]
    pub fn get_mut<'a>(&'a self, held: &'a mut LockGuard<'_>) -> &'a mut T {
        // SAFETY: always this lock.
        unsafe { self.data.get_mut(&self.lock, held) }
    }
}

/// A handle to a lock, which is part of a value that lives at least as long as this handle.
#[derive(Clone)]
pub struct SharedLock {
    lock: *const Lock,
    /// Keeps the value with the lock alive, and at its address.
    _owner: Arc<dyn Send + Sync>,
}

// SAFETY: a lock may be used by any thread, and the owner is Send and Sync.
unsafe impl Send for SharedLock {}
// SAFETY: as above.
unsafe impl Sync for SharedLock {}

impl SharedLock {
    /// Creates a handle to the lock that `find` returns. The handle keeps `owner` alive.
    pub fn new<T: Send + Sync + 'static>(owner: Arc<T>, find: impl FnOnce(&T) -> &Lock) -> Self {
        Self { lock: find(&owner), _owner: owner }
    }

    /// Creates a lock that belongs to this handle and its clones.
    pub fn alone() -> Self {
        Self::new(Arc::new(Lock::new()), |lock| lock)
    }
}

impl std::ops::Deref for SharedLock {
    type Target = Lock;

    #[inline]
    fn deref(&self) -> &Lock {
        // SAFETY: the lock is part of the value that `_owner` keeps alive and in place. `_owner` is a counted reference to that value, so
        // there is no exclusive reference to it.
        unsafe { &*self.lock }
    }
}

impl fmt::Debug for SharedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_under_the_lock_is_read_under_it() {
        static NUMBERS: Locked<Vec<u32>> = Locked::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || NUMBERS.get_mut(&mut NUMBERS.lock().lock()).push(number));
            }
        });
        let held = NUMBERS.lock().lock();
        assert_eq!(NUMBERS.get(&held).iter().sum::<u32>(), 6);
    }

    #[test]
    #[should_panic(expected = "the guard of another lock")]
    fn the_guard_of_another_lock_opens_nothing() {
        let (mine, other) = (Locked::new(1), Locked::new(2));
        let held = other.lock().lock();
        mine.get(&held);
    }

    #[test]
    fn a_shared_lock_outlives_the_handle_that_it_was_found_by() {
        let owner = Arc::new((7, Lock::new()));
        let shared = SharedLock::new(Arc::clone(&owner), |owner| &owner.1);
        assert!(shared.lock().is_of(&owner.1));
        drop(owner);
        drop(shared.lock());
    }
}
