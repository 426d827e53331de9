//! The iterators over the elements of a [`GcVec`](super::GcVec) that need nothing of the vector but its storage.

use std::fmt;
use std::iter::FusedIterator;
use std::slice;

use crate::Trace;
use crate::collections::buffer::Storage;

/// An iterator over mutable references to the elements of a [`GcVec`](crate::GcVec).
///
/// It is not std's, which would give out a mutable slice.
pub struct IterMut<'a, T: Trace> {
    elements: slice::IterMut<'a, T>,
}

impl<'a, T: Trace> IterMut<'a, T> {
    pub(in crate::collections) fn over(elements: &'a mut [T]) -> Self {
        Self { elements: elements.iter_mut() }
    }

    /// Returns the elements that are left, for reading. O(1).
    pub fn as_slice(&self) -> &[T] {
        self.elements.as_slice()
    }
}

impl<'a, T: Trace> Iterator for IterMut<'a, T> {
    type Item = &'a mut T;

    fn next(&mut self) -> Option<&'a mut T> {
        self.elements.next()
    }

    fn nth(&mut self, skipped: usize) -> Option<&'a mut T> {
        self.elements.nth(skipped)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.elements.size_hint()
    }
}

impl<T: Trace> DoubleEndedIterator for IterMut<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.elements.next_back()
    }

    fn nth_back(&mut self, skipped: usize) -> Option<Self::Item> {
        self.elements.nth_back(skipped)
    }
}

impl<T: Trace> ExactSizeIterator for IterMut<'_, T> {}

impl<T: Trace> FusedIterator for IterMut<'_, T> {}

impl<T: Trace + fmt::Debug> fmt::Debug for IterMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IterMut").field(&self.as_slice()).finish()
    }
}

/// An iterator over the elements of a [`GcVec`](crate::GcVec) by value. Like the vector, it is kept where the collector looks.
#[derive(Trace)]
pub struct IntoIter<T: Trace> {
    storage: Storage<T>,
    first: usize,
    end: usize,
}

impl<T: Trace> IntoIter<T> {
    /// # Safety
    /// The first `len` places have values.
    pub(super) unsafe fn of(storage: Storage<T>, len: usize) -> Self {
        Self { storage, first: 0, end: len }
    }

    /// Returns the elements that are left. O(1).
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the places from `first` to `end` have values. The result borrows their owner.
        unsafe { slice::from_raw_parts(self.storage.place(self.first), self.end - self.first) }
    }
}

impl<T: Trace> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.first == self.end {
            return None;
        }
        self.first += 1;
        // SAFETY: the places from `first` to `end` have values.
        Some(unsafe { self.storage.take(self.first - 1) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.first, Some(self.end - self.first))
    }
}

impl<T: Trace> DoubleEndedIterator for IntoIter<T> {
    fn next_back(&mut self) -> Option<T> {
        if self.first == self.end {
            return None;
        }
        self.end -= 1;
        // SAFETY: as in `next`.
        Some(unsafe { self.storage.take(self.end) })
    }
}

impl<T: Trace> ExactSizeIterator for IntoIter<T> {}

impl<T: Trace> FusedIterator for IntoIter<T> {}

impl<T: Trace + fmt::Debug> fmt::Debug for IntoIter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IntoIter").field(&self.as_slice()).finish()
    }
}
