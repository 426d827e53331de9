//! Events with many rows: types, a heap dump, ranges of objects that survived or moved.

use super::template::{accessors, fields, read, templates, value_of};

templates! {
    /// The types that type identifiers refer to.
    BulkType = Runtime [15] 0 "Type/BulkType" {
        0 count "Count" U32;
        0 clr_instance_id "ClrInstanceID" U16;
        rows {
            0 type_id "TypeID" U64;
            0 module_id "ModuleID" U64;
            0 type_name_id "TypeNameID" U32;
            0 flags "Flags" U32;
            0 cor_element_type "CorElementType" U8;
            0 name "TypeName" Z16;
            0 parameter_count "TypeParameterCount" U32;
            0 parameters "TypeParameters" U64s;
        }
    }

    /// Roots.
    BulkRootEdge = Runtime [16] 0 "GC/BulkRootEdge" {
        0 index "Index" U32;
        0 count "Count" U32;
        0 clr_instance_id "ClrInstanceID" U16;
        rows {
            0 rooted_node "RootedNodeAddress" Word;
            0 kind "GCRootKind" U8 as ROOT_KIND;
            0 flags "GCRootFlag" U32 as ROOT_FLAGS;
            0 root_id "GCRootID" Word;
        }
    }

    /// Dependent handles: a value that lives as long as its key.
    BulkConditionalEdge = Runtime [17] 0 "GC/BulkRootConditionalWeakTableElementEdge" {
        0 index "Index" U32;
        0 count "Count" U32;
        0 clr_instance_id "ClrInstanceID" U16;
        rows {
            0 key "GCKeyNodeID" Word;
            0 value "GCValueNodeID" Word;
            0 root_id "GCRootID" Word;
        }
    }

    /// Objects. The edges of each object follow in order in [`BulkEdge`].
    BulkNode = Runtime [18] 0 "GC/BulkNode" {
        0 index "Index" U32;
        0 count "Count" U32;
        0 clr_instance_id "ClrInstanceID" U16;
        rows {
            0 address "Address" Word;
            0 size "Size" U64;
            0 type_id "TypeID" U64;
            0 edge_count "EdgeCount" U64;
        }
    }

    /// References between objects.
    BulkEdge = Runtime [19] 0 "GC/BulkEdge" {
        0 index "Index" U32;
        0 count "Count" U32;
        0 clr_instance_id "ClrInstanceID" U16;
        rows {
            0 value "Value" Word;
            0 field_id "ReferencingFieldID" U32;
        }
    }

    /// Ranges of objects that did not move. Some runtimes write more than 64 KB.
    BulkSurvivingRanges = Runtime [21] 0 "GC/BulkSurvivingObjectRanges" {
        0 index "Index" U32;
        0 count "Count" U32;
        0 clr_instance_id "ClrInstanceID" U16;
        rows {
            0 base "RangeBase" Word;
            0 length "RangeLength" U64;
        }
    }

    /// Ranges of objects that moved.
    BulkMovedRanges = Runtime [22] 0 "GC/BulkMovedObjectRanges" {
        0 index "Index" U32;
        0 count "Count" U32;
        0 clr_instance_id "ClrInstanceID" U16;
        rows {
            0 old_base "OldRangeBase" Word;
            0 new_base "NewRangeBase" Word;
            0 length "RangeLength" U64;
        }
    }

    /// The range of a generation, at the beginning and end of a collection.
    GenerationRange = Runtime [23] 0 "GC/GenerationRange" {
        0 generation "Generation" U8;
        0 range_start "RangeStart" Word;
        0 used_length "RangeUsedLength" U64;
        0 reserved_length "RangeReservedLength" U64;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The roots on stacks of a heap are marked; replaced by `MarkWithType`, as are the next three.
    MarkStackRoots = Runtime [25] 0 "GC/MarkStackRoots" {
        0 heap_num "HeapNum" U32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The roots in the finalizer queue of a heap are marked.
    MarkFinalizeQueueRoots = Runtime [26] 0 "GC/MarkFinalizeQueueRoots" {
        0 heap_num "HeapNum" U32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The roots in handles of a heap are marked.
    MarkHandles = Runtime [27] 0 "GC/MarkHandles" {
        0 heap_num "HeapNum" U32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// The roots in older generations of a heap are marked.
    MarkCards = Runtime [28] 0 "GC/MarkCards" {
        0 heap_num "HeapNum" U32;
        0 clr_instance_id "ClrInstanceID" U16;
    }

    /// Static variables as roots.
    BulkRootStaticVar = Runtime [38] 0 "GC/BulkRootStaticVar" {
        0 count "Count" U32;
        0 app_domain_id "AppDomainID" U64;
        0 clr_instance_id "ClrInstanceID" U16;
        rows {
            0 root_id "GCRootID" U64;
            0 object_id "ObjectID" U64;
            0 type_id "TypeID" U64;
            0 flags "Flags" U32 as STATIC_FLAGS;
            0 field_name "FieldName" Z16;
        }
    }
}
