//! What removes a range of elements from a [`GcVec`]: [`GcVec::drain`], [`GcVec::extract_if`], [`GcVec::splice`].
//!
//! An iterator that is being used has removed some elements and will move others. It may be leaked, and a closure of the program may
//! panic. So the vector ends before the range, or is empty, until the destructor has moved the other elements to their places. After a leak they are
//! lost: their words stay in the storage, where nothing uses them, until they are overwritten.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Range, RangeBounds};
use std::slice;

use super::iter::IntoIter;
use super::vector::GcVec;
use crate::collections::buffer::checked_range;
use crate::{Mutator, OutOfMemory, Trace};

impl<T: Trace> GcVec<T> {
    /// Removes a range of elements, and returns an iterator over them. The capacity stays.
    ///
    /// The elements that the iterator has not returned are removed when it is dropped. If it is leaked ([`mem::forget`](std::mem::forget)), the vector
    /// has lost the range and all elements after it.
    ///
    /// Costs O(1) at first; dropping the iterator costs O(elements that were left, and elements after the range).
    ///
    /// # Panics
    /// If the range ends beyond the length, or before it begins.
    pub fn drain(&mut self, range: impl RangeBounds<usize>) -> Drain<'_, T> {
        let Range { start, end } = checked_range(range, self.len);
        let len = std::mem::replace(&mut self.len, start);
        Drain { vec: self, left: start..end, after: end..len }
    }

    /// Removes the elements of a range for which `remove` returns true, and returns an iterator over them. All others keep their order.
    ///
    /// The function is called when the iterator is advanced. When it is dropped, the elements that it has not reached stay. If it is
    /// leaked, all elements are lost.
    ///
    /// Costs O(n) for the elements after the beginning of the range, in total.
    ///
    /// # Panics
    /// If the range ends beyond the length, or before it begins. If `remove` panics, its element and those that it has not seen stay.
    pub fn extract_if<R, F>(&mut self, range: R, remove: F) -> impl Iterator<Item = T> + use<'_, T, R, F>
    where
        R: RangeBounds<usize>,
        F: FnMut(&mut T) -> bool,
    {
        let Range { start, end } = checked_range(range, self.len);
        let len = std::mem::take(&mut self.len);
        ExtractIf { vec: self, remove, kept: start, at: start, end, len }
    }

    /// Replaces a range of elements by the items of an iterator, which may allocate, and returns the elements that were there.
    ///
    /// Unlike that of std, this replaces all of them at once, whatever becomes of the result. Costs O(items, and elements from the
    /// beginning of the range on), and two allocations besides that for a larger capacity.
    ///
    /// # Errors
    /// There is no room in the heap. The vector is unchanged; the items are dropped.
    ///
    /// # Panics
    /// If the range ends beyond the length, or before it begins. If the iterator panics, the vector is unchanged.
    pub fn splice(
        &mut self,
        mutator: &Mutator,
        range: impl RangeBounds<usize>,
        items: impl IntoIterator<Item = T>,
    ) -> Result<IntoIter<T>, OutOfMemory> {
        let Range { start, end } = checked_range(range, self.len);
        let items = Self::from_iter(mutator, items)?;
        let mut removed = Self::with_capacity(mutator, end - start)?;
        let len = self.len - (end - start) + items.len;
        self.reserve(mutator, len.saturating_sub(self.len))?;
        // SAFETY: there is room for each of them. A value is in its new place before its old one is overwritten, and `items` is
        // dropped. The places from the new length to the old one have no values afterwards.
        unsafe {
            self.storage.copy_to(start, &mut removed.storage, 0, end - start);
            removed.len = end - start;
            self.storage.shift(end, start + items.len, self.len - end);
            items.storage.copy_to(0, &mut self.storage, start, items.len);
            self.storage.clear(len, self.len.saturating_sub(len));
        }
        self.len = len;
        Ok(removed.into_iter())
    }
}

/// An iterator that removes a range of elements of a [`GcVec`]: [`GcVec::drain`].
pub struct Drain<'a, T: Trace> {
    /// It ends before the range.
    vec: &'a mut GcVec<T>,
    /// The places of the range that still have values.
    left: Range<usize>,
    /// The places after the range that have values.
    after: Range<usize>,
}

impl<T: Trace> Drain<'_, T> {
    /// Returns the elements that are left. O(1).
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: these places have values. The result borrows their owner.
        unsafe { slice::from_raw_parts(self.vec.storage.place(self.left.start), self.left.len()) }
    }
}

impl<T: Trace> Iterator for Drain<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        // SAFETY: the places that are left have values.
        self.left.next().map(|place| unsafe { self.vec.storage.take(place) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl<T: Trace> DoubleEndedIterator for Drain<'_, T> {
    fn next_back(&mut self) -> Option<T> {
        // SAFETY: as in `next`.
        self.left.next_back().map(|place| unsafe { self.vec.storage.take(place) })
    }
}

impl<T: Trace> ExactSizeIterator for Drain<'_, T> {}

impl<T: Trace> FusedIterator for Drain<'_, T> {}

impl<T: Trace> Drop for Drain<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the places after the range have values; those of the range are gone.
        unsafe { self.vec.close_gap(self.vec.len, self.after.clone()) };
    }
}

impl<T: Trace + fmt::Debug> fmt::Debug for Drain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Drain").field(&self.as_slice()).finish()
    }
}

/// What [`GcVec::extract_if`] returns.
struct ExtractIf<'a, T: Trace, F> {
    /// Its length is 0 meanwhile.
    vec: &'a mut GcVec<T>,
    remove: F,
    /// The first `kept` places have values.
    kept: usize,
    /// So have the ones from `at` to `len`; those between are gone, or have been moved.
    at: usize,
    /// The end of the range.
    end: usize,
    len: usize,
}

impl<T: Trace, F: FnMut(&mut T) -> bool> Iterator for ExtractIf<'_, T, F> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        while self.at < self.end {
            // SAFETY: the place has a value, and nothing else refers to it.
            let removes = (self.remove)(unsafe { &mut *self.vec.storage.place(self.at) });
            // After the call, which may panic: then the element stays.
            self.at += 1;
            // SAFETY: as above. The value is moved to a place without one, or to its own.
            unsafe {
                if removes {
                    return Some(self.vec.storage.take(self.at - 1));
                }
                if self.kept < self.at - 1 {
                    self.vec.storage.shift(self.at - 1, self.kept, 1);
                }
            }
            self.kept += 1;
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.end - self.at))
    }
}

impl<T: Trace, F> Drop for ExtractIf<'_, T, F> {
    fn drop(&mut self) {
        // SAFETY: the fields say which places have values.
        unsafe { self.vec.close_gap(self.kept, self.at..self.len) };
    }
}

impl<T: Trace> GcVec<T> {
    /// Moves the values of the places `after` to `to`, and sets the length to the end of them.
    ///
    /// # Safety
    /// The first `to` places and those of `after` have values. The ones between have none, nor have those from the end of `after` on.
    unsafe fn close_gap(&mut self, to: usize, after: Range<usize>) {
        let len = to + after.len();
        if to < after.start {
            // SAFETY: the caller's promise.
            unsafe {
                self.storage.shift(after.start, to, after.len());
                self.storage.clear(len, after.end - len);
            }
        }
        self.len = len;
    }
}
