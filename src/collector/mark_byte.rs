//! The mark byte of a cell, which several markers read and write without a lock and without a read-modify-write.
//!
//! A cell is marked when its byte equals the *epoch* of the collection. Two markers that find the same object may both mark it: they write
//! the same value, and both scan the object, which is wasted work but not wrong.
//!
//! A word that is no reference may lead to a *free* cell: a word of a stack, of an untyped object, or of an enum whose other variant has a
//! reference there. A marker that marked the cell and finds it free unmarks it: it writes 0, which is no epoch. **No free cell stays marked**
//! (`.mark.free`), because a marker writes the epoch only if it takes the cell for new, and for each such store, the marker that scans the
//! cell later unmarks it. If it is another marker, the lock of the pool of tasks orders the two stores. A store by a marker that did not take the
//! cell for new could come after the last unmarking.

use std::hint::select_unpredictable;

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU8, Ordering};

/// The values of a mark byte that mean something to a collection.
#[derive(Clone, Copy)]
pub(crate) struct Epochs {
    /// The collection's own number.
    pub(crate) epoch: u8,
    /// The number of the collection whose dead objects are being swept.
    pub(crate) swept_epoch: u8,
}

impl Epochs {
    /// Marks a cell, without a branch on whether it was marked before: if it was, the store goes to `nowhere`, a byte of this marker. Returns
    /// false if it was marked, or if its object is dead. `is_unswept`: whether its block has not been swept since the last collection.
    #[inline(always)]
    pub(crate) fn mark(self, mark: &AtomicU8, nowhere: &AtomicU8, is_unswept: impl FnOnce() -> bool) -> bool {
        let old = mark.load(Ordering::Relaxed);
        let is_new = old != self.epoch;
        let last = select_unpredictable(is_new, old, self.swept_epoch);
        // The last collection found this object dead, but it is not swept yet: only a word that is no reference can point here.
        if last != self.swept_epoch && is_unswept() {
            return false;
        }
        let to = select_unpredictable(is_new | removed(Guard::MarkFree), mark, nowhere);
        to.store(self.epoch, Ordering::Relaxed);
        is_new
    }

    /// Does the same with a branch. Faster where references are taken one by one, as in a list.
    #[inline(always)]
    pub(crate) fn mark_if_new(self, mark: &AtomicU8, is_unswept: impl FnOnce() -> bool) -> bool {
        let old = mark.load(Ordering::Relaxed);
        if old == self.epoch || old != self.swept_epoch && is_unswept() {
            return false;
        }
        mark.store(self.epoch, Ordering::Relaxed);
        true
    }
}

/// Unmarks a free cell. Called once for each time that a marker took it for new.
pub(crate) fn unmark(mark: &AtomicU8) {
    mark.store(0, Ordering::Relaxed);
}
