//! The options of a host's connection, and the numbers of its events.

use std::time::Duration;

/// The options of a host's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Memory of the queue, in bytes. An event with two fields takes 40 bytes. Rounded up to a power of two.
    pub queue_bytes: usize,
    /// How long the drain waits for a host that takes nothing out of a full queue. Then events are dropped.
    pub patience: Duration,
}

impl Default for HostOptions {
    fn default() -> HostOptions {
        HostOptions { queue_bytes: 4 << 20, patience: Duration::from_secs(1) }
    }
}

/// The numbers of a host's events. `taken` = `delivered` + `lost` + what is still queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTotals {
    /// The number of events that the drain passed to its queue.
    pub taken: u64,
    /// The number of taken events that were delivered to the host.
    pub delivered: u64,
    /// The number of taken events that were lost because the host took nothing for too long, or panicked.
    pub lost: u64,
}
