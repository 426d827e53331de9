//! Who is told what a trace has, and what it is told.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::damage::Damage;
use super::labels::{Label, Labels};
use super::metadata::{EventType, TraceInfo};

/// Whether events of a type are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// They are delivered.
    Deliver,
    /// They are counted in the summary and otherwise left out.
    Skip,
}

/// Who is told what a trace has.
pub trait Visitor {
    /// The trace, before anything else.
    fn trace(&mut self, _trace: &TraceInfo) {}

    /// A type of event, before its first event. Asked once for each description in the file.
    fn event_type(&mut self, _kind: &EventType) -> Interest {
        Interest::Deliver
    }

    /// A thread (version 6), before its first event.
    fn thread(&mut self, _thread: &ThreadInfo<'_>) {}

    /// An event.
    fn event(&mut self, event: &NetEvent<'_>);

    /// So many events of this capturing thread are not in the file. Told when the file says so, which may be before older
    /// events of other threads.
    fn lost(&mut self, _thread: u64, _count: u64) {}

    /// What else the file says. Only told by a reader [with asides](super::Reader::with_asides).
    fn aside(&mut self, _aside: &Aside<'_>) {}

    /// Whether enough has been seen. Asked before each block; the summary's `ended_orderly` is false then.
    fn is_done(&self) -> bool {
        false
    }
}

/// What a file says beside types, threads and events, where it says so: for who writes it anew.
#[derive(Clone, Copy, Debug)]
pub enum Aside<'a> {
    /// A stack that events refer to by this number until the next sequence point.
    Stack {
        /// The number.
        id: u32,
        /// Its return addresses, as wide as the trace's pointers.
        addresses: &'a [u8],
    },
    /// A list of labels that events refer to likewise (version 6).
    Labels {
        /// The number.
        id: u32,
        /// The list.
        bytes: &'a [u8],
    },
    /// A thread has ended (version 6).
    ThreadEnded {
        /// What the file calls it.
        id: u64,
        /// The last number that it gave to an event.
        sequence: u32,
    },
    /// A sequence point begins.
    PointBegins {
        /// Its time, in ticks.
        time: i64,
        /// In version 6: 1 all threads are forgotten after it, 2 all types.
        flags: u32,
    },
    /// At this sequence point, the last number that a thread gave to an event.
    LastNumber {
        /// What the file calls the thread.
        id: u64,
        /// The number.
        sequence: u32,
    },
    /// The sequence point is complete.
    PointEnds,
}

/// What the file itself calls what an event refers to, and what it promises of its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFile {
    /// The thread: the system's id in version 4, an index in version 6.
    pub thread: u64,
    /// The thread that wrote it, likewise.
    pub capture: u64,
    /// The list of labels (version 6).
    pub labels: u32,
    /// No later event of the file is older.
    pub sorted: bool,
}

/// An event, as it stands in the file.
#[derive(Clone, Copy, Debug)]
pub struct NetEvent<'a> {
    /// What it is.
    pub kind: &'a EventType,
    /// When it happened, in ticks; [`TraceInfo::milliseconds`] makes a time of it.
    pub time: i64,
    /// Whose event it is: the system's id of the thread. 0 if it is not known.
    pub thread: u64,
    /// The system's id of the thread that wrote it, which is nearly always the same.
    pub capture_thread: u64,
    /// The process, 0 if it is not known.
    pub process: u64,
    /// Where it ran.
    pub processor: Option<u32>,
    /// The number that the capturing thread gave it.
    pub sequence: u32,
    /// Where in the program it happened.
    pub stack: Stack<'a>,
    /// To what it belongs. All zero if to nothing.
    pub activity: [u8; 16],
    /// What that was started by. All zero if by nothing.
    pub related: [u8; 16],
    /// What else is said of it (version 6).
    pub labels: Labels<'a>,
    /// What it says.
    pub payload: &'a [u8],
    /// Where in the file its header begins.
    pub offset: u64,
    /// What the file calls its thread and its labels.
    pub in_file: InFile,
}

impl NetEvent<'_> {
    /// Its opcode: its own, if it has one, or its type's.
    pub fn opcode(&self) -> Option<u8> {
        let own =
            self.labels.into_iter().find_map(|label| if let Label::Opcode(own) = label { Some(own) } else { None });
        own.or(self.kind.opcode)
    }

    /// The version of its payload: its own, if it has one, or its type's.
    pub fn version(&self) -> u32 {
        let own =
            self.labels.into_iter().find_map(|label| if let Label::Version(own) = label { Some(own) } else { None });
        own.map_or(self.kind.version, u32::from)
    }

    /// Its level: its own, if it has one, or its type's.
    pub fn level(&self) -> u32 {
        let own =
            self.labels.into_iter().find_map(|label| if let Label::Level(own) = label { Some(own) } else { None });
        own.map_or(self.kind.level, u32::from)
    }

    /// Its groups: its own, if it has them, or its type's.
    pub fn keywords(&self) -> u64 {
        let own =
            self.labels.into_iter().find_map(|label| if let Label::Keywords(own) = label { Some(own) } else { None });
        own.unwrap_or(self.kind.keywords)
    }
}

/// The return addresses of a stack, innermost first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stack<'a> {
    /// Its number in the file until the next sequence point. 0 is no stack.
    pub id: u32,
    pub(super) bytes: &'a [u8],
    pub(super) pointer_bytes: u8,
}

impl<'a> Stack<'a> {
    /// The addresses; none if there is no stack, or if the reader does [not keep them](super::Reader::with_stacks).
    pub fn addresses(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.bytes.chunks_exact(usize::from(self.pointer_bytes.max(1))).map(|word| {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            u64::from_le_bytes(bytes)
        })
    }
}

/// What version 6 says of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadInfo<'a> {
    /// What events of the file refer to it by.
    pub index: u64,
    /// The system's id, 0 if it is not known.
    pub thread: u64,
    /// Its process, 0 if it is not known.
    pub process: u64,
    /// Its name, empty if it has none.
    pub name: Cow<'a, str>,
    /// What else is said of it.
    pub pairs: Vec<(String, String)>,
}

/// What there was in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All events, also those that were not wanted.
    pub events: u64,
    /// Events that are not in the file though their threads numbered them.
    pub lost: u64,
    /// The same by capturing thread.
    pub lost_by_thread: BTreeMap<u64, u64>,
    /// How often a thread's numbers went back, so that nothing can be said about losses.
    pub steps_back: u64,
    /// Events that were delivered after a newer one, because the file breaks its promises or has too many events between two.
    /// 0 if the file's order was asked for.
    pub late: u64,
    /// Blocks of all kinds.
    pub blocks: u64,
    /// Bytes of the file that were read.
    pub bytes: u64,
    /// What is wrong first.
    pub damage: Option<Damage>,
    /// How many things are wrong.
    pub damages: u64,
    /// The mark of the end was there.
    pub ended_orderly: bool,
}
