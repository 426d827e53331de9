//! The collections of a trace as one HTML page.
//!
//! The page is self-contained: it includes the styles, the data of the charts, and the script that draws them, so it can be stored
//! with the trace or sent to others. Its colours follow the reader's choice of light or dark. The charts of time share one axis: the
//! reader zooms all of them at once, and the cursor is at the same time in all of them. The keys that move the cursor also announce
//! the figures under it. Without JavaScript each chart is a table.
//!
//! A trace may have millions of collections. A chart has 2,000 positions on its time axis, each with the worst value in it, and
//! the tables have the last thousand collections. So the page stays below two megabytes.
//!
//! | file | part |
//! |---|---|
//! | `series` | from collections to positions on the time axis |
//! | `charts` | the data of the charts |
//! | `table` | the tables |
//!
//! The styles and the scripts are common to all pages (`document`, `chart`).

mod charts;
mod series;
mod table;

use std::io;

use maud::{Markup, html};

use super::document::{Document, facts};
use crate::gcstats::Process;
use crate::gcstats::number::{Fixed, Grouped};
use nettrace::clr::{Enumeration, label};

/// Renders the page of a process.
///
/// # Errors
///
/// Reading back the temporary file for many collections failed.
pub fn render(process: &Process) -> io::Result<String> {
    let series = series::Series::of(process)?;
    let tables = table::collections(process)?;
    let name = process.identity.name(process.rules());
    let charts = [charts::pauses(&series), charts::heap(&series), charts::rate(&series), charts::histogram(&series)];
    let [pauses, heap, rate, histogram] = &charts;
    let distribution = html! { (histogram.markup()) (charts::percentiles(&series)) };
    let sections: [(&str, &str, Markup); 7] = [
        ("rollup", "By generation", table::rollup(process)),
        ("pauses", "Pauses over time", pauses.markup()),
        ("heap", "Heap after each collection", heap.markup()),
        ("rate", "Allocation rate", rate.markup()),
        ("histogram", "Distribution of pauses", distribution),
        ("collections", "Each collection", tables.collections),
        ("generations", "Each collection, by generation", tables.generations),
    ];
    let page = Document {
        title: format!("Collections of {name} ({})", process.identity.process),
        style: "",
        about: about(process),
        sections: &sections,
        charts: &charts,
        scripts: html! {},
    };
    Ok(page.render())
}

/// Facts about the process, and the total cost of its collections.
fn about(process: &Process) -> Markup {
    let identity = &process.identity;
    let all = &process.all;
    let line = identity.command_line.as_deref().filter(|line| !line.is_empty());
    let heaps = identity.heaps.map_or("unknown".to_owned(), |heaps| heaps.to_string());
    let unfinished = process.begun() - all.count;
    let program = [
        ("command line", line.unwrap_or("unknown").to_owned()),
        ("runtime", identity.version_text()),
        ("startup flags", label(Enumeration::StartupFlags, identity.startup_flags)),
        ("heaps", heaps),
    ];
    let figures = [
        ("collections", Grouped(all.count as f64, 0).to_string()),
        ("induced", Grouped(all.induced as f64, 0).to_string()),
        ("did not end", if unfinished == 0 { String::new() } else { unfinished.to_string() }),
        ("paused", format!("{} ms", Grouped(all.total_pause, 3))),
        ("of the time", format!("{} %", Fixed(process.pause_percent(), 1))),
        ("longest pause", format!("{} ms", Grouped(all.max_pause, 3))),
        ("allocated", format!("{} MB", Grouped(all.total_allocated, 3))),
        ("largest heap", format!("{} MB", Grouped(all.max_peak, 3))),
    ];
    html! { (facts("program", &program)) (facts("figures", &figures)) }
}
