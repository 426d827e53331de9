//! The newest entries of a sequence. Each entry has a number, which counts all that were ever added.

use std::collections::VecDeque;

/// A bounded sequence: when it is full, the oldest entry leaves.
#[derive(Debug)]
pub struct Ring<T> {
    entries: VecDeque<T>,
    most: usize,
    first: u64,
}

impl<T> Ring<T> {
    /// Creates an empty sequence of at most `most` entries.
    pub fn new(most: usize) -> Ring<T> {
        Ring { entries: VecDeque::new(), most: most.max(1), first: 0 }
    }

    /// Appends an entry.
    pub fn push(&mut self, entry: T) {
        if self.entries.len() == self.most {
            self.entries.pop_front();
            self.first += 1;
        }
        self.entries.push_back(entry);
    }

    /// Returns the newest entry.
    pub fn last(&self) -> Option<&T> {
        self.entries.back()
    }

    /// Returns the newest entry.
    pub fn last_mut(&mut self) -> Option<&mut T> {
        self.entries.back_mut()
    }

    /// Returns the number of the next entry, which is the number of entries that were ever added.
    pub fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Iterates over the entries that are kept, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.entries.iter()
    }

    /// Returns the number of the first entry that is kept and not before `number`, and at most `most` entries from there on.
    pub fn from(&self, number: u64, most: usize) -> (u64, impl ExactSizeIterator<Item = &T>) {
        let number = number.clamp(self.first, self.next());
        let skipped = (number - self.first) as usize;
        let end = self.entries.len().min(skipped.saturating_add(most));
        (number, self.entries.range(skipped..end))
    }
}
