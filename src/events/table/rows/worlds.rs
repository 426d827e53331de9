//! A world, its spaces, and its threads.

macro_rules! world_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// A world was created and can collect.
        WorldCreated / fire_world_created in World {
            net [Settings = 2 v 1 op 14: Private GC Informational]
            mps [EventInit = 0x1D: Arena, ArenaCreateVM = 0x09: Arena, VMInit = 0x5A: Arena]
            ghc [RTS_IDENTIFIER = 29, PROGRAM_ARGS = 30, OSPROCESS_PID = 32, WALL_CLOCK_TIME = 43, CAPSET_CREATE = 25, HEAP_INFO_GHC = 52]
            fields {
                world_addr: usize [Address] "the world" since 2,
                heap_addr: usize [Address] "the start of its heap" since 2,
                reserved_bytes: usize [Bytes] "address space that the heap may use" since 2,
                chunk_bytes: usize [Bytes] "unit in which memory is requested from the system" since 2,
                block_bytes: usize [Bytes] "size of a block" since 2,
            }
        }

        /// A world was destroyed and its memory released.
        WorldClosed / fire_world_closed in World {
            net []
            mps [VMFinish = 0x59: Arena, ArenaDestroy = 0x0A: Arena]
            ghc [CAPSET_DELETE = 26]
            fields {
                world_addr: usize [Address] "the world" since 2,
                heap_addr: usize [Address] "the start of its heap" since 2,
            }
        }

        /// A heap space was created: for small, pinned, or large objects.
        PoolCreated / fire_pool_created in World {
            net []
            mps [PoolInit = 0x2D: Pool]
            ghc []
            fields {
                pool_addr: usize [Address] "the space",
                space: u32 [Code] "which space: 0 small, 1 pinned, 2 large",
            }
        }

        /// A heap space was destroyed.
        PoolClosed / fire_pool_closed in World {
            net []
            mps [PoolFinish = 0x2B: Pool]
            ghc []
            fields {
                pool_addr: usize [Address] "the space",
                space: u32 [Code] "which space: 0 small, 1 pinned, 2 large",
            }
        }

        /// The heap limit was set. The heap does not grow beyond it.
        CommitLimitSet / fire_commit_limit_set in World {
            net []
            mps [CommitLimitSet = 0x1B: Arena]
            ghc []
            fields {
                limit_bytes: usize [Bytes] "the heap limit",
            }
        }

        /// A thread has attached to the world and may allocate.
        ThreadAttached / fire_thread_attached in World {
            net []
            mps []
            ghc [CREATE_THREAD = 0, THREAD_LABEL = 44]
            usdt [thread_attached]
            fields {
                tid: u32 [Thread] "the thread",
                record_addr: usize [Address] "its stop record",
                label: u64 [Label] "its name" since 2,
            }
        }

        /// A thread has detached from the world. Its stop record may be reused for another thread.
        ThreadDetached / fire_thread_detached in World {
            net []
            mps []
            ghc [STOP_THREAD = 2]
            usdt [thread_detached]
            fields {
                tid: u32 [Thread] "the thread",
                record_addr: usize [Address] "its stop record",
                label: u64 [Label] "its name" since 2,
            }
        }
    } } };
}
