//! Heap dumps, censuses, and the profiler's ticks.

macro_rules! profile_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// A heap dump tells of an object. Its references follow, in order.
        DumpNode / fire_dump_node in Profile {
            net [
                BulkType = 15 v 0 op 10: Default TYPE Informational,
                GCBulkNode = 18 v 0 op 22: Default GC_HEAP_DUMP Informational,
            ]
            mps []
            ghc []
            fields {
                addr: usize [Address] "the object",
                bytes: usize [Bytes] "what it takes of the heap",
                type_addr: usize [Address] "its type",
                edges: usize [Count] "references that follow",
            }
        }

        /// A heap dump tells of a reference in the object before it.
        DumpEdge / fire_dump_edge in Profile {
            net [GCBulkEdge = 19 v 0 op 23: Default GC_HEAP_DUMP Informational]
            mps []
            ghc []
            fields {
                target_addr: usize [Address] "the object that it refers to",
                offset: u32 [Bytes] "where in the object it stands",
            }
        }

        /// A heap dump tells of a root.
        DumpRoot / fire_dump_root in Profile {
            net [
                GCBulkRootEdge = 16 v 0 op 20: Default GC_HEAP_DUMP Informational,
                GCBulkRootStaticVar = 38 v 0 op 40: Default GC_HEAP_DUMP Informational,
            ]
            mps []
            ghc []
            fields {
                object_addr: usize [Address] "the object that it keeps alive",
                kind: u32 [Code] "as of a root that was scanned",
                root_addr: usize [Address] "where the root stands",
                type_addr: usize [Address] "the object's type" since 2,
            }
        }

        /// A heap dump is complete.
        DumpEnd / fire_dump_end in Profile {
            net []
            mps []
            ghc []
            fields {
                objects: usize [Count] "objects that it told of",
                bytes: usize [Bytes] "what they take of the heap together",
            }
        }

        /// The profiler begins to take censuses.
        CensusProfileBegin / fire_census_profile_begin in Profile {
            net []
            mps []
            ghc [HEAP_PROF_BEGIN = 160]
            fields {
                period_ns: u64 [Nanoseconds] "time between two censuses, 0 if they come with the collections",
                breakdown: u32 [Code] "what they count by: 1 cost centre, 2 module, 3 description, 4 type, 5 retainer, 6 biography, 7 closure type",
            }
        }

        /// A filter of the censuses that are about to begin: only what passes all of them is counted.
        CensusFilter / fire_census_filter in Profile {
            net []
            mps []
            ghc []
            fields {
                kind: u32 [Code] "what it looks at: 0 module, 1 description, 2 type, 3 cost centre, 4 cost centre stack, 5 retainer, 6 biography",
                text: u64 [Label] "what passes, separated by commas",
            }
        }

        /// The profiler knows a cost centre.
        CostCentre / fire_cost_centre in Profile {
            net []
            mps []
            ghc [HEAP_PROF_COST_CENTRE = 161]
            fields {
                id: u32 [Ordinal] "the cost centre",
                label: u64 [Label] "its name",
                module: u64 [Label] "the module that it is in",
                place: u64 [Label] "where in the source",
                flags: u32 [Code] "1 it belongs to the whole program and not to a caller",
            }
        }

        /// A census begins.
        CensusBegin / fire_census_begin in Profile {
            net []
            mps []
            ghc [HEAP_PROF_SAMPLE_BEGIN = 162, HEAP_BIO_PROF_SAMPLE_BEGIN = 166]
            fields {
                era: u64 [Ordinal] "which census",
                taken_ns: u64 [Nanoseconds] "the time that it speaks of",
            }
        }

        /// A census counted this much under one heading.
        CensusBand / fire_census_band in Profile {
            net []
            mps []
            ghc [HEAP_PROF_SAMPLE_COST_CENTRE = 163, HEAP_PROF_SAMPLE_STRING = 164]
            fields {
                label: u64 [Label] "the heading",
                bytes: u64 [Bytes] "what lives under it",
                objects: u64 [Count] "objects that live under it",
                stack: u32 [Ordinal] "the cost centre stack, 0 if it is a text",
            }
        }

        /// A census is over.
        CensusEnd / fire_census_end in Profile {
            net []
            mps []
            ghc [HEAP_PROF_SAMPLE_END = 165]
            fields {
                era: u64 [Ordinal] "which census",
            }
        }

        /// The profiler begins to tick.
        TickerBegin / fire_ticker_begin in Profile {
            net []
            mps []
            ghc [PROF_BEGIN = 168]
            fields {
                interval_ns: u64 [Nanoseconds] "time between two ticks",
            }
        }

        /// The profiler's clock ticked, and this is where a thread was.
        Tick / fire_tick in Profile {
            net []
            mps []
            ghc [PROF_SAMPLE_COST_CENTRE = 167]
            fields {
                tick: u64 [Ordinal] "which tick",
                tid: u32 [Thread] "the thread",
                stack: u32 [Ordinal] "the cost centre stack",
            }
        }
    } } };
}
