//! The heap between collections: its memory, what is allocated and freed in it, finalizers and roots.

macro_rules! heap_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// The heap committed memory in its reserved address range.
        SegmentCreated / fire_segment_created in Memory {
            net [GCCreateSegment = 5 v 1 op 134: Default GC Informational]
            mps [ArenaExtend = 0x0B: Arena, VMMap = 0x5B: Seg]
            ghc [BLOCKS_SIZE = 91]
            usdt [segment_created]
            fields {
                addr: usize [Address] "its first byte",
                bytes: usize [Bytes] "its size",
            }
        }

        /// The heap returned memory to the system. Its addresses stay reserved.
        SegmentFreed / fire_segment_freed in Memory {
            net [GCFreeSegment = 6 v 1 op 135: Default GC Informational]
            mps [VMUnmap = 0x5C: Seg]
            ghc [MEM_RETURN = 90]
            usdt [segment_freed]
            fields {
                addr: usize [Address] "its first byte",
                bytes: usize [Bytes] "its size",
            }
        }

        /// A heap space took a block, or several adjacent blocks for a large object.
        BlockAcquired / fire_block_acquired in Block {
            net []
            mps [ArenaAlloc = 0x06: Arena, SegAlloc = 0x38: Seg]
            ghc []
            fields {
                addr: usize [Address] "the start of the block",
                bytes: usize [Bytes] "its size",
                space: u32 [Code] "the space that took it: 0 small, 1 pinned, 2 large",
            }
        }

        /// A block has no live objects, and any heap space may take it.
        BlockReleased / fire_block_released in Block {
            net []
            mps [ArenaFree = 0x0C: Arena, SegFree = 0x3A: Seg]
            ghc []
            fields {
                addr: usize [Address] "the start of the block",
                bytes: usize [Bytes] "its size",
                space: u32 [Code] "the space that had it: 0 small, 1 pinned, 2 large",
            }
        }

        /// A thread's allocation cache was refilled with a run of adjacent free cells of one size.
        CacheRefilled / fire_cache_refilled in Block {
            net []
            mps [BufferFill = 0x14: Seg]
            ghc []
            fields {
                buffer_addr: usize [Address] "the entry of the allocation cache for this cell size",
                asked_bytes: usize [Bytes] "size of the requested cell",
                addr: usize [Address] "the first cell of the run",
                bytes: usize [Bytes] "size of the run",
            }
        }

        /// An allocation failed: there was no room, and collections did not make enough.
        AllocationFailed / fire_allocation_failed in Memory {
            net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
            mps [ArenaAllocFail = 0x07: Arena, SegAllocFail = 0x39: Seg]
            ghc [LOG_MSG = 16]
            usdt [allocation_failed]
            fields {
                bytes: usize [Bytes] "requested size",
                live_bytes: usize [Bytes] "live after the last collection",
                limit_bytes: usize [Bytes] "the heap limit",
            }
        }

        /// A thread found no room below the heap limit and starts emergency collections, or has finished them.
        EmergencySet / fire_emergency_set in Memory {
            net []
            mps [ArenaSetEmergency = 0x0F: Arena]
            ghc []
            fields {
                emergency: u32 [Code] "1 it starts, 0 it has finished",
                bytes: usize [Bytes] "size that the thread requested",
            }
        }

        /// A thread has allocated 100 KiB or more since its last tick. The object that reached this amount is a sample of the allocations.
        AllocationTick / fire_allocation_tick in Memory {
            net [
                GCAllocationTick = 10 v 4 op 11: Default GC Verbose,
                GCSampledObjectAllocation = 32 v 0 op 24: Default GC_SAMPLED_LOW Informational,
            ]
            mps []
            ghc []
            fields {
                bytes: usize [Bytes] "allocated since the last tick of this thread",
                object_addr: usize [Address] "the object whose allocation fired the tick",
                type_addr: usize [Address] "its type",
                object_bytes: usize [Bytes] "its size in the heap" since 2,
                space: u32 [Code] "its space: 0 small, 1 pinned, 2 large" since 2,
            }
        }

        /// A thread's allocation cache was refilled, or a large object was allocated. The first object allocated from the refill is a sample: it
        /// represents those that follow.
        ObjectSampled / fire_object_sampled in Memory {
            net [GCSampledObjectAllocation = 20 v 0 op 24: Default GC_SAMPLED_HIGH Informational]
            mps []
            ghc []
            fields {
                addr: usize [Address] "the object",
                type_addr: usize [Address] "its type",
                objects: usize [Count] "objects that it represents",
                bytes: usize [Bytes] "bytes that it represents",
            }
        }

        /// A world that samples its allocations has sampled one, with its call stack. The object is about to be made.
        AllocationSampled / fire_allocation_sampled in Memory {
            net [GCAllocationTick = 10 v 4 op 11: Default GC Verbose]
            mps []
            ghc []
            fields {
                object_addr: usize [Address] "the object",
                type_addr: usize [Address] "its type",
                object_bytes: usize [Bytes] "its size in the heap",
                bytes: u64 [Bytes] "bytes that it represents",
                stack: u32 [Ordinal] "the call stack, 0 if it is not known",
                space: u32 [Code] "its space: 0 small, 1 pinned, 2 large",
            }
        }

        /// A large object was allocated, in blocks of its own.
        LargeAllocated / fire_large_allocated in Memory {
            net []
            mps []
            ghc []
            fields {
                addr: usize [Address] "the object",
                bytes: usize [Bytes] "size of its value",
                type_addr: usize [Address] "its type" since 2,
            }
        }

        /// An object was allocated. One event per object: expect many. At the end of a collection, the live objects are those that were
        /// reported as allocated and not as freed.
        ObjectAllocated / fire_object_allocated in Object {
            net []
            mps [PoolAlloc = 0x2A: Object]
            ghc []
            fields {
                addr: usize [Address] "the object",
                bytes: usize [Bytes] "its size in the heap: that of its cell or blocks",
            }
        }

        /// An object was found dead and its memory is free. One event per object: expect many.
        ObjectFreed / fire_object_freed in Object {
            net []
            mps [PoolFree = 0x2C: Object]
            ghc []
            fields {
                addr: usize [Address] "the freed object",
                bytes: usize [Bytes] "its size in the heap: that of its cell or blocks",
            }
        }

        /// Finalizers are due, and the finalizer thread is notified.
        FinalizersDue / fire_finalizers_due in Memory {
            net []
            mps [MessagesExist = 0x26: Arena]
            ghc []
            fields {
                count: u32 [Count] "objects that the last collection queued",
            }
        }

        /// The finalizer thread starts a batch.
        FinalizerBegin / fire_finalizer_begin in Memory {
            net [GCFinalizersBegin = 14 v 1 op 19: Default GC Informational]
            mps []
            ghc []
            usdt [finalizer_begin]
            fields {
                count: u32 [Count] "objects that are due",
            }
        }

        /// The finalizer thread has finished a batch.
        FinalizerEnd / fire_finalizer_end in Memory {
            net [GCFinalizersEnd = 13 v 1 op 15: Default GC Informational]
            mps []
            ghc []
            usdt [finalizer_end]
            fields {
                count: u32 [Count] "finalizers that were run",
            }
        }

        /// The finalizer of one object is about to run.
        FinalizeObject / fire_finalize_object in Memory {
            net [FinalizeObject = 29 v 0 op 32: Default GC Verbose]
            mps []
            ghc []
            fields {
                addr: usize [Address] "the object",
                type_addr: usize [Address] "its type",
            }
        }

        /// A root handle was created.
        RootCreated / fire_root_created in Memory {
            net [SetGCHandle = 30 v 0 op 33: Default GC_HANDLE Informational]
            mps []
            ghc []
            fields {
                slot_addr: usize [Address] "the handle's slot",
                object_addr: usize [Address] "the object that it keeps alive",
            }
        }

        /// A root handle was dropped.
        RootDropped / fire_root_dropped in Memory {
            net [DestroyGCHandle = 31 v 0 op 34: Default GC_HANDLE Informational]
            mps []
            ghc []
            fields {
                slot_addr: usize [Address] "the handle's slot",
            }
        }
    } } };
}
