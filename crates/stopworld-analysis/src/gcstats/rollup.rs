//! Sums and extremes over all collections, and over those of each generation.

use super::collection::Collection;
use super::figures::Figures;

/// Sums and extremes; times in milliseconds, sizes in MB. Collections that never ended don't count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollup {
    /// Collections.
    pub count: u64,
    /// Those that the program asked for.
    pub induced: u64,
    /// The longest pause.
    pub max_pause: f64,
    /// All pauses.
    pub total_pause: f64,
    /// The longest way to the standstill.
    pub max_suspend: f64,
    /// The heap at its largest.
    pub max_peak: f64,
    /// The sum of the largest sizes.
    pub total_peak: f64,
    /// The sum of the sizes after.
    pub total_after: f64,
    /// All that was allocated.
    pub total_allocated: f64,
    /// All that was promoted.
    pub total_promoted: f64,
    /// The highest rate of allocation, MB/s.
    pub max_rate: f64,
}

impl Rollup {
    /// Counts a collection.
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

    /// The mean pause; no number without collections.
    pub fn mean_pause(&self) -> f64 {
        self.total_pause / self.count as f64
    }

    /// The mean of the sizes after.
    pub fn mean_after(&self) -> f64 {
        self.total_after / self.count as f64
    }

    /// The mean of the largest sizes.
    pub fn mean_peak(&self) -> f64 {
        self.total_peak / self.count as f64
    }
}

/// The larger one; what is no number stays, as .NET has it.
fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}
