//! The description of each event: the types of the table's rows, and the rows as constants.
//!
//! A row has four parts: the event's counterparts in each of three families of tools, and its payload. The description of the payload is
//! sufficient to write and read it without knowing the event: each field has a kind (how many bytes, at which
//! offset), a unit (what the number means) and the version of the payload that added it. A self-describing format
//! writes [`Descriptor::layout`] into its header, so that later readers can find the fields.

use super::id::{EventId, Group};
use crate::events::vocabulary::{Category, Keywords, Level, Provider};

/// The maximum number of fields of an event. A record has this many words, used or not.
pub const PAYLOAD_WORDS: usize = 6;

/// The maximum size of a serialized payload, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = PAYLOAD_WORDS * size_of::<u64>();

/// What a number in a payload means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A serial number, from 1.
    Ordinal,
    /// A number of things.
    Count,
    /// A size in bytes.
    Bytes,
    /// A duration.
    Nanoseconds,
    /// An address in this process.
    Address,
    /// A thread, by the kernel's thread id.
    Thread,
    /// A text, by its [`Label`](crate::events::Label); 0 is none.
    Label,
    /// A value of one of the collector's enumerations: a reason or a kind.
    Code,
}

impl Unit {
    /// Returns the unit's name, as the reference shows it.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Ordinal => "ordinal",
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "ns",
            Unit::Address => "address",
            Unit::Thread => "thread",
            Unit::Label => "label",
            Unit::Code => "code",
        }
    }
}

/// How a field is represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// 32 bits, unsigned.
    U32,
    /// 64 bits, unsigned.
    U64,
    /// As wide as a pointer.
    Word,
}

impl FieldKind {
    /// Returns the field's size in a serialized payload, in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            FieldKind::U32 => size_of::<u32>(),
            FieldKind::U64 => size_of::<u64>(),
            FieldKind::Word => size_of::<usize>(),
        }
    }

    /// Returns the kind's name, as self-describing formats spell it.
    pub const fn name(self) -> &'static str {
        match self {
            FieldKind::U32 => "u32",
            FieldKind::U64 => "u64",
            FieldKind::Word => "word",
        }
    }
}

/// A type that can be a field of an event.
pub(in crate::events) trait FieldType: Copy {
    const KIND: FieldKind;
    fn into_word(self) -> u64;
    fn from_word(word: u64) -> Self;
}

macro_rules! field_type {
    ($($type:ty => $kind:ident),*) => {$(
        impl FieldType for $type {
            const KIND: FieldKind = FieldKind::$kind;
            #[inline(always)]
            fn into_word(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn from_word(word: u64) -> Self {
                word as $type
            }
        }
    )*};
}

field_type!(u32 => U32, u64 => U64, usize => Word);

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in the payload struct.
    pub name: &'static str,
    /// What it means, as a short text.
    pub doc: &'static str,
    /// How it is represented.
    pub kind: FieldKind,
    /// What its number means.
    pub unit: Unit,
    /// The version of the payload that added it. Fields are only added at the end.
    pub since: u8,
}

/// A field and its place in a serialized payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedField {
    /// The field.
    pub field: &'static Field,
    /// The offset of its first byte.
    pub offset: usize,
}

/// An event's counterpart for tools that read .NET runtime events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetEvent {
    /// The manifest's name of the event.
    pub name: &'static str,
    /// The manifest's id.
    pub id: u16,
    /// The version of the payload that is written.
    pub version: u8,
    /// The manifest's opcode.
    pub opcode: u8,
    /// The provider that owns the id.
    pub provider: Provider,
    /// The keyword that selects it.
    pub keyword: Keywords,
    /// The level that selects it.
    pub level: Level,
}

/// An event's counterpart in an MPS telemetry stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpsEvent {
    /// The MPS's name of the record.
    pub name: &'static str,
    /// The record's code in event version 2.0.0.
    pub code: u16,
    /// The category that selects it.
    pub category: Category,
}

/// An event's counterpart in a GHC eventlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhcEvent {
    /// GHC's name of the record.
    pub name: &'static str,
    /// The record's tag.
    pub tag: u16,
}

/// The table's entry for one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The event.
    pub id: EventId,
    /// Its name, as in [`EventId`].
    pub name: &'static str,
    /// What happened, as text. The lines are those of the source, each with its leading space.
    pub doc: &'static str,
    /// The name of its fire function. With the prefix `stopworld_` it is the symbol of the out-of-line function that runs when the event is
    /// enabled.
    pub fire: &'static str,
    /// The group whose word holds its enabled bit.
    pub group: Group,
    /// The version of the payload. It increases when fields are added.
    pub version: u8,
    /// Its counterparts for .NET tools.
    pub net: &'static [NetEvent],
    /// Its counterparts in an MPS stream.
    pub mps: &'static [MpsEvent],
    /// Its counterparts in a GHC eventlog.
    pub ghc: &'static [GhcEvent],
    /// Its probe of the provider `stopworld`, for gdb, perf and bpftrace.
    pub probe: Option<&'static str>,
    /// The payload, in order.
    pub fields: &'static [Field],
}

impl Descriptor {
    /// Returns the text of `doc` as one line.
    pub fn summary(&self) -> String {
        self.doc.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the fields, each with its offset in the serialized payload. A self-describing format writes these into its header.
    pub fn layout(&self) -> impl ExactSizeIterator<Item = PlacedField> + use<> {
        let fields = self.fields;
        (0..fields.len()).map(|index| PlacedField { field: &fields[index], offset: offset_of(fields, index) })
    }

    /// Returns the size of a serialized payload of this version, in bytes.
    pub fn payload_bytes(&self, version: u8) -> usize {
        self.fields.iter().filter(|field| field.since <= version).map(|field| field.kind.bytes()).sum()
    }
}

/// Returns the offset of the field of this index.
pub(super) const fn offset_of(fields: &[Field], index: usize) -> usize {
    let (mut offset, mut before) = (0, 0);
    while before < index {
        offset += fields[before].kind.bytes();
        before += 1;
    }
    offset
}

/// Returns the index of the field of this name, which must exist.
pub(super) const fn index_of(fields: &[Field], name: &str) -> usize {
    let mut index = 0;
    while !same(fields[index].name, name) {
        index += 1;
    }
    index
}

const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Returns the version of a payload with these fields: that of the latest field. A payload without fields has version 1 too.
pub(super) const fn version_of(fields: &[Field]) -> u8 {
    let (mut version, mut index) = (1, 0);
    while index < fields.len() {
        assert!(fields[index].since >= version, "a new field is listed after the older ones");
        version = fields[index].since;
        index += 1;
    }
    version
}

/// The version that added a field: 1 unless the row gives another.
macro_rules! since {
    () => {
        1
    };
    ($version:literal) => {
        $version
    };
}

/// The name of an event's probe, if it has one.
macro_rules! probe_name {
    ([]) => {
        None
    };
    ([$probe:ident]) => {
        Some(stringify!($probe))
    };
}

macro_rules! descriptors {
    ({$(
        $(#[doc = $doc:literal])+
        $name:ident / $fire:ident in $group:ident {
            net [$($nname:ident = $nid:literal v $nver:literal op $nop:literal: $nprov:ident $nkey:ident $nlevel:ident),* $(,)?]
            mps [$($mname:ident = $mcode:literal: $mcat:ident),* $(,)?]
            ghc [$($gname:ident = $gtag:literal),* $(,)?]
            $(usdt [$probe:ident])?
            fields {$($field:ident: $type:ident [$unit:ident] $fdoc:literal $(since $since:literal)?),* $(,)?}
        }
    )+}) => {
        /// The fields of each event.
        pub(super) const FIELDS: [&[Field]; EventId::COUNT] = [$(
            &[$(Field {
                name: stringify!($field),
                doc: $fdoc,
                kind: <$type as FieldType>::KIND,
                unit: Unit::$unit,
                since: since!($($since)?),
            }),*],
        )+];

        /// The table, for documentation and for consumers: `DESCRIPTORS[id as usize]` describes `id`.
        pub static DESCRIPTORS: [Descriptor; EventId::COUNT] = [$(
            Descriptor {
                id: EventId::$name,
                name: stringify!($name),
                doc: concat!($($doc, "\n"),+),
                fire: stringify!($fire),
                group: Group::$group,
                version: version_of(FIELDS[EventId::$name as usize]),
                net: &[$(NetEvent {
                    name: stringify!($nname),
                    id: $nid,
                    version: $nver,
                    opcode: $nop,
                    provider: Provider::$nprov,
                    keyword: Keywords::$nkey,
                    level: Level::$nlevel,
                }),*],
                mps: &[$(MpsEvent { name: stringify!($mname), code: $mcode, category: Category::$mcat }),*],
                ghc: &[$(GhcEvent { name: stringify!($gname), tag: $gtag }),*],
                probe: probe_name!([$($probe)?]),
                fields: FIELDS[EventId::$name as usize],
            },
        )+];
    };
}

for_each_event!(descriptors);

impl EventId {
    /// Returns the event's entry in the table.
    pub fn descriptor(self) -> &'static Descriptor {
        &DESCRIPTORS[self as usize]
    }
}

/// The offset of each field of each event in its serialized payload.
static OFFSETS: [[u8; PAYLOAD_WORDS]; EventId::COUNT] = {
    let mut offsets = [[0; PAYLOAD_WORDS]; EventId::COUNT];
    let mut event = 0;
    while event < EventId::COUNT {
        let mut index = 0;
        while index < FIELDS[event].len() {
            offsets[event][index] = offset_of(FIELDS[event], index) as u8;
            index += 1;
        }
        event += 1;
    }
    offsets
};

/// Returns the offset of a field in the event's serialized payload. `index` must be the index of a field.
#[inline]
pub(super) fn offset_in(id: EventId, index: usize) -> usize {
    usize::from(OFFSETS[id as usize][index])
}
