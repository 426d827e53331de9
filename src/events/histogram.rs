//! Durations, counted in a fixed number of buckets.
//!
//! There are sixteen buckets per power of two, 592 in all, from a nanosecond to 18 minutes. So a value is known to within 1/16 of
//! itself. Counting is one shift and one atomic addition; nothing is allocated. Minimum, maximum and sum are exact.

use crate::sync::{AtomicU64, Ordering};

/// log2 of the number of buckets per power of two.
const FINE: u32 = 4;
/// Values of 2^40 ns and more share the last bucket.
const LARGEST: u64 = (1 << 40) - 1;
const BUCKETS: usize = bucket_of(LARGEST) + 1;

/// Returns the bucket of a value: each value below 16 has its own; above, each power of two is divided into 16.
const fn bucket_of(value: u64) -> usize {
    let value = if value > LARGEST { LARGEST } else { value };
    if value < 1 << FINE {
        return value as usize;
    }
    let shift = value.ilog2() - FINE;
    ((shift as usize) << FINE) + (value >> shift) as usize
}

/// Returns the greatest value of a bucket.
const fn top_of(bucket: usize) -> u64 {
    if bucket < 2 << FINE {
        return bucket as u64;
    }
    let shift = (bucket >> FINE) - 1;
    let mantissa = (1 << FINE) + (bucket & ((1 << FINE) - 1));
    ((mantissa as u64 + 1) << shift) - 1
}

/// A histogram of nanoseconds. Any number of threads may add values.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    least: AtomicU64,
    greatest: AtomicU64,
}

/// The summary of a histogram. All numbers except `count` are in nanoseconds; all are 0 when nothing was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// The smallest value, exactly.
    pub min: u64,
    /// The median: half of the values are at most this. Accurate to 1/16.
    pub median: u64,
    /// The 99th percentile: 99 % of the values are at most this. Accurate to 1/16.
    pub p99: u64,
    /// The largest value, exactly.
    pub max: u64,
    /// The sum, exactly.
    pub total: u64,
}

impl Histogram {
    /// Creates an empty histogram.
    pub const fn new() -> Histogram {
        Histogram {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
            least: AtomicU64::new(u64::MAX),
            greatest: AtomicU64::new(0),
        }
    }

    /// Counts a value. Allocates nothing and never waits.
    pub fn add(&self, nanoseconds: u64) {
        self.buckets[bucket_of(nanoseconds)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(nanoseconds, Ordering::Relaxed);
        self.least.fetch_min(nanoseconds, Ordering::Relaxed);
        self.greatest.fetch_max(nanoseconds, Ordering::Relaxed);
    }

    /// Summarizes what was counted so far. Exact if no thread adds a value at the same time.
    pub fn summary(&self) -> Summary {
        let counts: [u64; BUCKETS] = std::array::from_fn(|bucket| self.buckets[bucket].load(Ordering::Relaxed));
        let count: u64 = counts.iter().sum();
        if count == 0 {
            return Summary::default();
        }
        let min = self.least.load(Ordering::Relaxed);
        let max = self.greatest.load(Ordering::Relaxed);
        // The smallest value such that `percent` per cent of all values are at most it, to the accuracy of its bucket.
        let percentile = |percent: u64| {
            let rank = (count * percent).div_ceil(100).max(1);
            let mut below = 0;
            let bucket = counts.iter().position(|here| {
                below += here;
                below >= rank
            });
            // While a thread is in `add`, `least` and `greatest` may be older than the buckets, and `min` may exceed `max`. So the value is
            // first limited to `max`, and then raised to `min` only as far as that does not exceed `max`.
            bucket.map_or(max, top_of).min(max).max(min.min(max))
        };
        Summary {
            count,
            min,
            median: percentile(50),
            p99: percentile(99),
            max,
            total: self.sum.load(Ordering::Relaxed),
        }
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_cover_all_values_without_gap() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(next), bucket, "the value after the last bucket begins the next");
            assert_eq!(bucket_of(top_of(bucket)), bucket);
            next = top_of(bucket) + 1;
        }
        assert_eq!(next, LARGEST + 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_summary_of_no_values_is_all_zero() {
        assert_eq!(Histogram::new().summary(), Summary::default());
    }

    proptest! {
        #[test]
        fn a_summary_agrees_with_sorting_to_within_a_sixteenth(mut values in prop::collection::vec(0_u64..1 << 39, 1..300)) {
            let histogram = Histogram::new();
            values.iter().for_each(|value| histogram.add(*value));
            values.sort_unstable();
            let summary = histogram.summary();
            let rank = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
            prop_assert_eq!(summary.count, values.len() as u64);
            prop_assert_eq!(summary.min, values[0]);
            prop_assert_eq!(summary.max, values[values.len() - 1]);
            prop_assert_eq!(summary.total, values.iter().sum::<u64>());
            for (ours, exact) in [(summary.median, rank(50)), (summary.p99, rank(99))] {
                prop_assert!(ours >= exact && ours - exact <= exact / 16, "{} for {}", ours, exact);
            }
        }
    }
}
