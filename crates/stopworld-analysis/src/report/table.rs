//! The table at the end of a run.
//!
//! There are two tables: figures of one number or one line, then the pauses, which need columns. Cells never wrap, so that
//! `grep collections` and `awk` work on the output.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::{Bytes, Ledger, Micros, Phase, Run, Trace};

/// Formats the figures and the pauses for printing; no newline at the end.
pub fn render(ledger: &Ledger, run: &Run) -> String {
    format!("{}\n{}", figures(ledger, run), pauses(ledger))
}

fn figures(ledger: &Ledger, run: &Run) -> Table {
    let mut table = empty();
    for (name, value) in rows(ledger, run) {
        table.add_row([name.to_owned(), value]);
    }
    table
}

fn rows(ledger: &Ledger, run: &Run) -> Vec<(&'static str, String)> {
    let seconds = run.wall.as_secs_f64();
    let paused = ledger.pauses.spread(Phase::Total).sum as f64 / 1e9;
    let mut rows = vec![("collections", ledger.collections.to_string())];
    if !ledger.reasons.is_empty() {
        let reasons: Vec<String> = ledger.reasons.iter().map(|(name, count)| format!("{name} {count}")).collect();
        rows.push(("requested by", reasons.join(", ")));
    }
    rows.push(("wall time", format!("{seconds:.3} s, {:.1} % of it paused", percent(paused, seconds))));
    rows.push(("allocated", allocated(ledger, run)));
    rows.push(("freed", Bytes(ledger.freed).to_string()));
    rows.push(("live after last GC", live(ledger)));
    let limit = run.heap_limit.map_or(String::new(), |limit| format!(", limit {}", Bytes(limit)));
    rows.push(("committed", format!("{} at most{limit}", Bytes(ledger.most_committed))));
    rows.push(("threads", threads(ledger, run)));
    let slowest = ledger.slowest.map_or("no thread was waited for".to_owned(), |slowest| {
        format!("{}, {} µs in collection {}", slowest.name, Micros(slowest.ns), slowest.collection)
    });
    rows.push(("slowest to stop", slowest));
    rows.push(("mark stack", format!("{} at most", Bytes(ledger.mark_stack_high))));
    if ledger.weak_cleared > 0 {
        rows.push(("weak references", format!("{} cleared", ledger.weak_cleared)));
    }
    if ledger.finalizers > 0 {
        rows.push(("finalizers", format!("{} queued", ledger.finalizers)));
    }
    rows.extend(run.trace.as_ref().map(|trace| ("trace", traced(trace))));
    rows
}

fn traced(trace: &Trace) -> String {
    let Trace { file, records, bytes, events, lost } = trace;
    let written = format!("{file}: {records} records, {}", Bytes(*bytes));
    if *lost == 0 { written } else { format!("{written}; {lost} of {events} events are lost") }
}

fn allocated(ledger: &Ledger, run: &Run) -> String {
    if ledger.collections == 0 {
        return "not counted before the first collection".to_owned();
    }
    format!("{}, {}/s", Bytes(run.allocated), Bytes(rate(run.allocated, run.wall.as_secs_f64())))
}

fn live(ledger: &Ledger) -> String {
    let Some(last) = &ledger.last else { return "no collection yet".to_owned() };
    format!(
        "small {}, large {}, pinned {}; {} objects",
        Bytes(last.live.small),
        Bytes(last.live.large),
        Bytes(last.live.pinned),
        last.live_objects
    )
}

fn threads(ledger: &Ledger, run: &Run) -> String {
    let used = run.threads;
    match ledger.most_threads {
        0 => format!("{used} working"),
        most => format!("{used} working, at most {most} stopped at once ({} of them blocking)", ledger.most_blocking),
    }
}

fn pauses(ledger: &Ledger) -> Table {
    let mut table = empty();
    table.set_header(["pause, µs", "min", "median", "p99", "max", "sum"]);
    for phase in Phase::ALL {
        let spread = ledger.pauses.spread(phase);
        let times = [spread.min, spread.median, spread.p99, spread.max, spread.sum].map(|ns| Micros(ns).to_string());
        table.add_row(std::iter::once(phase.name().to_owned()).chain(times));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn empty() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// Bytes per second.
fn rate(bytes: u64, seconds: f64) -> u64 {
    if seconds > 0.0 { (bytes as f64 / seconds) as u64 } else { 0 }
}
