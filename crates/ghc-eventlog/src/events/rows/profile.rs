//! Heap and time profiles, and ticky-ticky counters.

macro_rules! profile_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// A heap profile begins.
        HEAP_PROF_BEGIN = 160 "Start of heap profile" {
            HeapProfBegin<'a> {
                profile: u8 [Id] "the profile; GHC has only 0",
                period: u64 [Nanoseconds] "between two samples",
                breakdown: Breakdown [Code] "what live bytes are grouped by",
                filters: Filters<'a> [Text] "restrictions: module, closure, type, cost centre, stack of cost centres, retainer, biography",
            } "start heap profiling {profile} at sampling period {period} broken down by {breakdown}{filters}"
        }

        /// A cost centre: a piece of the source to which costs are charged.
        HEAP_PROF_COST_CENTRE = 161 "Cost-centre definition" {
            HeapProfCostCentre<'a> {
                id: u32 [Id] "the number by which stacks refer to it",
                label: Ended<'a> [Text] "its name",
                module: Ended<'a> [Text] "its module",
                place: Ended<'a> [Text] "its location in the source",
                flags: CentreFlags [Code] "what kind of centre it is",
            } "cost centre {id} {label} in {module} at {place}{flags}"
        }

        /// A sample begins.
        HEAP_PROF_SAMPLE_BEGIN = 162 "Start of heap profile sample" {
            HeapProfSampleBegin {
                era: u64 [Ordinal] "the sample, which GHC leaves 0",
            } "start heap prof sample {era}"
        }

        /// Live bytes that a stack of cost centres allocated.
        HEAP_PROF_SAMPLE_COST_CENTRE = 163 "Heap profile cost-centre sample" {
            HeapProfSampleCostCentre<'a> {
                profile: u8 [Id] "the profile",
                residency: u64 [Bytes] "live bytes",
                stack: Stack<'a> [Id] "the cost centres",
            } "heap prof sample {profile}, residency {residency}, cost centre stack {stack}"
        }

        /// Live bytes under a label.
        HEAP_PROF_SAMPLE_STRING = 164 "Heap profile string sample" {
            HeapProfSampleString<'a> {
                profile: u8 [Id] "the profile",
                residency: u64 [Bytes] "live bytes",
                label: Ended<'a> [Text] "the label",
            } "heap prof sample {profile}, residency {residency}, label {label}"
        }

        /// A sample ends.
        HEAP_PROF_SAMPLE_END = 165 "End of heap profile sample" {
            HeapProfSampleEnd {
                era: u64 [Ordinal] "the sample, which GHC leaves 0",
            } "end prof sample {era}"
        }

        /// A sample of a biographical profile begins. Such samples are written when the program ends.
        HEAP_BIO_PROF_SAMPLE_BEGIN = 166 "Start of heap profile (biographical) sample" {
            HeapBioProfSampleBegin {
                era: u64 [Ordinal] "the sample",
                time: u64 [Nanoseconds] "the time that it describes, since the program began",
            } "start heap prof sample {era} at time {time}"
        }

        /// The stack of cost centres of a capability at a tick.
        PROF_SAMPLE_COST_CENTRE = 167 "Time profile cost-centre stack" {
            ProfSampleCostCentre<'a> {
                cap: u32 [Id] "the capability",
                tick: u64 [Ordinal] "the tick",
                stack: Stack<'a> [Id] "the cost centres",
            } "cap no {cap:low16}, prof sample {tick}, cost centre stack {stack}"
        }

        /// A time profile begins.
        PROF_BEGIN = 168 "Start of a time profile" {
            ProfBegin {
                interval: u64 [Nanoseconds] "between two ticks",
            } "start time profiling, tick interval {interval} (ns)"
        }

        /// The source of a closure's description (info table).
        IPE = 169 "An IPE entry" {
            Ipe<'a> {
                info: u64 [Address] "the description, to which labels of a profile refer",
                name: Ended<'a> [Text] "its name",
                closure: Ended<'a> [Text] "the kind of closure, as a decimal number",
                kind: Ended<'a> [Text] "the type of the closure",
                label: Ended<'a> [Text] "its name in the source",
                module: Ended<'a> [Text] "the module",
                place: Ended<'a> [Text] "the location in the source",
            } "{:ipe}"
        }

        /// A counter of entries. Newer versions of GHC append more texts, which are not decoded.
        TICKY_COUNTER_DEF = 210 "Ticky-ticky entry counter definition" {
            TickyCounterDef<'a> {
                counter: u64 [Id] "the counter",
                arity: u16 [Count] "arguments of the closure",
                kinds: Ended<'a> [Text] "the kinds of the arguments",
                name: Ended<'a> [Text] "the closure",
                info: Option<u64> [Address] "its info table; old versions of GHC leave it out",
            } "ticky counter definition {counter}, arity: {arity}, def kinds: {kinds}, name: {name}, itbl: {info:hex}"
        }

        /// The values of a counter.
        TICKY_COUNTER_SAMPLE = 211 "Ticky-ticky entry counter sample" {
            TickyCounterSample {
                counter: u64 [Id] "the counter",
                entries: u64 [Count] "entries",
                allocs: u64 [Count] "allocations by the closure",
                allocd: u64 [Count] "allocations of the closure itself",
            } "ticky counter sample {counter}: entry count: {entries}, {allocs} allocs, {allocd} allocd"
        }

        /// A sample of all counters begins. An early version of GHC declares 32 bytes.
        TICKY_COUNTER_BEGIN_SAMPLE = 212 "Ticky-ticky entry counter begin sample" {
            TickyCounterBeginSample {} "ticky begin counter sample"
        }

        /// The live objects of the band before: not a type of GHC. A reader that does not know it prints the description.
        HEAP_PROF_SAMPLE_OBJECTS = 1000 "Heap profile object count" {
            HeapProfSampleObjects {
                profile: u8 [Id] "the profile",
                objects: u64 [Count] "live objects",
            } "Heap profile object count"
        }
    }}};
}
