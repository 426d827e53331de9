//! The collections of a trace as tables for a terminal.
//!
//! There are three tables: the process and the total cost of its collections; sums per generation; and one line per collection. The
//! last one is wide, since it has all columns of the page in PerfView, and one more: the heap of pinned objects. Cells never wrap, so
//! that `grep` and `awk` work on the output.

use std::io;
use std::ops::Range;

use comfy_table::Table;

use super::layout::{align_right, empty};
use crate::gcstats::collection::{Collection, LARGE, PINNED};
use crate::gcstats::number::{Fixed, Grouped, GroupedInteger};
use crate::gcstats::{Figures, Process, Rollup, Rules};
use nettrace::clr::{Enumeration, label};

/// Maximum number of collections shown, as on PerfView's page.
const MOST_ROWS: usize = 1000;

/// The columns of the table of sums and extremes.
pub(super) const ROLLUP_COLUMNS: [&str; 13] = [
    "gen",
    "count",
    "max pause, ms",
    "mean pause",
    "total pause",
    "max suspend",
    "max peak, MB",
    "mean after, MB",
    "allocated, MB",
    "max MB/s",
    "alloc MB/ms paused",
    "promoted, MB",
    "induced",
];

/// The columns of the table of collections.
pub(super) const COLUMNS: [&str; 32] = [
    "gc",
    "pause start, ms",
    "reason",
    "gen",
    "suspend, ms",
    "pause, ms",
    "pause %",
    "alloc, MB",
    "MB/s",
    "peak, MB",
    "after, MB",
    "ratio",
    "promoted, MB",
    "gen0, MB",
    "surv %",
    "frag %",
    "gen1, MB",
    "surv %",
    "frag %",
    "gen2, MB",
    "surv %",
    "frag %",
    "LOH, MB",
    "surv %",
    "frag %",
    "POH, MB",
    "surv %",
    "frag %",
    "fin. surv., MB",
    "pinned",
    "pinned bytes",
    "pinned %",
];

/// The place of the collection's generation in `COLUMNS`.
pub(super) const GENERATION_COLUMN: usize = 3;
/// The places of the figures by generation, three for each.
pub(super) const GENERATION_COLUMNS: Range<usize> = 13..28;

/// Formats the tables of a process for printing; no newline at the end.
///
/// # Errors
///
/// Reading back the temporary file for many collections failed.
pub fn render(process: &Process) -> io::Result<String> {
    let name = process.identity.name(process.rules());
    let tables = [header(process), rollup(process), collections(process)?];
    let tables: Vec<String> = tables.iter().map(Table::to_string).collect();
    Ok(format!("{name}, process {}\n{}", process.identity.process, tables.join("\n")))
}

fn header(process: &Process) -> Table {
    let Process { identity, all, .. } = process;
    let mut table = empty();
    let line = identity.command_line.as_deref().filter(|line| !line.is_empty());
    table.add_row(["command line", line.unwrap_or("unknown")]);
    table.add_row(["runtime version", &identity.version_text()]);
    table.add_row(["startup flags", &label(Enumeration::StartupFlags, identity.startup_flags)]);
    table.add_row(["heaps", &identity.heaps.map_or("unknown".to_owned(), |heaps| heaps.to_string())]);
    let unfinished = process.begun() - all.count;
    let unfinished = if unfinished == 0 { String::new() } else { format!(", and {unfinished} that did not end") };
    table.add_row(["collections", &format!("{}{unfinished}", all.count)]);
    table.add_row(["allocated", &format!("{} MB", Grouped(all.total_allocated, 3))]);
    let percent = Fixed(process.pause_percent(), 1);
    table.add_row(["paused", &format!("{} ms, {percent} % of the time", Grouped(all.total_pause, 4))]);
    table.add_row(["largest heap", &format!("{} MB", Grouped(all.max_peak, 3))]);
    table
}

/// Returns sums and extremes over all collections and by generation.
fn rollup(process: &Process) -> Table {
    let mut table = empty();
    table.set_header(ROLLUP_COLUMNS);
    table.add_row(rollup_row("all", &process.all, process.all.total_allocated));
    for (number, generation) in process.generations.iter().enumerate() {
        // PerfView divides the allocation of all generations by the pauses of one.
        let allocated = match process.rules() {
            Rules::Ours => generation.total_allocated,
            Rules::LikePerfView => process.all.total_allocated,
        };
        table.add_row(rollup_row(&number.to_string(), generation, allocated));
    }
    align_right(&mut table, 0..usize::MAX);
    table
}

pub(super) fn rollup_row(name: &str, rollup: &Rollup, allocated: f64) -> [String; 13] {
    [
        name.to_owned(),
        rollup.count.to_string(),
        Grouped(rollup.max_pause, 3).to_string(),
        known(rollup.mean_pause(), 3),
        Grouped(rollup.total_pause, 3).to_string(),
        Grouped(rollup.max_suspend, 3).to_string(),
        Grouped(rollup.max_peak, 3).to_string(),
        known(rollup.mean_after(), 3),
        Grouped(rollup.total_allocated, 3).to_string(),
        Grouped(rollup.max_rate, 3).to_string(),
        known(allocated / rollup.total_pause, 3),
        Grouped(rollup.total_promoted, 3).to_string(),
        rollup.induced.to_string(),
    ]
}

/// Calls `row` with each of the last collections of a process, up to [`MOST_ROWS`]. Returns the results, and the number of collections before
/// them.
pub(super) fn last_rows<R>(
    process: &Process,
    mut row: impl FnMut(&Collection, &Figures) -> R,
) -> io::Result<(Vec<R>, usize)> {
    let left_out = (process.all.count as usize).saturating_sub(MOST_ROWS);
    let (mut before, mut rows) = (left_out, Vec::new());
    process.for_each(|collection, figures| {
        match collection.complete {
            true if before > 0 => before -= 1,
            true => rows.push(row(collection, figures)),
            false => {}
        }
        Ok::<_, io::Error>(())
    })?;
    Ok((rows, left_out))
}

fn collections(process: &Process) -> io::Result<Table> {
    let (rows, left_out) = last_rows(process, row)?;
    let mut table = empty();
    let first = if left_out == 0 { "gc".to_owned() } else { format!("gc ({left_out} not shown)") };
    table.set_header(std::iter::once(first.as_str()).chain(COLUMNS.into_iter().skip(1)));
    table.add_rows(rows);
    align_right(&mut table, 0..usize::MAX);
    Ok(table)
}

pub(super) fn row(collection: &Collection, figures: &Figures) -> Vec<String> {
    let after = collection.after_mb();
    let stats = collection.stats.as_ref();
    let mut row = vec![
        collection.number.to_string(),
        Grouped(collection.pause_start, 3).to_string(),
        label(Enumeration::Reason, collection.reason.0),
        collection.generation_name(),
        Grouped(collection.suspend, 3).to_string(),
        Grouped(collection.pause, 3).to_string(),
        Grouped(figures.pause_percent, 1).to_string(),
        Grouped(figures.allocated, 3).to_string(),
        Grouped(figures.rate, 2).to_string(),
        Grouped(figures.peak, 3).to_string(),
        Grouped(after, 3).to_string(),
        Grouped(figures.peak / after, 2).to_string(),
        Grouped(collection.promoted_mb(), 3).to_string(),
    ];
    for generation in [0, 1, 2, LARGE, PINNED] {
        row.push(Grouped(collection.size_after_mb(generation), 3).to_string());
        row.push(known(collection.survival_percent(generation), 0));
        row.push(known(collection.fragmentation_percent(generation), 2));
    }
    row.push(stats.map_or(String::new(), |stats| Grouped(stats.finalization_promoted as f64 / 1e6, 2).to_string()));
    row.push(stats.map_or(String::new(), |stats| stats.pinned_objects.to_string()));
    let pinned = (collection.pinned_bytes != 0).then(|| GroupedInteger(collection.pinned_bytes).to_string());
    row.push(pinned.unwrap_or_default());
    row.push(collection.pinned_percent().map(|percent| percent.to_string()).unwrap_or_default());
    row
}

/// Formats a number; NaN gives an empty cell.
fn known(value: f64, decimals: usize) -> String {
    if value.is_nan() { String::new() } else { Grouped(value, decimals).to_string() }
}
