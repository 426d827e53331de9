//! How a band is shown: its colour, and times.

use crate::profstats::Breakdown;

/// The bands that the chart has by themselves.
pub(super) const SHOWN: usize = 16;

/// The class that colours a band: phases of life have their own, others those of their places.
pub(super) fn class(name: &str, breakdown: Breakdown, place: usize) -> String {
    if breakdown == Breakdown::Biography
        && let Some(phase) = ["VOID", "LAG", "USE", "INHERENT_USE", "DRAG"].iter().position(|phase| *phase == name)
    {
        return format!("life{phase}");
    }
    format!("b{}", place.min(SHOWN))
}

pub(super) fn seconds(nanoseconds: u64) -> String {
    format!("{:.3}", nanoseconds as f64 / 1e9)
}
