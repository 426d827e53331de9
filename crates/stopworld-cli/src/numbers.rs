//! The numbers in arguments.

use std::num::NonZeroUsize;

/// Parses a whole number in a range. The error names `what`, and the range.
pub(super) fn between(text: &str, least: u64, most: u64, what: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(n) if (least..=most).contains(&n) => Ok(n),
        _ => Err(format!("{what} must be a whole number from {least} to {most}")),
    }
}

/// Parses the number of rows of a table.
pub(super) fn rows(text: &str) -> Result<usize, String> {
    between(text, 0, u64::from(u32::MAX), "the number of rows").map(|rows| rows as usize)
}

/// Parses a number of traces that are converted at the same time.
pub(super) fn jobs(text: &str) -> Result<NonZeroUsize, String> {
    let n = between(text, 1, u64::from(u16::MAX), "the number of jobs")?;
    NonZeroUsize::new(n as usize).ok_or_else(|| "the number of jobs must be at least 1".to_owned())
}
