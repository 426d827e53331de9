//! Long series in memory of a fixed size.
//!
//! When a series reaches its maximum, every other item is dropped; from then on only every second new item is kept, later every
//! fourth, and so on. So the kept items are evenly spread over the whole series, and a short series is complete.

/// A series, or evenly spaced items of it.
#[derive(Clone, Debug)]
pub struct Thinned<T> {
    kept: Vec<T>,
    most: usize,
    stride: u64,
    seen: u64,
}

impl<T> Thinned<T> {
    /// Creates an empty series that keeps at most this many items, at least two.
    pub fn new(most: usize) -> Thinned<T> {
        Thinned { kept: Vec::new(), most: most.max(2), stride: 1, seen: 0 }
    }

    /// Adds the next item.
    pub fn push(&mut self, item: T) {
        if self.seen.is_multiple_of(self.stride) {
            if self.kept.len() == self.most {
                self.halve();
            }
            if self.seen.is_multiple_of(self.stride) {
                self.kept.push(item);
            }
        }
        self.seen += 1;
    }

    /// Drops every other kept item.
    pub fn halve(&mut self) {
        let mut index = 0;
        self.kept.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.stride *= 2;
    }

    /// Returns the kept items, in the order of their arrival.
    pub fn kept(&self) -> &[T] {
        &self.kept
    }

    /// Returns the kept items, to be sorted.
    pub fn kept_mut(&mut self) -> &mut Vec<T> {
        &mut self.kept
    }

    /// Returns the number of items added.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the distance of the kept items: 1 if all are kept.
    pub fn stride(&self) -> u64 {
        self.stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn kept_items_are_spread_evenly(count in 0..5000u64, most in 2..100usize) {
            let mut series = Thinned::new(most);
            (0..count).for_each(|item| series.push(item));
            let expected: Vec<u64> = (0..count).step_by(series.stride() as usize).collect();
            prop_assert_eq!(series.kept(), &expected[..]);
            prop_assert!(series.kept().len() <= most && (series.stride() == 1 || series.kept().len() >= most / 2));
            prop_assert_eq!(series.seen(), count);
        }
    }
}
