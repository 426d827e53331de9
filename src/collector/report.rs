//! The figures of one collection.

use std::fmt;

use crate::heap::sweep::SpaceBytes;
use crate::world::name::ThreadName;

/// The listener that a world calls after each collection.
pub(crate) type Listener = Box<dyn Fn(&CollectionReport) + Send + Sync>;

/// Why a collection happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
pub enum Reason {
    /// The allocation budget was used up.
    Allocation = 0,
    /// A caller requested it.
    Explicit = 1,
    /// There was no room below the heap limit.
    HeapLimit = 2,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allocation => "allocation",
            Self::Explicit => "explicit",
            Self::HeapLimit => "heap limit",
        })
    }
}

/// The figures of one collection. Plain data: it is put together while the world is stopped.
#[derive(Clone, Copy, Debug)]
pub struct CollectionReport {
    /// The number of this collection in its world, from 1.
    pub number: u32,
    /// Why it happened.
    pub reason: Reason,
    /// The thread that collected.
    pub by: ThreadName,
    /// Nanoseconds from the first signal until every thread was stopped.
    pub stop_ns: u64,
    /// Nanoseconds for the roots, without large ones: these are scanned at the beginning of marking, by all markers.
    pub roots_ns: u64,
    /// Nanoseconds for marking from the roots, with the scan of large roots.
    pub mark_ns: u64,
    /// Nanoseconds for weak references and finalizers.
    pub weak_ns: u64,
    /// Nanoseconds to set up the sweep (sweeping itself is done by the threads that allocate).
    pub sweep_ns: u64,
    /// Nanoseconds until every thread was notified to resume.
    pub restart_ns: u64,
    /// Nanoseconds from the first signal until every thread was notified to resume.
    pub pause_ns: u64,
    /// The bytes that are alive, in whole cells and blocks.
    pub live: SpaceBytes,
    /// The number of live objects.
    pub live_objects: u64,
    /// Bytes that were alive or allocated before the collection and are not alive any more.
    pub freed_bytes: u64,
    /// Bytes allocated since the previous collection.
    pub allocated_bytes: u64,
    /// Bytes of memory that the heap holds.
    pub committed_bytes: u64,
    /// Bytes of stacks that were scanned.
    pub stack_bytes: u64,
    /// The number of mutators that were stopped, the collecting one excluded.
    pub threads_stopped: u32,
    /// The number of stopped mutators that were in a blocking region.
    pub threads_blocking: u32,
    /// The thread that was the last to stop.
    pub slowest: ThreadName,
    /// Nanoseconds that the slowest thread took to stop.
    pub slowest_ns: u64,
    /// The largest number of bytes that a mark stack took.
    pub mark_stack_high: usize,
    /// The number of weak references that were cleared, and of entries of weak maps that were removed.
    pub weak_cleared: u32,
    /// The number of objects whose finalizers were queued.
    pub finalizers_queued: u32,
}
