//! A mutex on one futex word that records its holder.
//!
//! ```text
//!   31          30                        0
//!  +-----------+-------------------------+
//!  | contended | tid of the holder, or 0 |
//!  +-----------+-------------------------+
//! ```
//!
//! The collecting thread takes the world's locks before it sends the first signal, with a time budget: a debugger may have frozen a
//! lock's holder. If the time is over, the error must name the holder (`.debug.frozen-owner`). So the word contains the holder's
//! id, and one step takes the lock and stores the id.
//!
//! *Contended* means that a thread may be sleeping. A thread sets it before it sleeps, and only the unlock that wakes one
//! sleeper clears it. A thread that has slept takes the lock with the bit set, because it can't know whether it was the last
//! sleeper. A waiter that gives up sets the bit once more: it may have consumed the wake meant for another. Each of these two rules
//! costs at most one needless wake.
//!
//! The lock does not allocate, spin, or use thread-local storage. A thread that waits here sleeps in a futex and can be stopped
//! there by a signal: the handler runs, the thread parks in the handler, and after the restart it continues to wait.
//! The lock is not re-entrant, so code that may run in a signal handler must not take a lock that the code it
//! interrupted may hold; the stopping protocol's handler takes none.
//!
//! All zero bytes are a valid free lock.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, Ordering, const_new, interrupt_point, port};

const CONTENDED: u32 = 1 << 31;
const HOLDER: u32 = CONTENDED - 1;

/// A futex mutex. See the module's text.
#[derive(Debug)]
#[repr(transparent)]
pub struct Lock {
    word: AtomicU32,
}

/// The lock could not be taken: the kernel's id of the thread that holds it (0 if it has just been released).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBy(pub u32);

/// The time for which a thread may wait, slice by slice.
///
/// The implementation accounts for the time (`os::clock::Budget` excludes time in which the process could not run).
pub trait Patience {
    /// Calls `wait` with the length of the next slice in nanoseconds and charges for it; `false`, without a call, if
    /// nothing is left.
    fn slice(&mut self, wait: &mut dyn FnMut(u64)) -> bool;
}

/// Unlocks when dropped. It cannot be sent to another thread, because the lock's word names its thread.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard<'a> {
    lock: &'a Lock,
    on_its_thread: PhantomData<*const ()>,
}

impl Lock {
    const_new! {
        /// Creates a free lock.
        pub fn new() -> Self {
            Self { word: AtomicU32::new(0) }
        }
    }

    /// Takes the lock, sleeping until it is free.
    pub fn lock(&self) -> LockGuard<'_> {
        self.acquire();
        self.guard()
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Result<LockGuard<'_>, HeldBy> {
        self.take(port::current_tid(), 0).map(|()| self.guard())
    }

    /// Like [`try_lock`](Self::try_lock), for a thread that knows its kernel id, `me`: saves the system call `gettid`.
    ///
    /// # Safety
    /// `me` is the kernel's id of the calling thread. (With 0 the lock would stay free although it has a guard.)
    pub unsafe fn try_lock_as(&self, me: u32) -> Result<LockGuard<'_>, HeldBy> {
        self.take(me, 0).map(|()| self.guard())
    }

    /// Takes the lock, sleeping at most once and at most `ns` nanoseconds. It may return earlier without the lock (a signal, a
    /// race). The caller accounts for its time and tries again; the error names the holder.
    pub fn lock_slice(&self, ns: u64) -> Result<LockGuard<'_>, HeldBy> {
        let me = port::current_tid();
        if self.take(me, 0).is_ok() {
            return Ok(self.guard());
        }
        self.sleep(Some(ns));
        loop {
            if self.take(me, CONTENDED).is_ok() {
                return Ok(self.guard());
            }
            // This thread may have received the one wake of an unlock, and a third thread was faster. If it gives up now it
            // must pass that wake on: the bit makes the present holder wake the next sleeper.
            let seen = if removed(Guard::SyncTimedOut) { self.word.load(Ordering::Relaxed) } else { self.announce() };
            if seen != 0 {
                return Err(HeldBy(seen & HOLDER));
            }
        }
    }

    /// Takes the lock, or returns its holder when `patience` has no time left. A free lock is taken even if no time is left.
    pub fn lock_within(&self, patience: &mut impl Patience) -> Result<LockGuard<'_>, HeldBy> {
        let mut outcome = self.try_lock();
        while outcome.is_err() && patience.slice(&mut |ns| outcome = self.lock_slice(ns)) {}
        outcome
    }

    /// [`lock`](Self::lock) without a guard, for a lock that is released elsewhere on the same thread (before and after
    /// `fork`, at the two ends of a stop). Pairs with [`release`](Self::release).
    pub fn acquire(&self) {
        let me = port::current_tid();
        let mut contended = 0;
        while self.take(me, contended).is_err() {
            self.sleep(None);
            contended = CONTENDED;
        }
    }

    /// Returns a guard for a lock that was taken by [`acquire`](Self::acquire), as proof that the lock is held. Dropping it releases
    /// nothing.
    ///
    /// # Safety
    /// The calling thread holds the lock for as long as the guard is used, or is the only thread of the process (a fork's child);
    /// and no other guard of it is used meanwhile.
    pub unsafe fn assume_held(&self) -> ManuallyDrop<LockGuard<'_>> {
        ManuallyDrop::new(self.guard())
    }

    /// Releases the lock, and wakes one sleeper if there may be one.
    ///
    /// # Safety
    /// The calling thread took the lock by [`acquire`](Self::acquire), and has no guard of it: a guard is proof that the lock is held.
    pub unsafe fn release(&self) {
        self.unlock();
    }

    fn unlock(&self) {
        // Release: pairs with the Acquire of `take` in the next holder.
        let before = self.word.swap(0, Ordering::Release);
        debug_assert_ne!(before & HOLDER, 0, "a lock was released that no thread held");
        interrupt_point();
        if before & CONTENDED != 0 {
            port::wake(&self.word, 1);
        }
    }

    /// Returns the kernel's id of the thread that holds the lock; `None` if it is free. Only a hint, unless the holder is the caller:
    /// the lock may change hands at any time.
    pub fn holder(&self) -> Option<u32> {
        match self.word.load(Ordering::Relaxed) & HOLDER {
            0 => None,
            tid => Some(tid),
        }
    }

    /// Whether the calling thread holds the lock. Exact: no other thread writes this thread's id.
    pub fn is_mine(&self) -> bool {
        self.holder() == Some(port::current_tid())
    }

    /// Makes the lock free in the child of a `fork`, where the holder's id is the parent's and no thread but the
    /// caller exists (`.stop.fork`).
    ///
    /// # Safety
    /// The caller is the only thread of the process and has no guard of the lock.
    pub unsafe fn reset_in_child(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    fn guard(&self) -> LockGuard<'_> {
        LockGuard { lock: self, on_its_thread: PhantomData }
    }

    /// Takes a free lock, as contended if the caller has slept.
    fn take(&self, me: u32, contended: u32) -> Result<(), HeldBy> {
        // Acquire: pairs with the Release of `unlock` in the former holder.
        match self.word.compare_exchange(0, me | contended, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                interrupt_point();
                Ok(())
            }
            Err(seen) => Err(HeldBy(seen & HOLDER)),
        }
    }

    /// Announces a sleeper and sleeps, once, unless the lock is free by then.
    fn sleep(&self, timeout_ns: Option<u64>) {
        let seen = self.announce();
        interrupt_point();
        if seen != 0 {
            port::wait(&self.word, seen, timeout_ns);
            interrupt_point();
        }
    }

    /// Sets the contended bit of a held lock; returns the word as it is now, 0 if the lock is free.
    fn announce(&self) -> u32 {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen != 0 && seen & CONTENDED == 0 {
            let announced = seen | CONTENDED;
            match self.word.compare_exchange_weak(seen, announced, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return announced,
                Err(now) => seen = now,
            }
        }
        seen
    }
}

impl LockGuard<'_> {
    /// Returns whether this is a guard of `lock`.
    #[inline]
    pub fn is_of(&self, lock: &Lock) -> bool {
        std::ptr::eq(self.lock, lock)
    }

    /// Returns whether a thread may be waiting for the lock. A hint: a waiter may have given up.
    pub fn is_contended(&self) -> bool {
        self.lock.word.load(Ordering::Relaxed) & CONTENDED != 0
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        self.lock.unlock();
    }
}
