//! One collection, as the events that the GHC tools expect.
//!
//! ThreadScope counts a collection if one capability has, in this order, GC_START, GC_GLOBAL_SYNC, GC_STATS_GHC and GC_END, with
//! the phases of GHC between them. This collector has more phases, in another order. So the writer keeps the data of a phase until
//! the event in which a tool looks for it:
//!
//! | event here | in the log |
//! |---|---|
//! | SuspendBegin | the collecting thread stops; REQUEST_SEQ_GC, or REQUEST_PAR_GC if the world has several markers |
//! | SuspendEnd | the other threads stop |
//! | GcStart | GC_START |
//! | RootsBegin | GC_WORK |
//! | MarkEnd | GC_IDLE, GC_DONE |
//! | SweepEnd | HEAP_ALLOCATED, GC_GLOBAL_SYNC, GC_STATS_GHC |
//! | GcEnd | GC_END |
//! | HeapStats | HEAP_LIVE, HEAP_SIZE, BLOCKS_SIZE |
//! | RestartEnd | the threads run |
//!
//! **One collection at a time.** A Haskell program has one heap, and ThreadScope fails with an error if the collections of two heaps
//! overlap. Here each world has its own heap. So a collection that starts while another world is being collected is written as a message,
//! with its heap figures. The stops and restarts of its threads are written as usual.

/// A stop of the world, and the collection in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Collection {
    /// The number of the collection for which the world is stopped; 0 while the world runs.
    pub(super) stopped_for: u32,
    /// The number of the collection that has started.
    pub(super) number: u32,
    /// The capability of the collecting thread.
    pub(super) capability: Option<u16>,
    /// Whether another world was being collected when it started.
    pub(super) overlaps: bool,
    /// Number of service threads that marked.
    pub(super) markers: u32,
    /// Bytes allocated since the previous collection.
    pub(super) allocated: u64,
}
