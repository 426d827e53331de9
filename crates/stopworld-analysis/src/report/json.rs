//! The figures of the table as one JSON object, for scripts. Times are in nanoseconds, sizes in bytes.

use serde::{Serialize, Serializer};

use super::stops::StopReport;
use super::{Pauses, Phase, Run, RunSummary, Slowest, Spread, Trace};
use crate::json;

/// Returns one line of JSON, without a newline at the end.
pub fn render(summary: &RunSummary, run: &Run) -> String {
    let last = summary.last.as_ref();
    let figures = Figures {
        collections: summary.collections,
        wall_ns: run.wall.as_nanos(),
        allocated_bytes: run.allocated,
        freed_bytes: summary.freed,
        most_committed_bytes: summary.most_committed,
        threads: run.threads,
        most_threads_stopped: summary.most_threads,
        most_threads_blocking: summary.most_blocking,
        mark_stack_high_bytes: summary.mark_stack_high,
        weak_cleared: summary.weak_cleared,
        finalizers_queued: summary.finalizers,
        heap_limit_bytes: run.heap_limit,
        reasons: &summary.reasons,
        live_bytes: last.map(|last| Live { small: last.live.small, large: last.live.large, pinned: last.live.pinned }),
        live_objects: last.map(|last| last.live_objects),
        slowest_to_stop: summary.slowest.as_ref().map(|&Slowest { name, ns, collection }| Stopped {
            name: name.to_string(),
            ns,
            collection,
        }),
        trace: run.trace.as_ref(),
        pauses_ns: &summary.pauses,
        stops_ns: run.stops.as_ref(),
    };
    let mut line = Vec::new();
    // Neither call can fail: a vector takes any number of bytes, the names of members are strings, and JSON is UTF-8.
    json::write(&mut line, &figures).expect("figures can be written");
    String::from_utf8(line).expect("JSON is UTF-8")
}

/// The members are in the order of the output.
#[derive(Serialize)]
struct Figures<'a> {
    collections: u64,
    wall_ns: u128,
    allocated_bytes: u64,
    freed_bytes: u64,
    most_committed_bytes: u64,
    threads: usize,
    most_threads_stopped: u32,
    most_threads_blocking: u32,
    mark_stack_high_bytes: u64,
    weak_cleared: u64,
    finalizers_queued: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    heap_limit_bytes: Option<u64>,
    #[serde(serialize_with = "reasons")]
    reasons: &'a [(String, u64)],
    #[serde(skip_serializing_if = "Option::is_none")]
    live_bytes: Option<Live>,
    #[serde(skip_serializing_if = "Option::is_none")]
    live_objects: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slowest_to_stop: Option<Stopped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a Trace>,
    #[serde(serialize_with = "pauses")]
    pauses_ns: &'a Pauses,
    #[serde(skip_serializing_if = "Option::is_none")]
    stops_ns: Option<&'a StopReport>,
}

/// Live bytes in each space.
#[derive(Serialize)]
struct Live {
    small: u64,
    large: u64,
    pinned: u64,
}

/// The thread that took longest to stop.
#[derive(Serialize)]
struct Stopped {
    name: String,
    ns: u64,
    collection: u64,
}

fn reasons<S: Serializer>(reasons: &[(String, u64)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(reasons.iter().map(|(name, count)| (name, count)))
}

fn pauses<S: Serializer>(pauses: &Pauses, to: S) -> Result<S::Ok, S::Error> {
    let spread = |phase: &Phase| -> (String, Spread) { (phase.name().replace([' ', '-'], "_"), pauses.spread(*phase)) };
    to.collect_map(Phase::ALL.iter().map(spread))
}
