//! A ring of values between one writer and one reader, neither of whom waits.
//!
//! ```text
//!            taken                        put
//!   ──────────┬────────────────────────────┬──────────────
//!      free   │  what the reader will      │     free          put − taken ≤ slots
//!   ──────────┴────────────────────────────┴──────────────
//! ```
//!
//! `put` and `taken` count for ever. A writer that finds the ring empty begins at its first slot again (`base`), so that of a
//! large ring through which little goes at a time only the beginning is ever touched. The reader can't be surprised by that: it
//! reads no slot then. What is taken is whole and in order (`.live.ring`).

use std::mem::MaybeUninit;

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU64, Ordering, UnsafeCell};

/// A place for a value.
pub(crate) type Slot<T> = UnsafeCell<MaybeUninit<T>>;

/// See the module's text.
pub(crate) struct Ring<T> {
    slots: Box<[Slot<T>]>,
    /// How many have been put in, and taken out, ever.
    put: AtomicU64,
    taken: AtomicU64,
    /// The number that has the first slot.
    base: AtomicU64,
}

// SAFETY: a slot is the writer's or the reader's, as `put` and `taken` say, and there is one of each, by the contracts of `put` and
// `take`.
unsafe impl<T: Copy + Send> Sync for Ring<T> {}
// SAFETY: it owns its values.
unsafe impl<T: Copy + Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// An empty ring of these slots, of which there is at least one.
    pub(crate) fn over(slots: Box<[Slot<T>]>) -> Ring<T> {
        Ring { slots, put: AtomicU64::new(0), taken: AtomicU64::new(0), base: AtomicU64::new(0) }
    }

    /// How many there is room for in all.
    pub(crate) fn slots(&self) -> u64 {
        self.slots.len() as u64
    }

    /// For the writer: how many there is room for now, at least.
    pub(crate) fn room(&self) -> u64 {
        // Acquire: pairs with the release of `take`; what was taken has been read.
        self.slots() - (self.put.load(Ordering::Relaxed) - self.taken.load(Ordering::Acquire))
    }

    fn slot(&self, number: u64) -> &Slot<T> {
        &self.slots[((number - self.base.load(Ordering::Relaxed)) % self.slots()) as usize]
    }

    /// For the writer: puts a value behind the others.
    ///
    /// # Safety
    /// There is [room](Self::room), and nobody else puts at the same time.
    pub(crate) unsafe fn put(&self, value: T) {
        let put = self.put.load(Ordering::Relaxed);
        if self.room() == self.slots() {
            self.base.store(put, Ordering::Relaxed);
        }
        // SAFETY: the reader is not there yet, and there is no other writer.
        self.slot(put).with_mut(|slot| unsafe { (*slot).write(value) });
        // Release: pairs with the acquire of `take`: the value is there, and so is the base.
        let order = if removed(Guard::LiveRing) { Ordering::Relaxed } else { Ordering::Release };
        self.put.store(put + 1, order);
    }

    /// For the reader: takes the oldest.
    ///
    /// # Safety
    /// Nobody else takes at the same time.
    pub(crate) unsafe fn take(&self) -> Option<T> {
        let taken = self.taken.load(Ordering::Relaxed);
        // Acquire: pairs with the release of `put`.
        if taken == self.put.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: it was written before `put` passed it, and is not written again before `taken` does.
        let value = self.slot(taken).with(|slot| unsafe { (*slot).assume_init() });
        // Release: pairs with the acquire of `room`.
        self.taken.store(taken + 1, Ordering::Release);
        Some(value)
    }
}

impl<T: Copy> std::fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("slots", &self.slots()).finish_non_exhaustive()
    }
}
