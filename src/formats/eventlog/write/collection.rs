//! One collection, as GHC's tools tell of it.
//!
//! ThreadScope counts a collection if it sees on one capability, in this order, GC_START, GC_GLOBAL_SYNC, GC_STATS_GHC and
//! GC_END; and GHC's phases between them. Ours come in another order and are more; so what a phase says is noted until
//! the place where a tool looks for it:
//!
//! | ours | in the log |
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
//! **One at a time.** A program of Haskell's has one heap, and ThreadScope ends with an error when the collections of two
//! overlap. Here each world has its heap. So a collection that starts while another world's is under way is told of
//! in a message, with its figures; its threads stop and run as they do.

/// A stop of the world, and the collection in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Collection {
    /// Which collection the world was stopped for; 0 when it runs.
    pub(super) stopped_for: u32,
    /// Which one has started.
    pub(super) number: u32,
    /// The capability that it is on.
    pub(super) capability: Option<u16>,
    /// Another world's was under way when it started.
    pub(super) overlaps: bool,
    /// Service threads that marked.
    pub(super) markers: u32,
    /// What was allocated since the one before.
    pub(super) allocated: u64,
}
