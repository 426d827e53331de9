//! The definitions of the events in a trace: their names, numbers and fields.
//!
//! There are two sorts. **.NET events** have the names, numbers and layouts that the .NET tools know. They are listed here, each once,
//! with full names and fields, which the .NET runtime itself leaves out; so even a reader that does not know them can print them.
//! **Own events**, those without a .NET counterpart, are the rows of the [event table](stopworld::events::table) under the provider
//! `stopworld`. Their fields are those of the table, except that a label is written as its text.
//!
//! A field list is flat. If .NET has a counted array and the count is constant here, each element is a field (the generations of
//! GCPerHeapHistory). If the count varies (the bulk events of a heap dump), the list ends before the array.

use stopworld::events::table::{Field, FieldKind, Unit};
use stopworld::events::{EventId, Group, Keywords, Level};

/// The names of providers.
pub(super) const DEFAULT: &str = "Microsoft-Windows-DotNETRuntime";
pub(super) const PRIVATE: &str = "Microsoft-Windows-DotNETRuntimePrivate";
pub(super) const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";
pub(super) const EVENT_PIPE: &str = "Microsoft-DotNETCore-EventPipe";
/// The provider of the own events.
pub(super) const OWN: &str = "stopworld";

/// The type of a field, by its number in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Type {
    U8 = 6,
    U16 = 8,
    I32 = 9,
    U32 = 10,
    I64 = 11,
    U64 = 12,
    Guid = 17,
    /// UTF-16, terminated by a 0.
    Text = 18,
}

/// The fields of an event, in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fields {
    Named(&'static [(&'static str, Type)]),
    OfTheTable(&'static [Field]),
}

impl Fields {
    pub(super) fn count(self) -> usize {
        match self {
            Fields::Named(fields) => fields.len(),
            Fields::OfTheTable(fields) => fields.len(),
        }
    }

    pub(super) fn each(self, mut visit: impl FnMut(&'static str, Type)) {
        match self {
            Fields::Named(fields) => fields.iter().for_each(|(name, kind)| visit(name, *kind)),
            Fields::OfTheTable(fields) => fields.iter().for_each(|field| visit(field.name, type_of(field))),
        }
    }
}

/// Returns the type of a table's field in a payload.
pub(super) fn type_of(field: &Field) -> Type {
    match (field.unit, field.kind) {
        (Unit::Label, _) => Type::Text,
        (_, FieldKind::U32) => Type::U32,
        (_, FieldKind::U64 | FieldKind::Word) => Type::U64,
    }
}

/// The metadata of a kind of event in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Definition {
    pub(super) provider: &'static str,
    pub(super) id: u32,
    pub(super) name: &'static str,
    pub(super) version: u8,
    pub(super) level: u8,
    pub(super) keywords: u64,
    pub(super) opcode: u8,
    pub(super) fields: Fields,
}

/// A kind of event in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Net(Net),
    Own(EventId),
}

impl Kind {
    /// An upper bound on the number of kinds.
    pub(super) const MOST: usize = 256;

    /// Returns its metadata id in the file.
    #[inline(always)]
    pub(super) fn id(self) -> u32 {
        match self {
            Kind::Net(net) => net as u32 + 1,
            Kind::Own(id) => (Net::COUNT + 1) as u32 + id as u32,
        }
    }

    pub(super) fn definition(self) -> Definition {
        match self {
            Kind::Net(net) => DEFINITIONS[net as usize],
            Kind::Own(id) => {
                let row = id.descriptor();
                Definition {
                    provider: OWN,
                    id: id as u32 + 1,
                    name: row.name,
                    version: row.version,
                    level: own_level(row.group) as u8,
                    keywords: own_keyword(row.group),
                    opcode: 0,
                    fields: Fields::OfTheTable(row.fields),
                }
            }
        }
    }
}

const _: () = assert!(Net::COUNT + EventId::COUNT < Kind::MOST);

/// Returns whether an event is written under the own provider because .NET has no counterpart.
pub(super) fn is_own(id: EventId) -> bool {
    id.descriptor().net.is_empty()
}

/// Returns the keyword of the own events of this group.
pub(super) fn own_keyword(group: Group) -> u64 {
    1 << group as u64
}

/// Returns the level of the own events of this group. Events for each object, reference or block are too many for the default level.
pub(super) fn own_level(group: Group) -> Level {
    match group {
        Group::Object | Group::Block => Level::Verbose,
        _ => Level::Informational,
    }
}

const CLR: (&str, Type) = ("ClrInstanceID", Type::U16);

macro_rules! net_events {
    ($($name:ident: $provider:ident $id:literal $event:literal v $version:literal op $opcode:literal $keywords:ident $level:ident
        [$($field:ident $type:ident),*] $(then $rest:ident)?;)+) => {
        /// The .NET events that are written.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Net {
            $($name),+
        }

        impl Net {
            /// All .NET events.
            pub(super) const ALL: &[Net] = &[$(Net::$name),+];
            /// The number of .NET events.
            pub(super) const COUNT: usize = Net::ALL.len();
        }

        const DEFINITIONS: [Definition; Net::COUNT] = [$(
            Definition {
                provider: $provider,
                id: $id,
                name: $event,
                version: $version,
                level: level::$level,
                keywords: Keywords::$keywords.0,
                opcode: $opcode,
                fields: Fields::Named(net_events!(@fields [$($field $type),*] $($rest)?)),
            },
        )+];
    };
    (@fields [$($field:ident $type:ident),*]) => {
        &[$((stringify!($field), Type::$type),)* CLR]
    };
    (@fields [$($field:ident $type:ident),*] nothing) => {
        &[$((stringify!($field), Type::$type)),*]
    };
    (@fields [$($field:ident $type:ident),*] $whole:ident) => {
        $whole
    };
}

/// The levels as numbers.
#[allow(non_upper_case_globals, reason = "the names in the table of events")]
mod level {
    pub(super) const Always: u8 = 0;
    pub(super) const Informational: u8 = 4;
    pub(super) const Verbose: u8 = 5;
}

// Each payload ends with `ClrInstanceID`, unless the row has `then nothing`, or `then` with the name of a complete list.
net_events! {
    ProcessInfo: EVENT_PIPE 1 "ProcessInfo" v 1 op 0 NONE Always
        [CommandLine Text, OSInformation Text, ArchInformation Text] then nothing;
    RuntimeStart: RUNDOWN 187 "RuntimeInformationDCStart" v 0 op 1 NONE Informational [] then RUNTIME_START;
    SettingsRundown: RUNDOWN 10 "GCSettingsRundown" v 0 op 10 GC Informational
        [HardLimit I64, LOHThreshold I64, PhysicalMemoryConfig I64, Gen0MinBudgetConfig I64, Gen0MaxBudgetConfig I64, HighMemPercentConfig I32, BitSettings I32];
    Settings: PRIVATE 2 "Settings" v 1 op 14 GC Informational [SegmentSize U64, LargeObjectSegmentSize U64, ServerGC U32];

    SuspendBegin: DEFAULT 9 "GCSuspendEEBegin" v 1 op 10 GC Informational [Reason U32, Count U32];
    SuspendEnd: DEFAULT 8 "GCSuspendEEEnd" v 1 op 137 GC Informational [];
    Triggered: DEFAULT 35 "GCTriggered" v 0 op 35 GC Informational [Reason U32];
    Start: DEFAULT 1 "GCStart" v 2 op 1 GC Informational
        [Count U32, Depth U32, Reason U32, Type U32] then START;
    MarkWithType: DEFAULT 202 "GCMarkWithType" v 0 op 202 GC Informational [HeapNum U32] then MARK_WITH_TYPE;
    GlobalHeapHistory: DEFAULT 205 "GCGlobalHeapHistory" v 4 op 205 GC Informational [] then GLOBAL_HEAP_HISTORY;
    PerHeapHistory: DEFAULT 204 "GCPerHeapHistory" v 3 op 204 GC Informational [] then PER_HEAP_HISTORY;
    End: DEFAULT 2 "GCEnd" v 1 op 2 GC Informational [Count U32, Depth U32];
    HeapStats: DEFAULT 4 "GCHeapStats" v 2 op 133 GC Informational [] then HEAP_STATS;
    RestartBegin: DEFAULT 7 "GCRestartEEBegin" v 1 op 136 GC Informational [];
    RestartEnd: DEFAULT 3 "GCRestartEEEnd" v 1 op 132 GC Informational [];

    CreateSegment: DEFAULT 5 "GCCreateSegment" v 1 op 134 GC Informational [Address U64, Size U64, Type U32];
    FreeSegment: DEFAULT 6 "GCFreeSegment" v 1 op 135 GC Informational [Address U64];
    AllocationTick: DEFAULT 10 "GCAllocationTick" v 4 op 11 GC Verbose [] then ALLOCATION_TICK;
    SampledHigh: DEFAULT 20 "GCSampledObjectAllocationHigh" v 0 op 24 GC_SAMPLED_HIGH Informational
        [Address U64, TypeID U64, ObjectCountForTypeSample U32, TotalSizeForTypeSample U64];
    SampledLow: DEFAULT 32 "GCSampledObjectAllocationLow" v 0 op 24 GC_SAMPLED_LOW Informational
        [Address U64, TypeID U64, ObjectCountForTypeSample U32, TotalSizeForTypeSample U64];
    FinalizersBegin: DEFAULT 14 "GCFinalizersBegin" v 1 op 19 GC Informational [];
    FinalizersEnd: DEFAULT 13 "GCFinalizersEnd" v 1 op 15 GC Informational [Count U32];
    FinalizeObject: DEFAULT 29 "FinalizeObject" v 0 op 32 GC Verbose [TypeID U64, ObjectID U64];
    SetHandle: DEFAULT 30 "SetGCHandle" v 0 op 33 GC_HANDLE Informational
        [HandleID U64, ObjectID U64, Kind U32, Generation U32, AppDomainID U64];
    DestroyHandle: DEFAULT 31 "DestroyGCHandle" v 0 op 34 GC_HANDLE Informational [HandleID U64];
    PinObject: DEFAULT 33 "PinObjectAtGCTime" v 0 op 36 GC Verbose
        [HandleID U64, ObjectID U64, ObjectSize U64, TypeName Text];
    Join: DEFAULT 203 "GCJoin" v 2 op 203 GC Verbose [Heap U32, JoinTime U32, JoinType U32] then JOIN;
    Dynamic: DEFAULT 39 "GCDynamicEvent" v 0 op 41 GC Informational [Name Text, DataSize U32] then nothing;

    BulkType: DEFAULT 15 "BulkType" v 0 op 10 TYPE Informational [Count U32];
    BulkNode: DEFAULT 18 "GCBulkNode" v 0 op 22 GC_HEAP_DUMP Informational [Index U32, Count U32];
    BulkEdge: DEFAULT 19 "GCBulkEdge" v 0 op 23 GC_HEAP_DUMP Informational [Index U32, Count U32];
    BulkRootEdge: DEFAULT 16 "GCBulkRootEdge" v 0 op 20 GC_HEAP_DUMP Informational [Index U32, Count U32];
    BulkRootStaticVar: DEFAULT 38 "GCBulkRootStaticVar" v 0 op 40 GC_HEAP_DUMP Informational [Count U32, AppDomainID U64];
}

const RUNTIME_START: &[(&str, Type)] = &[
    CLR,
    ("Sku", Type::U16),
    ("BclMajorVersion", Type::U16),
    ("BclMinorVersion", Type::U16),
    ("BclBuildNumber", Type::U16),
    ("BclQfeNumber", Type::U16),
    ("VMMajorVersion", Type::U16),
    ("VMMinorVersion", Type::U16),
    ("VMBuildNumber", Type::U16),
    ("VMQfeNumber", Type::U16),
    ("StartupFlags", Type::U32),
    ("StartupMode", Type::U8),
    ("CommandLine", Type::Text),
    ("ComObjectGuid", Type::Guid),
    ("RuntimeDllPath", Type::Text),
];

const START: &[(&str, Type)] = &[
    ("Count", Type::U32),
    ("Depth", Type::U32),
    ("Reason", Type::U32),
    ("Type", Type::U32),
    CLR,
    ("ClientSequenceNumber", Type::U64),
];

const MARK_WITH_TYPE: &[(&str, Type)] = &[("HeapNum", Type::U32), CLR, ("Type", Type::U32), ("Bytes", Type::U64)];

const JOIN: &[(&str, Type)] =
    &[("Heap", Type::U32), ("JoinTime", Type::U32), ("JoinType", Type::U32), CLR, ("JoinID", Type::U32)];

const HEAP_STATS: &[(&str, Type)] = &[
    ("GenerationSize0", Type::U64),
    ("TotalPromotedSize0", Type::U64),
    ("GenerationSize1", Type::U64),
    ("TotalPromotedSize1", Type::U64),
    ("GenerationSize2", Type::U64),
    ("TotalPromotedSize2", Type::U64),
    ("GenerationSize3", Type::U64),
    ("TotalPromotedSize3", Type::U64),
    ("FinalizationPromotedSize", Type::U64),
    ("FinalizationPromotedCount", Type::U64),
    ("PinnedObjectCount", Type::U32),
    ("SinkBlockCount", Type::U32),
    ("GCHandleCount", Type::U32),
    CLR,
    ("GenerationSize4", Type::U64),
    ("TotalPromotedSize4", Type::U64),
];

const ALLOCATION_TICK: &[(&str, Type)] = &[
    ("AllocationAmount", Type::U32),
    ("AllocationKind", Type::U32),
    CLR,
    ("AllocationAmount64", Type::U64),
    ("TypeID", Type::U64),
    ("TypeName", Type::Text),
    ("HeapIndex", Type::U32),
    ("Address", Type::U64),
    ("ObjectSize", Type::U64),
];

const GLOBAL_HEAP_HISTORY: &[(&str, Type)] = &[
    ("FinalYoungestDesired", Type::U64),
    ("NumHeaps", Type::I32),
    ("CondemnedGeneration", Type::U32),
    ("Gen0ReductionCount", Type::U32),
    ("Reason", Type::U32),
    ("GlobalMechanisms", Type::U32),
    CLR,
    ("PauseMode", Type::U32),
    ("MemoryPressure", Type::U32),
    ("CondemnReasons0", Type::U32),
    ("CondemnReasons1", Type::U32),
    ("Count", Type::U32),
    ("TimeInit", Type::U32),
    ("TimeMarkRoots", Type::U32),
    ("TimeMarkShortWeak", Type::U32),
    ("TimeMarkScanFinalization", Type::U32),
    ("TimeMarkLongWeak", Type::U32),
    ("TimePlan", Type::U32),
    ("TimeSweep", Type::U32),
];

macro_rules! per_heap {
    ($($generation:literal),+) => {
        &[
            CLR,
            ("FreeListAllocated", Type::U64),
            ("FreeListRejected", Type::U64),
            ("EndOfSegAllocated", Type::U64),
            ("CondemnedAllocated", Type::U64),
            ("PinnedAllocated", Type::U64),
            ("PinnedAllocatedAdvance", Type::U64),
            ("RunningFreeListEfficiency", Type::U32),
            ("CondemnReasons0", Type::U32),
            ("CondemnReasons1", Type::U32),
            ("CompactMechanisms", Type::U32),
            ("ExpandMechanisms", Type::U32),
            ("HeapIndex", Type::U32),
            ("ExtraGen0Commit", Type::U64),
            ("Count", Type::U32),
            $(
                (concat!("Gen", $generation, "SizeBefore"), Type::U64),
                (concat!("Gen", $generation, "FreeListBefore"), Type::U64),
                (concat!("Gen", $generation, "FreeObjBefore"), Type::U64),
                (concat!("Gen", $generation, "SizeAfter"), Type::U64),
                (concat!("Gen", $generation, "FreeListAfter"), Type::U64),
                (concat!("Gen", $generation, "FreeObjAfter"), Type::U64),
                (concat!("Gen", $generation, "In"), Type::U64),
                (concat!("Gen", $generation, "PinnedSurv"), Type::U64),
                (concat!("Gen", $generation, "NonePinnedSurv"), Type::U64),
                (concat!("Gen", $generation, "NewAllocation"), Type::U64),
            )+
        ]
    };
}

const PER_HEAP_HISTORY: &[(&str, Type)] = per_heap!(0, 1, 2, 3, 4);

#[cfg(test)]
mod tests {
    use super::*;
    use stopworld::events::{DESCRIPTORS, Provider};

    /// Returns the provider of a .NET event, if it is one of those in the event table.
    fn provider_of(definition: &Definition) -> Option<Provider> {
        match definition.provider {
            DEFAULT => Some(Provider::Default),
            PRIVATE => Some(Provider::Private),
            _ => None,
        }
    }

    /// The .NET events of the event table are exactly those that are written.
    #[test]
    fn the_event_table_and_the_definitions_agree() {
        let rows: Vec<_> = DESCRIPTORS.iter().flat_map(|row| row.net).collect();
        for net in Net::ALL {
            let definition = Kind::Net(*net).definition();
            let Some(provider) = provider_of(&definition) else { continue };
            let row = rows.iter().find(|row| row.provider == provider && u32::from(row.id) == definition.id);
            let row = row.unwrap_or_else(|| panic!("no row of the table becomes {}", definition.name));
            assert_eq!(
                (row.version, row.opcode, row.keyword.0, row.level as u8),
                (definition.version, definition.opcode, definition.keywords, definition.level),
                "{}",
                definition.name
            );
            assert!(definition.name.starts_with(row.name), "{} is not {}", definition.name, row.name);
        }
        for row in rows {
            let is_same = |definition: Definition| {
                provider_of(&definition) == Some(row.provider) && definition.id == u32::from(row.id)
            };
            assert!(Net::ALL.iter().any(|net| is_same(Kind::Net(*net).definition())), "{} is never written", row.name);
        }
    }

    #[test]
    fn ids_are_unique_and_names_are_not_empty() {
        let kinds = Net::ALL.iter().map(|net| Kind::Net(*net)).chain(EventId::all().map(Kind::Own));
        let mut seen = std::collections::HashSet::new();
        for kind in kinds {
            assert!(kind.id() > 0 && (kind.id() as usize) < Kind::MOST && seen.insert(kind.id()), "{kind:?}");
            let definition = kind.definition();
            assert!(!definition.name.is_empty());
            definition.fields.each(|name, _| assert!(!name.is_empty()));
        }
    }
}

#[cfg(test)]
mod reader_tests {
    use super::*;
    use nettrace::clr;

    /// Returns whether the two types have the same layout in a payload, with pointers of eight bytes.
    fn is_laid_out_as(written: Type, known: clr::Kind) -> bool {
        use clr::Kind;
        match written {
            Type::U8 => known == Kind::U8,
            Type::U16 => known == Kind::U16,
            Type::I32 | Type::U32 => matches!(known, Kind::I32 | Kind::U32),
            Type::I64 | Type::U64 => matches!(known, Kind::I64 | Kind::U64 | Kind::Word),
            Type::Guid => known == Kind::Guid,
            Type::Text => known == Kind::Z16,
        }
    }

    /// The reader's template for an event's number and version has the same fields as the definition, up to the repeated ones.
    #[test]
    fn the_definitions_of_dotnet_events_match_the_templates_of_the_reader() {
        for net in Net::ALL {
            let definition = Kind::Net(*net).definition();
            let version = u32::from(definition.version);
            let provider = clr::Provider::named(definition.provider).expect("a .NET provider");
            let template = clr::find(provider, definition.id, version).expect("a .NET event");
            let mut known = template.fields.iter().filter(|field| field.since <= version);
            definition.fields.each(|name, kind| match known.next() {
                Some(field) => assert!(is_laid_out_as(kind, field.kind), "{net:?}: {name} and {}", field.name),
                None => assert!(!template.rows.is_empty(), "{net:?} has no {name}"),
            });
            // A dynamic event has its data after their size.
            assert!(known.next().is_none_or(|field| field.kind == clr::Kind::Bytes), "{net:?}");
        }
    }
}
