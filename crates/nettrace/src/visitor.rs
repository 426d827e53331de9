//! The trait that receives the contents of a trace.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::damage::Damage;
use super::labels::{Label, Labels};
use super::metadata::{EventType, TraceInfo};

/// Whether a visitor wants the events of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// The events are delivered.
    Deliver,
    /// The events are counted in the summary and not delivered.
    Skip,
}

/// Receives the contents of a trace.
pub trait Visitor {
    /// The description of the trace, before anything else.
    fn trace(&mut self, _trace: &TraceInfo) {}

    /// A type of event, before its first event. Called once for each description in the file.
    fn event_type(&mut self, _kind: &EventType) -> Interest {
        Interest::Deliver
    }

    /// A thread (version 6), before its first event.
    fn thread(&mut self, _thread: &ThreadInfo<'_>) {}

    /// An event.
    fn event(&mut self, event: &NetEvent<'_>);

    /// `count` events of this capturing thread are missing from the file. Called when a sequence number shows the loss, which may be before
    /// older events of other threads are delivered.
    fn lost(&mut self, _thread: u64, _count: u64) {}

    /// Further contents of the file. Called only by a reader [with asides](super::Reader::with_asides).
    fn aside(&mut self, _aside: &Aside<'_>) {}

    /// Returns whether the reader may stop. Called before each block. If the reader stops, the summary's `ended_orderly` is false.
    fn is_done(&self) -> bool {
        false
    }
}

/// What a file contains besides types, threads and events, in file order: for a program that rewrites the file.
#[derive(Clone, Copy, Debug)]
pub enum Aside<'a> {
    /// A stack; valid until the next sequence point.
    Stack {
        /// Its id.
        id: u32,
        /// Its return addresses, as wide as the trace's pointers.
        addresses: &'a [u8],
    },
    /// A label list (version 6); valid until the next sequence point.
    Labels {
        /// Its id.
        id: u32,
        /// The list, encoded as in the file.
        bytes: &'a [u8],
    },
    /// A thread has ended (version 6).
    ThreadEnded {
        /// The thread's id in the file.
        id: u64,
        /// Its last sequence number.
        sequence: u32,
    },
    /// A sequence point begins.
    PointBegins {
        /// Its time, in ticks.
        time: i64,
        /// Version 6: 1 if all threads become invalid after the sequence point, plus 2 if all types do.
        flags: u32,
    },
    /// A thread's last sequence number at this sequence point.
    LastNumber {
        /// The thread's id in the file.
        id: u64,
        /// The sequence number.
        sequence: u32,
    },
    /// The sequence point is complete.
    PointEnds,
}

/// The ids in an event's header as they are in the file, and the event's sorted flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFile {
    /// The thread: the operating system's id in version 4, an index in version 6.
    pub thread: u64,
    /// The thread that wrote the event.
    pub capture: u64,
    /// The label list (version 6).
    pub labels: u32,
    /// No later event of the file is older.
    pub sorted: bool,
}

/// A view of an event in the reader's buffer.
#[derive(Clone, Copy, Debug)]
pub struct NetEvent<'a> {
    /// Its type.
    pub kind: &'a EventType,
    /// Its time in ticks; [`TraceInfo::milliseconds`] converts it.
    pub time: i64,
    /// The operating system's id of its thread; 0 if unknown.
    pub thread: u64,
    /// The operating system's id of the thread that wrote the event; nearly always the same as `thread`.
    pub capture_thread: u64,
    /// The process id, 0 if unknown.
    pub process: u64,
    /// The processor that it was fired on, if known.
    pub processor: Option<u32>,
    /// Its sequence number within the capturing thread.
    pub sequence: u32,
    /// The stack that it was fired on.
    pub stack: Stack<'a>,
    /// Its activity; all zero if it has none.
    pub activity: [u8; 16],
    /// The activity that started its activity; all zero if there is none.
    pub related: [u8; 16],
    /// Its labels (version 6).
    pub labels: Labels<'a>,
    /// Its payload, as it is in the file.
    pub payload: &'a [u8],
    /// The byte offset of its header.
    pub offset: u64,
    /// The ids of its thread and its labels in the file.
    pub in_file: InFile,
}

impl NetEvent<'_> {
    /// Its own opcode if a label has one, otherwise its type's.
    pub fn opcode(&self) -> Option<u8> {
        let own =
            self.labels.into_iter().find_map(|label| if let Label::Opcode(own) = label { Some(own) } else { None });
        own.or(self.kind.opcode)
    }

    /// The version of its payload: its own if a label has one, otherwise its type's.
    pub fn version(&self) -> u32 {
        let own =
            self.labels.into_iter().find_map(|label| if let Label::Version(own) = label { Some(own) } else { None });
        own.map_or(self.kind.version, u32::from)
    }

    /// Its own level if a label has one, otherwise its type's.
    pub fn level(&self) -> u32 {
        let own =
            self.labels.into_iter().find_map(|label| if let Label::Level(own) = label { Some(own) } else { None });
        own.map_or(self.kind.level, u32::from)
    }

    /// Its own keywords if a label has them, otherwise its type's.
    pub fn keywords(&self) -> u64 {
        let own =
            self.labels.into_iter().find_map(|label| if let Label::Keywords(own) = label { Some(own) } else { None });
        own.unwrap_or(self.kind.keywords)
    }
}

/// The return addresses of a stack, innermost first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stack<'a> {
    /// Its id in the file, valid until the next sequence point. 0 is no stack.
    pub id: u32,
    pub(super) bytes: &'a [u8],
    pub(super) pointer_bytes: u8,
}

impl<'a> Stack<'a> {
    /// Returns its addresses; none if there is no stack, or if the reader does [not keep stacks](super::Reader::with_stacks).
    pub fn addresses(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.bytes.chunks_exact(usize::from(self.pointer_bytes.max(1))).map(|word| {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            u64::from_le_bytes(bytes)
        })
    }
}

/// The description of a thread in version 6.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadInfo<'a> {
    /// The index by which the file's events refer to it.
    pub index: u64,
    /// The operating system's id, 0 if unknown.
    pub thread: u64,
    /// Its process id, 0 if unknown.
    pub process: u64,
    /// Its name, empty if it has none.
    pub name: Cow<'a, str>,
    /// Further key-value pairs.
    pub pairs: Vec<(String, String)>,
}

/// A summary of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of events, including those that the visitor did not want.
    pub events: u64,
    /// Events that are missing from the file, according to the sequence numbers of their threads.
    pub lost: u64,
    /// Missing events by capturing thread.
    pub lost_by_thread: BTreeMap<u64, u64>,
    /// How often a thread's sequence numbers stepped back, which leaves its losses unknown.
    pub steps_back: u64,
    /// Events that were delivered after a newer one, because the file breaks its guarantees or has too many events between two sequence points.
    /// 0 for a reader in file order.
    pub late: u64,
    /// The number of blocks of all kinds.
    pub blocks: u64,
    /// Bytes read.
    pub bytes: u64,
    /// The first damage.
    pub damage: Option<Damage>,
    /// The number of damaged places.
    pub damages: u64,
    /// Whether the end marker was found.
    pub ended_orderly: bool,
}
