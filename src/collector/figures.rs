//! Figures about a world's collections, for code that polls them: counters, not events.
//!
//! The collecting thread writes them after a collection, when the world runs again; any thread may read them at any time, without
//! a lock. During an update a reader may see numbers of two collections, each of them right.

use super::report::CollectionReport;
use crate::heap::sweep::SpaceBytes;
use crate::os::clock::now_ns;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// The figures of a world's collections, as the module's text describes.
#[derive(Debug)]
pub(crate) struct Figures {
    pause_total_ns: AtomicU64,
    /// The last collection's pause, and the time from the end of the collection before it to its own end.
    pause_ns: AtomicU64,
    period_ns: AtomicU64,
    ended_ns: AtomicU64,
    small: AtomicU64,
    large: AtomicU64,
    pinned: AtomicU64,
    /// The memory that the heap held after the last collection.
    committed: AtomicU64,
}

/// A snapshot of the figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FiguresSnapshot {
    /// The sum of all pauses so far.
    pub(crate) pause_total_ns: u64,
    /// The last pause.
    pub(crate) pause_ns: u64,
    /// The time from the end of the last pause but one to the end of the last pause.
    pub(crate) period_ns: u64,
    /// The bytes that the last collection left alive.
    pub(crate) live: SpaceBytes,
    /// The memory that the heap held after the last collection.
    pub(crate) committed_bytes: u64,
}

impl Figures {
    pub(crate) fn new() -> Figures {
        let zero = || AtomicU64::new(0);
        Figures {
            pause_total_ns: zero(),
            pause_ns: zero(),
            period_ns: zero(),
            ended_ns: AtomicU64::new(now_ns()),
            small: zero(),
            large: zero(),
            pinned: zero(),
            committed: zero(),
        }
    }

    /// Records a completed collection.
    pub(super) fn note(&self, report: &CollectionReport) {
        let now = now_ns();
        let period = now.saturating_sub(self.ended_ns.swap(now, Relaxed));
        self.pause_total_ns.fetch_add(report.pause_ns, Relaxed);
        self.pause_ns.store(report.pause_ns, Relaxed);
        self.period_ns.store(period.max(report.pause_ns), Relaxed);
        self.small.store(report.live.small, Relaxed);
        self.large.store(report.live.large, Relaxed);
        self.pinned.store(report.live.pinned, Relaxed);
        self.committed.store(report.committed_bytes, Relaxed);
    }

    /// Returns the current figures.
    pub(crate) fn see(&self) -> FiguresSnapshot {
        let read = |figure: &AtomicU64| figure.load(Relaxed);
        FiguresSnapshot {
            pause_total_ns: read(&self.pause_total_ns),
            pause_ns: read(&self.pause_ns),
            period_ns: read(&self.period_ns),
            live: SpaceBytes { small: read(&self.small), large: read(&self.large), pinned: read(&self.pinned) },
            committed_bytes: read(&self.committed),
        }
    }
}
