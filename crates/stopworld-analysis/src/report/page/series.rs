//! From collections to the data of the charts.

use std::io;

use hdrhistogram::Histogram;

use crate::gcstats::collection::{Collection, GENERATIONS};
use crate::gcstats::{Figures, Process};

/// The number of positions on a time axis: more than the pixels of a window, so that the reader can zoom in.
const COLUMNS: usize = 2000;
/// The histogram's maximum: an hour, in nanoseconds. Longer pauses count as an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// The data of the charts.
pub(super) struct Series {
    /// The times of the first and the last collection, in milliseconds.
    pub(super) from: f64,
    pub(super) to: f64,
    /// The collections at each position; `None` at most positions if there are few collections.
    columns: Vec<Option<Column>>,
    /// The pauses in nanoseconds.
    pub(super) pauses: Histogram<u64>,
    /// The longest pause, in milliseconds.
    pub(super) longest: f64,
    pub(super) any_pinned: bool,
}

/// The collections at a position of the time axis.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// The collection with the longest pause.
    pub(super) longest: Longest,
    /// The number of collections.
    pub(super) count: u64,
    /// The size of each generation after the last of them, in MB.
    pub(super) sizes: [f64; GENERATIONS],
    /// The time of that last collection.
    pub(super) time: f64,
    /// The highest allocation rate, in MB/s.
    pub(super) rate: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Longest {
    pub(super) number: i32,
    pub(super) name: String,
    pub(super) generation: i32,
    pub(super) start: f64,
    pub(super) pause: f64,
}

impl Series {
    /// Reads the collections twice: first their times, then their figures.
    pub(super) fn of(process: &Process) -> io::Result<Series> {
        let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
        each(process, |collection, _| {
            from = from.min(collection.pause_start);
            to = to.max(collection.pause_start);
        })?;
        if from > to {
            (from, to) = (0.0, 0.0);
        }
        let pauses = Histogram::new_with_max(LONGEST, 3).expect("the limits are valid");
        let mut series = Series {
            from,
            to,
            columns: vec![None; COLUMNS],
            pauses,
            longest: process.all.max_pause,
            any_pinned: false,
        };
        each(process, |collection, figures| series.add(collection, figures))?;
        Ok(series)
    }

    /// Returns the positions with collections, in the order of time.
    pub(super) fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().flatten()
    }

    /// Returns the position on the time axis, from 0 to 1.
    fn place(&self, time: f64) -> f64 {
        let span = self.to - self.from;
        if span > 0.0 { ((time - self.from) / span).clamp(0.0, 1.0) } else { 0.5 }
    }

    fn add(&mut self, collection: &Collection, figures: &Figures) {
        let nanoseconds = (collection.pause * 1e6).max(0.0) as u64;
        self.pauses.saturating_record(nanoseconds);
        let sizes = std::array::from_fn(|generation| number(collection.size_after_mb(generation)));
        self.any_pinned |= sizes[GENERATIONS - 1] > 0.0;
        let place = ((self.place(collection.pause_start) * COLUMNS as f64) as usize).min(COLUMNS - 1);
        let this = Longest {
            number: collection.number,
            name: collection.generation_name(),
            generation: collection.generation,
            start: collection.pause_start,
            pause: collection.pause,
        };
        let rate = number(figures.rate).max(0.0);
        let time = collection.pause_start;
        let column = self.columns[place].get_or_insert(Column { longest: this.clone(), count: 0, sizes, time, rate });
        if this.pause > column.longest.pause {
            column.longest = this;
        }
        column.count += 1;
        column.sizes = sizes;
        column.time = time;
        column.rate = column.rate.max(rate);
    }
}

/// Replaces NaN and infinities by zero.
fn number(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

fn each(process: &Process, mut each: impl FnMut(&Collection, &Figures)) -> io::Result<()> {
    process.for_each(|collection, figures| {
        if collection.complete {
            each(collection, figures);
        }
        Ok::<_, io::Error>(())
    })
}
