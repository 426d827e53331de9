//! The summary of a run's collections.

use std::time::Duration;

use super::pauses::Pauses;
use super::stops::StopReport;
use stopworld::{CollectionReport, ThreadName};

/// Everything that the final table shows about the collections of one world.
#[derive(Default)]
pub struct RunSummary {
    /// The number of collections.
    pub collections: u64,
    /// The times of their phases.
    pub pauses: Pauses,
    /// The number of collections for each reason, in the order in which the reasons first occurred.
    pub reasons: Vec<(String, u64)>,
    /// The latest report; the table shows its live bytes.
    pub last: Option<CollectionReport>,
    /// The thread that took longest to stop.
    pub slowest: Option<Slowest>,
    /// The maximum of the memory committed at the end of a collection, in bytes.
    pub most_committed: u64,
    /// The maximum number of threads stopped for one collection, including threads in blocking regions and excluding the collecting thread.
    pub most_threads: u32,
    /// The maximum number of stopped threads that were in blocking regions.
    pub most_blocking: u32,
    /// Bytes freed, over all collections.
    pub freed: u64,
    /// Weak references cleared, over all collections.
    pub weak_cleared: u64,
    /// Finalizers queued, over all collections.
    pub finalizers: u64,
    /// The largest size of a mark stack, in bytes.
    pub mark_stack_high: u64,
}

/// The thread that took longest to stop.
#[derive(Clone, Copy, Debug)]
pub struct Slowest {
    /// Its name.
    pub name: ThreadName,
    /// The time that it took to stop, in nanoseconds.
    pub ns: u64,
    /// The number of the collection for which it was stopped.
    pub collection: u64,
}

/// The facts about a run that the collections' reports do not contain.
#[derive(Clone, Debug)]
pub struct Run {
    /// The time from the start of the program's work to its end.
    pub wall: Duration,
    /// Total bytes allocated.
    pub allocated: u64,
    /// The limit of the heap, if one was set.
    pub heap_limit: Option<u64>,
    /// The number of threads that the workload uses.
    pub threads: usize,
    /// The trace, if one was written.
    pub trace: Option<Trace>,
    /// The stops by thread, if they were observed.
    pub stops: Option<StopReport>,
}

/// The result of writing a trace.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Trace {
    /// The name of its file.
    pub file: String,
    /// Number of records in the file.
    pub records: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Number of events selected for the trace.
    pub events: u64,
    /// Number of selected events that were lost.
    pub lost: u64,
}

impl RunSummary {
    /// Adds a collection.
    pub fn note(&mut self, report: &CollectionReport) {
        self.collections += 1;
        self.pauses.record(report);
        self.note_reason(report);
        self.note_slowest(report);
        self.most_committed = self.most_committed.max(report.committed_bytes);
        self.most_threads = self.most_threads.max(report.threads_stopped);
        self.most_blocking = self.most_blocking.max(report.threads_blocking);
        self.freed += report.freed_bytes;
        self.weak_cleared += u64::from(report.weak_cleared);
        self.finalizers += u64::from(report.finalizers_queued);
        self.mark_stack_high = self.mark_stack_high.max(report.mark_stack_high as u64);
        self.last = Some(*report);
    }

    fn note_reason(&mut self, report: &CollectionReport) {
        let reason = report.reason.to_string();
        match self.reasons.iter_mut().find(|(name, _)| *name == reason) {
            Some((_, count)) => *count += 1,
            None => self.reasons.push((reason, 1)),
        }
    }

    fn note_slowest(&mut self, report: &CollectionReport) {
        let slower = self.slowest.as_ref().is_none_or(|s| report.slowest_ns > s.ns);
        if slower && report.slowest_ns > 0 {
            let collection = u64::from(report.number);
            self.slowest = Some(Slowest { name: report.slowest, ns: report.slowest_ns, collection });
        }
    }
}
