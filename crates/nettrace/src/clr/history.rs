//! The details of a collection: per heap and in total, phases, joins, marks.

templates! {
    /// A marker has finished with one kind of roots.
    MarkWithType = Runtime [202] 0 "GC/MarkWithType" written GCMarkWithType(Runtime 202 v 0 op 202 GC Informational) {
        0 heap_num "HeapNum" I32 (file U32 [Ordinal] "the heap");
        0 clr_instance_id "ClrInstanceID" U16;
        0 kind "Type" U32 (as MarkRoot "the kind of roots");
        0 promoted "Promoted" I64 (file ("Bytes" U64) [Bytes] "marked from these roots");
    }

    /// Collecting threads synchronise.
    Join = Runtime [203] 0 "GC/Join" written GCJoin(Runtime 203 v 2 op 203 GC Verbose) {
        0 heap "Heap" I32 (file U32 [Ordinal] "the heap of the thread");
        0 join_time "JoinTime" U32 (as JoinTime "whether it begins to wait, or continues");
        0 join_type "JoinType" U32 (as JoinType "its part in the join");
        1 clr_instance_id "ClrInstanceID" U16;
        2 join_id "ID" I32 (file ("JoinID" U32) "which join of the collection");
    }

    /// The collection of one heap. Only the .NET Framework fired versions before 3, which have another layout.
    PerHeapHistory = Runtime [204] 3 "GC/PerHeapHistory" written GCPerHeapHistory(Runtime 204 v 3 op 204 GC Informational) {
        3 clr_instance_id "ClrInstanceID" U16;
        3 free_list_allocated "FreeListAllocated" Word ([Bytes] "allocated from free lists during the collection");
        3 free_list_rejected "FreeListRejected" Word ([Bytes] "in free lists, but too small");
        3 end_of_seg_allocated "EndOfSegAllocated" Word ([Bytes] "allocated at the ends of segments");
        3 condemned_allocated "CondemnedAllocated" Word ([Bytes] "allocated in the collected generations");
        3 pinned_allocated "PinnedAllocated" Word ([Bytes] "allocated for pinned objects");
        3 pinned_allocated_advance "PinnedAllocatedAdvance" Word ([Bytes] "allocated by passing over pinned objects");
        3 running_free_list_efficiency "RunningFreeListEfficiency" I32 (file U32 [Percent] "how much of the free lists is of use");
        3 condemn_reasons0 "CondemnReasons0" U32 ("why this generation was chosen, a bit set");
        3 condemn_reasons1 "CondemnReasons1" U32 ("the rest of the bit set");
        3 compact_mechanisms "CompactMechanisms" U32 ("why it compacted or swept, and what it did");
        3 expand_mechanisms "ExpandMechanisms" U32 ("how it expanded the heap");
        3 heap_index "HeapIndex" I32 (file U32 [Ordinal] "the heap");
        3 extra_gen0_commit "ExtraGen0Commit" Word ([Bytes] "committed for generation 0 beyond its need");
        3 count "Count" U32 (counts rows "the number of generations");
        rows HeapGeneration ["Gen0" "Gen1" "Gen2" "Gen3" "Gen4"] {
            3 size_before "SizeBefore" Word ([Bytes] "its size before, with free space");
            3 free_list_before "FreeListSpaceBefore" Word (file "FreeListBefore" [Bytes] "in free lists before");
            3 free_objects_before "FreeObjSpaceBefore" Word (file "FreeObjBefore" [Bytes] "between objects before");
            3 size_after "SizeAfter" Word ([Bytes] "its size after, with free space");
            3 free_list_after "FreeListSpaceAfter" Word (file "FreeListAfter" [Bytes] "in free lists after");
            3 free_objects_after "FreeObjSpaceAfter" Word (file "FreeObjAfter" [Bytes] "between objects after");
            3 into "In" Word ([Bytes] "promoted into it");
            3 pinned_survivors "PinnedSurv" Word ([Bytes] "survived because pinned");
            3 other_survivors "NonePinnedSurv" Word ([Bytes] "survived for other reasons");
            3 budget "NewAllocation" Word ([Bytes] "that may be allocated until the next collection");
        }
    }

    /// The collection as a whole. Phase times in microseconds, as far as the version has them.
    GlobalHeapHistory = Runtime [205] 0 "GC/GlobalHeapHistory"
        written GCGlobalHeapHistory(Runtime 205 v 4 op 205 GC Informational)
    {
        0 final_youngest_desired "FinalYoungestDesired" U64 ([Bytes] "the budget of generation 0 until the next collection");
        0 num_heaps "NumHeaps" I32 ([Count] "heaps");
        0 condemned_generation "CondemnedGeneration" I32 (file U32 "the oldest generation that was collected");
        0 gen0_reduction_count "Gen0ReductionCount" I32 (file U32 [Count] "how often the budget of generation 0 was reduced");
        0 reason "Reason" U32 (as Reason "why it was started");
        0 global_mechanisms "GlobalMechanisms" U32 (as Mechanisms "what it did");
        1 clr_instance_id "ClrInstanceID" U16;
        2 pause_mode "PauseMode" U32 (as PauseMode "how much it may disturb the program");
        2 memory_pressure "MemoryPressure" I32 (file U32 [Percent] "the load of the machine's memory");
        3 condemn_reasons0 "CondemnReasons0" U32 ("why the generation was chosen, a bit set");
        3 condemn_reasons1 "CondemnReasons1" U32 ("the rest of the bit set");
        4 count "Count" U32 (counts rows "the number of phases");
        rows PhaseTime [
            "TimeInit" "TimeMarkRoots" "TimeMarkShortWeak" "TimeMarkScanFinalization" "TimeMarkLongWeak" "TimePlan" "TimeSweep"
        ] {
            4 time "Time" U32 (file "" [Microseconds] "the time of the phase");
        }
    }

    /// A collection with reports per generation begins.
    GenAwareBegin = Runtime [206] 0 "GC/GenAwareBegin" {
        0 count "Count" U32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// A collection with reports per generation ends.
    GenAwareEnd = Runtime [207] 0 "GC/GenAwareEnd" {
        0 count "Count" U32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Large objects were compacted: a row for each heap, times in microseconds.
    LohCompact = Runtime [208] 0 "GC/LOHCompact" {
        0 clr_instance_id "ClrInstanceID" U16;
        0 count "Count" U16;
        rows LargeObjectCompaction {
            0 time_plan "TimePlan" U32;
            0 time_compact "TimeCompact" U32;
            0 time_relocate "TimeRelocate" U32;
            0 padding "" Pad;
            0 total_refs "TotalRefs" Word;
            0 zero_refs "ZeroRefs" Word;
        }
    }

    /// The numbers of free blocks and of plugs (adjacent survivors, which are placed together), by size.
    FitBucketInfo = Runtime [209] 0 "GC/FitBucketInfo" {
        0 clr_instance_id "ClrInstanceID" U16;
        0 bucket_kind "BucketKind" U16;
        0 total_size "TotalSize" U64;
        0 count "Count" U16;
        rows FreeSizes {
            0 index "Index" U32;
            0 items "Count" U32;
            0 size "Size" Word;
        }
    }
}

/// The collection of one generation of a heap. All values are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationData {
    /// Its size, with free space, before the collection.
    pub size_before: i64,
    /// Free space in free lists, before.
    pub free_list_before: i64,
    /// Free space between objects, before.
    pub free_objects_before: i64,
    /// Its size, with free space, after.
    pub size_after: i64,
    /// Free space in free lists, after.
    pub free_list_after: i64,
    /// Free space between objects, after.
    pub free_objects_after: i64,
    /// Bytes promoted into the generation.
    pub into: i64,
    /// Bytes that survived because they are pinned.
    pub pinned_survivors: i64,
    /// Other surviving bytes.
    pub other_survivors: i64,
    /// Bytes that may be allocated until the next collection.
    pub budget: i64,
}

impl GenerationData {
    /// Bytes of objects before the collection. Sums of numbers from a file wrap, as TraceEvent's do.
    pub fn objects_before(&self) -> i64 {
        self.size_before.wrapping_sub(self.free_list_before).wrapping_sub(self.free_objects_before)
    }

    /// Free bytes after the collection.
    pub fn fragmentation(&self) -> i64 {
        self.free_list_after.wrapping_add(self.free_objects_after)
    }

    /// Bytes of objects after the collection.
    pub fn objects_after(&self) -> i64 {
        self.size_after.wrapping_sub(self.fragmentation())
    }

    /// Returns the surviving bytes.
    pub fn out(&self) -> i64 {
        self.pinned_survivors.wrapping_add(self.other_survivors)
    }

    /// The percentage of the objects' bytes that survived, rounded down; 0 if there were none.
    pub fn survival(&self) -> i64 {
        match self.objects_before() {
            0 => 0,
            before => (self.out() as f64 * 100.0 / before as f64) as i64,
        }
    }

    fn of(row: HeapGeneration<'_>) -> Option<GenerationData> {
        Some(GenerationData {
            size_before: row.size_before()? as i64,
            free_list_before: row.free_list_before()? as i64,
            free_objects_before: row.free_objects_before()? as i64,
            size_after: row.size_after()? as i64,
            free_list_after: row.free_list_after()? as i64,
            free_objects_after: row.free_objects_after()? as i64,
            into: HeapGeneration::into(&row)? as i64,
            pinned_survivors: row.pinned_survivors()? as i64,
            other_survivors: row.other_survivors()? as i64,
            budget: row.budget()? as i64,
        })
    }
}

impl<'a> PerHeapHistory<'a> {
    /// The number of generations that the payload has room for, whatever it states.
    pub fn most_generations(&self) -> usize {
        let PerHeapHistory { version, payload } = *self;
        let row_bytes = HeapGeneration { version, payload, at: 0 }.end().unwrap_or(usize::MAX);
        let room = self.rows_at().and_then(|start| payload.bytes().len().checked_sub(start));
        room.unwrap_or(0) / row_bytes
    }

    /// The figures of the generations, as far as the payload has them.
    pub fn generations(&self) -> impl Iterator<Item = GenerationData> + use<'a> {
        self.rows().map_while(GenerationData::of)
    }
}

impl GlobalHeapHistory<'_> {
    /// The time of a phase in microseconds. The runtime numbers phases: 1 roots, 2 short weak references, 3
    /// finalization, 4 long weak references, 5 plan, 6 relocation or sweep, 7 compaction.
    pub fn time(&self, phase: u32) -> Option<u32> {
        self.rows().nth(phase as usize)?.time()
    }
}

/// The compaction of one heap's large objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LohCompaction {
    /// Duration of planning, µs.
    pub plan: i32,
    /// Duration of moving objects, µs.
    pub compact: i32,
    /// Duration of relocating references, µs.
    pub relocate: i32,
    /// References examined.
    pub references: i64,
    /// References that were null.
    pub nulls: i64,
}

impl LohCompaction {
    fn of(row: LargeObjectCompaction<'_>) -> Option<LohCompaction> {
        Some(LohCompaction {
            plan: row.time_plan()? as i32,
            compact: row.time_compact()? as i32,
            relocate: row.time_relocate()? as i32,
            references: row.total_refs()? as i64,
            nulls: row.zero_refs()? as i64,
        })
    }
}

impl<'a> LohCompact<'a> {
    /// The figures of the heaps, as far as the payload has them.
    pub fn heaps(&self) -> impl Iterator<Item = LohCompaction> + use<'a> {
        self.rows().map_while(LohCompaction::of)
    }
}

/// Free blocks, or plugs to be placed, of a range of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FitBucket {
    /// The index of the range.
    pub index: i32,
    /// Their number.
    pub count: i32,
    /// Their size in bytes.
    pub size: i64,
}

impl FitBucket {
    fn of(row: FreeSizes<'_>) -> Option<FitBucket> {
        Some(FitBucket { index: row.index()? as i32, count: row.items()? as i32, size: row.size()? as i64 })
    }
}

impl<'a> FitBucketInfo<'a> {
    /// The buckets, as far as the payload has them.
    pub fn buckets(&self) -> impl Iterator<Item = FitBucket> + use<'a> {
        self.rows().map_while(FitBucket::of)
    }
}
