//! Numbers that the threads of a phase visit, range by range.
//!
//! A thread takes a range by one addition to `next`, so that each range is taken once. **A range that was taken is visited**
//! (`.mark.ranges`): the bounds do not change in a phase. A collecting thread that cannot go on stops the others by moving `next` to
//! the end.

use std::ops::Range;

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicUsize, Ordering::Relaxed, const_new};

/// The numbers of one phase.
#[derive(Debug)]
pub(crate) struct Ranges {
    /// The first number that no thread has taken yet, or a number beyond the end.
    next: AtomicUsize,
    end: AtomicUsize,
    at_once: AtomicUsize,
}

impl Ranges {
    const_new! {
        /// Creates an empty range.
        pub(crate) fn new() -> Self {
            Self { next: AtomicUsize::new(0), end: AtomicUsize::new(0), at_once: AtomicUsize::new(1) }
        }
    }

    /// Provides these numbers, of which a thread takes `at_once` at a time. Called before the phase begins, which orders this.
    pub(crate) fn start(&self, numbers: Range<usize>, at_once: usize) {
        self.next.store(numbers.start, Relaxed);
        self.end.store(numbers.end, Relaxed);
        self.at_once.store(at_once, Relaxed);
    }

    /// Visits ranges until none is left. Other threads may still be visiting theirs.
    pub(crate) fn visit(&self, mut visit: impl FnMut(Range<usize>)) {
        let (end, at_once) = (self.end.load(Relaxed), self.at_once.load(Relaxed));
        loop {
            let first = self.next.fetch_add(at_once, Relaxed);
            if first >= end {
                return;
            }
            visit(first..end.min(first + at_once));
        }
    }

    /// Returns whether there are numbers that no thread has taken yet. Only a hint.
    pub(crate) fn has_more(&self) -> bool {
        self.next.load(Relaxed) < self.end.load(Relaxed)
    }

    /// Called in the phase: no thread takes another range. All numbers before the result were taken, and are visited; the others are not.
    pub(crate) fn stop(&self) -> usize {
        let end = self.end.load(Relaxed);
        if removed(Guard::MarkRanges) {
            self.end.store(0, Relaxed);
            return self.next.load(Relaxed).min(end);
        }
        self.next.swap(end, Relaxed).min(end)
    }
}
