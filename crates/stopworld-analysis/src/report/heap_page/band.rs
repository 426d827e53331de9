//! The formatting of bands: colours and times.

use crate::profstats::Breakdown;

/// The number of bands that the chart shows separately.
pub(super) const SHOWN: usize = 16;

/// Returns the CSS class that colours a band: stages of life have fixed colours, other bands have the colour of their rank.
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
