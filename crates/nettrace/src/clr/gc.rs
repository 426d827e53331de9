//! Collections, suspensions, allocation, segments, finalizers and handles.

use super::template::{accessors, fields, read, templates, value_of};

templates! {
    /// A collection begins. Version 0 has neither its generation nor its type.
    StartV0 = Runtime [1] 0 to 0 "GC/Start" {
        0 count "Count" I32;
        0 reason "Reason" U32 as REASON;
    }

    /// A collection begins.
    Start = Runtime [1] 1 "GC/Start" {
        1 count "Count" I32;
        1 depth "Depth" U32;
        1 reason "Reason" U32 as REASON;
        1 kind "Type" U32 as GC_TYPE;
        1 clr_instance_id "ClrInstanceID" U16;
        2 client_sequence_number "ClientSequenceNumber" U64;
    }

    /// A collection ends, in version 0.
    EndV0 = Runtime [2] 0 to 0 "GC/Stop" {
        0 count "Count" I32;
        0 depth "Depth" U16;
    }

    /// A collection ends. The events that follow (statistics, the restart) still belong to its pause.
    End = Runtime [2] 1 "GC/Stop" {
        1 count "Count" I32;
        1 depth "Depth" U32;
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// All threads run again.
    RestartEnd = Runtime [3] 0 "GC/RestartEEStop" {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// The heap after a collection: sizes including free space, and the bytes promoted from each generation.
    ///
    /// Generation 3 is the large object heap, generation 4 the pinned object heap.
    HeapStats = Runtime [4] 0 "GC/HeapStats" {
        0 generation_size0 "GenerationSize0" U64;
        0 total_promoted_size0 "TotalPromotedSize0" U64;
        0 generation_size1 "GenerationSize1" U64;
        0 total_promoted_size1 "TotalPromotedSize1" U64;
        0 generation_size2 "GenerationSize2" U64;
        0 total_promoted_size2 "TotalPromotedSize2" U64;
        0 generation_size3 "GenerationSize3" U64;
        0 total_promoted_size3 "TotalPromotedSize3" U64;
        0 finalization_promoted_size "FinalizationPromotedSize" U64;
        0 finalization_promoted_count "FinalizationPromotedCount" U64;
        0 pinned_object_count "PinnedObjectCount" U32;
        0 sink_block_count "SinkBlockCount" U32;
        0 gc_handle_count "GCHandleCount" U32;
        1 clr_instance_id "ClrInstanceID" U16;
        2 generation_size4 "GenerationSize4" U64;
        2 total_promoted_size4 "TotalPromotedSize4" U64;
    }

    /// The heap has obtained a segment.
    CreateSegment = Runtime [5] 0 "GC/CreateSegment" {
        0 address "Address" U64;
        0 size "Size" U64;
        0 kind "Type" U32 as SEGMENT;
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// The heap has released a segment.
    FreeSegment = Runtime [6] 0 "GC/FreeSegment" {
        0 address "Address" U64;
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// Threads are about to be resumed.
    RestartBegin = Runtime [7] 0 "GC/RestartEEStart" {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// All threads are suspended.
    SuspendEnd = Runtime [8] 0 "GC/SuspendEEStop" {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// The suspension begins, in version 0.
    SuspendBeginV0 = Runtime [9] 0 to 0 "GC/SuspendEEStart" {
        0 reason "Reason" U16 as SUSPEND;
    }

    /// The suspension begins. `count` is that of the previous collection, or −1 if no collection follows.
    SuspendBegin = Runtime [9] 1 "GC/SuspendEEStart" {
        1 reason "Reason" U32 as SUSPEND;
        1 count "Count" I32;
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// This many bytes have been allocated since the last tick; about 100 KB. The type is that of the object whose allocation
    /// reached the amount.
    AllocationTick = Runtime [10] 0 "GC/AllocationTick" {
        0 amount "AllocationAmount" I32;
        0 kind "AllocationKind" U32 as ALLOCATION;
        1 clr_instance_id "ClrInstanceID" U16;
        2 amount64 "AllocationAmount64" I64;
        2 type_id "TypeID" Word;
        2 type_name "TypeName" Z16 then after_type_name;
        2 heap_index "HeapIndex" U32;
        3 address "Address" Word;
        4 object_size "ObjectSize" U64;
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
    FinalizersEnd = Runtime [13] 0 "GC/FinalizersStop" {
        0 count "Count" U32;
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// Finalizers begin to run.
    FinalizersBegin = Runtime [14] 0 "GC/FinalizersStart" {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// An object was allocated; one of a sample of its type's objects.
    SampledObjectAllocation = Runtime [20, 32] 0 "GC/SampledObjectAllocation" {
        0 address "Address" Word;
        0 type_id "TypeID" Word;
        0 object_count "ObjectCountForTypeSample" U32;
        0 total_size "TotalSizeForTypeSample" U64;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The finalizer of an object was run.
    FinalizeObject = Runtime [29] 0 "GC/FinalizeObject" {
        0 type_id "TypeID" Word;
        0 object_id "ObjectID" Word;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// A handle refers to an object.
    SetHandle = Runtime [30] 0 "GC/SetGCHandle" {
        0 handle_id "HandleID" Word;
        0 object_id "ObjectID" Word;
        0 kind "Kind" U32 as HANDLE;
        0 generation "Generation" U32;
        0 app_domain_id "AppDomainID" U64;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// A handle was freed. TraceEvent lists it with this spelling.
    DestroyHandle = Runtime [31] 0 "GC/DestoryGCHandle" {
        0 handle_id "HandleID" Word;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// An object that the collection must not move, and the handle or stack slot that pins it.
    PinObject = Runtime [33] 0 "GC/PinObjectAtGCTime" {
        0 handle_id "HandleID" Word;
        0 object_id "ObjectID" Word;
        0 object_size "ObjectSize" U64;
        0 type_name "TypeName" Z16 then after_type_name;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// A collection was requested.
    Triggered = Runtime [35] 0 "GC/Triggered" {
        0 reason "Reason" U32 as REASON;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// An event that the collector named when it fired it.
    Dynamic = Runtime [39] 0 "GC/DynamicTraceEvent" {
        0 name "Name" Z16 then after_name;
        0 data_size "DataSize" U32;
        0 data_at "Data" Bytes then after_data;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The program reported that it allocated unmanaged memory.
    IncreaseMemoryPressure = Runtime [200] 0 "GC/IncreaseMemoryPressure" {
        0 bytes_allocated "BytesAllocated" U64;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The program reported that it freed unmanaged memory.
    DecreaseMemoryPressure = Runtime [201] 0 "GC/DecreaseMemoryPressure" {
        0 bytes_freed "BytesFreed" U64;
        0 clr_instance_id "ClrInstanceID" U16;
    }
}

impl<'a> Dynamic<'a> {
    /// The payload of the dynamic event.
    pub fn data(&self) -> Option<&'a [u8]> {
        self.payload.slice(self.data_at()?, self.data_size()? as usize)
    }

    fn after_data(&self) -> Option<usize> {
        Some(self.data_at()? + self.data()?.len())
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
    /// In use.
    pub in_use: i64,
    /// About to be decommitted.
    pub in_global_decommit: i64,
    /// Free in one heap.
    pub in_free: i64,
    /// Free for any heap.
    pub in_global_free: i64,
    /// The collector's own records.
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
