//! The figures of the table as one JSON object, for scripts. Times are in nanoseconds, sizes in bytes.
//!
//! Written by hand: the structure is flat and fixed, and only the names of threads and files need escaping.

use super::{Ledger, Phase, Run};
use trace_io::json::Quoted;

/// Returns one line of JSON, without a newline at the end.
pub fn render(ledger: &Ledger, run: &Run) -> String {
    let mut fields = vec![
        field("collections", ledger.collections),
        field("wall_ns", run.wall.as_nanos()),
        field("allocated_bytes", run.allocated),
        field("freed_bytes", ledger.freed),
        field("most_committed_bytes", ledger.most_committed),
        field("threads", run.threads),
        field("most_threads_stopped", ledger.most_threads),
        field("most_threads_blocking", ledger.most_blocking),
        field("mark_stack_high_bytes", ledger.mark_stack_high),
        field("weak_cleared", ledger.weak_cleared),
        field("finalizers_queued", ledger.finalizers),
    ];
    fields.extend(run.heap_limit.map(|limit| field("heap_limit_bytes", limit)));
    let reasons: Vec<String> = ledger.reasons.iter().map(|(name, n)| format!("{}:{n}", Quoted(name))).collect();
    fields.push(field("reasons", object(&reasons)));
    if let Some(last) = &ledger.last {
        let spaces =
            [field("small", last.live.small), field("large", last.live.large), field("pinned", last.live.pinned)];
        fields.push(field("live_bytes", object(&spaces)));
        fields.push(field("live_objects", last.live_objects));
    }
    if let Some(slowest) = &ledger.slowest {
        let name = slowest.name.to_string();
        let thread = [field("name", Quoted(&name)), field("ns", slowest.ns), field("collection", slowest.collection)];
        fields.push(field("slowest_to_stop", object(&thread)));
    }
    if let Some(trace) = &run.trace {
        let numbers = [
            field("file", Quoted(&trace.file)),
            field("records", trace.records),
            field("bytes", trace.bytes),
            field("events", trace.events),
            field("lost", trace.lost),
        ];
        fields.push(field("trace", object(&numbers)));
    }
    let pauses: Vec<String> = Phase::ALL.iter().map(|&phase| spread(ledger, phase)).collect();
    fields.push(field("pauses_ns", object(&pauses)));
    object(&fields)
}

fn spread(ledger: &Ledger, phase: Phase) -> String {
    let s = ledger.pauses.spread(phase);
    let times =
        [field("min", s.min), field("median", s.median), field("p99", s.p99), field("max", s.max), field("sum", s.sum)];
    field(&phase.name().replace([' ', '-'], "_"), object(&times))
}

fn field(name: &str, value: impl std::fmt::Display) -> String {
    format!("{}:{value}", Quoted(name))
}

fn object(fields: &[String]) -> String {
    format!("{{{}}}", fields.join(","))
}
