//! The stable sort of [`GcVec`]: runs that are sorted by insertion, and merged.
//!
//! std's stable sort moves elements through memory of malloc. A comparison may set a cell of an element that is there, and the collector would not see
//! what the cell refers to. Here the elements move through a collected object, and through the stack. A comparison may also panic:
//! then each element must be in the vector exactly once, because it may own storage.

use std::cmp;
use std::mem::ManuallyDrop;
use std::ops::Range;

use super::vector::GcVec;
use crate::collections::buffer::Storage;
use crate::{Mutator, OutOfMemory, Trace};

/// The length of the runs that are sorted by insertion.
const RUN: usize = 16;

impl<T: Trace> GcVec<T> {
    /// Sorts the elements, and keeps the order of equal ones. O(n log n), O(n) if they are sorted already. For elements with references, one
    /// allocation of up to n elements in the collected heap; for others as much memory of malloc.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    ///
    /// # Panics
    /// If the comparison does, or perhaps if it is not a total order. Then all elements are in the vector, in some order.
    pub fn sort(&mut self, mutator: &Mutator) -> Result<(), OutOfMemory>
    where
        T: Ord,
    {
        self.sort_by(mutator, T::cmp)
    }

    /// As [`sort`](Self::sort), by a key. The function may allocate.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn sort_by_key<K: Ord>(&mut self, mutator: &Mutator, mut key: impl FnMut(&T) -> K) -> Result<(), OutOfMemory> {
        self.sort_by(mutator, |one, other| key(one).cmp(&key(other)))
    }

    /// As [`sort`](Self::sort), by a function, which may allocate.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn sort_by(
        &mut self,
        mutator: &Mutator,
        mut compare: impl FnMut(&T, &T) -> cmp::Ordering,
    ) -> Result<(), OutOfMemory> {
        if T::LAYOUT.is_leaf() {
            self.as_mut_slice().sort_by(compare);
            return Ok(());
        }
        let is_less = &mut |one: &T, other: &T| compare(one, other).is_lt();
        let len = self.len();
        // The left one of two runs is shorter than all elements.
        let mut scratch = Storage::new(mutator, if len > RUN { len - 1 } else { 0 })?;
        let storage = &mut self.storage;
        for start in (0..len).step_by(RUN) {
            // SAFETY: the places below `len` have values.
            unsafe { insert_each(storage, start..len.min(start + RUN), is_less) };
        }
        let mut width = RUN;
        while width < len {
            for start in (0..len - width).step_by(2 * width) {
                let (middle, end) = (start + width, len.min(start + 2 * width));
                // SAFETY: as above, and the scratch has room for `width` values.
                unsafe { merge(storage, start..middle, end, &mut scratch, is_less) };
            }
            width *= 2;
        }
        Ok(())
    }
}

/// Sorts the values of a range by insertion.
///
/// # Safety
/// The places of the range have values.
unsafe fn insert_each<T: Trace>(
    storage: &mut Storage<T>,
    range: Range<usize>,
    is_less: &mut impl FnMut(&T, &T) -> bool,
) {
    /// A value that was taken out of a place. It is on the stack, in view of the collector, until it is dropped into its new place.
    struct Taken<'a, T: Trace> {
        value: ManuallyDrop<T>,
        storage: &'a mut Storage<T>,
        place: usize,
    }

    impl<T: Trace> Drop for Taken<'_, T> {
        fn drop(&mut self) {
            // SAFETY: the place's value has been moved away, and this one is not used again.
            unsafe { self.storage.put(self.place, ManuallyDrop::take(&mut self.value)) };
        }
    }

    for next in range.start + 1..range.end {
        // SAFETY: the places have values, by the caller's promise; one that is taken or moved is not used again.
        unsafe {
            if !is_less(&*storage.place(next), &*storage.place(next - 1)) {
                continue;
            }
            let value = ManuallyDrop::new(storage.place(next).read());
            let mut taken = Taken { value, storage: &mut *storage, place: next };
            loop {
                taken.storage.shift(taken.place - 1, taken.place, 1);
                taken.place -= 1;
                if taken.place == range.start || !is_less(&taken.value, &*taken.storage.place(taken.place - 1)) {
                    break;
                }
            }
        }
    }
}

/// Merges two sorted runs, the second of which begins where the first one ends.
///
/// # Safety
/// The places up to `end` have values, and the scratch has room for those of `left`.
unsafe fn merge<T: Trace>(
    storage: &mut Storage<T>,
    left: Range<usize>,
    end: usize,
    scratch: &mut Storage<T>,
    is_less: &mut impl FnMut(&T, &T) -> bool,
) {
    /// Two runs that are being merged, the left one out of the scratch. When this is dropped, the rest of the left one fills the gap before the
    /// rest of the right one.
    struct Merging<'a, T: Trace> {
        storage: &'a mut Storage<T>,
        scratch: &'a Storage<T>,
        /// The values of the left run that are still in the scratch.
        left: Range<usize>,
        /// The place of the next value.
        to: usize,
    }

    impl<T: Trace> Merging<'_, T> {
        /// Moves values of the left run to their places.
        ///
        /// # Safety
        /// As many are left.
        unsafe fn take_left(&mut self, count: usize) {
            // SAFETY: the caller's promise; the gap has room for all that are left.
            unsafe { self.scratch.copy_to(self.left.start, self.storage, self.to, count) };
            self.left.start += count;
            self.to += count;
        }
    }

    impl<T: Trace> Drop for Merging<'_, T> {
        fn drop(&mut self) {
            // SAFETY: all that are left.
            unsafe { self.take_left(self.left.len()) };
            // The scratch is in view of the collector until here.
            std::hint::black_box(self.scratch.places());
        }
    }

    // SAFETY: the caller's promise. A value of the left run is in the scratch until it is moved to its place; `to` is never beyond `right`.
    unsafe {
        if !is_less(&*storage.place(left.end), &*storage.place(left.end - 1)) {
            return;
        }
        storage.copy_to(left.start, scratch, 0, left.len());
        let mut merging = Merging { storage, scratch, left: 0..left.len(), to: left.start };
        let mut right = left.end;
        while right < end && !merging.left.is_empty() {
            if is_less(&*merging.storage.place(right), &*merging.scratch.place(merging.left.start)) {
                merging.storage.shift(right, merging.to, 1);
                merging.to += 1;
                right += 1;
            } else {
                merging.take_left(1);
            }
        }
    }
}
