//! Events with many rows: types, a heap dump, ranges of objects that survived or moved.

templates! {
    /// The types that type identifiers refer to.
    BulkType = Runtime [15] 0 "Type/BulkType" written BulkType<'a>(Runtime 15 v 0 op 10 TYPE Informational) {
        0 count "Count" U32 (counts rows "the number of types");
        0 clr_instance_id "ClrInstanceID" U16;
        rows BulkTypeRow<'a> {
            0 type_id "TypeID" U64 ([Address] "the type");
            0 module_id "ModuleID" U64 ([Address] "the module that defines it");
            0 type_name_id "TypeNameID" U32 ("the token of its name, if it has one");
            0 flags "Flags" U32 ("its properties, a bit set");
            0 cor_element_type "CorElementType" U8 (like ElementType "its sort");
            0 name "TypeName" Z16 then after_name ("its name");
            0 parameter_count "TypeParameterCount" U32 (counts parameters "the number of its type parameters");
            0 parameters "TypeParameters" U64s of parameter_count then after_parameters ("its type parameters");
        }
    }

    /// Roots.
    BulkRootEdge = Runtime [16] 0 "GC/BulkRootEdge" written GCBulkRootEdge<'a>(Runtime 16 v 0 op 20 GC_HEAP_DUMP Informational) {
        0 index "Index" U32 ("the number of the event in the dump, from 0");
        0 count "Count" U32 (counts rows "the number of roots");
        0 clr_instance_id "ClrInstanceID" U16;
        rows RootEdge {
            0 rooted_node "RootedNodeAddress" Word ([Address] "the object");
            0 kind "GCRootKind" U8 (as RootKind "the kind of the root");
            0 flags "GCRootFlag" U32 (as RootFlags "its properties");
            0 root_id "GCRootID" Word ([Address] "the root");
        }
    }

    /// Dependent handles: a value that lives as long as its key.
    BulkConditionalEdge = Runtime [17] 0 "GC/BulkRootConditionalWeakTableElementEdge" {
        0 index "Index" U32;
        0 count "Count" U32;
        0 clr_instance_id "ClrInstanceID" U16;
        rows ConditionalEdge {
            0 key "GCKeyNodeID" Word;
            0 value "GCValueNodeID" Word;
            0 root_id "GCRootID" Word;
        }
    }

    /// Objects. The edges of each object follow in order in `BulkEdge`.
    BulkNode = Runtime [18] 0 "GC/BulkNode" written GCBulkNode<'a>(Runtime 18 v 0 op 22 GC_HEAP_DUMP Informational) {
        0 index "Index" U32 ("the number of the event in the dump, from 0");
        0 count "Count" U32 (counts rows "the number of objects");
        0 clr_instance_id "ClrInstanceID" U16;
        rows Node {
            0 address "Address" Word ([Address] "the object");
            0 size "Size" U64 ([Bytes] "its size");
            0 type_id "TypeID" U64 ([Address] "its type");
            0 edge_count "EdgeCount" U64 ([Count] "its references");
        }
    }

    /// References between objects.
    BulkEdge = Runtime [19] 0 "GC/BulkEdge" written GCBulkEdge<'a>(Runtime 19 v 0 op 23 GC_HEAP_DUMP Informational) {
        0 index "Index" U32 ("the number of the event in the dump, from 0");
        0 count "Count" U32 (counts rows "the number of references");
        0 clr_instance_id "ClrInstanceID" U16;
        rows Edge {
            0 value "Value" Word ([Address] "the object that is referred to");
            0 field_id "ReferencingFieldID" U32 ("the field with the reference");
        }
    }

    /// Ranges of objects that did not move. Some runtimes write more than 64 KB.
    BulkSurvivingRanges = Runtime [21] 0 "GC/BulkSurvivingObjectRanges" {
        0 index "Index" U32;
        0 count "Count" U32;
        0 clr_instance_id "ClrInstanceID" U16;
        rows SurvivingRange {
            0 base "RangeBase" Word;
            0 length "RangeLength" U64;
        }
    }

    /// Ranges of objects that moved.
    BulkMovedRanges = Runtime [22] 0 "GC/BulkMovedObjectRanges" {
        0 index "Index" U32;
        0 count "Count" U32;
        0 clr_instance_id "ClrInstanceID" U16;
        rows MovedRange {
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
    BulkRootStaticVar = Runtime [38] 0 "GC/BulkRootStaticVar"
        written GCBulkRootStaticVar<'a>(Runtime 38 v 0 op 40 GC_HEAP_DUMP Informational)
    {
        0 count "Count" U32 (counts rows "the number of variables");
        0 app_domain_id "AppDomainID" U64 ("their application domain");
        0 clr_instance_id "ClrInstanceID" U16;
        rows RootStaticVar<'a> {
            0 root_id "GCRootID" U64 ([Address] "the variable");
            0 object_id "ObjectID" U64 ([Address] "the object");
            0 type_id "TypeID" U64 ([Address] "the type with the variable");
            0 flags "Flags" U32 (as StaticFlags "its properties");
            0 field_name "FieldName" Z16 then after_field_name ("its name");
        }
    }
}
