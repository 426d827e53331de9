//! Collections, suspensions, allocation, segments, finalizers and handles.

templates! {
    /// A collection begins. Version 0 has neither its generation nor its type.
    StartV0 = Runtime [1] 0 to 0 "GC/Start" {
        0 count "Count" I32;
        0 reason "Reason" U32 (as Reason);
    }

    /// A collection begins.
    Start = Runtime [1] 1 "GC/Start" written GCStart(Runtime 1 v 2 op 1 GC Informational) {
        1 count "Count" I32 (file U32 [Ordinal] "the number of the collection, from 1");
        1 depth "Depth" U32 ("the oldest generation that is collected");
        1 reason "Reason" U32 (as Reason "why it was started");
        1 kind "Type" U32 (as CollectionType "whether the program runs meanwhile");
        1 clr_instance_id "ClrInstanceID" U16;
        2 client_sequence_number "ClientSequenceNumber" U64 ("the number of the request by a client that induced it, or 0");
    }

    /// A collection ends, in version 0.
    EndV0 = Runtime [2] 0 to 0 "GC/Stop" {
        0 count "Count" I32;
        0 depth "Depth" U16;
    }

    /// A collection ends. The events that follow (statistics, the restart) still belong to its pause.
    End = Runtime [2] 1 "GC/Stop" written GCEnd(Runtime 2 v 1 op 2 GC Informational) {
        1 count "Count" I32 (file U32 [Ordinal] "the number of the collection");
        1 depth "Depth" U32 ("the oldest generation that was collected");
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// All threads run again.
    RestartEnd = Runtime [3] 0 "GC/RestartEEStop" written GCRestartEEEnd(Runtime 3 v 1 op 132 GC Informational) {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// The heap after a collection: sizes including free space, and the bytes promoted from each generation.
    ///
    /// Generation 3 is the large object heap, generation 4 the pinned object heap.
    HeapStats = Runtime [4] 0 "GC/HeapStats" written GCHeapStats(Runtime 4 v 2 op 133 GC Informational) {
        0 generation_size0 "GenerationSize0" U64 ([Bytes] "the size of generation 0");
        0 total_promoted_size0 "TotalPromotedSize0" U64 ([Bytes] "promoted from generation 0");
        0 generation_size1 "GenerationSize1" U64 ([Bytes] "the size of generation 1");
        0 total_promoted_size1 "TotalPromotedSize1" U64 ([Bytes] "promoted from generation 1");
        0 generation_size2 "GenerationSize2" U64 ([Bytes] "the size of generation 2");
        0 total_promoted_size2 "TotalPromotedSize2" U64 ([Bytes] "survived in generation 2");
        0 generation_size3 "GenerationSize3" U64 ([Bytes] "the size of the large object heap");
        0 total_promoted_size3 "TotalPromotedSize3" U64 ([Bytes] "survived in the large object heap");
        0 finalization_promoted_size "FinalizationPromotedSize" U64 ([Bytes] "kept alive by finalizers that are due");
        0 finalization_promoted_count "FinalizationPromotedCount" U64 ([Count] "objects whose finalizers are due");
        0 pinned_object_count "PinnedObjectCount" U32 ([Count] "objects that were pinned");
        0 sink_block_count "SinkBlockCount" U32 ([Count] "blocks of synchronisation in use");
        0 gc_handle_count "GCHandleCount" U32 ([Count] "handles in use");
        1 clr_instance_id "ClrInstanceID" U16;
        2 generation_size4 "GenerationSize4" U64 ([Bytes] "the size of the pinned object heap");
        2 total_promoted_size4 "TotalPromotedSize4" U64 ([Bytes] "survived in the pinned object heap");
    }

    /// The heap has obtained a segment.
    CreateSegment = Runtime [5] 0 "GC/CreateSegment" written GCCreateSegment(Runtime 5 v 1 op 134 GC Informational) {
        0 address "Address" U64 ([Address] "its first byte");
        0 size "Size" U64 ([Bytes] "its size");
        0 kind "Type" U32 (as SegmentKind "the heap that it belongs to");
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// The heap has released a segment.
    FreeSegment = Runtime [6] 0 "GC/FreeSegment" written GCFreeSegment(Runtime 6 v 1 op 135 GC Informational) {
        0 address "Address" U64 ([Address] "its first byte");
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// Threads are about to be resumed.
    RestartBegin = Runtime [7] 0 "GC/RestartEEStart" written GCRestartEEBegin(Runtime 7 v 1 op 136 GC Informational) {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// All threads are suspended.
    SuspendEnd = Runtime [8] 0 "GC/SuspendEEStop" written GCSuspendEEEnd(Runtime 8 v 1 op 137 GC Informational) {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// The suspension begins, in version 0.
    SuspendBeginV0 = Runtime [9] 0 to 0 "GC/SuspendEEStart" {
        0 reason "Reason" U16 (as SuspendReason);
    }

    /// The suspension begins.
    SuspendBegin = Runtime [9] 1 "GC/SuspendEEStart" written GCSuspendEEBegin(Runtime 9 v 1 op 10 GC Informational) {
        1 reason "Reason" U32 (as SuspendReason "why the threads are suspended");
        1 count "Count" I32 (file U32 [Ordinal] "the number of the previous collection, or −1 if no collection follows");
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// The program has allocated this many bytes since the last tick; about 100 KB. The type is that of the object with whose allocation
    /// the amount was reached.
    AllocationTick = Runtime [10] 0 "GC/AllocationTick" written GCAllocationTick<'a>(Runtime 10 v 4 op 11 GC Verbose) {
        0 amount "AllocationAmount" I32 (file U32 [Bytes] "allocated since the last tick; at most what fits");
        0 kind "AllocationKind" U32 (as AllocationKind "the heap of the object");
        1 clr_instance_id "ClrInstanceID" U16;
        2 amount64 "AllocationAmount64" I64 (file U64 [Bytes] "allocated since the last tick");
        2 type_id "TypeID" Word ([Address] "the type of the object");
        2 type_name "TypeName" Z16 then after_type_name ("the name of the type");
        2 heap_index "HeapIndex" U32 ([Ordinal] "the heap");
        3 address "Address" Word ([Address] "the object");
        4 object_size "ObjectSize" U64 ([Bytes] "its size");
    }

    /// The background collector's thread starts.
    CreateConcurrentThread = Runtime [11] 0 "GC/CreateConcurrentThread" {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// The background collector's thread ends.
    TerminateConcurrentThread = Runtime [12] 0 "GC/TerminateConcurrentThread" {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// This many finalizers have run.
    FinalizersEnd = Runtime [13] 0 "GC/FinalizersStop" written GCFinalizersEnd(Runtime 13 v 1 op 15 GC Informational) {
        0 count "Count" U32 ([Count] "finalizers that have run");
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// Finalizers begin to run.
    FinalizersBegin = Runtime [14] 0 "GC/FinalizersStart" written GCFinalizersBegin(Runtime 14 v 1 op 19 GC Informational) {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// An object was allocated and belongs to the sample: only some objects of each type are reported.
    SampledObjectAllocation = Runtime [20, 32] 0 "GC/SampledObjectAllocation"
        written GCSampledObjectAllocationHigh(Runtime 20 v 0 op 24 GC_SAMPLED_HIGH Informational)
        written GCSampledObjectAllocationLow(Runtime 32 v 0 op 24 GC_SAMPLED_LOW Informational)
    {
        0 address "Address" Word ([Address] "the object");
        0 type_id "TypeID" Word ([Address] "its type");
        0 object_count "ObjectCountForTypeSample" U32 ([Count] "objects that it represents");
        0 total_size "TotalSizeForTypeSample" U64 ([Bytes] "bytes that it represents");
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The finalizer of an object was run.
    FinalizeObject = Runtime [29] 0 "GC/FinalizeObject" written FinalizeObject(Runtime 29 v 0 op 32 GC Verbose) {
        0 type_id "TypeID" Word ([Address] "the type of the object");
        0 object_id "ObjectID" Word ([Address] "the object");
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// A handle refers to an object.
    SetHandle = Runtime [30] 0 "GC/SetGCHandle" written SetGCHandle(Runtime 30 v 0 op 33 GC_HANDLE Informational) {
        0 handle_id "HandleID" Word ([Address] "the handle");
        0 object_id "ObjectID" Word ([Address] "the object");
        0 kind "Kind" U32 (as HandleKind "the kind of the handle");
        0 generation "Generation" U32 ("the generation of the object");
        0 app_domain_id "AppDomainID" U64 ("the application domain of the handle");
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// A handle was freed. TraceEvent lists it with this spelling.
    DestroyHandle = Runtime [31] 0 "GC/DestoryGCHandle" written DestroyGCHandle(Runtime 31 v 0 op 34 GC_HANDLE Informational) {
        0 handle_id "HandleID" Word ([Address] "the handle");
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// An object that the collection must not move, and the handle or stack slot that pins it.
    PinObject = Runtime [33] 0 "GC/PinObjectAtGCTime" written PinObjectAtGCTime<'a>(Runtime 33 v 0 op 36 GC Verbose) {
        0 handle_id "HandleID" Word ([Address] "the handle or slot");
        0 object_id "ObjectID" Word ([Address] "the object");
        0 object_size "ObjectSize" U64 ([Bytes] "its size");
        0 type_name "TypeName" Z16 then after_type_name ("the name of its type");
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// A collection was requested.
    Triggered = Runtime [35] 0 "GC/Triggered" written GCTriggered(Runtime 35 v 0 op 35 GC Informational) {
        0 reason "Reason" U32 (as Reason "why it was requested");
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// An event that the collector named when it fired it.
    Dynamic = Runtime [39] 0 "GC/DynamicTraceEvent" written GCDynamicEvent<'a>(Runtime 39 v 0 op 41 GC Informational) {
        0 name "Name" Z16 then after_name ("the name of the event");
        0 data_size "DataSize" U32 (counts data [Bytes] "the length of the data");
        0 data "Data" Bytes of data_size then after_data ("the payload of the event");
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The program reported that it allocated unmanaged memory.
    IncreaseMemoryPressure = Runtime [200] 0 "GC/IncreaseMemoryPressure" {
        0 bytes_allocated "BytesAllocated" U64 ([Bytes]);
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The program reported that it freed unmanaged memory.
    DecreaseMemoryPressure = Runtime [201] 0 "GC/DecreaseMemoryPressure" {
        0 bytes_freed "BytesFreed" U64 ([Bytes]);
        0 clr_instance_id "ClrInstanceID" U16;
    }
}

impl AllocationTick<'_> {
    /// The bytes of this tick: the 64-bit field if present, since the older field overflows.
    pub fn bytes(&self) -> Option<i64> {
        match self.amount64() {
            None | Some(0) => self.amount().map(i64::from),
            amount => amount,
        }
    }
}

/// The memory that the collector has committed, from the dynamic event `CommittedUsage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommittedUsage {
    /// Bytes in use.
    pub in_use: i64,
    /// Bytes about to be decommitted.
    pub in_global_decommit: i64,
    /// Free bytes that belong to one heap.
    pub in_free: i64,
    /// Free bytes that any heap may use.
    pub in_global_free: i64,
    /// Bytes of the collector's own data structures.
    pub bookkeeping: i64,
}

impl CommittedUsage {
    /// Decodes a dynamic event, if it is a complete `CommittedUsage`.
    pub fn of(event: &Dynamic<'_>) -> Option<CommittedUsage> {
        event.clr_instance_id()?;
        let name = event.name()?;
        if !name.chars().map(|char| char.to_ascii_lowercase()).eq("committedusage".chars()) {
            return None;
        }
        // Two bytes of version precede the fields.
        let data = super::Payload::new(event.data()?, 8);
        Some(CommittedUsage {
            in_use: data.i64(2)?,
            in_global_decommit: data.i64(10)?,
            in_free: data.i64(18)?,
            in_global_free: data.i64(26)?,
            bookkeeping: data.i64(34)?,
        })
    }
}
