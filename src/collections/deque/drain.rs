//! The iterators over the elements of a [`GcDeque`] by value.

use std::fmt;
use std::iter::FusedIterator;
use std::mem;
use std::ops::{Range, RangeBounds};

use super::queue::GcDeque;
use crate::Trace;
use crate::collections::buffer::checked_range;

impl<T: Trace> GcDeque<T> {
    /// Removes a range of elements, and returns an iterator over them. The capacity stays.
    ///
    /// The elements that the iterator has not returned are removed when it is dropped. If it is leaked ([`mem::forget`](std::mem::forget)), the queue
    /// has lost the range and all elements after it.
    ///
    /// Costs O(1) at first; dropping the iterator costs O(elements of the range, and those on the side of it that has fewer).
    ///
    /// # Panics
    /// If the range ends beyond the length, or before it begins.
    pub fn drain(&mut self, range: impl RangeBounds<usize>) -> DequeDrain<'_, T> {
        let Range { start, end } = checked_range(range, self.len);
        // Until the elements after the range have moved, the queue ends before it: the iterator may be leaked.
        let len = mem::replace(&mut self.len, start);
        DequeDrain { queue: self, left: start..end, after: end..len }
    }
}

/// An iterator that removes a range of elements of a [`GcDeque`]: [`GcDeque::drain`].
pub struct DequeDrain<'a, T: Trace> {
    /// It ends before the range.
    queue: &'a mut GcDeque<T>,
    /// The indices in the range that still have values.
    left: Range<usize>,
    /// The indices after the range that have values.
    after: Range<usize>,
}

impl<T: Trace> Iterator for DequeDrain<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        // SAFETY: what is left has values.
        self.left.next().map(|index| unsafe { self.queue.storage.take(self.queue.place_of(index)) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl<T: Trace> DoubleEndedIterator for DequeDrain<'_, T> {
    fn next_back(&mut self) -> Option<T> {
        // SAFETY: as in `next`.
        self.left.next_back().map(|index| unsafe { self.queue.storage.take(self.queue.place_of(index)) })
    }
}

impl<T: Trace> ExactSizeIterator for DequeDrain<'_, T> {}

impl<T: Trace> FusedIterator for DequeDrain<'_, T> {}

impl<T: Trace> Drop for DequeDrain<'_, T> {
    fn drop(&mut self) {
        let before = self.queue.len;
        let gap = self.after.start - before;
        self.queue.len += self.after.len();
        if gap == 0 {
            return;
        }
        let clear = |queue: &mut GcDeque<T>, indices: Range<usize>| {
            // SAFETY: within the capacity. The values of these indices are gone, or have been moved.
            indices.for_each(|index| unsafe { queue.storage.clear(queue.place_of(index), 1) });
        };
        if before < self.after.len() {
            (0..before).rev().for_each(|index| self.queue.move_element(index, index + gap));
            clear(self.queue, 0..gap);
            self.queue.head = self.queue.place_of(gap);
        } else {
            self.after.clone().for_each(|index| self.queue.move_element(index, index - gap));
            clear(self.queue, self.queue.len..self.after.end);
        }
    }
}

impl<T: Trace> fmt::Debug for DequeDrain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DequeDrain").field("len", &self.len()).finish()
    }
}

/// An iterator over the elements of a [`GcDeque`] by value. Like the queue, it is kept where the collector looks.
#[derive(Trace)]
pub struct DequeIntoIter<T: Trace> {
    queue: GcDeque<T>,
}

impl<T: Trace> Iterator for DequeIntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.queue.pop_front()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.queue.len, Some(self.queue.len))
    }
}

impl<T: Trace> DoubleEndedIterator for DequeIntoIter<T> {
    fn next_back(&mut self) -> Option<T> {
        self.queue.pop_back()
    }
}

impl<T: Trace> ExactSizeIterator for DequeIntoIter<T> {}

impl<T: Trace> FusedIterator for DequeIntoIter<T> {}

impl<T: Trace + fmt::Debug> fmt::Debug for DequeIntoIter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DequeIntoIter").field(&self.queue).finish()
    }
}

impl<T: Trace> IntoIterator for GcDeque<T> {
    type Item = T;
    type IntoIter = DequeIntoIter<T>;

    fn into_iter(self) -> DequeIntoIter<T> {
        DequeIntoIter { queue: self }
    }
}
