//! Which sample of a heap profile `heapprof --pprof` exports.

use std::fmt;
use std::time::Duration;

use super::exit::Failure;
use super::size::seconds;
use stopworld_analysis::profstats::{HeapProfile, Sample};

/// The sample of a heap profile that is exported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SampleTime {
    /// The last one with any band.
    Last,
    /// The one with the most bytes.
    Peak,
    /// The last one up to this time.
    At(Duration),
}

impl SampleTime {
    /// Parses a value of `--at`.
    pub(super) fn parse(text: &str) -> Result<SampleTime, String> {
        match text {
            "last" => Ok(SampleTime::Last),
            "peak" => Ok(SampleTime::Peak),
            _ => seconds(text)
                .map(SampleTime::At)
                .map_err(|_| "give last, peak, or a number of seconds above 0".to_owned()),
        }
    }

    /// Returns the sample of this profile, which is from the file `name`.
    pub(super) fn choose<'p>(self, heap: &'p HeapProfile, name: &dyn fmt::Display) -> Result<&'p Sample, Failure> {
        let mut samples = heap.samples.kept().iter().filter(|sample| !sample.values.is_empty());
        let chosen = match self {
            SampleTime::Last => samples.next_back(),
            SampleTime::Peak => samples.max_by_key(|sample| sample.total()),
            SampleTime::At(time) => samples.rfind(|sample| u128::from(sample.time_ns) <= time.as_nanos()),
        };
        chosen.ok_or_else(|| {
            let first = heap.samples.kept().iter().find(|sample| !sample.values.is_empty());
            let first = first.map_or(0.0, |sample| sample.time_ns as f64 / 1e9);
            Failure::Usage(format!("--at: {name} has no sample up to this time: its first one is at {first:.3} s"))
        })
    }
}
