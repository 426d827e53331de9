//! The list of events and data that could not be carried over, with counts by kind and reason.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Maximum number of distinct kinds; further kinds are counted together.
const MOST_KINDS: usize = 4096;
/// The name of the row in which further kinds are counted.
const OTHERS: &str = "other kinds";

/// The list of events and data that were left out.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    reasons: BTreeMap<&'static str, HashMap<String, u64>>,
    kinds: usize,
}

/// One row of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutRow {
    /// How often the kind was left out.
    pub count: u64,
    /// The kind of event or data.
    pub what: String,
    /// The reason why it was left out.
    pub why: &'static str,
}

impl LeftOut {
    /// Adds `count` to the row of this kind and reason. May be called repeatedly for the same row.
    pub(crate) fn add(&mut self, what: &str, why: &'static str, count: u64) {
        if count == 0 {
            return;
        }
        let kinds = self.reasons.entry(why).or_default();
        if let Some(known) = kinds.get_mut(what) {
            *known += count;
            return;
        }
        let what = if self.kinds < MOST_KINDS { what } else { OTHERS };
        self.kinds += 1;
        *kinds.entry(what.to_owned()).or_default() += count;
    }

    /// Returns whether everything was carried over.
    pub fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Returns the kinds of events that were left out, ordered by reason and then by name.
    pub fn rows(&self) -> Vec<LeftOutRow> {
        let mut rows: Vec<LeftOutRow> = self
            .reasons
            .iter()
            .flat_map(|(why, kinds)| {
                kinds.iter().map(|(what, count)| LeftOutRow { count: *count, what: what.clone(), why })
            })
            .collect();
        rows.sort_by(|a, b| (a.why, &a.what).cmp(&(b.why, &b.what)));
        rows
    }
}

impl fmt::Display for LeftOut {
    /// A line for each row: count, what, why.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let width = rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0).min(60);
        for row in rows {
            writeln!(f, "{:>12}  {:<width$}  {}", row.count, row.what, row.why)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_one_kind_are_added_and_rows_are_sorted_by_reason() {
        let mut left_out = LeftOut::default();
        left_out.add("stacks", "no place", 2);
        left_out.add("nothing", "no place", 0);
        left_out.add("b", "another reason", 1);
        left_out.add("stacks", "no place", 3);
        assert_eq!(left_out.to_string(), "           1  b       another reason\n           5  stacks  no place\n");
    }

    #[test]
    fn the_list_is_bounded_and_the_sum_is_right() {
        let mut left_out = LeftOut::default();
        for kind in 0..10_000 {
            left_out.add(&kind.to_string(), "hostile", 1);
        }
        let rows = left_out.rows();
        assert!(rows.len() <= MOST_KINDS + 1);
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 10_000);
    }
}
