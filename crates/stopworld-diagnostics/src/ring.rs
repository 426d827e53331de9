//! A ring buffer of values between one writer and one reader, neither of which waits.
//!
//! ```text
//!            taken                        put
//!   ──────────┬────────────────────────────┬──────────────
//!      free   │  what the reader will      │     free          put − taken ≤ slots
//!   ──────────┴────────────────────────────┴──────────────
//! ```
//!
//! `put` and `taken` only grow. A writer that finds the ring empty starts again at its first slot (`base`). So a large ring
//! that never holds many values touches only its first slots. This does not interfere with the reader, which accesses no slot
//! of an empty ring. Values are taken whole and in order (`.live.ring`).

use std::mem::MaybeUninit;

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU64, Ordering, UnsafeCell};

/// A place for a value.
pub(crate) type Slot<T> = UnsafeCell<MaybeUninit<T>>;

/// A ring buffer; see the module documentation.
pub(crate) struct Ring<T> {
    slots: Box<[Slot<T>]>,
    /// The total numbers of values that have been put in and taken out.
    put: AtomicU64,
    taken: AtomicU64,
    /// The number of the value that is stored in the first slot.
    base: AtomicU64,
}

// SAFETY: `put` and `taken` determine whether the writer or the reader owns a slot. The contracts of `put` and `take` guarantee that
// there is one writer and one reader.
unsafe impl<T: Copy + Send> Sync for Ring<T> {}
// SAFETY: the ring owns its values.
unsafe impl<T: Copy + Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Creates an empty ring of these slots. There must be at least one.
    pub(crate) fn over(slots: Box<[Slot<T>]>) -> Ring<T> {
        Ring { slots, put: AtomicU64::new(0), taken: AtomicU64::new(0), base: AtomicU64::new(0) }
    }

    /// Returns the capacity.
    pub(crate) fn slots(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Returns, to the writer, the number of free slots at least.
    pub(crate) fn room(&self) -> u64 {
        // Acquire: pairs with the Release in `take`: the reader has copied the values out of the slots that count as free here.
        self.slots() - (self.put.load(Ordering::Relaxed) - self.taken.load(Ordering::Acquire))
    }

    fn slot(&self, number: u64) -> &Slot<T> {
        &self.slots[((number - self.base.load(Ordering::Relaxed)) % self.slots()) as usize]
    }

    /// Appends a value (writer only).
    ///
    /// # Safety
    /// There must be [room](Self::room), and no other thread may call `put` at the same time.
    pub(crate) unsafe fn put(&self, value: T) {
        let put = self.put.load(Ordering::Relaxed);
        if self.room() == self.slots() {
            self.base.store(put, Ordering::Relaxed);
        }
        // SAFETY: the reader does not access this slot yet, and there is no other writer.
        self.slot(put).with_mut(|slot| unsafe { (*slot).write(value) });
        // Release: pairs with the acquire of `take`: the value and the base are visible to the reader.
        let order = if removed(Guard::LiveRing) { Ordering::Relaxed } else { Ordering::Release };
        self.put.store(put + 1, order);
    }

    /// Takes the oldest value (reader only).
    ///
    /// # Safety
    /// No other thread may call `take` at the same time.
    pub(crate) unsafe fn take(&self) -> Option<T> {
        let taken = self.taken.load(Ordering::Relaxed);
        // Acquire: pairs with the release of `put`.
        if taken == self.put.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the slot was written before `put` passed it, and is not written again before `taken` passes it.
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
