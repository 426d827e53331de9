//! The collections of a trace as one HTML page.
//!
//! The page is self-contained: it includes the styles, the charts and a small script, so it can be stored with the trace or sent to
//! others. Its colours follow the reader's choice of light or dark. For accessibility, each chart is an SVG with a title and a
//! description, and its figures are also text: the arrow keys move between the points, and announce them.
//!
//! A trace may have millions of collections. A chart has 600 positions on its time axis, each with the worst value in it, and
//! the table has the last thousand collections. So the page stays at some hundred kilobytes.
//!
//! | file | part |
//! |---|---|
//! | `series` | from collections to the data of the charts |
//! | `picture` | the charts |
//! | `table` | the tables |
//!
//! The styles and the script for the arrow keys are common to all pages (`document`).

mod picture;
mod series;
mod table;

use std::io;

use maud::{Markup, html};

use super::document::Document;
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
    let rows = table::collections(process)?;
    let name = process.identity.name(process.rules());
    let sections: [(&str, &str, Markup); 6] = [
        ("rollup", "By generation", table::rollup(process)),
        ("pauses", "Pauses over time", picture::pauses(&series)),
        ("heap", "Heap after each collection", picture::heap(&series)),
        ("histogram", "Distribution of pauses", picture::histogram(&series)),
        ("rate", "Allocation rate", picture::rate(&series)),
        ("collections", "Each collection", rows),
    ];
    let page = Document {
        title: format!("Collections of {name} ({})", process.identity.process),
        style: "",
        about: about(process),
        sections: &sections,
        data: Markup::default(),
        script: "",
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
    let facts = [
        ("command line", line.unwrap_or("unknown").to_owned()),
        ("runtime", identity.version_text()),
        ("startup flags", label(Enumeration::StartupFlags, identity.startup_flags)),
        ("heaps", heaps),
        ("collections", format!("{} ({} induced, {unfinished} did not end)", all.count, all.induced)),
        ("paused", format!("{} ms, {} % of the time", Grouped(all.total_pause, 3), Fixed(process.pause_percent(), 1))),
        ("longest pause", format!("{} ms", Grouped(all.max_pause, 3))),
        ("allocated", format!("{} MB", Grouped(all.total_allocated, 3))),
        ("largest heap", format!("{} MB", Grouped(all.max_peak, 3))),
    ];
    html! {
        dl { @for (name, value) in &facts { div { dt { (name) } dd { (value) } } } }
    }
}
