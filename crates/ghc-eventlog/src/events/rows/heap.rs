//! Collections and the heap.

macro_rules! heap_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// A collection begins.
        GC_START = 9 "Starting GC" {
            GcStart {} "starting GC"
        }

        /// A collection ends.
        GC_END = 10 "Finished GC" {
            GcEnd {} "finished GC"
        }

        /// A collection with one thread was requested.
        REQUEST_SEQ_GC = 11 "Request sequential GC" {
            RequestSeqGc {} "requesting sequential GC"
        }

        /// A collection with several threads was requested.
        REQUEST_PAR_GC = 12 "Request parallel GC" {
            RequestParGc {} "requesting parallel GC"
        }

        /// A collecting thread is out of work.
        GC_IDLE = 20 "GC idle" {
            GcIdle {} "GC idle"
        }

        /// A collecting thread works.
        GC_WORK = 21 "GC working" {
            GcWork {} "GC working"
        }

        /// A collecting thread is done.
        GC_DONE = 22 "GC done" {
            GcDone {} "GC done"
        }

        /// The capability's total allocation.
        HEAP_ALLOCATED = 49 "Total heap memory ever allocated" {
            HeapAllocated {
                capset: u32 [Id] "the capability set of the heap",
                bytes: u64 [Bytes] "allocated since the program began",
            } "allocated on heap capset {capset}: {bytes} total bytes till now"
        }

        /// The size of the heap.
        HEAP_SIZE = 50 "Current heap size" {
            HeapSize {
                capset: u32 [Id] "the capability set of the heap",
                bytes: u64 [Bytes] "memory that the heap has from the system",
            } "size of heap capset {capset}: {bytes} bytes"
        }

        /// Live data, after a full collection.
        HEAP_LIVE = 51 "Current heap live data" {
            HeapLive {
                capset: u32 [Id] "the capability set of the heap",
                bytes: u64 [Bytes] "live data",
            } "live data in heap capset {capset}: {bytes} bytes"
        }

        /// The fixed parameters of a heap.
        HEAP_INFO_GHC = 52 "Heap static parameters" {
            HeapInfo {
                capset: u32 [Id] "the capability set of the heap",
                generations: u16 [Count] "generations",
                max_bytes: u64 [Bytes] "the largest size of the heap; 0 if it has no limit",
                allocation_area_bytes: u64 [Bytes] "an allocation area",
                megablock_bytes: u64 [Bytes] "a megablock: the unit of memory from the system",
                block_bytes: u64 [Bytes] "a block",
            } "heap stats for heap capset {capset}: generations {generations}, {max_bytes} bytes max heap size, \
               {allocation_area_bytes} bytes alloc area size, {megablock_bytes} bytes mblock size, {block_bytes} bytes \
               block size"
        }

        /// What a collection did.
        GC_STATS_GHC = 53 "GC statistics" {
            /// The layout of old versions of GHC.
            GcStatsV1 {
                capset: u32 [Id] "the capability set of the heap",
                generation: u16 [Ordinal] "the oldest generation that was collected",
                copied: u64 [Bytes] "data copied",
                slop: u64 [Bytes] "unused memory at the ends of blocks",
                fragmentation: u64 [Bytes] "free memory that the heap holds",
                threads: u32 [Count] "threads that collected; 1 if the collection was sequential",
                max_copied: u64 [Bytes] "the most that one of several threads copied",
                total_copied: u64 [Bytes] "data that several threads copied together",
            } "GC stats for heap capset {capset}: generation {generation}, {copied} bytes copied, {slop} bytes slop, \
               {fragmentation} bytes fragmentation, {threads} par threads, {max_copied} bytes max par copied, \
               {total_copied} bytes total par copied"
            GcStats {
                capset: u32 [Id] "the capability set of the heap",
                generation: u16 [Ordinal] "the oldest generation that was collected",
                copied: u64 [Bytes] "data copied",
                slop: u64 [Bytes] "unused memory at the ends of blocks",
                fragmentation: u64 [Bytes] "free memory that the heap holds",
                threads: u32 [Count] "threads that collected; 1 if the collection was sequential",
                max_copied: u64 [Bytes] "the most that one of several threads copied",
                total_copied: u64 [Bytes] "data that several threads copied together",
                balanced_copied: u64 [Bytes] "data that would be copied with equal work for all threads",
            } "GC stats for heap capset {capset}: generation {generation}, {copied} bytes copied, {slop} bytes slop, \
               {fragmentation} bytes fragmentation, {threads} par threads, {max_copied} bytes max par copied, \
               {total_copied} bytes total par copied, {balanced_copied} bytes balanced par copied"
        }

        /// All capabilities have stopped for a collection.
        GC_GLOBAL_SYNC = 54 "Synchronise stop-the-world GC" {
            GcGlobalSync {} "all caps stopped for GC"
        }

        /// Memory was returned to the system.
        MEM_RETURN = 90 "Memory return statistics" {
            MemReturn {
                capset: u32 [Id] "the capability set of the heap",
                current: u32 [Count] "megablocks that the heap has",
                needed: u32 [Count] "megablocks that it needs",
                returned: u32 [Count] "megablocks returned",
            } "memory returned (mblocks): current({current}) needed({needed}) returned({returned})"
        }

        /// The memory in the heap's blocks.
        BLOCKS_SIZE = 91 "Report the size of the heap in blocks" {
            BlocksSize {
                capset: u32 [Id] "the capability set of the heap",
                bytes: u64 [Bytes] "memory in blocks",
            } "blocks size of heap capset {capset}: {bytes} bytes"
        }

        /// The non-moving collector begins to mark.
        CONC_MARK_BEGIN = 200 "Begin concurrent mark phase" {
            ConcMarkBegin {} "concurrent mark began"
        }

        /// The non-moving collector has marked. An early version of GHC declares 0 bytes: that layout is not decoded.
        CONC_MARK_END = 201 "End concurrent mark phase" {
            ConcMarkEnd {
                marked: u32 [Count] "objects marked",
            } "concurrent mark ended: marked {marked} objects"
        }

        /// The non-moving collector stops the program.
        CONC_SYNC_BEGIN = 202 "Begin concurrent GC synchronisation" {
            ConcSyncBegin {} "post-mark synchronization began"
        }

        /// The program continues after the non-moving collector stopped it.
        CONC_SYNC_END = 203 "End concurrent GC synchronisation" {
            ConcSyncEnd {} "post-mark synchronization ended"
        }

        /// The non-moving collector begins to sweep.
        CONC_SWEEP_BEGIN = 204 "Begin concurrent sweep" {
            ConcSweepBegin {} "concurrent sweep began"
        }

        /// The non-moving collector has swept.
        CONC_SWEEP_END = 205 "End concurrent sweep" {
            ConcSweepEnd {} "concurrent sweep ended"
        }

        /// A capability handed over the references that it overwrote during marking.
        CONC_UPD_REM_SET_FLUSH = 206 "Update remembered set flushed" {
            ConcUpdRemSetFlush {
                cap: u16 [Id] "the capability",
            } "update remembered set flushed by {cap}"
        }

        /// The segments of a size class of the non-moving heap.
        NONMOVING_HEAP_CENSUS = 207 "Nonmoving heap census" {
            /// The layout of old versions of GHC.
            NonmovingHeapCensusV1 {
                block_log2: u8 [Code] "the size of its blocks, as a power of two",
                active_segments: u32 [Count] "segments from which it allocates",
                filled_segments: u32 [Count] "full segments",
                live_blocks: u32 [Count] "live blocks",
            } "nonmoving heap census {block_log2:2^}: {active_segments} active segments, {filled_segments} filled segments, \
               {live_blocks} live blocks"
            NonmovingHeapCensus {
                block_bytes: u16 [Bytes] "the size of its blocks",
                active_segments: u32 [Count] "segments from which it allocates",
                filled_segments: u32 [Count] "full segments",
                live_blocks: u32 [Count] "live blocks",
            } "nonmoving heap census {block_bytes}: {active_segments} active segments, {filled_segments} filled segments, \
               {live_blocks} live blocks"
        }

        /// Empty segments of the non-moving heap were freed.
        NONMOVING_PRUNED_SEGMENTS = 208 "Nonmoving pruned segments" {
            NonmovingPrunedSegments {
                pruned: u32 [Count] "segments freed",
                free: u32 [Count] "free segments that remain",
            } "nonmoving segments pruned: {pruned} pruned segments, {free} free segments retained"
        }
    }}};
}
