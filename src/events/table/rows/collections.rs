//! A collection: the stop, the phases, what they found, and the restart.

macro_rules! collection_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// The world is about to be stopped. The threads still run.
        SuspendBegin / fire_suspend_begin in Collection {
            net [GCSuspendEEBegin = 9 v 1 op 10: Default GC Informational]
            mps [ArenaPollBegin = 0x0D: Arena]
            ghc [REQUEST_SEQ_GC = 11, REQUEST_PAR_GC = 12]
            usdt [suspend_begin]
            fields {
                number: u32 [Ordinal] "number of the collection that the stop is for",
                reason: u32 [Code] "reason for the collection, as in GcStart",
            }
        }

        /// The world has stopped: every thread is parked or in a blocking region.
        SuspendEnd / fire_suspend_end in Collection {
            net [GCSuspendEEEnd = 8 v 1 op 137: Default GC Informational]
            mps []
            ghc [GC_GLOBAL_SYNC = 54]
            usdt [suspend_end]
            fields {
                number: u32 [Ordinal] "number of the collection that the stop is for",
                threads_stopped: u32 [Count] "attached threads, including those in blocking regions and the collecting thread",
                threads_blocking: u32 [Count] "threads that were in a blocking region and may stay there",
            }
        }

        /// The stop was abandoned: a thread did not acknowledge it in time. The world continues and nothing was collected.
        StopAbandoned / fire_stop_abandoned in Collection {
            net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
            mps [ArenaPollEnd = 0x0E: Arena]
            ghc [LOG_MSG = 16]
            usdt [stop_abandoned]
            fields {
                number: u32 [Ordinal] "number of the collection that the stop was for",
                unanswered: u32 [Count] "threads that did not acknowledge",
            }
        }

        /// A collection was requested.
        GcTriggered / fire_gc_triggered in Collection {
            net [GCTriggered = 35 v 0 op 35: Default GC Informational]
            mps []
            ghc []
            usdt [gc_triggered]
            fields {
                reason: u32 [Code] "reason for the collection, as in GcStart",
            }
        }

        /// A collection starts, in the stopped world.
        GcStart / fire_gc_start in Collection {
            net [GCStart = 1 v 2 op 1: Default GC Informational]
            mps [TraceCreate = 0x44: Trace, TraceCondemnAll = 0x43: Trace, TraceStart = 0x51: Trace]
            ghc [GC_START = 9]
            usdt [gc_start]
            fields {
                number: u32 [Ordinal] "collection number, from 1",
                reason: u32 [Code] "reason for the collection: 0 the allocation budget was used up, 1 requested by the program, 2 no room below the heap limit",
            }
        }

        /// Registers, stacks, static ranges and handles are about to be scanned.
        RootsBegin / fire_roots_begin in Collection {
            net []
            mps [TraceFlipBegin = 0x4B: Trace]
            ghc [GC_WORK = 21]
            usdt [roots_begin]
            fields {
                number: u32 [Ordinal] "collection number",
            }
        }

        /// The roots have been scanned, except large ones, which are scanned at the beginning of marking.
        RootsEnd / fire_roots_end in Collection {
            net []
            mps [TraceFlipEnd = 0x4C: Trace]
            ghc []
            usdt [roots_end]
            fields {
                number: u32 [Ordinal] "collection number",
                stack_bytes: usize [Bytes] "stack memory that is scanned, all threads together",
                roots: usize [Count] "other roots: handles, ranges, and objects queued for finalizers",
            }
        }

        /// A root has been scanned, or will be at the beginning of marking if it is large: for example a thread's stacks, a registered range, or a
        /// table of handles.
        RootScanned / fire_root_scanned in Block {
            net []
            mps [RootScan = 0x37: Seg]
            ghc []
            fields {
                root_addr: usize [Address] "the thread's stop record, or the cell, stack, range or table",
                kind: u32 [Code] "0 stacks of a thread, 1 partially initialised object, 2 registered stack, 3 range, 4 handles, 5 finalizers",
                bytes: usize [Bytes] "how much of it was scanned",
            }
        }

        /// Memory has been scanned conservatively: part of a stack, a range, or a partially initialised cell.
        AreaScanned / fire_area_scanned in Block {
            net []
            mps [TraceScanArea = 0x4E: Seg]
            ghc []
            fields {
                base_addr: usize [Address] "its first byte",
                limit_addr: usize [Address] "the byte after its last",
            }
        }

        /// A word that points into the heap was examined: a reference, or a possible reference on a stack. One event per reference:
        /// expect very many.
        ReferenceFixed / fire_reference_fixed in Object {
            net []
            mps [TraceFix = 0x49: Ref]
            ghc []
            fields {
                slot_addr: usize [Address] "address of the word",
                reference: usize [Address] "value of the word",
                rank: u32 [Code] "0 a possible reference (on a stack), 1 a reference (in an object or a handle), 2 a reference to an object whose finalizer is due",
            }
        }

        /// The objects reachable from the roots are about to be marked.
        MarkBegin / fire_mark_begin in Collection {
            net []
            mps [TraceBandAdvance = 0x42: Trace]
            ghc []
            usdt [mark_begin]
            fields {
                number: u32 [Ordinal] "collection number",
            }
        }

        /// In parallel marking, a marker started, a marker ran out of work, or the collecting thread saw that all have finished.
        MarkerJoined / fire_marker_joined in Collection {
            net [GCJoin = 203 v 2 op 203: Default GC Verbose]
            mps []
            ghc []
            fields {
                marker: u32 [Code] "which marker: 0 the collecting thread, then the helper threads",
                moment: u32 [Code] "0 it started, 1 it ran out of work, 2 all have finished",
            }
        }

        /// Every object reachable from the roots is marked.
        MarkEnd / fire_mark_end in Collection {
            net [GCMarkWithType = 202 v 0 op 202: Default GC Informational]
            mps []
            ghc [GC_IDLE = 20, GC_DONE = 22]
            usdt [mark_end]
            fields {
                number: u32 [Ordinal] "collection number",
                objects: usize [Count] "objects marked; an object that two markers raced for counts twice",
                stack_bytes: usize [Bytes] "largest size of any mark stack",
            }
        }

        /// The marked objects of a block have been scanned. Fired at the end of marking, because marking does not go block by block;
        /// and immediately when blocks are scanned again after a mark stack overflow.
        BlockScanned / fire_block_scanned in Block {
            net []
            mps [SegScan = 0x3D: Seg]
            ghc []
            fields {
                addr: usize [Address] "the start of the block",
                space: u32 [Code] "its space: 0 small, 1 pinned, 2 large",
                objects: usize [Count] "marked objects in it",
            }
        }

        /// Weak references to dead objects are cleared, and dead objects with finalizers are queued.
        WeakEnd / fire_weak_end in Collection {
            net [GCMarkWithType = 202 v 0 op 202: Default GC Informational]
            mps [TraceBandAdvance = 0x42: Trace]
            ghc []
            usdt [weak_end]
            fields {
                number: u32 [Ordinal] "collection number",
                cleared: usize [Count] "weak references cleared",
                finalizers_queued: usize [Count] "objects handed to the finalizer thread",
            }
        }

        /// The sweep is being set up.
        SweepBegin / fire_sweep_begin in Collection {
            net []
            mps [TraceReclaim = 0x4D: Trace]
            ghc []
            usdt [sweep_begin]
            fields {
                number: u32 [Ordinal] "collection number",
            }
        }

        /// An object of the pinned space is alive. One event per object in each collection: expect many.
        ObjectPinned / fire_object_pinned in Object {
            net [PinObjectAtGCTime = 33 v 0 op 36: Default GC Verbose]
            mps []
            ghc []
            fields {
                addr: usize [Address] "the object",
                bytes: usize [Bytes] "its size in the heap",
                type_addr: usize [Address] "its type",
            }
        }

        /// The heap before a collection: what the previous collection left alive, by space, and what was allocated since, in all spaces
        /// together. Fired when the numbers are known.
        HeapBefore / fire_heap_before in Collection {
            net []
            mps []
            ghc []
            fields {
                number: u32 [Ordinal] "collection number",
                small_bytes: usize [Bytes] "left alive in size-class blocks",
                large_bytes: usize [Bytes] "left alive as large objects",
                pinned_bytes: usize [Bytes] "left alive in the pinned object space",
                allocated_bytes: usize [Bytes] "allocated since the previous collection",
                budget_bytes: usize [Bytes] "allocation budget: bytes that may be allocated until the next collection",
            }
        }

        /// The heap after a collection: what is alive, by space, and how many pinned objects and root handles there are.
        HeapAfter / fire_heap_after in Collection {
            net []
            mps []
            ghc []
            fields {
                number: u32 [Ordinal] "collection number",
                small_bytes: usize [Bytes] "live in size-class blocks",
                large_bytes: usize [Bytes] "live as large objects",
                pinned_bytes: usize [Bytes] "live in the pinned object space",
                pinned_objects: usize [Count] "live objects in the pinned object space",
                handles: usize [Count] "root handles in use",
            }
        }

        /// The sweep is set up: the live and the freed bytes are known. Allocating threads may still sweep blocks lazily.
        SweepEnd / fire_sweep_end in Collection {
            net [
                GCGlobalHeapHistory = 205 v 4 op 205: Default GC Informational,
                GCPerHeapHistory = 204 v 3 op 204: Default GC Informational,
            ]
            mps [TraceDestroy = 0x46: Trace]
            ghc [GC_STATS_GHC = 53]
            usdt [sweep_end]
            fields {
                number: u32 [Ordinal] "collection number",
                live_bytes: usize [Bytes] "live bytes",
                freed_bytes: usize [Bytes] "bytes of the objects that died in this collection",
            }
        }

        /// The live bytes of a block are known.
        BlockReclaimed / fire_block_reclaimed in Block {
            net []
            mps [SegReclaim = 0x3C: Seg]
            ghc []
            fields {
                addr: usize [Address] "the start of the block",
                space: u32 [Code] "its space: 0 small, 1 pinned, 2 large",
                live_bytes: usize [Bytes] "live bytes in the block",
            }
        }

        /// The collection has ended. The world is still stopped.
        GcEnd / fire_gc_end in Collection {
            net [GCEnd = 2 v 1 op 2: Default GC Informational]
            mps []
            ghc [GC_END = 10]
            usdt [gc_end]
            fields {
                number: u32 [Ordinal] "collection number",
            }
        }

        /// The heap by space, after a collection.
        HeapStats / fire_heap_stats in Collection {
            net [GCHeapStats = 4 v 2 op 133: Default GC Informational]
            mps []
            ghc [HEAP_ALLOCATED = 49, HEAP_LIVE = 51, HEAP_SIZE = 50]
            usdt [heap_stats]
            fields {
                number: u32 [Ordinal] "collection number",
                small_bytes: usize [Bytes] "live in size-class blocks",
                large_bytes: usize [Bytes] "live as large objects",
                pinned_bytes: usize [Bytes] "live in the pinned object space",
                committed_bytes: usize [Bytes] "memory that the heap has committed",
                live_objects: usize [Count] "live objects",
            }
        }

        /// The threads are about to be resumed.
        RestartBegin / fire_restart_begin in Collection {
            net [GCRestartEEBegin = 7 v 1 op 136: Default GC Informational]
            mps []
            ghc []
            usdt [restart_begin]
            fields {
                number: u32 [Ordinal] "number of the collection that the stop was for",
            }
        }

        /// Every thread has been resumed. The pause is over.
        RestartEnd / fire_restart_end in Collection {
            net [GCRestartEEEnd = 3 v 1 op 132: Default GC Informational]
            mps [ArenaPollEnd = 0x0E: Arena]
            ghc []
            usdt [restart_end]
            fields {
                number: u32 [Ordinal] "number of the collection that the stop was for",
            }
        }

        /// The marks of a collection were discarded before anything was cleared or swept. The collection is repeated.
        CollectionDiscarded / fire_collection_discarded in Collection {
            net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
            mps [TraceDestroy = 0x46: Trace]
            ghc [LOG_MSG = 16]
            usdt [collection_discarded]
            fields {
                number: u32 [Ordinal] "collection number",
                reason: u32 [Code] "always 0: the stop was lost, because the debugger that stopped threads was lost or its answer was false",
            }
        }

        /// The vtable that stops threads was replaced.
        VtableSwapped / fire_vtable_swapped in World {
            net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
            mps []
            ghc [LOG_MSG = 16]
            usdt [vtable_swapped]
            fields {
                old_kind: u32 [Code] "the old vtable: 0 signals, 1 safepoints, 2 the mock debugger, 3 another",
                new_kind: u32 [Code] "the new vtable, with the same codes",
            }
        }

        /// A thread of the stopped world: how long the stop waited for it. One event per living thread of the world in each stop, after SuspendEnd.
        ThreadStopped / fire_thread_stopped in Collection {
            net []
            mps []
            ghc []
            fields {
                number: u32 [Ordinal] "number of the collection that the stop is for",
                tid: u32 [Thread] "the thread",
                activity: u32 [Code] "0 it ran, 1 it entered a blocking region, 2 it was in a blocking region, 3 it was stopped already, 4 it is the collecting thread",
                ns: u64 [Nanoseconds] "time from the request until it had stopped; 0 unless the stop waited for it (activities 0 and 1)",
            }
        }
    } } };
}
