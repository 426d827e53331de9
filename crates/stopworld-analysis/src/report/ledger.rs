//! What is kept of each collection until the end.

use std::time::Duration;

use super::pauses::Pauses;
use stopworld::{CollectionReport, ThreadName};

/// Everything the final table says about the collections of one world.
#[derive(Default)]
pub struct Ledger {
    /// How many there were.
    pub collections: u64,
    /// Where their time went.
    pub pauses: Pauses,
    /// How many there were for each reason, in the order of their first appearance.
    pub reasons: Vec<(String, u64)>,
    /// The latest report, whose live bytes are the table's.
    pub last: Option<CollectionReport>,
    /// The thread that kept the others waiting longest.
    pub slowest: Option<Slowest>,
    /// The most memory that was committed at the end of a collection.
    pub most_committed: u64,
    /// The most threads that one collection stopped, those in blocking regions included and itself not.
    pub most_threads: u32,
    /// How many of those were in blocking regions, at most.
    pub most_blocking: u32,
    /// Bytes found dead, over all collections.
    pub freed: u64,
    /// Weak references cleared, over all collections.
    pub weak_cleared: u64,
    /// Finalizers queued, over all collections.
    pub finalizers: u64,
    /// The most bytes that a mark stack took.
    pub mark_stack_high: u64,
}

/// The thread that took longest to stop.
#[derive(Clone, Copy, Debug)]
pub struct Slowest {
    /// Its name.
    pub name: ThreadName,
    /// How long it took.
    pub ns: u64,
    /// In which collection.
    pub collection: u64,
}

/// What the ledger can't know from the reports: the run around them.
#[derive(Clone, Debug)]
pub struct Run {
    /// From the start of the program's work to its end.
    pub wall: Duration,
    /// Bytes allocated in all.
    pub allocated: u64,
    /// The limit of the heap, if one was set.
    pub heap_limit: Option<u64>,
    /// The threads that the workload was asked to use.
    pub threads: usize,
    /// The trace that was written, if one was.
    pub trace: Option<Trace>,
}

/// What has become of a trace.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its file.
    pub file: String,
    /// Records in the file.
    pub records: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// Events that were to go there.
    pub events: u64,
    /// How many of these did not get there.
    pub lost: u64,
}

impl Ledger {
    /// Takes in one collection.
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
