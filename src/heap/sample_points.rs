//! Where allocations are sampled (`.profile.samples`): points in the bytes that a thread allocates, on average one for each *interval*.
//!
//! The distances between points are distributed exponentially. So each byte is as likely to be a point as any other, whatever was allocated
//! before, and an object of *s* bytes contains at least one with the probability `1 - exp(-s / interval)`: dividing by that makes estimates
//! without bias, for small and large objects alike.
//!
//! **The fast path does nothing for it.** A point is chosen when a thread takes a run of cells, and the run's limit is lowered to the cell that
//! contains it:
//!
//! ```text
//!   run      | free | free | free | free | free | free |
//!             ^cursor             ^limit = sample_at    ^end
//! ```
//!
//! So the allocation of that cell takes the slow path, which samples it and moves the limit to the next point or the end. Bytes of a run that
//! is given up unused do not count: that a point is in one byte is independent of what is in others.

use std::fmt;

use crate::sync::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Value of [`OwnedBlock`](super::cache)'s `sample_at`: no cell of the run is sampled.
pub(super) const NO_SAMPLE: usize = usize::MAX;

/// The points of one thread. Only the thread itself uses it.
pub(crate) struct SamplePoints {
    /// The mean distance in bytes.
    interval: f64,
    random: AtomicU64,
    /// Bytes from the last run that the thread has taken to the next point.
    distance: AtomicU64,
    /// The payload address of the latest sampled cell, and its bin. The cell may not be an object yet.
    latest: AtomicUsize,
    latest_bin: AtomicUsize,
}

impl SamplePoints {
    /// Creates the points of a thread. Equal seeds give equal points.
    pub(crate) fn new(interval: u64, seed: u64) -> Self {
        let points = Self {
            interval: interval as f64,
            random: AtomicU64::new(seed),
            distance: AtomicU64::new(0),
            latest: AtomicUsize::new(0),
            latest_bin: AtomicUsize::new(0),
        };
        points.choose();
        points
    }

    /// Returns a random number in (0, 1]: SplitMix64, of which 53 bits are used.
    fn random(&self) -> f64 {
        let state = self.random.load(Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.store(state, Relaxed);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((mixed ^ mixed >> 31) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Chooses the distance to the next point.
    fn choose(&self) {
        self.distance.store((-libm::log(self.random()) * self.interval) as u64, Relaxed);
    }

    /// Passes the bytes that the thread has taken. Returns the offset of the first point in them, if there is one. The next point is then
    /// counted from the bytes that are passed next.
    pub(super) fn pass(&self, bytes: usize) -> Option<usize> {
        let distance = self.distance.load(Relaxed);
        match distance.checked_sub(bytes as u64) {
            Some(rest) => {
                self.distance.store(rest, Relaxed);
                None
            }
            None => {
                self.choose();
                Some(distance as usize)
            }
        }
    }

    /// Returns the header address of the first cell with a point among these cells, or [`NO_SAMPLE`].
    pub(super) fn first_in(&self, cells: std::ops::Range<usize>, cell_bytes: usize) -> usize {
        let offset = self.pass(cells.len());
        offset.map_or(NO_SAMPLE, |offset| cells.start + offset / cell_bytes * cell_bytes)
    }

    /// Records which cell was sampled last.
    pub(super) fn set_latest(&self, payload: usize, bin: usize) {
        self.latest_bin.store(bin, Relaxed);
        self.latest.store(payload, Relaxed);
    }

    /// The payload address of the cell that was sampled last, and its bin.
    pub(super) fn latest(&self) -> (usize, usize) {
        (self.latest.load(Relaxed), self.latest_bin.load(Relaxed))
    }
}

impl fmt::Debug for SamplePoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SamplePoints").field("interval", &self.interval).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]
        /// The estimate of the objects, from those that are sampled, against their number. The tolerance is six standard deviations.
        #[test]
        fn estimates_have_no_bias(
            seed: u64,
            interval in 1_u64..100_000,
            cell_bytes in (1_usize..2000).prop_map(|words| words * 8),
            run in 1_usize..50,
        ) {
            let points = SamplePoints::new(interval, seed);
            let (runs, mut samples) = (20_000, 0_u64);
            for _ in 0..runs {
                let (mut at, end) = (0x1_0000, 0x1_0000 + run * cell_bytes);
                while at < end {
                    let sampled = points.first_in(at..end, cell_bytes);
                    if sampled == NO_SAMPLE {
                        break;
                    }
                    prop_assert!((at..end).contains(&sampled) && (sampled - at).is_multiple_of(cell_bytes));
                    samples += 1;
                    at = sampled + cell_bytes;
                }
            }
            let objects = (runs * run) as f64;
            let probability = -(-(cell_bytes as f64) / interval as f64).exp_m1();
            let deviation = (objects * probability * (1.0 - probability)).sqrt();
            let difference = (samples as f64 - objects * probability).abs();
            // The distances are whole bytes, rounded down: each is half a byte too short on average.
            let rounding = samples as f64 / interval as f64;
            prop_assert!(difference <= 6.0 * deviation + rounding + 1.0, "{samples} samples, expected {}", objects * probability);
        }
    }

    #[test]
    fn equal_seeds_give_equal_points() {
        let offsets = |seed| {
            let points = SamplePoints::new(1000, seed);
            (0..1000).map(|_| points.pass(300)).collect::<Vec<_>>()
        };
        assert_eq!(offsets(7), offsets(7));
        assert_ne!(offsets(7), offsets(8));
    }
}
