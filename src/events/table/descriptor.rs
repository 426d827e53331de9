//! What the table says about each event: the types of its rows, and the rows as constants.
//!
//! A row has four parts: what it becomes for each of three families of tools, and its payload. The payload is described
//! so that it can be written and read without knowing the event: each field has a kind (how many bytes, at which
//! offset), a unit (what the number means) and the version of the payload that brought it. A format that describes
//! itself writes [`Descriptor::layout`] into its header, and a reader of a later day finds its fields by it.

use super::id::{EventId, Group};
use crate::events::vocabulary::{Category, Keywords, Level, Provider};

/// The most fields that an event may have. A record carries this many words, used or not.
pub const PAYLOAD_WORDS: usize = 6;

/// The most bytes that a serialized payload takes.
pub const MAX_PAYLOAD_BYTES: usize = PAYLOAD_WORDS * size_of::<u64>();

/// What a number in a payload means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A running number, from 1.
    Ordinal,
    /// How many.
    Count,
    /// A size in bytes.
    Bytes,
    /// A stretch of time.
    Nanoseconds,
    /// An address in this process.
    Address,
    /// A thread, by the kernel's thread id.
    Thread,
    /// A text, by its [`Label`](crate::events::Label); 0 is none.
    Label,
    /// One of an enumeration of the collector's: a reason or a kind.
    Code,
}

impl Unit {
    /// Its name, as the reference shows it.
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
    /// How many bytes it takes in a serialized payload.
    pub const fn bytes(self) -> usize {
        match self {
            FieldKind::U32 => size_of::<u32>(),
            FieldKind::U64 => size_of::<u64>(),
            FieldKind::Word => size_of::<usize>(),
        }
    }

    /// Its name, as formats that describe themselves spell it.
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
    /// What it tells.
    pub doc: &'static str,
    /// How it is represented.
    pub kind: FieldKind,
    /// What its number means.
    pub unit: Unit,
    /// The version of the payload that brought it. Later versions only add at the end.
    pub since: u8,
}

/// A field and where it lies in a serialized payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedField {
    /// The field.
    pub field: &'static Field,
    /// Its first byte.
    pub offset: usize,
}

/// What an event becomes for tools that read .NET runtime events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetEvent {
    /// The manifest's name of the event.
    pub name: &'static str,
    /// The manifest's id.
    pub id: u16,
    /// The version of the payload that we write.
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

/// What an event becomes in an MPS telemetry stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpsEvent {
    /// The MPS's name of the record.
    pub name: &'static str,
    /// The record's code in event version 2.0.0.
    pub code: u16,
    /// The category that selects it.
    pub category: Category,
}

/// What an event becomes in a GHC eventlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhcEvent {
    /// GHC's name of the record.
    pub name: &'static str,
    /// The record's tag.
    pub tag: u16,
}

/// Everything the table says about one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The event.
    pub id: EventId,
    /// Its name, as in [`EventId`].
    pub name: &'static str,
    /// What happened, for people. Lines as in the source, each with its leading space.
    pub doc: &'static str,
    /// The name of its fire function, and, with `stopworld_` before it, of the symbol of the enabled half.
    pub fire: &'static str,
    /// The group whose word holds its enabled bit.
    pub group: Group,
    /// The version of the payload: fields come, and with each that comes it grows.
    pub version: u8,
    /// What it becomes for .NET tools.
    pub net: &'static [NetEvent],
    /// What it becomes in an MPS stream.
    pub mps: &'static [MpsEvent],
    /// What it becomes in a GHC eventlog.
    pub ghc: &'static [GhcEvent],
    /// The probe of the provider `stopworld` at which gdb, perf and bpftrace see it.
    pub probe: Option<&'static str>,
    /// The payload, in order.
    pub fields: &'static [Field],
}

impl Descriptor {
    /// What happened, as one line.
    pub fn summary(&self) -> String {
        self.doc.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The fields, each with its offset in the serialized payload: what a format that describes itself writes down.
    pub fn layout(&self) -> impl ExactSizeIterator<Item = PlacedField> + use<> {
        let fields = self.fields;
        (0..fields.len()).map(|index| PlacedField { field: &fields[index], offset: offset_of(fields, index) })
    }

    /// How many bytes a serialized payload of this version has.
    pub fn payload_bytes(&self, version: u8) -> usize {
        self.fields.iter().filter(|field| field.since <= version).map(|field| field.kind.bytes()).sum()
    }
}

/// Where the field of this index begins.
pub(super) const fn offset_of(fields: &[Field], index: usize) -> usize {
    let (mut offset, mut before) = (0, 0);
    while before < index {
        offset += fields[before].kind.bytes();
        before += 1;
    }
    offset
}

/// The index of the field of this name, which is there.
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

/// The version of a payload with these fields: that of its youngest. A payload without fields is of version 1 too.
pub(super) const fn version_of(fields: &[Field]) -> u8 {
    let (mut version, mut index) = (1, 0);
    while index < fields.len() {
        assert!(fields[index].since >= version, "a new field comes behind the old ones");
        version = fields[index].since;
        index += 1;
    }
    version
}

/// The version that a field came with: 1 if the row does not say.
macro_rules! since {
    () => {
        1
    };
    ($version:literal) => {
        $version
    };
}

/// What its probe is called, if an event has one.
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
    /// What the table says about it.
    pub fn descriptor(self) -> &'static Descriptor {
        &DESCRIPTORS[self as usize]
    }
}

/// Where each field of each event begins in its serialized payload.
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

/// Where this field of this event begins. The index is that of a field.
#[inline]
pub(super) fn offset_in(id: EventId, index: usize) -> usize {
    usize::from(OFFSETS[id as usize][index])
}
