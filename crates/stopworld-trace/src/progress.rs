//! The progress of a writer, published for the owner of its trace.

use crate::sync::{AtomicU64, Ordering};

/// See the module documentation. Each number is read and written independently.
#[derive(Debug, Default)]
pub struct Progress {
    records: AtomicU64,
    bytes: AtomicU64,
    /// The number of worlds whose end the writer has received.
    ended: AtomicU64,
}

impl Progress {
    /// Publishes the number of records and bytes in the file.
    pub(super) fn publish(&self, records: u64, bytes: u64) {
        self.records.store(records, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_ended_world(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }
}
