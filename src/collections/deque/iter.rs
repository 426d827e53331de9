//! The iterators over references to the elements of a [`GcDeque`](super::GcDeque): two slices, one after the other.

use std::fmt;
use std::iter::FusedIterator;
use std::slice;

use crate::Trace;

/// An iterator over the elements of a [`GcDeque`](crate::GcDeque), from the front to the back.
pub struct DequeIter<'a, T: Trace> {
    front: slice::Iter<'a, T>,
    back: slice::Iter<'a, T>,
}

/// An iterator over mutable references to the elements of a [`GcDeque`](crate::GcDeque), from the front to the back.
pub struct DequeIterMut<'a, T: Trace> {
    front: slice::IterMut<'a, T>,
    back: slice::IterMut<'a, T>,
}

impl<'a, T: Trace> DequeIter<'a, T> {
    pub(super) fn over((front, back): (&'a [T], &'a [T])) -> Self {
        Self { front: front.iter(), back: back.iter() }
    }
}

impl<'a, T: Trace> DequeIterMut<'a, T> {
    pub(super) fn over((front, back): (&'a mut [T], &'a mut [T])) -> Self {
        Self { front: front.iter_mut(), back: back.iter_mut() }
    }
}

impl<T: Trace> Clone for DequeIter<'_, T> {
    fn clone(&self) -> Self {
        Self { front: self.front.clone(), back: self.back.clone() }
    }
}

macro_rules! iterator {
    ($name:ident yields $item:ty) => {
        impl<'a, T: Trace> Iterator for $name<'a, T> {
            type Item = $item;

            fn next(&mut self) -> Option<$item> {
                self.front.next().or_else(|| self.back.next())
            }

            fn nth(&mut self, skipped: usize) -> Option<$item> {
                match skipped.checked_sub(self.front.len()) {
                    None => self.front.nth(skipped),
                    Some(in_back) => {
                        self.front = Default::default();
                        self.back.nth(in_back)
                    }
                }
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                let len = self.front.len() + self.back.len();
                (len, Some(len))
            }
        }

        impl<T: Trace> DoubleEndedIterator for $name<'_, T> {
            fn next_back(&mut self) -> Option<Self::Item> {
                self.back.next_back().or_else(|| self.front.next_back())
            }
        }

        impl<T: Trace> ExactSizeIterator for $name<'_, T> {}

        impl<T: Trace> FusedIterator for $name<'_, T> {}

        impl<T: Trace + fmt::Debug> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = stringify!($name);
                f.debug_tuple(name).field(&self.front.as_slice()).field(&self.back.as_slice()).finish()
            }
        }
    };
}

iterator!(DequeIter yields &'a T);
iterator!(DequeIterMut yields &'a mut T);
