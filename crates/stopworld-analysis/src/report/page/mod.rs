//! The collections of a trace as one page for a browser.
//!
//! The page needs nothing but itself: styles, pictures and the little script are in it, so it can be kept beside the
//! trace or sent to somebody. Its colours follow the reader's choice of light or dark. Each picture is an SVG with the
//! same figures as text: a title and a description for who can't see it, and each point can be reached by the arrow
//! keys, which read it out.
//!
//! A trace may have millions of collections. A picture has 600 places along its time axis, each with what
//! is worst in it, and the table has the last thousand collections; so the page stays some hundred kilobytes.
//!
//! | file | part |
//! |---|---|
//! | `series` | from collections to what a picture shows |
//! | `picture` | the pictures |
//! | `table` | the tables |
//!
//! How it looks, and the arrow keys, are every page's (`document`).

mod picture;
mod series;
mod table;

use std::io;

use maud::{Markup, html};

use super::document::Document;
use crate::gcstats::Process;
use crate::gcstats::number::{Fixed, Grouped};
use nettrace::clr::{Enumeration, label};

/// The page of a process.
///
/// # Errors
///
/// The file into which many collections were put can't be read.
pub fn render(process: &Process) -> io::Result<String> {
    let series = series::Series::of(process)?;
    let rows = table::collections(process)?;
    let name = process.identity.name(process.rules());
    let sections: [(&str, &str, Markup); 6] = [
        ("rollup", "By generation", table::rollup(process)),
        ("pauses", "Pauses over time", picture::pauses(&series)),
        ("heap", "Heap after each collection", picture::heap(&series)),
        ("histogram", "How long the pauses are", picture::histogram(&series)),
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

/// What the process is, and what its collections cost in all.
fn about(process: &Process) -> Markup {
    let identity = &process.identity;
    let all = &process.all;
    let line = identity.command_line.as_deref().filter(|line| !line.is_empty());
    let heaps = identity.heaps.map_or("not told".to_owned(), |heaps| heaps.to_string());
    let unfinished = process.begun() - all.count;
    let facts = [
        ("command line", line.unwrap_or("not told").to_owned()),
        ("runtime", identity.version_text()),
        ("startup flags", label(Enumeration::StartupFlags, identity.startup_flags)),
        ("heaps", heaps),
        ("collections", format!("{} ({} induced, {unfinished} without an end)", all.count, all.induced)),
        ("paused", format!("{} ms, {} % of the time", Grouped(all.total_pause, 3), Fixed(process.pause_percent(), 1))),
        ("longest pause", format!("{} ms", Grouped(all.max_pause, 3))),
        ("allocated", format!("{} MB", Grouped(all.total_allocated, 3))),
        ("largest heap", format!("{} MB", Grouped(all.max_peak, 3))),
    ];
    html! {
        dl { @for (name, value) in &facts { div { dt { (name) } dd { (value) } } } }
    }
}
