//! Parses the output of a round: every program of the comparison prints one line of `key=value` pairs.

use std::collections::BTreeMap;

/// The numbers of one round. Values that are not numbers (names, modes) are ignored.
pub type Sample = BTreeMap<String, f64>;

pub fn parse(line: &str) -> Sample {
    line.split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?)))
        .collect()
}

/// Returns the median of the samples. Panics if there are none.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

pub fn quantile(samples: &[f64], q: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = q * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    below + (above - below) * position.fract()
}
