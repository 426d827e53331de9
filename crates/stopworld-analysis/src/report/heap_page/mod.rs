//! A heap profile as one page for a browser.
//!
//! Like the page of collections it needs nothing but itself, follows the reader's choice of light or dark, and every part of it can be reached by
//! keys. The chart stands on the page as a picture already; a little script draws it anew when bands are left out or chosen by
//! their names. Collections, what the program marked, and the heap's own figures are on the same axis of time.
//!
//! A profile may have any number of samples and bands: the chart has 600 places along its axis, each with the largest sample in it, and
//! the sixteen bands that take most, with all others as one; the tables have the first thousand rows.
//!
//! | file | part |
//! |---|---|
//! | `band` | how a band is shown |
//! | `chart` | the picture, and the numbers from which it is drawn anew |
//! | `tables` | bands, the tree of cost centres, retainers |
//! | `style.css`, `chart.js` | how it looks, beside the styles of every page; the filter |

mod band;
mod chart;
mod tables;

use maud::{Markup, PreEscaped, html};

use band::seconds;

use super::Bytes;
use super::document::Document;
use crate::profstats::{Band, Breakdown, Profiles};

/// The page of a profile.
pub fn render(profiles: &Profiles, file: &str) -> String {
    let heap = &profiles.heap;
    let name = if heap.program.is_empty() { file } else { &heap.program };
    let rows = heap.rows();
    let chart = chart::Chart::of(profiles, &rows);
    let mut sections: Vec<(&str, &str, Markup)> =
        vec![("chart", "The heap over time", chart.markup()), ("bands", "Each band", tables::bands(profiles, &rows))];
    if heap.bands.iter().any(|band| matches!(band, Band::Stack(_))) {
        sections.push(("tree", "By cost centre", tables::tree(profiles, &rows)));
    }
    if heap.breakdown == Breakdown::Retainer {
        sections.push(("retainers", "By retainer", tables::retainers(profiles, &rows)));
    }
    Document {
        title: format!("Heap of {name}"),
        style: include_str!("style.css"),
        about: about(profiles),
        sections: &sections,
        data: html! { script type="application/json" id="series" { (PreEscaped(chart.json())) } },
        script: include_str!("chart.js"),
    }
    .render()
}

/// What the profile is of.
fn about(profiles: &Profiles) -> Markup {
    let heap = &profiles.heap;
    let kept = heap.samples.kept();
    let peak = kept.iter().max_by_key(|sample| sample.total());
    let facts = [
        ("ran", heap.date.clone()),
        ("written by", profiles.runtime.clone()),
        ("counted by", heap.breakdown.name().to_owned()),
        ("counted only", heap.filters.join("; ")),
        ("samples", heap.samples.seen().to_string()),
        ("bands", heap.bands.len().to_string()),
        (
            "most at once",
            peak.map_or(String::new(), |peak| format!("{} at {} s", Bytes(peak.total()), seconds(peak.time_ns))),
        ),
        ("collections", heap.collections.seen().to_string()),
        ("marks", heap.marks.seen().to_string()),
    ];
    html! {
        dl {
            @for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) { div { dt { (name) } dd { (value) } } }
        }
    }
}
