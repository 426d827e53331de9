//! Writing events: their metadata, and structs that append a payload.
//!
//! A declaration (see `declare`) that is `written` yields a struct with the named fields of one version, in order. Two kinds of fields are
//! not in it, so that a writer can't set them wrongly: `ClrInstanceID` is an argument of [`Encode::encode`], since it is the same for all
//! events of a runtime, and counts are computed from the rows. Nothing is allocated, and pointers have eight bytes.
//!
//! ```
//! use nettrace::clr::{Encode, Payload, SegmentKind, gc::CreateSegment, write::GCCreateSegment};
//!
//! let segment = GCCreateSegment { address: 0x7000_0000, size: 4 << 20, kind: SegmentKind::LargeObjectHeap };
//! let mut payload = Vec::new();
//! segment.encode(0, &mut payload);
//!
//! let definition = GCCreateSegment::DEFINITION;
//! assert_eq!((definition.name, definition.event, definition.version), ("GCCreateSegment", 5, 1));
//! let read = CreateSegment::new(definition.version.into(), Payload::new(&payload, 8));
//! assert_eq!((read.size(), read.clr_instance_id()), (Some(4 << 20), Some(0)));
//! ```
//! If the number of rows is known only at the end, the rows are encoded one by one, and then passed as [`Rows`].

use trace_io::bytes::Bytes;

use super::Provider;
use super::template::{Kind, Template};
use crate::metadata::{EventType, FieldType};

/// What a payload is appended to.
pub trait Sink {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Appends text as UTF-16 with a NUL.
    fn text(&mut self, text: Text<'_>);
}

/// A buffer of fixed size: bytes that do not fit are not written, and a text is cut to fit.
impl Sink for Bytes {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        Bytes::put(self, bytes);
    }

    fn text(&mut self, text: Text<'_>) {
        self.utf16(text.text, text.most);
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn text(&mut self, text: Text<'_>) {
        let mut units = 0;
        for letter in text.text.chars().filter(|letter| *letter != '\0') {
            units += letter.len_utf16();
            if units > text.most {
                break;
            }
            self.extend(letter.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| unit.to_le_bytes()));
        }
        self.extend([0; 2]);
    }
}

/// A text in a payload. It is written without its NULs, since a NUL ends a text in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    text: &'a str,
    most: usize,
}

impl<'a> Text<'a> {
    /// A text that is cut to at most this many UTF-16 units.
    pub fn cut(text: &'a str, most: usize) -> Text<'a> {
        Text { text, most }
    }
}

/// A text that is not cut.
impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Text<'a> {
        Text { text, most: usize::MAX }
    }
}

/// The rows of an event, encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows<'a> {
    /// The number of rows.
    pub count: u32,
    /// The rows, one after the other, each as its struct encodes it.
    pub bytes: &'a [u8],
}

impl Rows<'_> {
    /// Their number.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }
}

/// An event that can be written.
pub trait Encode {
    /// Its metadata.
    const DEFINITION: &'static Definition;

    /// Appends the payload. `instance` is the number of the runtime in the process, `ClrInstanceID`.
    fn encode<S: Sink>(&self, instance: u16, to: &mut S);
}

/// The metadata that are written for an event.
#[derive(Debug)]
pub struct Definition {
    /// Its provider.
    pub provider: Provider,
    /// Its number within the provider.
    pub event: u32,
    /// Its name.
    pub name: &'static str,
    /// The version of its payload.
    pub version: u8,
    /// Its level.
    pub level: Level,
    /// Its keywords, a bit set.
    pub keywords: u64,
    /// Its opcode; 0 if it has none.
    pub opcode: u8,
    /// The declaration of its payload.
    pub template: &'static Template,
    /// If the number of its rows is fixed: the fields of each row.
    pub(super) rows: &'static [&'static [(&'static str, Kind)]],
}

impl Definition {
    /// The names and types of the fields in metadata, in order. The list ends before fields of variable size other than text,
    /// and before rows of variable number.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, Kind)> + use<> {
        let version = u32::from(self.version);
        let fields =
            self.template.fields.iter().take_while(move |field| field.since <= version && field.kind != Kind::Bytes);
        fields.map(|field| (field.file_name, field.file_kind)).chain(self.rows.iter().copied().flatten().copied())
    }

    /// Returns the type of event that a reader gets from these metadata.
    pub fn event_type(&self) -> EventType {
        let field = |(name, kind): (&str, Kind)| Some(FieldType { name: name.to_owned(), kind: kind.declared()? });
        EventType {
            provider: self.provider.name().to_owned(),
            event: self.event,
            name: self.name.to_owned(),
            version: self.version.into(),
            level: self.level as u32,
            keywords: self.keywords,
            opcode: Some(self.opcode).filter(|opcode| *opcode != 0),
            fields: self.fields().filter_map(field).collect(),
            ..EventType::default()
        }
    }
}

/// How detailed an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Written at every level.
    LogAlways = 0,
    /// The process can't continue.
    Critical = 1,
    /// Something failed.
    Error = 2,
    /// Something may fail.
    Warning = 3,
    /// The normal course of events.
    Informational = 4,
    /// Details in large numbers.
    Verbose = 5,
}

/// The keywords of events that are written.
pub mod keyword {
    /// No keyword: written whatever keywords are requested.
    pub const NONE: u64 = 0;
    /// Events about collections, allocation, segments and finalizers. In the private provider the same bit is called GCPrivate.
    pub const GC: u64 = 0x1;
    /// Events about handles.
    pub const GC_HANDLE: u64 = 0x2;
    /// Events about types.
    pub const TYPE: u64 = 0x8_0000;
    /// Events of heap dumps.
    pub const GC_HEAP_DUMP: u64 = 0x10_0000;
    /// Allocations sampled at the high rate.
    pub const GC_SAMPLED_HIGH: u64 = 0x20_0000;
    /// Allocations sampled at the low rate.
    pub const GC_SAMPLED_LOW: u64 = 0x200_0000;
    /// Functions in the rundown: JitRundown and NGenRundown.
    pub const METHOD_RUNDOWN: u64 = 0x30;
    /// Modules in the rundown: LoaderRundown and PerfTrackRundown.
    pub const LOADER_RUNDOWN: u64 = 0x2000_0008;
}

/// The type of a field of a struct for writing.
macro_rules! field_type {
    (@of $kind:ident; as $values:ident $($rest:tt)*) => { $crate::clr::$values };
    (@of $kind:ident; like $values:ident $($rest:tt)*) => { $crate::clr::$values };
    (@of $kind:ident; file ($name:literal $declared:ident) $($rest:tt)*) => { field_type!($declared) };
    (@of $kind:ident; file $declared:ident $($rest:tt)*) => { field_type!($declared) };
    (@of $kind:ident; $skipped:tt $($rest:tt)*) => { field_type!(@of $kind; $($rest)*) };
    (@of $kind:ident;) => { field_type!($kind) };
    (Z16) => { $crate::clr::Text<'a> };
    (Bytes) => { &'a [u8] };
    (U64s) => { &'a [u64] };
    ($kind:ident) => { value_of!($kind) };
}

/// Appends a part of a payload.
macro_rules! store {
    ($self:tt $to:tt $instance:tt (instance)) => {
        $crate::clr::Sink::put($to, &u16::to_le_bytes($instance))
    };
    ($self:tt $to:tt $instance:tt (count $of:ident $kind:ident)) => {
        $crate::clr::Sink::put($to, &($self.$of.len() as field_type!($kind)).to_le_bytes())
    };
    ($self:tt $to:tt $instance:tt (rows)) => {
        $crate::clr::Sink::put($to, $self.rows.bytes)
    };
    ($self:tt $to:tt $instance:tt (each)) => {
        $self.rows.iter().for_each(|row| row.encode($to))
    };
    ($self:tt $to:tt $instance:tt ($name:ident Z16; $($part:tt)*)) => {
        $crate::clr::Sink::text($to, $self.$name)
    };
    ($self:tt $to:tt $instance:tt ($name:ident Guid; $($part:tt)*)) => {
        $crate::clr::Sink::put($to, &$self.$name)
    };
    ($self:tt $to:tt $instance:tt ($name:ident Bytes; $($part:tt)*)) => {
        $crate::clr::Sink::put($to, $self.$name)
    };
    ($self:tt $to:tt $instance:tt ($name:ident U64s; $($part:tt)*)) => {
        $self.$name.iter().for_each(|number| $crate::clr::Sink::put($to, &number.to_le_bytes()))
    };
    ($self:tt $to:tt $instance:tt ($name:ident $kind:ident; as $($part:tt)*)) => {
        $crate::clr::Sink::put($to, &($self.$name.code() as field_type!($kind)).to_le_bytes())
    };
    ($self:tt $to:tt $instance:tt ($name:ident $kind:ident; like $($part:tt)*)) => {
        $crate::clr::Sink::put($to, &($self.$name.code() as field_type!($kind)).to_le_bytes())
    };
    ($self:tt $to:tt $instance:tt ($name:ident $kind:ident; $($part:tt)*)) => {
        $crate::clr::Sink::put($to, &$self.$name.to_le_bytes())
    };
}

/// The names and types of the fields of rows whose number is fixed. In metadata, the name of a field is the row's name followed by the
/// field's.
macro_rules! row_fields {
    () => { &[] };
    ([$($place:literal)+] $fields:tt) => { &[$(row_fields!(@row $place $fields)),+] };
    (@row $place:literal { $($since:literal $name:ident $label:literal $kind:ident $(($($part:tt)*))?;)* }) => {
        &[$((concat!($place, part!(@name $label; $($($part)*)?)), part!(@kind $kind; $($($part)*)?))),*]
    };
}

/// Generates the struct for writing an event, and the struct of its rows. Processes the fields one by one; collects the fields of the
/// struct, and the code that appends each.
macro_rules! written {
    (event $head:tt { $($body:tt)* }) => { written! { @event $head [] [] [] $($body)* } };

    (@$sort:ident $head:tt $fields:tt [$($item:tt)*] $rows:tt
        $since:literal clr_instance_id $label:literal U16 $(($($part:tt)*))?; $($rest:tt)*
    ) => {
        written! { @$sort $head $fields [$($item)* (instance)] $rows $($rest)* }
    };
    (@$sort:ident $head:tt $fields:tt [$($item:tt)*] $rows:tt
        $since:literal $name:ident $label:literal $kind:ident (counts $of:ident $($part:tt)*); $($rest:tt)*
    ) => {
        written! { @$sort $head $fields [$($item)* (count $of $kind)] $rows $($rest)* }
    };
    (@$sort:ident $head:tt [$($field:tt)*] [$($item:tt)*] $rows:tt
        $since:literal $name:ident $label:literal $kind:ident $(of $length:ident)? $(then $after:ident)? $(($($part:tt)*))?; $($rest:tt)*
    ) => {
        written! {
            @$sort $head
            [
                $($field)*
                #[doc = concat!("`", $label, "`", part!(@unit_text $($($part)*)?), part!(@text $($($part)*)?), ".")]
                pub $name: field_type!(@of $kind; $($($part)*)?),
            ]
            [$($item)* ($name $kind; $($($part)*)?)] $rows $($rest)*
        }
    };
    (@event $head:tt [$($field:tt)*] [$($item:tt)*] []
        rows $row:ident [$($place:literal)+] { $($body:tt)* }
    ) => {
        written! { @row { $row [] } [] [] [] $($body)* }
        written! {
            @event $head
            [
                $($field)*
                /// The rows.
                pub rows: [$row; [$($place),+].len()],
            ]
            [$($item)* (each)] [[$($place)+] { $($body)* }]
        }
    };
    (@event $head:tt [$($field:tt)*] [$($item:tt)*] []
        rows $row:ident $(<$life:lifetime>)? { $($body:tt)* }
    ) => {
        written! { @row { $row [$($life)?] } [] [] [] $($body)* }
        written! {
            @event $head
            [
                $($field)*
                /// The rows.
                pub rows: $crate::clr::Rows<'a>,
            ]
            [$($item)* (rows)] []
        }
    };

    (@row { $name:ident [$($life:lifetime)?] } [$($field:tt)*] [$($item:tt)*] []) => {
        /// A row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name $(<$life>)? { $($field)* }

        impl $(<$life>)? $name $(<$life>)? {
            /// Appends the row.
            #[inline(always)]
            pub fn encode<S: $crate::clr::Sink>(&self, to: &mut S) {
                $(store!(self to _ $item);)*
            }
        }
    };
    (@event {
        $name:ident [$($life:lifetime)?]
        ($provider:ident $number:literal v $version:literal op $opcode:literal $keyword:ident $level:ident)
        [$(#[$doc:meta])*] $view:ident
    } [$($field:tt)*] [$($item:tt)*] [$($rows:tt)*]) => {
        $(#[$doc])*
        ///
        #[doc = concat!(
            "Event ", $number, " of the provider [`", stringify!($provider), "`](crate::clr::Provider::", stringify!($provider),
            "), version ", $version, ", opcode ", $opcode, ", keyword ", stringify!($keyword), ", level ", stringify!($level), "."
        )]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name $(<$life>)? { $($field)* }

        impl $(<$life>)? $crate::clr::Encode for $name $(<$life>)? {
            const DEFINITION: &'static $crate::clr::Definition = &$crate::clr::Definition {
                provider: $crate::clr::Provider::$provider,
                event: $number,
                name: stringify!($name),
                version: $version,
                level: $crate::clr::Level::$level,
                keywords: $crate::clr::keyword::$keyword,
                opcode: $opcode,
                template: super::$view::TEMPLATE,
                rows: row_fields!($($rows)*),
            };

            #[inline(always)]
            #[allow(unused_variables, reason = "an event may have no fields")]
            fn encode<S: $crate::clr::Sink>(&self, instance: u16, to: &mut S) {
                $(store!(self to instance $item);)*
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rstest::rstest;

    use super::*;
    use crate::clr::gc::{AllocationTick, Dynamic, HeapStats};
    use crate::clr::history::{GlobalHeapHistory, PerHeapHistory};
    use crate::clr::write::{
        BulkType, BulkTypeRow, GCAllocationTick, GCDynamicEvent, GCGlobalHeapHistory, GCHeapStats, GCPerHeapHistory,
        HeapGeneration, PhaseTime,
    };
    use crate::clr::{
        self, AllocationKind, ElementType, FieldValue, MarkRoot, Mechanisms, PauseMode, Payload, Reason, RootFlags,
    };
    use crate::encode::Encoder;
    use crate::{Container, Interest, NetEvent, Reader, TraceInfo, Utc, Visitor};

    fn encoded(event: &impl Encode) -> Vec<u8> {
        let mut payload = Vec::new();
        event.encode(7, &mut payload);
        // A buffer of fixed size receives the same bytes.
        let mut buffer = Bytes::with_capacity(payload.len());
        event.encode(7, &mut buffer);
        assert_eq!(buffer.as_slice(), payload);
        payload
    }

    #[test]
    fn a_field_is_read_as_it_was_written() {
        let stats = GCHeapStats {
            generation_size0: 1,
            total_promoted_size0: 2,
            generation_size1: 3,
            total_promoted_size1: 4,
            generation_size2: 5,
            total_promoted_size2: 6,
            generation_size3: 7,
            total_promoted_size3: 8,
            finalization_promoted_size: 9,
            finalization_promoted_count: 10,
            pinned_object_count: 11,
            sink_block_count: 12,
            gc_handle_count: 13,
            generation_size4: 14,
            total_promoted_size4: 15,
        };
        let payload = encoded(&stats);
        assert_eq!(payload.len(), 110, "the size of version 2 in the runtime");
        let read = HeapStats::new(2, Payload::new(&payload, 8));
        assert_eq!((read.total_promoted_size2(), read.gc_handle_count()), (Some(6), Some(13)));
        assert_eq!((read.clr_instance_id(), read.total_promoted_size4()), (Some(7), Some(15)));
    }

    #[test]
    fn texts_and_counts_are_written_with_their_fields() {
        let tick = GCAllocationTick {
            amount: u32::MAX,
            kind: AllocationKind::Pinned,
            amount64: 1 << 40,
            type_id: 0xAB,
            type_name: Text::cut("Gr\u{f6}\0\u{df}e\u{1F600}", 5),
            heap_index: 3,
            address: 0xCD,
            object_size: 24,
        };
        let payload = encoded(&tick);
        let read = AllocationTick::new(4, Payload::new(&payload, 8));
        assert_eq!((read.bytes(), read.kind()), (Some(1 << 40), Some(AllocationKind::Pinned.code())));
        assert_eq!(read.type_name().unwrap().to_string(), "Gr\u{f6}\u{df}e", "half a surrogate pair is not written");
        assert_eq!((read.address(), read.object_size()), (Some(0xCD), Some(24)));

        let payload = encoded(&GCDynamicEvent { name: "Committed".into(), data: &[1, 2, 3] });
        let read = Dynamic::new(0, Payload::new(&payload, 8));
        assert_eq!((read.data_size(), read.data(), read.clr_instance_id()), (Some(3), Some(&[1, 2, 3][..]), Some(7)));
    }

    #[test]
    fn rows_are_counted_and_listed() {
        let generation = |first: u64| HeapGeneration {
            size_before: first,
            free_list_before: 0,
            free_objects_before: 0,
            size_after: 0,
            free_list_after: 0,
            free_objects_after: 0,
            into: 0,
            pinned_survivors: 0,
            other_survivors: 0,
            budget: first + 1,
        };
        let heap = GCPerHeapHistory {
            free_list_allocated: 0,
            free_list_rejected: 0,
            end_of_seg_allocated: 0,
            condemned_allocated: 0,
            pinned_allocated: 0,
            pinned_allocated_advance: 0,
            running_free_list_efficiency: 0,
            condemn_reasons0: 0,
            condemn_reasons1: 0,
            compact_mechanisms: 0,
            expand_mechanisms: 0,
            heap_index: 2,
            extra_gen0_commit: 9,
            rows: [10, 20, 30, 40, 50].map(generation),
        };
        let payload = encoded(&heap);
        let read = PerHeapHistory::new(3, Payload::new(&payload, 8));
        let budgets: Vec<_> = read.generations().map(|of| (of.size_before, of.budget)).collect();
        assert_eq!(budgets, [(10, 11), (20, 21), (30, 31), (40, 41), (50, 51)]);
        assert_eq!((read.heap_index(), read.extra_gen0_commit(), read.most_generations()), (Some(2), Some(9), 5));

        let global = GCGlobalHeapHistory {
            final_youngest_desired: 0,
            num_heaps: 1,
            condemned_generation: 2,
            gen0_reduction_count: 0,
            reason: Reason::PMFullGC,
            global_mechanisms: Mechanisms::COMPACTION | Mechanisms::PROMOTION,
            pause_mode: PauseMode::NoGC,
            memory_pressure: 0,
            condemn_reasons0: 0,
            condemn_reasons1: 0,
            rows: [1, 2, 3, 4, 5, 6, 7].map(|time| PhaseTime { time }),
        };
        let payload = encoded(&global);
        let read = GlobalHeapHistory::new(4, Payload::new(&payload, 8));
        assert_eq!((read.reason(), read.global_mechanisms(), read.time(6)), (Some(12), Some(6), Some(7)));

        let mut rows = Vec::new();
        for (type_id, parameters) in [(1, &[5, 6][..]), (2, &[])] {
            let cor_element_type = ElementType::Class;
            let row = BulkTypeRow {
                type_id,
                module_id: 0,
                type_name_id: 0,
                flags: 0,
                cor_element_type,
                name: "T".into(),
                parameters,
            };
            row.encode(&mut rows);
        }
        let payload = encoded(&BulkType { rows: Rows { count: 2, bytes: &rows } });
        let mut seen = Vec::new();
        let template = BulkType::DEFINITION.template;
        let length = template.decode(0, Payload::new(&payload, 8), |row, field, value| {
            if let (Some(row), FieldValue::U64s(numbers)) = (row, value) {
                seen.push((row, field.name, numbers.len()));
            }
        });
        assert_eq!((length, seen), (payload.len(), vec![(0, "TypeParameters", 16), (1, "TypeParameters", 0)]));
    }

    #[test]
    fn enumerated_values_have_the_numbers_of_the_runtime() {
        assert_eq!((Reason::LowMemoryHostBlocking.code(), Reason::of(5)), (13, Some(Reason::OutOfSpaceSOH)));
        assert_eq!((Reason::of(14), MarkRoot::of(7)), (None, Some(MarkRoot::MarkNewFQ)));
        assert!((RootFlags::PINNING | RootFlags::INTERIOR).contains(RootFlags::INTERIOR));
        assert!(!RootFlags::PINNING.contains(RootFlags::INTERIOR) && RootFlags::NONE == RootFlags(0));
    }

    #[derive(Default)]
    struct Types(Vec<EventType>);

    impl Visitor for Types {
        fn event_type(&mut self, kind: &EventType) -> Interest {
            self.0.push(EventType { index: 0, id: 0, ..kind.clone() });
            Interest::Skip
        }

        fn event(&mut self, event: &NetEvent<'_>) {
            panic!("the file has no {}", event.kind.name);
        }
    }

    /// The metadata of every event can be expressed in both containers, and match the event's declaration.
    #[rstest]
    fn a_reader_gets_the_declared_metadata(#[values(Container::V4, Container::V6)] container: Container) {
        let info = TraceInfo {
            container,
            start: Utc::default(),
            start_ticks: 0,
            ticks_per_second: 1,
            pointer_bytes: 8,
            process_id: 1,
            processors: 1,
            sampling_period_ns: 0,
            pairs: Vec::new(),
        };
        let mut encoder: Encoder<_> = Encoder::new(Vec::new(), container);
        let _ = encoder.trace(&info).unwrap();
        let mut ids = HashSet::new();
        for (id, definition) in (1..).zip(clr::definitions()) {
            let Definition { provider, event, version, template, .. } = *definition;
            let found = clr::find(provider, event, version.into()).expect("a template");
            assert!(std::ptr::eq(found, template), "{}", definition.name);
            assert!(template.fields.iter().all(|field| field.since <= version.into()), "{}", definition.name);
            assert!(ids.insert((provider, event)), "{} has the number of another event", definition.name);
            let described = encoder.event_type(id, &definition.event_type()).unwrap();
            assert!(!described.without_fields && definition.fields().all(|(_, kind)| kind.code() != 0));
        }
        let file = encoder.end().unwrap();
        let mut types = Types::default();
        let summary = Reader::new(&file[..]).read(&mut types);
        assert_eq!(summary.damage, None);
        assert_eq!(types.0, clr::definitions().map(Definition::event_type).collect::<Vec<_>>());
    }

    #[test]
    fn rows_of_a_fixed_number_are_in_the_metadata() {
        let names = |definition: &Definition| definition.fields().map(|(name, _)| name).collect::<Vec<_>>();
        let heap = names(GCPerHeapHistory::DEFINITION);
        assert_eq!((heap[14], heap[15], heap[26], heap.len()), ("Count", "Gen0SizeBefore", "Gen1FreeListBefore", 65));
        let global = names(GCGlobalHeapHistory::DEFINITION);
        assert_eq!((global[11], global[13], global[18], global.len()), ("Count", "TimeMarkRoots", "TimeSweep", 19));
        assert_eq!(names(GCDynamicEvent::DEFINITION), ["Name", "DataSize"]);
        assert_eq!(names(BulkType::DEFINITION), ["Count", "ClrInstanceID"]);
    }
}
