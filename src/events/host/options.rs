//! How a host is served, and what became of its events.

use std::time::Duration;

/// How a host is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Memory of the queue, in bytes: 40 for an event with two fields. Rounded up to a power of two.
    pub queue_bytes: usize,
    /// How long the drain waits for a host that takes nothing out of a full queue.
    pub patience: Duration,
}

impl Default for HostOptions {
    fn default() -> HostOptions {
        HostOptions { queue_bytes: 4 << 20, patience: Duration::from_secs(1) }
    }
}

/// What became of a host's events. `taken` = `delivered` + `lost` + what is still queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTotals {
    /// Events that came for it.
    pub taken: u64,
    /// Of these, what it was called for.
    pub delivered: u64,
    /// Of these, what it has lost because it took nothing for too long, or panicked.
    pub lost: u64,
}
