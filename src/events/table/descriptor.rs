//! What the table can say about an event: the types of its rows.
//!
//! A row has four parts: what it becomes for each of three families of tools, and its payload. The payload is described
//! so that it can be written and read without knowing the event: each field has a kind (how many bytes, at which
//! offset), a unit (what the number means) and the version of the payload that brought it. A format that describes
//! itself writes [`Descriptor::layout`] into its header, and a reader of a later day finds its fields by it.

use super::EventId;
use crate::events::vocabulary::{Category, Keywords, Level, Provider};

/// The most fields that an event may have. A record carries this many words, used or not.
pub const PAYLOAD_WORDS: usize = 6;

/// The most bytes that a serialized payload takes.
pub const MAX_PAYLOAD_BYTES: usize = PAYLOAD_WORDS * size_of::<u64>();

/// Events whose enabled bits share a word. The check of an event is one load of its group's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Group {
    /// Worlds, threads, and the way they are stopped.
    World,
    /// The phases of a collection. Few per collection.
    Collection,
    /// Segments, ticks, large objects, handles and finalizers: the heap between collections.
    Memory,
    /// One event per object or reference. Kept apart, and without the system call that finds the firing thread's id.
    Object,
    /// One event per block, per root that was scanned, per refill of an allocation cache.
    Block,
    /// Names: texts, and what they were given to.
    User,
    /// Heap dumps, censuses and the profiler's ticks.
    Profile,
}

/// How many [`Group`]s there are.
pub const GROUPS: usize = 7;

impl Group {
    /// Every group, in the order of their words.
    pub const ALL: [Group; GROUPS] =
        [Group::World, Group::Collection, Group::Memory, Group::Object, Group::Block, Group::User, Group::Profile];
}

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
