//! The times of the phases of all pauses: one histogram for each phase.
//!
//! Percentiles come from HDR histograms of nanoseconds with three significant digits: they hold any pause from a nanosecond to
//! hours in a few hundred kilobytes and record in constant time. Minimum, maximum and sum are exact and kept separately.

use hdrhistogram::Histogram;

use stopworld::CollectionReport;

/// The phases of a pause, as the table splits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The stop: from the first signal until every thread is stopped.
    Stop,
    /// Roots (stacks, registers, handles) and marking.
    Mark,
    /// Clearing weak references and queuing finalizers.
    Weak,
    /// Preparing the blocks for sweeping. The sweep itself happens later, as threads allocate.
    SweepSetUp,
    /// The restart: from the first thread resumed to the last.
    Restart,
    /// The whole pause, from the decision to collect until the restart.
    Total,
}

impl Phase {
    /// All phases in the order in which they happen; the total is last.
    pub const ALL: [Phase; 6] =
        [Phase::Stop, Phase::Mark, Phase::Weak, Phase::SweepSetUp, Phase::Restart, Phase::Total];

    /// Returns the name, as a row heading of the table.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Stop => "stop",
            Phase::Mark => "mark",
            Phase::Weak => "weak",
            Phase::SweepSetUp => "sweep set-up",
            Phase::Restart => "restart",
            Phase::Total => "total",
        }
    }

    fn of(self, report: &CollectionReport) -> u64 {
        match self {
            Phase::Stop => report.stop_ns,
            Phase::Mark => report.roots_ns + report.mark_ns,
            Phase::Weak => report.weak_ns,
            Phase::SweepSetUp => report.sweep_ns,
            Phase::Restart => report.restart_ns,
            Phase::Total => report.pause_ns,
        }
    }
}

/// The distribution of one phase over all collections, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Spread {
    /// The minimum.
    pub min: u64,
    /// The median.
    pub median: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
    /// The sum.
    pub sum: u64,
}

/// The phases of all pauses so far.
pub struct Pauses {
    phases: [Recorded; Phase::ALL.len()],
}

struct Recorded {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    sum: u64,
}

impl Pauses {
    /// Creates empty histograms.
    pub fn new() -> Pauses {
        Pauses { phases: std::array::from_fn(|_| Recorded::new()) }
    }

    /// Adds a collection.
    pub fn record(&mut self, report: &CollectionReport) {
        for phase in Phase::ALL {
            self.phases[phase as usize].record(phase.of(report));
        }
    }

    /// Returns the distribution of a phase.
    pub fn spread(&self, phase: Phase) -> Spread {
        self.phases[phase as usize].spread()
    }
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses::new()
    }
}

impl Recorded {
    fn new() -> Recorded {
        // Cannot fail: between 0 and 5 significant digits are allowed.
        let histogram = Histogram::new(3).expect("three significant digits are a valid precision");
        Recorded { histogram, min: u64::MAX, max: 0, sum: 0 }
    }

    fn record(&mut self, ns: u64) {
        // The histogram resizes itself, so that every value fits. If it did not, the exact maximum would still be right.
        let _ = self.histogram.record(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        self.sum += ns;
    }

    fn spread(&self) -> Spread {
        if self.histogram.is_empty() {
            return Spread::default();
        }
        // A quantile is the bound of a bucket, which may be outside the range of the recorded values.
        let quantile = |q| self.histogram.value_at_quantile(q).clamp(self.min, self.max);
        Spread { min: self.min, median: quantile(0.5), p99: quantile(0.99), max: self.max, sum: self.sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_a_thousand_pauses_is_within_a_thousandth() {
        let mut phase = Recorded::new();
        (1..=1000).for_each(|us| phase.record(us * 1000));
        let spread = phase.spread();
        assert_eq!((spread.min, spread.max, spread.sum), (1_000, 1_000_000, 500_500_000));
        assert!(spread.median.abs_diff(500_000) <= 500, "{spread:?}");
        assert!(spread.p99.abs_diff(990_000) <= 990, "{spread:?}");
    }

    #[test]
    fn a_single_pause_is_its_own_minimum_median_and_maximum() {
        let mut phase = Recorded::new();
        phase.record(123_457);
        assert_eq!(phase.spread(), Spread { min: 123_457, median: 123_457, p99: 123_457, max: 123_457, sum: 123_457 });
    }

    #[test]
    fn no_pause_is_all_zeros() {
        assert_eq!(Recorded::new().spread(), Spread::default());
    }
}
