//! The private provider: details of background collections, and pinned objects.

templates! {
    /// The settings that the collector started with.
    Settings = Private [2] 0 "GC/Settings" written Settings(Private 2 v 1 op 14 GC Informational) {
        0 segment_size "SegmentSize" U64 ([Bytes] "the size of a segment");
        0 large_segment_size "LargeObjectSegmentSize" U64 ([Bytes] "the size of a segment of large objects");
        0 server "ServerGC" U32 ("1 if each processor has a heap");
        1 clr_instance_id "ClrInstanceID" U16;
    }

    /// Collecting threads synchronise.
    PrivateJoin = Private [6] 0 "GC/Join" {
        0 heap "Heap" I32;
        0 join_time "JoinTime" U32 (as JoinTime);
        0 join_type "JoinType" U32 (as JoinType);
        1 clr_instance_id "ClrInstanceID" U16;
        2 join_id "ID" I32;
    }

    /// The roots on stacks of a heap are marked.
    PrivateMarkStackRoots = Private [7] 0 "GC/MarkStackRoots" {
        0 heap_num "HeapNum" I32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The roots in the finalizer queue of a heap are marked.
    PrivateMarkFinalizeQueueRoots = Private [8] 0 "GC/MarkFinalizeQueueRoots" {
        0 heap_num "HeapNum" I32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The roots in handles of a heap are marked.
    PrivateMarkHandles = Private [9] 0 "GC/MarkHandles" {
        0 heap_num "HeapNum" I32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The roots in older generations of a heap are marked.
    PrivateMarkCards = Private [10] 0 "GC/MarkCards" {
        0 heap_num "HeapNum" I32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// A background collection begins.
    BackgroundBegin = Private [11] 0 "GC/BGCStart" {
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The first pause of a background collection ends.
    BackgroundFirstPauseEnd = Private [12] 0 "GC/BGC1stNonCondStop" {
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Its first concurrent phase ends.
    BackgroundFirstConcurrentEnd = Private [13] 0 "GC/BGC1stConStop" {
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Its second pause begins.
    BackgroundSecondPauseBegin = Private [14] 0 "GC/BGC2ndNonConStart" {
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Its second pause ends.
    BackgroundSecondPauseEnd = Private [15] 0 "GC/BGC2ndNonConStop" {
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Its second concurrent phase begins.
    BackgroundSecondConcurrentBegin = Private [16] 0 "GC/BGC2ndConStart" {
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Its second concurrent phase ends.
    BackgroundSecondConcurrentEnd = Private [17] 0 "GC/BGC2ndConStop" {
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Its plan phase ends.
    BackgroundPlanEnd = Private [18] 0 "GC/BGCPlanStop" {
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Its sweep phase ends.
    BackgroundSweepEnd = Private [19] 0 "GC/BGCSweepStop" {
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The background collection has processed its mark list.
    BackgroundDrainMark = Private [20] 0 "GC/BGCDrainMark" {
        0 objects "Objects" U64;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// It has revisited pages that the program wrote while it marked.
    BackgroundRevisit = Private [21] 0 "GC/BGCRevisit" {
        0 pages "Pages" U64;
        0 objects "Objects" U64;
        0 is_large "IsLarge" U32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Its mark list overflowed.
    BackgroundOverflow = Private [22] 0 "GC/BGCOverflow" {
        0 lowest "Min" U64;
        0 highest "Max" U64;
        0 objects "Objects" U64;
        0 is_large "IsLarge" U32;
        0 clr_instance_id "ClrInstanceID" U16;
        1 generation "GenNumber" U32;
    }

    /// An allocation begins to wait for it.
    BackgroundAllocWaitBegin = Private [23] 0 "GC/BGCAllocWaitStart" {
        0 reason "Reason" U32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// An allocation stops waiting for it.
    BackgroundAllocWaitEnd = Private [24] 0 "GC/BGCAllocWaitStop" {
        0 reason "Reason" U32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// A full collection is about to happen; fired only if the program registered for this notification.
    FullNotify = Private [25] 0 "GC/FullNotify" {
        0 generation "GenNumber" U32;
        0 is_alloc "IsAlloc" U32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// A handle refers to an object.
    PrivateSetHandle = Private [194] 0 "GC/SetGCHandle" {
        0 handle_id "HandleID" Word;
        0 object_id "ObjectID" Word;
        0 kind "Kind" U32 (as HandleKind);
        0 generation "Generation" U32;
        0 app_domain_id "AppDomainID" U64;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// A handle was freed.
    PrivateDestroyHandle = Private [195] 0 "GC/DestroyGCHandle" {
        0 handle_id "HandleID" Word;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Adjacent objects that can't move because one of them is pinned.
    PinPlug = Private [199] 0 "GC/PinPlugAtGCTime" {
        0 start "PlugStart" Word;
        0 end "PlugEnd" Word;
        0 gap_before "GapBeforeSize" Word;
        0 clr_instance_id "ClrInstanceID" U16;
    }
}
