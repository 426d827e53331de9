//! The events of profiles and of the heap, decoded.
//!
//! Texts are borrowed from the event as bytes, since those of a profile may contain any bytes. An event that is too short for its fields is
//! not decoded.

use super::event::Event;
use super::layout::bytes_at;

/// An event that describes the heap, a profile or the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A collection begins.
    GcStart,
    /// A collection ends.
    GcEnd,
    /// Bytes that a capability has allocated since the program began.
    HeapAllocated(u64),
    /// Bytes that the heap has from the system.
    HeapSize(u64),
    /// Live bytes, after a full collection.
    HeapLive(u64),
    /// Bytes in the heap's blocks.
    BlocksSize(u64),
    /// The runtime that wrote the log, such as `GHC-9.0.2 rts_thr`.
    RtsIdentifier(&'a [u8]),
    /// The program's name and arguments, each terminated by a zero.
    ProgramArgs(&'a [u8]),
    /// The time of day at time 0: Unix seconds, and nanoseconds.
    WallClock(u64, u32),
    /// A message of the program.
    UserMessage(&'a [u8]),
    /// A point in time that the program marked.
    UserMarker(&'a [u8]),
    /// A heap profile begins.
    HeapProfile(HeapProfile<'a>),
    /// A cost centre.
    CostCentre(CostCentre<'a>),
    /// Samples begin: the sample's number, which GHC leaves 0.
    SampleBegin(u64),
    /// Biographical samples begin: the sample's number and the time that they describe.
    BiographySampleBegin(u64, u64),
    /// Live bytes that this stack of cost centres allocated.
    SampleStack(u64, Stack<'a>),
    /// Live bytes under a label.
    SampleLabel(u64, &'a [u8]),
    /// Samples end.
    SampleEnd(u64),
    /// A time profile begins: nanoseconds between ticks.
    TimeProfile(u64),
    /// The stack of cost centres of a capability at a tick.
    Tick {
        /// The capability.
        cap: u32,
        /// The number of the tick.
        tick: u64,
        /// The stack.
        stack: Stack<'a>,
    },
    /// The description of a closure.
    InfoTable {
        /// The address by which labels of a profile refer to it.
        address: u64,
        /// Its name.
        name: &'a [u8],
        /// The type of the closure.
        kind: &'a [u8],
        /// Its name in the source.
        label: &'a [u8],
        /// The module.
        module: &'a [u8],
        /// The location in the source.
        place: &'a [u8],
    },
}

/// The parameters of a heap profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapProfile<'a> {
    /// Nanoseconds between two samples.
    pub period: u64,
    /// The breakdown: GHC's number for what bytes are grouped by.
    pub breakdown: u32,
    /// Restrictions: module, closure, type, cost centre, stack of cost centres, retainer, biography. An empty one restricts nothing.
    pub filters: [&'a [u8]; 7],
}

/// A cost centre: a piece of the source to which costs are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostCentre<'a> {
    /// The number by which stacks refer to it.
    pub id: u32,
    /// Its name.
    pub label: &'a [u8],
    /// Its module.
    pub module: &'a [u8],
    /// Its location in the source.
    pub place: &'a [u8],
    /// It belongs to the whole program and not to a caller (a constant applicative form).
    pub is_caf: bool,
}

/// Cost centres, innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'a>(&'a [[u8; 4]]);

impl Stack<'_> {
    /// Their numbers, innermost first.
    pub fn centres(&self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator {
        self.0.iter().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

/// Reads numbers and texts one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes().map(u8::from_be_bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_be_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_be_bytes)
    }

    /// Reads a text up to its zero, or to the event's end.
    fn text(&mut self) -> &'a [u8] {
        let length = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        let text = &self.0[..length];
        self.0 = self.0.get(length + 1..).unwrap_or_default();
        text
    }

    fn stack(&mut self) -> Option<Stack<'a>> {
        let depth = usize::from(self.byte()?);
        let (centres, _) = self.0.get(..4 * depth)?.as_chunks();
        Some(Stack(centres))
    }
}

impl<'a> Record<'a> {
    /// Decodes an event; `None` if it is of another kind.
    pub fn of(event: &Event<'a>) -> Option<Record<'a>> {
        event.kind.layout?;
        let mut fields = Fields(event.payload);
        let record = match event.kind.id {
            9 => Record::GcStart,
            10 => Record::GcEnd,
            49 => Record::HeapAllocated(of_capset(event)),
            50 => Record::HeapSize(of_capset(event)),
            51 => Record::HeapLive(of_capset(event)),
            91 => Record::BlocksSize(of_capset(event)),
            19 => Record::UserMessage(event.payload),
            58 => Record::UserMarker(event.payload),
            29 => Record::RtsIdentifier(event.payload.get(4..)?),
            30 => Record::ProgramArgs(event.payload.get(4..)?),
            43 => {
                fields.word()?;
                Record::WallClock(fields.long()?, fields.word()?)
            }
            160 => {
                fields.byte()?;
                let (period, breakdown) = (fields.long()?, fields.word()?);
                Record::HeapProfile(HeapProfile { period, breakdown, filters: std::array::from_fn(|_| fields.text()) })
            }
            161 => {
                let id = fields.word()?;
                let [label, module, place] = std::array::from_fn(|_| fields.text());
                let is_caf = fields.byte().unwrap_or(0) & 1 == 1;
                Record::CostCentre(CostCentre { id, label, module, place, is_caf })
            }
            162 => Record::SampleBegin(fields.long()?),
            163 => {
                fields.byte()?;
                Record::SampleStack(fields.long()?, fields.stack()?)
            }
            164 => {
                fields.byte()?;
                Record::SampleLabel(fields.long()?, fields.text())
            }
            165 => Record::SampleEnd(fields.long()?),
            166 => Record::BiographySampleBegin(fields.long()?, fields.long()?),
            167 => Record::Tick { cap: fields.word()?, tick: fields.long()?, stack: fields.stack()? },
            168 => Record::TimeProfile(fields.long()?),
            169 => {
                let address = fields.long()?;
                let [name, _closure, kind, label, module, place] = std::array::from_fn(|_| fields.text());
                Record::InfoTable { address, name, kind, label, module, place }
            }
            _ => return None,
        };
        Some(record)
    }
}

/// The eight bytes after the number of a capability set.
fn of_capset(event: &Event<'_>) -> u64 {
    u64::from_be_bytes(bytes_at(event.payload, 4))
}
