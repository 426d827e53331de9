//! Heap dumps, censuses, and the profiler's ticks.

macro_rules! profile_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// A heap dump reports an object. Its references follow, in order.
        DumpNode / fire_dump_node in Profile {
            net [
                BulkType = 15 v 0 op 10: Default TYPE Informational,
                GCBulkNode = 18 v 0 op 22: Default GC_HEAP_DUMP Informational,
            ]
            mps []
            ghc []
            fields {
                addr: usize [Address] "the object",
                bytes: usize [Bytes] "its size in the heap",
                type_addr: usize [Address] "its type",
                edges: usize [Count] "references that follow",
            }
        }

        /// A heap dump reports a reference in the preceding object.
        DumpEdge / fire_dump_edge in Profile {
            net [GCBulkEdge = 19 v 0 op 23: Default GC_HEAP_DUMP Informational]
            mps []
            ghc []
            fields {
                target_addr: usize [Address] "the referenced object",
                offset: u32 [Bytes] "offset of the reference in its object",
            }
        }

        /// A heap dump reports the stack that contains the following roots. Does not apply to roots in handles, ranges and the finalizer queue.
        DumpStack / fire_dump_stack in Profile {
            net []
            mps []
            ghc []
            fields {
                tid: u32 [Thread] "the thread, 0 for a registered stack",
                kind: u32 [Code] "0 its stacks and registers, 1 an object that it was building, 2 a registered stack",
                label: u64 [Label] "the thread's name",
            }
        }

        /// A heap dump reports a root.
        DumpRoot / fire_dump_root in Profile {
            net [
                GCBulkRootEdge = 16 v 0 op 20: Default GC_HEAP_DUMP Informational,
                GCBulkRootStaticVar = 38 v 0 op 40: Default GC_HEAP_DUMP Informational,
            ]
            mps []
            ghc []
            fields {
                object_addr: usize [Address] "the object that it keeps alive",
                kind: u32 [Code] "the kind of root, as in RootScanned",
                root_addr: usize [Address] "address of the root",
                type_addr: usize [Address] "the object's type" since 2,
            }
        }

        /// A heap dump is complete.
        DumpEnd / fire_dump_end in Profile {
            net []
            mps []
            ghc []
            fields {
                objects: usize [Count] "objects that it reported",
                bytes: usize [Bytes] "their total size in the heap",
            }
        }

        /// The profiler starts to take censuses.
        CensusProfileBegin / fire_census_profile_begin in Profile {
            net []
            mps []
            ghc [HEAP_PROF_BEGIN = 160]
            fields {
                period_ns: u64 [Nanoseconds] "time between two censuses, 0 if they are taken at collections",
                breakdown: u32 [Code] "what objects are grouped by: 1 cost centre, 2 module, 3 description, 4 type, 5 retainer, 6 biography, 7 closure type",
            }
        }

        /// A filter of the censuses that follow. An object is counted only if it passes all filters.
        CensusFilter / fire_census_filter in Profile {
            net []
            mps []
            ghc []
            fields {
                kind: u32 [Code] "what is filtered by: 0 module, 1 description, 2 type, 3 cost centre, 4 cost centre stack, 5 retainer, 6 biography",
                text: u64 [Label] "the values that pass, separated by commas",
            }
        }

        /// The profiler defines a cost centre.
        CostCentre / fire_cost_centre in Profile {
            net []
            mps []
            ghc [HEAP_PROF_COST_CENTRE = 161]
            fields {
                id: u32 [Ordinal] "the cost centre",
                label: u64 [Label] "its name",
                module: u64 [Label] "its module",
                place: u64 [Label] "its place in the source",
                flags: u32 [Code] "1 if it belongs to the whole program and not to a caller",
            }
        }

        /// A census begins.
        CensusBegin / fire_census_begin in Profile {
            net []
            mps []
            ghc [HEAP_PROF_SAMPLE_BEGIN = 162, HEAP_BIO_PROF_SAMPLE_BEGIN = 166]
            fields {
                era: u64 [Ordinal] "census number",
                taken_ns: u64 [Nanoseconds] "the time that it describes",
            }
        }

        /// One band of a census: the objects that it counted under one key.
        CensusBand / fire_census_band in Profile {
            net []
            mps []
            ghc [HEAP_PROF_SAMPLE_COST_CENTRE = 163, HEAP_PROF_SAMPLE_STRING = 164]
            fields {
                label: u64 [Label] "the band's key",
                bytes: u64 [Bytes] "live bytes in the band",
                objects: u64 [Count] "live objects in the band",
                stack: u32 [Ordinal] "the cost centre stack, 0 if the key is a text",
            }
        }

        /// A census is complete.
        CensusEnd / fire_census_end in Profile {
            net []
            mps []
            ghc [HEAP_PROF_SAMPLE_END = 165]
            fields {
                era: u64 [Ordinal] "census number",
            }
        }

        /// The profiler's ticker starts.
        TickerBegin / fire_ticker_begin in Profile {
            net []
            mps []
            ghc [PROF_BEGIN = 168]
            fields {
                interval_ns: u64 [Nanoseconds] "time between two ticks",
            }
        }

        /// The profiler's ticker found a thread in this cost centre stack.
        Tick / fire_tick in Profile {
            net []
            mps []
            ghc [PROF_SAMPLE_COST_CENTRE = 167]
            fields {
                tick: u64 [Ordinal] "tick number",
                tid: u32 [Thread] "the thread",
                stack: u32 [Ordinal] "the cost centre stack",
            }
        }
    } } };
}
