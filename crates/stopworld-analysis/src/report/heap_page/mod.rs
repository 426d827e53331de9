//! A heap profile as one HTML page.
//!
//! Like the page of collections it is self-contained, follows the reader's choice of light or dark, and is usable by keyboard. The
//! reader selects the bands of the chart one by one or by name. Collections, the program's markers, and the heap figures share its time
//! axis.
//!
//! A profile may have any number of samples and bands. The chart has 2,000 positions on its time axis, each with the largest sample in
//! it, and shows the sixteen largest bands and the sum of all others. The tables have the first thousand rows.
//!
//! | file | part |
//! |---|---|
//! | `band` | the colours of bands |
//! | `chart` | the data of the chart |
//! | `tables` | bands, the tree of cost centres, retainers |
//! | `style.css` | styles in addition to the common ones |

mod band;
mod chart;
mod tables;

use maud::{Markup, html};

use band::seconds;

use super::Bytes;
use super::document::{Document, facts};
use crate::profstats::{Band, Breakdown, Profiles};

/// Renders the page of a profile.
pub fn render(profiles: &Profiles, file: &str) -> String {
    let heap = &profiles.heap;
    let name = if heap.program.is_empty() { file } else { &heap.program };
    let rows = heap.rows();
    let chart = chart::chart(profiles, &rows);
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
        charts: &[chart],
        scripts: html! {},
    }
    .render()
}

/// General facts about the profile.
fn about(profiles: &Profiles) -> Markup {
    let heap = &profiles.heap;
    let kept = heap.samples.kept();
    let peak = kept.iter().max_by_key(|sample| sample.total());
    let program = [
        ("date", heap.date.clone()),
        ("written by", profiles.runtime.clone()),
        ("breakdown", heap.breakdown.name().to_owned()),
        ("filters", heap.filters.join("; ")),
    ];
    let figures = [
        ("peak", peak.map_or(String::new(), |peak| Bytes(peak.total()).to_string())),
        ("peak at", peak.map_or(String::new(), |peak| format!("{} s", seconds(peak.time_ns)))),
        ("samples", heap.samples.seen().to_string()),
        ("bands", heap.bands.len().to_string()),
        ("collections", heap.collections.seen().to_string()),
        ("markers", heap.marks.seen().to_string()),
    ];
    html! { (facts("program", &program)) (facts("figures", &figures)) }
}
