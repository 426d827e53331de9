//! A collection: the stop, the phases, what they found, and the restart.

macro_rules! collection_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// The world is asked to stop. The threads still run.
        SuspendBegin / fire_suspend_begin in Collection {
            net [GCSuspendEEBegin = 9 v 1 op 10: Default GC Informational]
            mps [ArenaPollBegin = 0x0D: Arena]
            ghc [REQUEST_SEQ_GC = 11, REQUEST_PAR_GC = 12]
            usdt [suspend_begin]
            fields {
                number: u32 [Ordinal] "the collection that it is for",
                reason: u32 [Code] "why the world is stopped",
            }
        }

        /// The world has stopped: every thread is parked or in a blocking region.
        SuspendEnd / fire_suspend_end in Collection {
            net [GCSuspendEEEnd = 8 v 1 op 137: Default GC Informational]
            mps []
            ghc [GC_GLOBAL_SYNC = 54]
            usdt [suspend_end]
            fields {
                number: u32 [Ordinal] "the collection that it is for",
                threads_stopped: u32 [Count] "threads that had to be stopped",
                threads_blocking: u32 [Count] "threads that were in a blocking region and may stay there",
            }
        }

        /// The stop was given up: some thread did not answer in time. The world runs on and nothing was collected.
        StopAbandoned / fire_stop_abandoned in Collection {
            net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
            mps [ArenaPollEnd = 0x0E: Arena]
            ghc [LOG_MSG = 16]
            usdt [stop_abandoned]
            fields {
                number: u32 [Ordinal] "the collection that it was for",
                unanswered: u32 [Count] "threads that did not answer",
            }
        }

        /// Somebody wants a collection.
        GcTriggered / fire_gc_triggered in Collection {
            net [GCTriggered = 35 v 0 op 35: Default GC Informational]
            mps []
            ghc []
            usdt [gc_triggered]
            fields {
                reason: u32 [Code] "why",
            }
        }

        /// A collection starts, in the stopped world.
        GcStart / fire_gc_start in Collection {
            net [GCStart = 1 v 2 op 1: Default GC Informational]
            mps [TraceCreate = 0x44: Trace, TraceCondemnAll = 0x43: Trace, TraceStart = 0x51: Trace]
            ghc [GC_START = 9]
            usdt [gc_start]
            fields {
                number: u32 [Ordinal] "which collection, from 1",
                reason: u32 [Code] "why",
            }
        }

        /// Registers, stacks, static ranges and handles are about to be scanned.
        RootsBegin / fire_roots_begin in Collection {
            net []
            mps [TraceFlipBegin = 0x4B: Trace]
            ghc [GC_WORK = 21]
            usdt [roots_begin]
            fields {
                number: u32 [Ordinal] "which collection",
            }
        }

        /// The roots have been scanned.
        RootsEnd / fire_roots_end in Collection {
            net []
            mps [TraceFlipEnd = 0x4C: Trace]
            ghc []
            usdt [roots_end]
            fields {
                number: u32 [Ordinal] "which collection",
                stack_bytes: usize [Bytes] "stack that was scanned, all threads together",
                roots: usize [Count] "objects that a root refers to",
            }
        }

        /// A root has been scanned: a thread's stacks, a registered range, a table of handles.
        RootScanned / fire_root_scanned in Block {
            net []
            mps [RootScan = 0x37: Seg]
            ghc []
            fields {
                root_addr: usize [Address] "the thread's stop record, the cell, the stack, the range, the table",
                kind: u32 [Code] "0 stacks of a thread, 1 half-built object, 2 registered stack, 3 range, 4 handles, 5 finalizers",
                bytes: usize [Bytes] "how much of it was looked at",
            }
        }

        /// Memory has been scanned conservatively: a piece of a stack, a range, a cell that was being built.
        AreaScanned / fire_area_scanned in Block {
            net []
            mps [TraceScanArea = 0x4E: Seg]
            ghc []
            fields {
                base_addr: usize [Address] "its first byte",
                limit_addr: usize [Address] "the byte behind its last",
            }
        }

        /// A word that lies in the heap was looked at: a reference, or on a stack what may be one. One event per reference:
        /// expect very many.
        ReferenceFixed / fire_reference_fixed in Object {
            net []
            mps [TraceFix = 0x49: Ref]
            ghc []
            fields {
                slot_addr: usize [Address] "where the word stands",
                reference: usize [Address] "the word",
                rank: u32 [Code] "0 ambiguous (a stack), 1 exact (an object, a handle), 2 final (a finalizer's)",
            }
        }

        /// What the roots reach is about to be marked.
        MarkBegin / fire_mark_begin in Collection {
            net []
            mps [TraceBandAdvance = 0x42: Trace]
            ghc []
            usdt [mark_begin]
            fields {
                number: u32 [Ordinal] "which collection",
            }
        }

        /// Several threads mark: one of them begins, has run dry, or the collecting one has seen all others through.
        MarkerJoined / fire_marker_joined in Collection {
            net [GCJoin = 203 v 2 op 203: Default GC Verbose]
            mps []
            ghc []
            fields {
                marker: u32 [Code] "which: 0 the collecting thread, then the service threads",
                moment: u32 [Code] "0 it begins, 1 it has run dry, 2 all have",
            }
        }

        /// Everything that the roots reach is marked.
        MarkEnd / fire_mark_end in Collection {
            net [GCMarkWithType = 202 v 0 op 202: Default GC Informational]
            mps []
            ghc [GC_IDLE = 20, GC_DONE = 22]
            usdt [mark_end]
            fields {
                number: u32 [Ordinal] "which collection",
                objects: usize [Count] "objects marked, those twice for which two markers raced",
                stack_bytes: usize [Bytes] "the most that a mark stack took",
            }
        }

        /// The marked objects of a block have been scanned. Told when marking is over, since it goes by object; and at once
        /// when a full mark stack makes it go over the blocks again.
        BlockScanned / fire_block_scanned in Block {
            net []
            mps [SegScan = 0x3D: Seg]
            ghc []
            fields {
                addr: usize [Address] "where the block begins",
                space: u32 [Code] "which: 0 small, 1 pinned, 2 large",
                objects: usize [Count] "marked objects in it",
            }
        }

        /// Weak references to the dead are cleared, and the dead that want a last word are queued.
        WeakEnd / fire_weak_end in Collection {
            net [GCMarkWithType = 202 v 0 op 202: Default GC Informational]
            mps [TraceBandAdvance = 0x42: Trace]
            ghc []
            usdt [weak_end]
            fields {
                number: u32 [Ordinal] "which collection",
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
                number: u32 [Ordinal] "which collection",
            }
        }

        /// An object of the pinned space lives. One event for each in each collection: expect many.
        ObjectPinned / fire_object_pinned in Object {
            net [PinObjectAtGCTime = 33 v 0 op 36: Default GC Verbose]
            mps []
            ghc []
            fields {
                addr: usize [Address] "the object",
                bytes: usize [Bytes] "what it takes of the heap",
                type_addr: usize [Address] "its type",
            }
        }

        /// What the heap held before a collection, told when it is known: what the one before left alive, by space, and what was
        /// allocated since, in whichever space.
        HeapBefore / fire_heap_before in Collection {
            net []
            mps []
            ghc []
            fields {
                number: u32 [Ordinal] "which collection",
                small_bytes: usize [Bytes] "left alive in size-class blocks",
                large_bytes: usize [Bytes] "large objects that were left alive",
                pinned_bytes: usize [Bytes] "left alive in the pinned object space",
                allocated_bytes: usize [Bytes] "allocated since",
                budget_bytes: usize [Bytes] "what may be allocated until the next collection",
            }
        }

        /// What a collection leaves alive, by space, and what it counted on the way.
        HeapAfter / fire_heap_after in Collection {
            net []
            mps []
            ghc []
            fields {
                number: u32 [Ordinal] "which collection",
                small_bytes: usize [Bytes] "lives in size-class blocks",
                large_bytes: usize [Bytes] "large objects that live",
                pinned_bytes: usize [Bytes] "lives in the pinned object space",
                pinned_objects: usize [Count] "objects that live in the pinned object space",
                handles: usize [Count] "root handles that are held",
            }
        }

        /// It is known what lives and what is free. Blocks may still be swept lazily by those who allocate.
        SweepEnd / fire_sweep_end in Collection {
            net [
                GCGlobalHeapHistory = 205 v 4 op 205: Default GC Informational,
                GCPerHeapHistory = 204 v 3 op 204: Default GC Informational,
            ]
            mps [TraceDestroy = 0x46: Trace]
            ghc [GC_STATS_GHC = 53]
            usdt [sweep_end]
            fields {
                number: u32 [Ordinal] "which collection",
                live_bytes: usize [Bytes] "what lives",
                freed_bytes: usize [Bytes] "what died in this collection",
            }
        }

        /// It is known of a block what lives in it.
        BlockReclaimed / fire_block_reclaimed in Block {
            net []
            mps [SegReclaim = 0x3C: Seg]
            ghc []
            fields {
                addr: usize [Address] "where the block begins",
                space: u32 [Code] "which: 0 small, 1 pinned, 2 large",
                live_bytes: usize [Bytes] "what lives in it",
            }
        }

        /// The collection has ended. The world is still stopped.
        GcEnd / fire_gc_end in Collection {
            net [GCEnd = 2 v 1 op 2: Default GC Informational]
            mps []
            ghc [GC_END = 10]
            usdt [gc_end]
            fields {
                number: u32 [Ordinal] "which collection",
            }
        }

        /// The heap by space, after a collection.
        HeapStats / fire_heap_stats in Collection {
            net [GCHeapStats = 4 v 2 op 133: Default GC Informational]
            mps []
            ghc [HEAP_ALLOCATED = 49, HEAP_LIVE = 51, HEAP_SIZE = 50]
            usdt [heap_stats]
            fields {
                number: u32 [Ordinal] "which collection",
                small_bytes: usize [Bytes] "live in size-class blocks",
                large_bytes: usize [Bytes] "live large objects",
                pinned_bytes: usize [Bytes] "live in the pinned object space",
                committed_bytes: usize [Bytes] "memory that the heap has from the system",
                live_objects: usize [Count] "objects that live",
            }
        }

        /// The threads are about to be let go.
        RestartBegin / fire_restart_begin in Collection {
            net [GCRestartEEBegin = 7 v 1 op 136: Default GC Informational]
            mps []
            ghc []
            usdt [restart_begin]
            fields {
                number: u32 [Ordinal] "the collection that it was stopped for",
            }
        }

        /// Every thread has been let go. The pause is over.
        RestartEnd / fire_restart_end in Collection {
            net [GCRestartEEEnd = 3 v 1 op 132: Default GC Informational]
            mps [ArenaPollEnd = 0x0E: Arena]
            ghc []
            usdt [restart_end]
            fields {
                number: u32 [Ordinal] "the collection that it was stopped for",
            }
        }

        /// The marks of a collection were thrown away before anything was cleared or swept; it is repeated.
        CollectionDiscarded / fire_collection_discarded in Collection {
            net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
            mps [TraceDestroy = 0x46: Trace]
            ghc [LOG_MSG = 16]
            usdt [collection_discarded]
            fields {
                number: u32 [Ordinal] "which collection",
                reason: u32 [Code] "why",
            }
        }

        /// Another way of stopping threads is in force.
        VtableSwapped / fire_vtable_swapped in World {
            net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
            mps []
            ghc [LOG_MSG = 16]
            usdt [vtable_swapped]
            fields {
                old_kind: u32 [Code] "the outgoing vtable: 0 signals, 1 safepoints, 2 the mock debugger, 3 another",
                new_kind: u32 [Code] "the incoming vtable, likewise",
            }
        }
    } } };
}
