//! The tables of the page.

use std::io;

use maud::{Markup, html};

use crate::gcstats::number::Grouped;
use crate::gcstats::{Process, Rollup, Rules};
use crate::report::collections::{
    COLUMNS, GENERATION_COLUMN, GENERATION_COLUMNS, ROLLUP_COLUMNS, last_rows, rollup_row, row,
};
use crate::report::document::table;

/// Returns the table of sums and extremes, over all collections and by generation.
pub(super) fn rollup(process: &Process) -> Markup {
    let line = |name: &str, rollup: &Rollup| {
        // PerfView divides the allocation of all generations by the pauses of one.
        let allocated =
            if process.rules() == Rules::LikePerfView { process.all.total_allocated } else { rollup.total_allocated };
        cells(&rollup_row(name, rollup, allocated))
    };
    let body = html! {
        tr { (line("all", &process.all)) }
        @for (number, generation) in process.generations.iter().enumerate() {
            tr class={ "g" (number) } { (line(&number.to_string(), generation)) }
        }
    };
    table("Sums and extremes by generation", &head(&ROLLUP_COLUMNS), &body)
}

/// The tables of the last collections. All columns in one table would be wider than a window.
pub(super) struct Collections {
    /// Times, reasons, and the whole heap.
    pub(super) collections: Markup,
    /// The generations, and objects that finalizers or pins keep.
    pub(super) generations: Markup,
}

pub(super) fn collections(process: &Process) -> io::Result<Collections> {
    let (rows, left_out) =
        last_rows(process, |collection, figures| (collection.generation.clamp(0, 2), row(collection, figures)))?;
    let body = |columns: &dyn Fn(&[String]) -> Vec<String>| {
        html! { @for (generation, row) in &rows { tr class={ "g" (generation) } { (cells(&columns(row))) } } }
    };
    let whole = body(&|row| row[..GENERATION_COLUMNS.start].to_vec());
    let parts = body(&|row| {
        let key = [row[0].clone(), row[GENERATION_COLUMN].clone()];
        key.into_iter().chain(row[GENERATION_COLUMNS.start..].iter().cloned()).collect()
    });
    Ok(Collections {
        collections: html! {
            @if left_out > 0 { p { "The first " (Grouped(left_out as f64, 0)) " collections are not shown; use " code { "--csv" } " to get all." } }
            (table("Each collection: times and the whole heap", &head(&COLUMNS[..GENERATION_COLUMNS.start]), &whole))
        },
        generations: table("Each collection: sizes by generation", &grouped_head(), &parts),
    })
}

fn head(columns: &[&str]) -> Markup {
    html! { tr { @for column in columns { th scope="col" { (column) } } } }
}

/// Returns the head of the second table, in which the three columns of each generation share a heading.
fn grouped_head() -> Markup {
    let generations = COLUMNS[GENERATION_COLUMNS].chunks(3);
    html! {
        tr {
            @for column in [COLUMNS[0], COLUMNS[GENERATION_COLUMN]] { th scope="col" rowspan="2" { (column) } }
            @for generation in generations.clone() { th.group scope="colgroup" colspan="3" { (generation[0].trim_end_matches(", MB")) } }
            @for column in &COLUMNS[GENERATION_COLUMNS.end..] { th scope="col" rowspan="2" { (column) } }
        }
        tr {
            @for generation in generations {
                th.group scope="col" { "MB" }
                @for column in &generation[1..] { th scope="col" { (column) } }
            }
        }
    }
}

/// Returns the cells of a row; the first is its head.
fn cells(cells: &[String]) -> Markup {
    html! {
        @for (index, cell) in cells.iter().enumerate() {
            @if index == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
        }
    }
}
