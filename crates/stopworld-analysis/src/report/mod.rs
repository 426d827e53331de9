//! Reports: tables, JSON, and pages for a browser.
//!
//! A [`RunSummary`] listens to a world. It receives each collection's report after the restart and keeps only summaries (histograms of
//! the phases, the slowest thread, the high-water marks). So an hour of collections costs no more memory than a minute. At the end
//! of the program, [`table`] formats the summary for a terminal and [`json`] for a script. [`flexowriter`] prints each collection as
//! it happens, with the words that the first LISP garbage collector printed.

mod chart;
pub mod collections;
mod document;
pub mod flexowriter;
pub mod heap_map;
pub mod heap_objects;
pub mod heap_page;
pub mod heapprof;
pub mod json;
mod layout;
pub mod page;
mod pauses;
pub mod stops;
mod summary;
pub mod table;
pub mod timeprof;

use std::fmt;

pub use document::{CHART_LIBRARY, CHART_STYLES, PAGE_STYLES};
pub use pauses::{Pauses, Phase, Spread};
pub use summary::{Run, RunSummary, Slowest, Trace};

/// A number of bytes, shown with three significant digits in the unit that fits: `17 B`, `4.00 KiB`, `1.25 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64;
        let mut unit = "";
        for next in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
            // 1023.5 would print as 1024 of the smaller unit.
            if value < 1023.5 {
                break;
            }
            value /= 1024.0;
            unit = next;
        }
        write!(f, "{value:.*} {unit}", decimals(value))
    }
}

/// A number of nanoseconds, shown in microseconds with three significant digits, or more for 1000 µs and above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Micros(pub u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 as f64 / 1e3;
        write!(f, "{value:.*}", decimals(value))
    }
}

/// Returns the number of decimals for three significant digits.
fn decimals(value: f64) -> usize {
    match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0, "0 B")]
    #[case(1023, "1023 B")]
    #[case(1024, "1.00 KiB")]
    #[case(64 << 20, "64.0 MiB")]
    #[case((1 << 20) - 1, "1.00 MiB")]
    #[case(1_342_177_280, "1.25 GiB")]
    #[case(u64::MAX, "16.0 EiB")]
    fn bytes_are_shown_in_the_unit_that_fits(#[case] bytes: u64, #[case] shown: &str) {
        assert_eq!(Bytes(bytes).to_string(), shown);
    }

    #[rstest]
    #[case(0, "0.00")]
    #[case(1_234, "1.23")]
    #[case(12_345, "12.3")]
    #[case(9_999, "10.0")]
    #[case(1_234_567, "1235")]
    fn times_are_shown_in_microseconds(#[case] ns: u64, #[case] shown: &str) {
        assert_eq!(Micros(ns).to_string(), shown);
    }
}
