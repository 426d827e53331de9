//! Sets of addresses, as ranges that do not touch each other: the roots that a program has added.
//!
//! bdwgc has an array that it searches from the beginning, of at most 2048 or 8192 ranges. A program with fibers adds and removes a range
//! for each, so this is an ordered map: each operation takes the logarithm of the number of ranges.

use std::collections::BTreeMap;

/// A set of addresses.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    /// The end of each range, by its beginning.
    ranges: BTreeMap<usize, usize>,
}

impl Intervals {
    pub(crate) const fn new() -> Self {
        Self { ranges: BTreeMap::new() }
    }

    /// Adds the addresses from `low` to before `high`.
    pub(crate) fn add(&mut self, low: usize, high: usize) {
        if low >= high {
            return;
        }
        let (mut low, mut high) = (low, high);
        // Ranges that overlap or touch the new one: the last one that begins before its end, and so on downwards.
        while let Some((&from, &to)) = self.ranges.range(..=high).next_back() {
            if to < low {
                break;
            }
            (low, high) = (low.min(from), high.max(to));
            self.ranges.remove(&from);
        }
        self.ranges.insert(low, high);
    }

    /// Removes the addresses from `low` to before `high`.
    pub(crate) fn remove(&mut self, low: usize, high: usize) {
        if low >= high {
            return;
        }
        while let Some((&from, &to)) = self.ranges.range(..high).next_back() {
            if to <= low {
                break;
            }
            self.ranges.remove(&from);
            if to > high {
                self.ranges.insert(high, to);
            }
            if from < low {
                self.ranges.insert(from, low);
                break;
            }
        }
    }

    /// Returns the end of the range that contains an address.
    pub(crate) fn end_of(&self, address: usize) -> Option<usize> {
        let (_, &end) = self.ranges.range(..=address).next_back()?;
        (address < end).then_some(end)
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Calls `visit` with each range, in the order of addresses.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize, usize)) {
        self.ranges.iter().for_each(|(&low, &high)| visit(low, high));
    }

    /// Calls `visit` with each part of `[low, high)` that is not in the set.
    pub(crate) fn for_each_outside(&self, low: usize, high: usize, mut visit: impl FnMut(usize, usize)) {
        let mut from = self.end_of(low).unwrap_or(low);
        for (&begin, &end) in self.ranges.range(from..high.max(from)) {
            if from < begin {
                visit(from, begin);
            }
            from = end;
        }
        if from < high {
            visit(from, high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_set_of_ranges_is_the_set_of_their_addresses(
            steps in proptest::collection::vec((any::<bool>(), 0_usize..40, 0_usize..40), 1..30),
            low in 0_usize..40, high in 0_usize..40,
        ) {
            let (mut intervals, mut naive) = (Intervals::new(), BTreeSet::new());
            for (adds, low, high) in steps {
                if adds {
                    intervals.add(low, high);
                    naive.extend(low..high);
                } else {
                    intervals.remove(low, high);
                    naive.retain(|address| !(low..high).contains(address));
                }
                let mut seen = Vec::new();
                intervals.for_each(|low, high| seen.extend(low..high));
                prop_assert_eq!(&seen, &naive.iter().copied().collect::<Vec<_>>());
                let ranges: Vec<_> = intervals.ranges.iter().collect();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", ranges);
            }
            for address in 0..41 {
                let end = intervals.end_of(address);
                prop_assert_eq!(end.is_some(), naive.contains(&address));
                if let Some(end) = end {
                    prop_assert!((address..end).all(|inside| naive.contains(&inside)) && !naive.contains(&end));
                }
            }
            let mut outside = Vec::new();
            intervals.for_each_outside(low, high, |low, high| outside.extend(low..high));
            prop_assert_eq!(outside, (low..high).filter(|at| !naive.contains(at)).collect::<Vec<_>>());
        }
    }
}
