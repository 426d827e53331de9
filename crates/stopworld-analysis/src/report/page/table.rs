//! The tables of the page.

use std::collections::VecDeque;
use std::io;

use maud::{Markup, html};

use crate::gcstats::number::Grouped;
use crate::gcstats::{Process, Rollup, Rules};
use crate::report::collections::{COLUMNS, MOST_ROWS, ROLLUP_COLUMNS, rollup_row, row};

/// The table of sums and extremes, over all collections and by generation.
pub(super) fn rollup(process: &Process) -> Markup {
    let line = |name: &str, rollup: &Rollup| {
        // PerfView divides the allocation of all generations by the pauses of one.
        let allocated =
            if process.rules() == Rules::LikePerfView { process.all.total_allocated } else { rollup.total_allocated };
        let [name, cells @ ..] = rollup_row(name, rollup, allocated);
        html! { tr { th scope="row" { (name) } @for cell in &cells { td { (cell) } } } }
    };
    let body = html! {
        (line("all", &process.all))
        @for (number, generation) in process.generations.iter().enumerate() { (line(&number.to_string(), generation)) }
    };
    table("Sums and extremes by generation", &ROLLUP_COLUMNS, &body)
}

/// The table of the last collections.
pub(super) fn collections(process: &Process) -> io::Result<Markup> {
    let mut rows = VecDeque::new();
    process.for_each(|collection, figures| {
        if collection.complete {
            if rows.len() == MOST_ROWS {
                rows.pop_front();
            }
            rows.push_back((collection.generation.clamp(0, 2), row(collection, figures)));
        }
        Ok::<_, io::Error>(())
    })?;
    let left_out = process.all.count as usize - rows.len();
    let body = html! {
        @for (generation, cells) in &rows {
            tr class={ "g" (generation) } {
                @for (index, cell) in cells.iter().enumerate() {
                    @if index == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                }
            }
        }
    };
    Ok(html! {
        @if left_out > 0 { p { "The first " (Grouped(left_out as f64, 0)) " collections are not shown; use " code { "--csv" } " to get all." } }
        (table("Each collection, with its figures by generation", &COLUMNS, &body))
    })
}

fn table(about: &str, columns: &[&str], body: &Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(about) tabindex="0" {
            table {
                thead { tr { @for column in columns { th scope="col" { (column) } } } }
                tbody { (body) }
            }
        }
    }
}
