//! The table at the end of a run.
//!
//! There are two tables: figures of one number or one line, then the pauses, which need columns. If the stops were observed by thread, two
//! more follow. Cells never wrap, so that
//! `grep collections` and `awk` work on the output.

use comfy_table::Table;

use super::layout::{align_right, empty};
use super::{Bytes, Micros, Phase, Run, RunSummary, Trace, stops};

/// Formats the figures and the pauses for printing; no newline at the end.
pub fn render(summary: &RunSummary, run: &Run) -> String {
    let tables = format!("{}\n{}", figures(summary, run), pauses(summary));
    match &run.stops {
        Some(report) => format!("{tables}\n{}", stops::render(report)),
        None => tables,
    }
}

fn figures(summary: &RunSummary, run: &Run) -> Table {
    let mut table = empty();
    for (name, value) in rows(summary, run) {
        table.add_row([name.to_owned(), value]);
    }
    table
}

fn rows(summary: &RunSummary, run: &Run) -> Vec<(&'static str, String)> {
    let seconds = run.wall.as_secs_f64();
    let paused = summary.pauses.spread(Phase::Total).sum as f64 / 1e9;
    let mut rows = vec![("collections", summary.collections.to_string())];
    if !summary.reasons.is_empty() {
        let reasons: Vec<String> = summary.reasons.iter().map(|(name, count)| format!("{name} {count}")).collect();
        rows.push(("requested by", reasons.join(", ")));
    }
    rows.push(("wall time", format!("{seconds:.3} s, {:.1} % of it paused", percent(paused, seconds))));
    rows.push(("allocated", allocated(summary, run)));
    rows.push(("freed", Bytes(summary.freed).to_string()));
    rows.push(("live after last GC", live(summary)));
    let limit = run.heap_limit.map_or(String::new(), |limit| format!(", limit {}", Bytes(limit)));
    rows.push(("committed", format!("{} at most{limit}", Bytes(summary.most_committed))));
    rows.push(("threads", threads(summary, run)));
    let slowest = summary.slowest.map_or("no thread was waited for".to_owned(), |slowest| {
        format!("{}, {} µs in collection {}", slowest.name, Micros(slowest.ns), slowest.collection)
    });
    rows.push(("slowest to stop", slowest));
    rows.push(("mark stack", format!("{} at most", Bytes(summary.mark_stack_high))));
    if summary.weak_cleared > 0 {
        rows.push(("weak references", format!("{} cleared", summary.weak_cleared)));
    }
    if summary.finalizers > 0 {
        rows.push(("finalizers", format!("{} queued", summary.finalizers)));
    }
    rows.extend(run.trace.as_ref().map(|trace| ("trace", traced(trace))));
    rows
}

fn traced(trace: &Trace) -> String {
    let Trace { file, records, bytes, events, lost } = trace;
    let written = format!("{file}: {records} records, {}", Bytes(*bytes));
    if *lost == 0 { written } else { format!("{written}; {lost} of {events} events are lost") }
}

fn allocated(summary: &RunSummary, run: &Run) -> String {
    if summary.collections == 0 {
        return "not counted before the first collection".to_owned();
    }
    format!("{}, {}/s", Bytes(run.allocated), Bytes(rate(run.allocated, run.wall.as_secs_f64())))
}

fn live(summary: &RunSummary) -> String {
    let Some(last) = &summary.last else { return "no collection yet".to_owned() };
    format!(
        "small {}, large {}, pinned {}; {} objects",
        Bytes(last.live.small),
        Bytes(last.live.large),
        Bytes(last.live.pinned),
        last.live_objects
    )
}

fn threads(summary: &RunSummary, run: &Run) -> String {
    let used = run.threads;
    match summary.most_threads {
        0 => format!("{used} working"),
        most => format!("{used} working, at most {most} stopped at once ({} of them blocking)", summary.most_blocking),
    }
}

fn pauses(summary: &RunSummary) -> Table {
    let mut table = empty();
    table.set_header(["pause, µs", "min", "median", "p99", "max", "sum"]);
    for phase in Phase::ALL {
        let spread = summary.pauses.spread(phase);
        let times = [spread.min, spread.median, spread.p99, spread.max, spread.sum].map(|ns| Micros(ns).to_string());
        table.add_row(std::iter::once(phase.name().to_owned()).chain(times));
    }
    align_right(&mut table, 1..usize::MAX);
    table
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// Returns the bytes per second.
fn rate(bytes: u64, seconds: f64) -> u64 {
    if seconds > 0.0 { (bytes as f64 / seconds) as u64 } else { 0 }
}
