//! Collections as they begin and end, suspensions, allocation, segments, finalizers and handles.

use super::template::{accessors, fields, read, templates, value_of};

templates! {
    /// A collection begins. Version 0 tells neither which generation nor how.
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

    /// A collection ends. What follows (statistics, the restart) still belongs to its pause.
    End = Runtime [2] 1 "GC/Stop" {
        1 count "Count" I32;
        1 depth "Depth" U32;
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// All threads run again.
    RestartEnd = Runtime [3] 0 "GC/RestartEEStop" {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// The heap after a collection: sizes with what is free in them, and what was promoted from each generation.
    ///
    /// Generation 3 are large objects, generation 4 pinned ones.
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

    /// The heap has a new segment.
    CreateSegment = Runtime [5] 0 "GC/CreateSegment" {
        0 address "Address" U64;
        0 size "Size" U64;
        0 kind "Type" U32 as SEGMENT;
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// The heap has given a segment back.
    FreeSegment = Runtime [6] 0 "GC/FreeSegment" {
        0 address "Address" U64;
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// Threads are about to run again.
    RestartBegin = Runtime [7] 0 "GC/RestartEEStart" {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// All threads stand.
    SuspendEnd = Runtime [8] 0 "GC/SuspendEEStop" {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// Threads are asked to stop, in version 0.
    SuspendBeginV0 = Runtime [9] 0 to 0 "GC/SuspendEEStart" {
        0 reason "Reason" U16 as SUSPEND;
    }

    /// Threads are asked to stop. `count` is that of the collection before, or −1 where there is to be none.
    SuspendBegin = Runtime [9] 1 "GC/SuspendEEStart" {
        1 reason "Reason" U32 as SUSPEND;
        1 count "Count" I32;
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// So many bytes have been allocated since the last tick; about 100 KB. The type is that of the object with which
    /// the amount was full.
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

    /// The background collector's thread begins.
    CreateConcurrentThread = Runtime [11] 0 "GC/CreateConcurrentThread" {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// The background collector's thread ends.
    TerminateConcurrentThread = Runtime [12] 0 "GC/TerminateConcurrentThread" {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// So many finalizers have run.
    FinalizersEnd = Runtime [13] 0 "GC/FinalizersStop" {
        0 count "Count" U32;
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// Finalizers begin to run.
    FinalizersBegin = Runtime [14] 0 "GC/FinalizersStart" {
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// An object was allocated; one of a sample of its type.
    SampledObjectAllocation = Runtime [20, 32] 0 "GC/SampledObjectAllocation" {
        0 address "Address" Word;
        0 type_id "TypeID" Word;
        0 object_count "ObjectCountForTypeSample" U32;
        0 total_size "TotalSizeForTypeSample" U64;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The finalizer of an object runs.
    FinalizeObject = Runtime [29] 0 "GC/FinalizeObject" {
        0 type_id "TypeID" Word;
        0 object_id "ObjectID" Word;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// A handle holds an object.
    SetHandle = Runtime [30] 0 "GC/SetGCHandle" {
        0 handle_id "HandleID" Word;
        0 object_id "ObjectID" Word;
        0 kind "Kind" U32 as HANDLE;
        0 generation "Generation" U32;
        0 app_domain_id "AppDomainID" U64;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// A handle is gone. The real readers list it with this spelling.
    DestroyHandle = Runtime [31] 0 "GC/DestoryGCHandle" {
        0 handle_id "HandleID" Word;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// An object that the collection may not move, and by which handle.
    PinObject = Runtime [33] 0 "GC/PinObjectAtGCTime" {
        0 handle_id "HandleID" Word;
        0 object_id "ObjectID" Word;
        0 object_size "ObjectSize" U64;
        0 type_name "TypeName" Z16 then after_type_name;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Somebody asks for a collection.
    Triggered = Runtime [35] 0 "GC/Triggered" {
        0 reason "Reason" U32 as REASON;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// An event that the collector named as it fired it.
    Dynamic = Runtime [39] 0 "GC/DynamicTraceEvent" {
        0 name "Name" Z16 then after_name;
        0 data_size "DataSize" U32;
        0 data_at "Data" Bytes then after_data;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Unmanaged memory that the program told of.
    IncreaseMemoryPressure = Runtime [200] 0 "GC/IncreaseMemoryPressure" {
        0 bytes_allocated "BytesAllocated" U64;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Unmanaged memory that the program gave back.
    DecreaseMemoryPressure = Runtime [201] 0 "GC/DecreaseMemoryPressure" {
        0 bytes_freed "BytesFreed" U64;
        0 clr_instance_id "ClrInstanceID" U16;
    }
}

impl<'a> Dynamic<'a> {
    /// What the event carries.
    pub fn data(&self) -> Option<&'a [u8]> {
        self.payload.slice(self.data_at()?, self.data_size()? as usize)
    }

    fn after_data(&self) -> Option<usize> {
        Some(self.data_at()? + self.data()?.len())
    }
}

impl AllocationTick<'_> {
    /// The bytes of this tick: of 64 bits where there are as many, since the older field overflows.
    pub fn bytes(&self) -> Option<i64> {
        match self.amount64() {
            None | Some(0) => self.amount().map(i64::from),
            amount => amount,
        }
    }
}

/// How much memory the collector has from the system, as the dynamic event `CommittedUsage` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommittedUsage {
    /// In use.
    pub in_use: i64,
    /// About to be given back.
    pub in_global_decommit: i64,
    /// Free in a heap.
    pub in_free: i64,
    /// Free for any heap.
    pub in_global_free: i64,
    /// The collector's own records.
    pub bookkeeping: i64,
}

impl CommittedUsage {
    /// What a dynamic event says, if it is of this sort and whole.
    pub fn of(event: &Dynamic<'_>) -> Option<CommittedUsage> {
        event.clr_instance_id()?;
        let name = event.name()?;
        if !name.chars().map(|char| char.to_ascii_lowercase()).eq("committedusage".chars()) {
            return None;
        }
        // Two bytes of version come first.
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
