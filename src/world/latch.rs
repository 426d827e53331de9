//! The vtable in force, and how it is swapped.
//!
//! The thread vtable can be swapped while the program runs, but never between a stop and its start: only the
//! vtable that stopped the threads knows how to start them (`.vtable.swap`). And once a swap has returned the outgoing
//! vtable, no thread is inside it any more and no thread calls it again.
//!
//! ```text
//!   31                      2    1        0
//!  +-------------------------+--------+-------+
//!  |        users            | waited | index |      slots: [ value 0 ] [ value 1 ]
//!  +-------------------------+--------+-------+
//! ```
//!
//! There are two slots; the index selects the one in force. A thread that is about to call the vtable *latches* it: it counts
//! itself as a user, in the same compare-exchange that reads the index. A stop keeps its latch until its start is over, so
//! both call the same value. A swap writes the new value into the other slot, and changes the index in a
//! compare-exchange that succeeds only without users. If there are users, the swap sleeps until the last one has left. A swap
//! whose time limit expires changes nothing.
//!
//! Latching never waits: the collecting thread may do it with all its locks held. Only the swap waits. It is woken when the
//! stops that it found have ended. New stops may begin before it runs; in the worst case its time limit expires before it finds no
//! user.
//!
//! Swaps are made one at a time (under the world's allocation lock). If every stop is made under that lock too, a swap
//! never finds a user. The latch does not rely on this, since a debugger's own stops do not take that lock.

use crate::sabotage::{Guard, removed};
use crate::sync::lock::Patience;
use crate::sync::{AtomicU32, Ordering, Semaphore, UnsafeCell, interrupt_point};

const INDEX: u32 = 1;
const WAITED: u32 = 1 << 1;
const USER: u32 = 1 << 2;

/// A value that can be replaced while no thread uses it. See the module's text.
#[derive(Debug)]
pub(crate) struct Latch<T> {
    word: AtomicU32,
    unused: Semaphore,
    slots: [UnsafeCell<Option<T>>; 2],
}

// SAFETY: the slots are the only part that is not Sync by itself. Users read the slot in force, which is written only
// while it is not in force and has no users; `T: Sync` lets them share it, `T: Send` lets a swap move it out.
unsafe impl<T: Send + Sync> Sync for Latch<T> {}

/// A use of the value that was in force when this was made. The value stays in force until this is dropped.
#[derive(Debug)]
#[must_use = "the value may be swapped as soon as this is dropped"]
pub(crate) struct Latched<'a, T> {
    latch: &'a Latch<T>,
    index: u32,
}

/// The time limit of a swap has expired: the present value is still in use, and nothing has changed. Contains the value that was to be
/// installed.
#[derive(Debug)]
pub(crate) struct StillInUse<T>(pub(crate) T);

impl<T> Latch<T> {
    /// Creates a latch with this value in force.
    pub(crate) fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(0),
            unused: Semaphore::new(),
            slots: [UnsafeCell::new(Some(value)), UnsafeCell::new(None)],
        }
    }

    /// Latches the value in force. Never waits.
    pub(crate) fn latch(&self) -> Latched<'_, T> {
        let mut seen = self.word.load(Ordering::Relaxed);
        while !removed(Guard::VtableSwap) {
            // Acquire: pairs with the Release of `swap`, which wrote the slot.
            match self.word.compare_exchange_weak(seen, seen + USER, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        interrupt_point();
        Latched { latch: self, index: seen & INDEX }
    }

    /// Puts `incoming` in force and returns the outgoing value, which has no users any more.
    ///
    /// # Safety
    /// Swaps are made one at a time: the caller holds a lock that every caller holds.
    pub(crate) unsafe fn swap(&self, incoming: T, patience: &mut impl Patience) -> Result<T, StillInUse<T>> {
        let mut seen = self.word.load(Ordering::Relaxed);
        let next = (seen & INDEX) ^ 1;
        self.slots[next as usize].with_mut(|slot| {
            // SAFETY: the slot is not in force, so no thread latches it, and its last user had left before the swap that
            // put it out of force. Swaps are made one at a time.
            unsafe { *slot = Some(incoming) };
        });
        interrupt_point();
        loop {
            if seen & !(INDEX | WAITED) == 0 {
                // Release: pairs with the Acquire of `latch`. Acquire: pairs with the Release of `drop`, so that what
                // the last user did with the outgoing value happens before the swap takes it out.
                match self.word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(now) => seen = now,
                }
                continue;
            }
            if seen & WAITED == 0 {
                match self.word.compare_exchange(seen, seen | WAITED, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => {}
                    Err(now) => {
                        seen = now;
                        continue;
                    }
                }
            }
            let waited = patience.slice(&mut |ns| {
                self.unused.wait_slice(ns);
            });
            if !waited {
                self.word.fetch_and(!WAITED, Ordering::Relaxed);
                return Err(StillInUse(self.take(next)));
            }
            seen = self.word.load(Ordering::Relaxed);
        }
        interrupt_point();
        Ok(self.take(next ^ 1))
    }

    /// Empties a slot that is not in force and has no users.
    fn take(&self, index: u32) -> T {
        self.slots[index as usize].with_mut(|slot| {
            // SAFETY: not in force and no users, as in `swap`.
            let value = unsafe { (*slot).take() };
            value.expect("a slot is filled before it comes into force, and emptied after")
        })
    }
}

impl<T> Latched<'_, T> {
    /// The latched value.
    pub(crate) fn with<R>(&self, call: impl FnOnce(&T) -> R) -> R {
        let index =
            if removed(Guard::VtableSwap) { self.latch.word.load(Ordering::Relaxed) & INDEX } else { self.index };
        self.latch.slots[index as usize].with(|slot| {
            // SAFETY: this thread counts as a user of the slot in force, so no swap puts it out of force or writes it.
            let value = unsafe { (*slot).as_ref() };
            call(value.expect("the slot in force is filled"))
        })
    }
}

impl<T> Drop for Latched<'_, T> {
    fn drop(&mut self) {
        if removed(Guard::VtableSwap) {
            return;
        }
        // Release: pairs with the Acquire of `swap`.
        let before = self.latch.word.fetch_sub(USER, Ordering::Release);
        interrupt_point();
        if before & WAITED != 0 && before & !(INDEX | WAITED) == USER {
            self.latch.unused.post();
        }
    }
}
