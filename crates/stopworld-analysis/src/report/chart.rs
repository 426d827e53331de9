//! The charts of the pages: their data, legend and table.
//!
//! The reader's browser draws a chart with uPlot (`uplot/README.md`), from numbers that the page contains as JSON. The page itself has
//! the legend, and a table of the numbers for browsers without scripts:
//!
//! ```text
//! Chart ─ markup() ──▶ figure: place of the chart, legend, table in <noscript>
//!       ─ json() ────▶ <script type="application/json">, read by charts.js
//! ```
//!
//! Names come from the traced program and may contain anything. In the markup they are escaped by maud. In the JSON no `<` remains, so
//! that no text ends the element or begins a comment.

use std::fmt::{self, Write};

use maud::{Markup, html};
use trace_io::json::Quoted;

use super::Bytes;
use crate::gcstats::number::Grouped;

/// Maximum number of rows of the table that replaces a chart.
const TABLE_ROWS: usize = 60;
/// Maximum number of series in that table.
const TABLE_SERIES: usize = 6;
/// A legend with more entries than this has a field that selects entries by name.
const MANY: usize = 8;

/// How the series of a chart are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A bar at each time.
    Bars,
    /// Areas on top of each other. A value holds until the next time.
    Steps,
    /// Areas on top of each other. Values between two times are interpolated.
    Areas,
    /// A histogram: a bar for each class. The position of a class is its index plus one half.
    Classes,
}

/// The unit of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Megabytes,
    MegabytesPerSecond,
    Bytes,
    Count,
}

/// A series: one value for each position of the chart, or none.
pub(super) struct Series {
    pub(super) name: String,
    /// The CSS class of its colour.
    pub(super) class: String,
    pub(super) values: Vec<Option<f64>>,
}

/// A line above the series, with times of its own. A value holds until the next time.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) class: String,
    /// Times in seconds, and values.
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart.
pub(super) struct Chart {
    /// The id of the chart, which is also the id of its section.
    pub(super) id: &'static str,
    /// A sentence that describes the chart.
    pub(super) about: String,
    pub(super) kind: Kind,
    pub(super) unit: Unit,
    /// The lower end of the horizontal axis, in seconds or as the number of a class.
    pub(super) from: f64,
    pub(super) to: f64,
    /// The positions of the values on the horizontal axis, in ascending order.
    pub(super) places: Vec<f64>,
    /// The series. If they are stacked, the lowest is first.
    pub(super) series: Vec<Series>,
    pub(super) lines: Vec<Line>,
    /// A text for each position; empty if the positions have none.
    pub(super) notes: Vec<String>,
    /// The limits of the classes of a histogram, in milliseconds; there is one limit more than there are classes.
    pub(super) bounds: Vec<f64>,
    /// Begin and end of collections, in seconds.
    pub(super) collections: Vec<(f64, f64)>,
    /// Marked times in seconds, with their texts.
    pub(super) marks: Vec<(f64, String)>,
}

impl Chart {
    /// Creates a chart without any data.
    pub(super) fn new(id: &'static str, about: String, kind: Kind, unit: Unit) -> Chart {
        Chart {
            id,
            about,
            kind,
            unit,
            from: 0.0,
            to: 0.0,
            places: Vec::new(),
            series: Vec::new(),
            lines: Vec::new(),
            notes: Vec::new(),
            bounds: Vec::new(),
            collections: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// Returns the element for the chart, its legend, and its table.
    pub(super) fn markup(&self) -> Markup {
        let series = self.series.iter().map(|series| (&series.name, &series.class));
        let entries: Vec<_> = series.chain(self.lines.iter().map(|line| (&line.name, &line.class))).collect();
        let is_long = entries.len() > MANY;
        // The entries are in the order in which the areas are seen: the highest area is first.
        let order: Vec<usize> = match self.is_stacked() && !is_long {
            true => (0..self.series.len()).rev().chain(self.series.len()..entries.len()).collect(),
            false => (0..entries.len()).collect(),
        };
        html! {
            figure.chart id={ (self.id) "-chart" } {
                figcaption { (self.about) "." }
                div.plot tabindex="0" role="group" aria-label=(self.about) {}
                @if is_long {
                    label.search { "Show only names with " input type="search" autocomplete="off" placeholder="part of a name"; }
                }
                div.legend.long[is_long] {
                    p.when { "\u{a0}" }
                    ul {
                        @for index in order {
                            @let (name, class) = entries[index];
                            li {
                                label {
                                    input type="checkbox" data-series=(index) checked;
                                    i class={ "swatch " (class) } {}
                                    span.key { (name) }
                                }
                                " " output data-series=(index) {}
                            }
                        }
                    }
                }
                noscript { (self.table()) }
            }
        }
    }

    fn is_stacked(&self) -> bool {
        matches!(self.kind, Kind::Steps | Kind::Areas)
    }

    /// Returns the numbers of the chart as a table, for browsers without scripts. Long charts are thinned evenly.
    fn table(&self) -> Markup {
        let step = self.places.len().div_ceil(TABLE_ROWS).max(1);
        let shown = &self.series[..self.series.len().min(TABLE_SERIES)];
        let first = if self.kind == Kind::Classes { "from, ms" } else { "time, s" };
        html! {
            p { "The chart needs JavaScript. These are its numbers" @if step > 1 { ", one row of " (step) } "." }
            div.scroll {
                table {
                    thead {
                        tr {
                            th scope="col" { (first) }
                            @if self.is_stacked() { th scope="col" { "all" } }
                            @for series in shown { th scope="col" { (series.name) } }
                        }
                    }
                    tbody {
                        @for index in (0..self.places.len()).step_by(step) {
                            tr {
                                th scope="row" {
                                    @if self.kind == Kind::Classes { (Grouped(self.bounds[index], 3)) }
                                    @else { (Grouped(self.places[index], 6)) }
                                }
                                @if self.is_stacked() {
                                    td { (self.unit.show(self.series.iter().filter_map(|series| series.values[index]).sum())) }
                                }
                                @for series in shown { td { @if let Some(value) = series.values[index] { (self.unit.show(value)) } } }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Returns the data from which the browser draws the chart.
    fn json(&self) -> String {
        let kind = match self.kind {
            Kind::Bars => "bars",
            Kind::Steps => "steps",
            Kind::Areas => "areas",
            Kind::Classes => "classes",
        };
        let places = self.places.iter().map(|place| Number(*place));
        let series =
            self.series.iter().map(|series| list(series.values.iter().map(|value| value.map_or(NULL, Number))));
        let lines = self.lines.iter().map(|line| {
            let (times, values): (Vec<_>, Vec<_>) =
                line.points.iter().map(|point| (Number(point.0), Number(point.1))).unzip();
            list([list(times), list(values)])
        });
        format!(
            "{{\"id\":{},\"kind\":{},\"unit\":{},\"from\":{},\"to\":{},\"places\":{},\"series\":{},\"lines\":{},\"notes\":{},\"bounds\":{},\"collections\":{},\"marks\":{}}}",
            Quoted(self.id),
            Quoted(kind),
            Quoted(self.unit.symbol()),
            Number(self.from),
            Number(self.to),
            list(places),
            list(series),
            list(lines),
            list(self.notes.iter().map(|note| Quoted(note))),
            list(self.bounds.iter().map(|bound| Number(*bound))),
            list(self.collections.iter().map(|(begin, end)| list([Number(*begin), Number(*end)]))),
            list(self.marks.iter().map(|(time, text)| list([Number(*time).to_string(), Quoted(text).to_string()]))),
        )
    }
}

impl Unit {
    fn symbol(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::Megabytes => "MB",
            Unit::MegabytesPerSecond => "MB/s",
            Unit::Bytes => "B",
            Unit::Count => "",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Unit::Milliseconds | Unit::Megabytes => format!("{} {}", Grouped(value, 3), self.symbol()),
            Unit::MegabytesPerSecond => format!("{} {}", Grouped(value, 1), self.symbol()),
            Unit::Bytes => Bytes(value as u64).to_string(),
            Unit::Count => Grouped(value, 0).to_string(),
        }
    }
}

/// Returns the data of all charts of a page, for an element `<script type="application/json">`.
pub(super) fn json(charts: &[Chart]) -> String {
    // In JSON a `<` is always part of a string.
    list(charts.iter().map(Chart::json)).replace('<', "\\u003c")
}

/// A number with at most six decimals. JSON has no NaN and no infinities: they are null.
#[derive(Clone, Copy)]
struct Number(f64);

const NULL: Number = Number(f64::NAN);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_finite() {
            return f.write_str("null");
        }
        let digits = format!("{:.6}", self.0);
        f.write_str(digits.trim_end_matches('0').trim_end_matches('.'))
    }
}

fn list(items: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let mut list = "[".to_owned();
    for (index, item) in items.into_iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(list, "{comma}{item}");
    }
    list + "]"
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    #[rstest]
    #[case(0.0, "0")]
    #[case(100.0, "100")]
    #[case(0.1, "0.1")]
    #[case(1.0 / 3.0, "0.333333")]
    #[case(1e-9, "0")]
    #[case(1e20, "100000000000000000000")]
    #[case(f64::NAN, "null")]
    #[case(f64::NEG_INFINITY, "null")]
    fn numbers_are_valid_json(#[case] value: f64, #[case] expected: &str) {
        assert_eq!(Number(value).to_string(), expected);
        let parsed: Value = serde_json::from_str(expected).unwrap();
        assert!(parsed.is_number() == value.is_finite());
    }

    fn chart(names: &[&str]) -> Chart {
        let series = names.iter().map(|name| Series {
            name: (*name).to_owned(),
            class: "b0".to_owned(),
            values: vec![Some(1.0), None],
        });
        Chart {
            from: 0.0,
            to: 2.0,
            places: vec![0.5, 1.5],
            series: series.collect(),
            notes: names.iter().map(|name| (*name).to_owned()).collect(),
            marks: names.iter().map(|name| (1.0, (*name).to_owned())).collect(),
            ..Chart::new("heap", "Bytes".to_owned(), Kind::Areas, Unit::Bytes)
        }
    }

    #[rstest]
    fn text_stays_inside_its_element(
        #[values("</script><script>alert(1)</script>", "<!--<script>", "\u{2028}\"'&\\", "</noscript><img src=x>")]
        name: &str,
    ) {
        let chart = chart(&[name, "other"]);
        let json = json(&[chart]);
        assert!(!json.contains('<'), "{json}");
        let parsed: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(parsed[0]["notes"][0], name);
        assert_eq!(parsed[0]["marks"][0][1], name);
        let markup = self::chart(&[name]).markup().into_string();
        assert!(!name.contains('<') || !markup.contains(name), "{markup}");
    }

    #[test]
    fn the_table_has_the_values_and_their_sum() {
        let mut chart = chart(&["one", "two"]);
        chart.series[1].values[1] = Some(2048.0);
        let table = chart.table().into_string();
        assert!(table.contains("<th scope=\"row\">0.500000</th><td>2 B</td><td>1 B</td><td>1 B</td>"), "{table}");
        assert!(
            table.contains("<th scope=\"row\">1.500000</th><td>2.00 KiB</td><td></td><td>2.00 KiB</td>"),
            "{table}"
        );
    }

    #[test]
    fn a_long_table_is_thinned() {
        let mut chart = chart(&["one"]);
        chart.places = (0..1000).map(f64::from).collect();
        chart.series[0].values = vec![Some(1.0); 1000];
        let table = chart.table().into_string();
        assert!(
            table.contains("one row of 17") && table.matches("<th scope=\"row\">").count() <= TABLE_ROWS,
            "{table}"
        );
    }

    #[test]
    fn only_a_long_legend_has_a_search_field() {
        let names: Vec<String> = (0..=MANY).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(!chart(&names[..MANY]).markup().into_string().contains("type=\"search\""));
        assert!(chart(&names).markup().into_string().contains("type=\"search\""));
    }
}
