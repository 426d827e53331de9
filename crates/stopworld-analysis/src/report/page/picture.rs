//! The charts: SVG, coloured by the page's styles.

use std::fmt::Write;

use maud::{Markup, html};

use super::series::{Column, Series};
use crate::gcstats::collection::GENERATIONS;
use crate::gcstats::number::Grouped;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 240.0;
/// Margins: for the numbers at the left, and below.
const LEFT: f64 = 64.0;
const BELOW: f64 = 24.0;
const ABOVE: f64 = 8.0;
/// The names of the generations.
const NAMES: [&str; GENERATIONS] = ["gen 0", "gen 1", "gen 2", "large", "pinned"];

/// The longest pause at each position, as a bar.
pub(super) fn pauses(series: &Series) -> Markup {
    let top = nice(series.columns.iter().flatten().map(|column| column.longest.pause).fold(0.0, f64::max));
    let bars = html! {
        @for column in series.columns.iter().flatten() {
            @let longest = &column.longest;
            @let (x, y) = (x(series.place(longest.start)), y(longest.pause / top));
            @let others = if column.count > 1 { format!(", the longest of {}", column.count) } else { String::new() };
            g.point tabindex="-1" {
                title {
                    "GC " (longest.number) ", " (longest.name) ", at " (ms(longest.start)) " ms: "
                    (ms(longest.pause)) " ms" (others)
                }
                path class={ "bar g" (longest.generation.clamp(0, 2)) } d={ "M" (at(x)) "," (at(y)) "V" (at(y_of_zero())) } {}
            }
        }
    };
    let used = [0, 1, 2].map(|generation| (NAMES[generation], generation));
    picture("The longest pause in each part of the trace, in milliseconds", "ms", top, Some(series), &used, &bars)
}

/// The sizes of the generations, stacked.
pub(super) fn heap(series: &Series) -> Markup {
    let total = |column: &Column| column.sizes.iter().sum::<f64>();
    let top = nice(series.columns.iter().flatten().map(total).fold(0.0, f64::max));
    let columns: Vec<&Column> = series.columns.iter().flatten().collect();
    let shown = if series.any_pinned { GENERATIONS } else { GENERATIONS - 1 };
    // Old generations below the young: what stays is at the bottom.
    let order: Vec<usize> = [2, 3, 4, 1, 0].into_iter().filter(|generation| *generation < shown).collect();
    let areas = html! {
        @for (level, generation) in order.iter().enumerate() {
            path class={ "area g" (generation) } d=(area(series, &columns, &order[..level], *generation)) {}
        }
        @for column in &columns {
            @let x = x(series.place(column.time));
            g.point tabindex="-1" {
                title {
                    "at " (ms(column.time)) " ms: " (mb(total(column))) " MB"
                    @for generation in &order { ", " (NAMES[*generation]) " " (mb(column.sizes[*generation])) }
                }
                path.cursor d={ "M" (at(x)) "," (at(ABOVE)) "V" (at(y_of_zero())) } {}
            }
        }
    };
    let used: Vec<(&str, usize)> = order.iter().rev().map(|generation| (NAMES[*generation], *generation)).collect();
    picture("The heap after collections, in MB, by generation", "MB", top, Some(series), &used, &areas)
}

/// The outline of a generation, stacked on those below it. The heap keeps its size until the next collection.
fn area(series: &Series, columns: &[&Column], below: &[usize], generation: usize) -> String {
    let top = nice(columns.iter().map(|column| column.sizes.iter().sum::<f64>()).fold(0.0, f64::max));
    let ground = |column: &Column| below.iter().map(|generation| column.sizes[*generation]).sum::<f64>();
    let mut path = String::new();
    let steps = |path: &mut String, height: &dyn Fn(&Column) -> f64| {
        for (index, column) in columns.iter().enumerate() {
            let next = columns.get(index + 1).map_or(1.0, |next| series.place(next.time));
            let (from, to) = (x(series.place(column.time)), x(next));
            let _ = write!(
                path,
                "{}{},{}H{}",
                if index == 0 { 'M' } else { 'L' },
                at(from),
                at(y(height(column) / top)),
                at(to)
            );
        }
    };
    steps(&mut path, &|column| ground(column) + column.sizes[generation]);
    for (index, column) in columns.iter().enumerate().rev() {
        let next = columns.get(index + 1).map_or(1.0, |next| series.place(next.time));
        let height = at(y(ground(column) / top));
        let _ = write!(path, "L{},{height}H{}", at(x(next)), at(x(series.place(column.time))));
    }
    if !path.is_empty() {
        path.push('Z');
    }
    path
}

/// The histogram of pauses, in classes that grow by a quarter; and percentiles.
pub(super) fn histogram(series: &Series) -> Markup {
    let pauses = &series.pauses;
    let mut classes: Vec<(f64, f64, u64)> = Vec::new();
    // The first class ends at 1 µs.
    for bucket in pauses.iter_log(1_000, 1.25) {
        let until = bucket.value_iterated_to() as f64 / 1e6;
        let from = classes.last().map_or(0.0, |class| class.1);
        classes.push((from, until, bucket.count_since_last_iteration()));
    }
    let first = classes.iter().position(|class| class.2 > 0).unwrap_or(0);
    let classes = &classes[first..];
    let top = nice(classes.iter().map(|class| class.2 as f64).fold(0.0, f64::max));
    let width = 1.0 / classes.len().max(1) as f64;
    let bars = html! {
        @for (index, (from, until, count)) in classes.iter().enumerate() {
            @let (left, right) = (x(index as f64 * width) + 1.0, x((index + 1) as f64 * width) - 1.0);
            g.point tabindex="-1" {
                title { (ms(*from)) " to " (ms(*until)) " ms: " (count) }
                path.block d={ "M" (at(left)) "," (at(y_of_zero())) "V" (at(y(*count as f64 / top))) "H" (at(right)) "V" (at(y_of_zero())) "Z" } {}
            }
            @if index % (classes.len() / 8 + 1) == 0 {
                text.tick x=(at(left)) y=(at(HEIGHT - 6.0)) { (short(*from)) " ms" }
            }
        }
    };
    let percentiles = [50.0, 90.0, 99.0, 99.9, 100.0];
    html! {
        (picture("Number of pauses by length", "", top, None, &[], &bars))
        table {
            caption { "Pauses, ms" }
            thead { tr { @for percentile in percentiles { th scope="col" { (name(percentile)) } } } }
            tbody {
                tr {
                    @for percentile in percentiles {
                        td { @if pauses.is_empty() { "–" } @else { (ms(at_percentile(series, percentile))) } }
                    }
                }
            }
        }
    }
}

/// A percentile of the pauses, in milliseconds. The histogram has three digits, the longest pause has all.
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

/// The highest allocation rate at each position, as a bar.
pub(super) fn rate(series: &Series) -> Markup {
    let top = nice(series.columns.iter().flatten().map(|column| column.rate).fold(0.0, f64::max));
    let bars = html! {
        @for column in series.columns.iter().flatten() {
            @let x = x(series.place(column.time));
            g.point tabindex="-1" {
                title { "before " (ms(column.time)) " ms: " (Grouped(column.rate, 1)) " MB/s" }
                path.bar.rate d={ "M" (at(x)) "," (at(y(column.rate / top))) "V" (at(y_of_zero())) } {}
            }
        }
    };
    picture("Allocated MB per second between collections", "MB/s", top, Some(series), &[], &bars)
}

/// A chart: axes, a legend, and the given content.
fn picture(
    about: &str,
    unit: &str,
    top: f64,
    times: Option<&Series>,
    legend: &[(&str, usize)],
    body: &Markup,
) -> Markup {
    html! {
        figure {
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="group" aria-label=(about) tabindex="0" data-points="" {
                @for part in 0..=4 {
                    @let share = f64::from(part) / 4.0;
                    path.grid d={ "M" (at(LEFT)) "," (at(y(share))) "H" (at(WIDTH)) } {}
                    text.number x=(at(LEFT - 6.0)) y=(at(y(share) + 4.0)) { (short(top * share)) " " (unit) }
                }
                @if let Some(series) = times {
                    @for part in 0..=4 {
                        @let share = f64::from(part) / 4.0;
                        @let place = if part == 4 { "number" } else { "tick" };
                        text class=(place) x=(at(x(share))) y=(at(HEIGHT - 6.0)) {
                            (seconds(series.from + (series.to - series.from) * share)) " s"
                        }
                    }
                }
                (body)
            }
            figcaption {
                (about) "."
                @for (name, generation) in legend { span.key { i class={ "swatch g" (generation) } {} (name) } }
            }
        }
    }
}

fn x(share: f64) -> f64 {
    LEFT + share * (WIDTH - LEFT - 2.0)
}

fn y(share: f64) -> f64 {
    ABOVE + (1.0 - share.clamp(0.0, 1.0)) * (HEIGHT - ABOVE - BELOW)
}

fn y_of_zero() -> f64 {
    y(0.0)
}

/// Formats a coordinate with one decimal.
fn at(coordinate: f64) -> String {
    format!("{coordinate:.1}")
}

fn ms(time: f64) -> String {
    Grouped(time, 3).to_string()
}

fn mb(size: f64) -> String {
    Grouped(size, 3).to_string()
}

fn seconds(time: f64) -> String {
    Grouped(time / 1000.0, 2).to_string()
}

/// Formats a number for an axis.
fn short(value: f64) -> String {
    Grouped(
        value,
        if value >= 100.0 {
            0
        } else if value >= 1.0 {
            1
        } else {
            3
        },
    )
    .to_string()
}

/// The next round number that is not smaller: 1, 2, 4 or 8 times a power of ten. Never 0.
fn nice(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let unit = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 8.0, 10.0].into_iter().map(|step| step * unit).find(|round| *round >= value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0.0, 1.0)]
    #[case(f64::NAN, 1.0)]
    #[case(1.0, 1.0)]
    #[case(1.1, 2.0)]
    #[case(478.0, 800.0)]
    #[case(0.03, 0.04)]
    fn an_axis_ends_with_a_round_number(#[case] value: f64, #[case] round: f64) {
        assert!((nice(value) - round).abs() < 1e-12, "{}", nice(value));
    }
}
