//! The charts of the page.

use maud::{Markup, html};

use super::series::{Column, Series};
use crate::gcstats::collection::GENERATIONS;
use crate::gcstats::number::Grouped;
use crate::report::chart::{self, Chart, Kind, Unit};

/// The names of the generations.
const NAMES: [&str; GENERATIONS] = ["gen 0", "gen 1", "gen 2", "large", "pinned"];

/// Draws the longest pause at each position as a bar in the colour of its generation.
pub(super) fn pauses(series: &Series) -> Chart {
    let longest: Vec<_> = series.columns().map(|column| (&column.longest, column.count)).collect();
    let bars = (0..3).map(|generation: usize| {
        let values = longest
            .iter()
            .map(|(longest, _)| (longest.generation.clamp(0, 2) as usize == generation).then_some(longest.pause));
        named(generation, values.collect())
    });
    let notes = longest.iter().map(|(longest, count)| {
        let others = if *count > 1 { format!(", the longest of {count}") } else { String::new() };
        format!("GC {}, {}{others}", longest.number, longest.name)
    });
    Chart {
        from: seconds(series.from),
        to: seconds(series.to),
        places: longest.iter().map(|(longest, _)| seconds(longest.start)).collect(),
        series: bars.collect(),
        notes: notes.collect(),
        ..Chart::new(
            "pauses",
            about("The pause of each collection", "the longest", series),
            Kind::Bars,
            Unit::Milliseconds,
        )
    }
}

/// Draws the sizes of the generations as stacked areas. The heap keeps its size until the next collection.
pub(super) fn heap(series: &Series) -> Chart {
    let columns: Vec<&Column> = series.columns().collect();
    let shown = if series.any_pinned { GENERATIONS } else { GENERATIONS - 1 };
    // Old generations are below the young ones, so that long-lived memory is at the bottom.
    let order = [2, 3, 4, 1, 0].into_iter().filter(|generation| *generation < shown);
    let areas = order
        .map(|generation| named(generation, columns.iter().map(|column| Some(column.sizes[generation])).collect()));
    Chart {
        from: seconds(series.from),
        to: seconds(series.to),
        places: columns.iter().map(|column| seconds(column.time)).collect(),
        series: areas.collect(),
        ..Chart::new(
            "heap",
            about("The heap after each collection, by generation", "the last", series),
            Kind::Steps,
            Unit::Megabytes,
        )
    }
}

/// Draws the highest allocation rate at each position as a bar.
pub(super) fn rate(series: &Series) -> Chart {
    let columns: Vec<&Column> = series.columns().collect();
    let rates = columns.iter().map(|column| Some(column.rate)).collect();
    let rates = chart::Series { name: "allocated".to_owned(), class: "rate".to_owned(), values: rates };
    Chart {
        from: seconds(series.from),
        to: seconds(series.to),
        places: columns.iter().map(|column| seconds(column.time)).collect(),
        series: vec![rates],
        ..Chart::new(
            "rate",
            about("Allocated MB per second before each collection", "the highest", series),
            Kind::Bars,
            Unit::MegabytesPerSecond,
        )
    }
}

/// Draws the histogram of pauses. Each class ends at 1.25 times the end of the previous class.
pub(super) fn histogram(series: &Series) -> Chart {
    let mut classes: Vec<(f64, f64, u64)> = Vec::new();
    // The first class ends at 1 µs.
    for bucket in series.pauses.iter_log(1_000, 1.25) {
        let until = bucket.value_iterated_to() as f64 / 1e6;
        let from = classes.last().map_or(0.0, |class| class.1);
        classes.push((from, until, bucket.count_since_last_iteration()));
    }
    let first = classes.iter().position(|class| class.2 > 0).unwrap_or(0);
    let classes = &classes[first..];
    let counts = classes.iter().map(|class| Some(class.2 as f64)).collect();
    let last = classes.last().map_or(0.0, |class| class.1);
    Chart {
        to: classes.len() as f64,
        places: (0..classes.len()).map(|index| index as f64 + 0.5).collect(),
        series: vec![chart::Series { name: "pauses".to_owned(), class: "rate".to_owned(), values: counts }],
        bounds: classes.iter().map(|class| class.0).chain([last]).collect(),
        ..Chart::new("histogram", "Number of pauses by length".to_owned(), Kind::Classes, Unit::Count)
    }
}

/// Returns the percentiles of the pauses, as a table.
pub(super) fn percentiles(series: &Series) -> Markup {
    let percentiles = [50.0, 90.0, 99.0, 99.9, 100.0];
    html! {
        table {
            caption { "Pauses, ms" }
            thead { tr { @for percentile in percentiles { th scope="col" { (name(percentile)) } } } }
            tbody {
                tr {
                    @for percentile in percentiles {
                        td { @if series.pauses.is_empty() { "–" } @else { (Grouped(at_percentile(series, percentile), 3)) } }
                    }
                }
            }
        }
    }
}

/// Returns a percentile of the pauses, in milliseconds. The histogram is accurate to three digits; the longest pause is exact.
fn at_percentile(series: &Series, percentile: f64) -> f64 {
    (series.pauses.value_at_percentile(percentile) as f64 / 1e6).min(series.longest)
}

fn name(percentile: f64) -> String {
    match percentile {
        50.0 => "median".to_owned(),
        100.0 => "longest".to_owned(),
        percentile => format!("{percentile} %"),
    }
}

fn named(generation: usize, values: Vec<Option<f64>>) -> chart::Series {
    chart::Series { name: NAMES[generation].to_owned(), class: format!("g{generation}"), values }
}

/// Returns the sentence under a heading. If several collections share a position, the sentence states which of them is shown.
fn about(what: &str, which: &str, series: &Series) -> String {
    match series.columns().any(|column| column.count > 1) {
        true => format!("{what}; {which} where several share a position"),
        false => what.to_owned(),
    }
}

fn seconds(milliseconds: f64) -> f64 {
    milliseconds / 1e3
}
