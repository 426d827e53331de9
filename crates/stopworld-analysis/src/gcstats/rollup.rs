//! Sums and extremes over all collections, and over those of each generation.

use super::collection::Collection;
use super::figures::Figures;

/// Sums and extremes; times in milliseconds, sizes in MB. Collections that never ended are not counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollup {
    /// The number of collections.
    pub count: u64,
    /// The number of collections that the program requested.
    pub induced: u64,
    /// The longest pause.
    pub max_pause: f64,
    /// The sum of the pauses.
    pub total_pause: f64,
    /// The longest time to suspend all threads.
    pub max_suspend: f64,
    /// The largest peak size of the heap.
    pub max_peak: f64,
    /// The sum of the peak sizes.
    pub total_peak: f64,
    /// The sum of the sizes after each collection.
    pub total_after: f64,
    /// The total allocation.
    pub total_allocated: f64,
    /// The total promotion.
    pub total_promoted: f64,
    /// The highest allocation rate, in MB/s.
    pub max_rate: f64,
}

impl Rollup {
    /// Adds a collection.
    pub(super) fn add(&mut self, collection: &Collection, figures: &Figures) {
        self.count += 1;
        self.induced += u64::from(collection.is_induced());
        self.total_after += collection.after_mb();
        self.total_peak += figures.peak;
        self.total_promoted += collection.promoted_mb();
        self.total_pause += collection.pause;
        self.total_allocated += figures.allocated;
        self.max_pause = max(self.max_pause, collection.pause);
        self.max_peak = max(self.max_peak, figures.peak);
        self.max_rate = max(self.max_rate, figures.rate);
        self.max_suspend = max(self.max_suspend, collection.suspend);
    }

    /// Returns the mean pause; NaN without collections.
    pub fn mean_pause(&self) -> f64 {
        self.total_pause / self.count as f64
    }

    /// Returns the mean of the sizes after each collection.
    pub fn mean_after(&self) -> f64 {
        self.total_after / self.count as f64
    }

    /// Returns the mean of the peak sizes.
    pub fn mean_peak(&self) -> f64 {
        self.total_peak / self.count as f64
    }
}

/// Returns the larger number; NaN if either is NaN, as in .NET.
fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}
