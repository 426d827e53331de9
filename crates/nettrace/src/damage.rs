//! What can be wrong with a trace.

use std::{fmt, io};

use trace_io::more_bytes;

/// Where a trace can't be read as it should be, and why.
///
/// Some damage ends the reading, because nothing tells any more where the next block begins; other damage costs a block
/// or a part of it, and what follows the block is read. Everything that could be read has been delivered either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The byte of the file at which it is.
    pub offset: u64,
    /// What is wrong.
    pub kind: DamageKind,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.kind)
    }
}

impl std::error::Error for Damage {}

/// What can be wrong with a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file can't be read on.
    #[error("the file can't be read on: {0}")]
    Input(io::ErrorKind),
    /// It is no trace of this format.
    #[error("this is no .nettrace file: it would begin with \"Nettrace\"")]
    Magic,
    /// It is a trace of the preview formats that nobody writes any more.
    #[error("this is a .netperf file (version 1 to 3) of a preview of .NET Core 3.0; only versions 4 to 6 are read")]
    NetPerf,
    /// It is of a version that is not known.
    #[error("version {0} of the format is not known, only 4 to 6 are")]
    Version(u32),
    /// The serializer's name in the beginning is another.
    #[error("\"!FastSerialization.1\" was expected here")]
    Serializer,
    /// A tag is another than must stand here.
    #[error("tag {expected} was expected ({what}), but there is {found}")]
    Tag {
        /// What must be here.
        expected: u8,
        /// What is here.
        found: u8,
        /// What the tag stands for.
        what: &'static str,
    },
    /// An object's type is none that is known.
    #[error("an object of a known type was expected (Trace, EventBlock, MetadataBlock, StackBlock, SPBlock)")]
    ObjectType,
    /// An object's version is none that is known.
    #[error("an object says that a reader of version {0} is needed")]
    ObjectVersion(i32),
    /// The first block is not the one that describes the trace.
    #[error("the description of the trace was expected as the first block")]
    NoTrace,
    /// The trace is described twice.
    #[error("a second description of the trace: it is left out")]
    SecondTrace,
    /// The description makes no sense.
    #[error("the description of the trace makes no sense: {0}")]
    Trace(&'static str),
    /// The file ends inside something.
    #[error("the file ends here, inside {what} that begins at byte {began}: {}", more_bytes(*missing))]
    Cut {
        /// What it is.
        what: &'static str,
        /// Where it begins.
        began: u64,
        /// How many bytes more there should be, at least.
        missing: u64,
    },
    /// The file ends after a whole block, without the mark of its end.
    #[error("the file ends here without the mark of its end")]
    NoEnd,
    /// Something does not fit into its block.
    #[error("{0} begins here that is longer than the rest of its block, which is left out")]
    Overrun(&'static str),
    /// One item of a block is larger than any that is kept in memory.
    #[error("{0} begins here that is larger than what is kept in memory at once; the rest of its block is left out")]
    TooLarge(&'static str),
    /// A number has more bits than it may.
    #[error("a number of variable length has too many bytes; the rest of the block is left out")]
    Number,
    /// A block's own header is shorter than it can be.
    #[error("a block's header says that it has {0} bytes, which is too few; the block is left out")]
    BlockHeader(u16),
    /// An event whose two sizes contradict each other.
    #[error(
        "an event says that it has {size} bytes, {payload} of them payload: one is wrong, and the rest of the block is left out"
    )]
    EventSize {
        /// The whole event.
        size: u32,
        /// Its payload.
        payload: u32,
    },
    /// An event of a type that was not described before.
    #[error("an event of type {0}, which was not described before it: it is left out")]
    UnknownType(u32),
    /// A type that was described already.
    #[error("type {0} is described again: the newer description counts from here on")]
    TypeAgain(u32),
    /// A description of a type that makes no sense.
    #[error("the description of a type makes no sense: {0}")]
    Type(&'static str),
    /// A thread that was not introduced before.
    #[error("thread {0}, which was not introduced before: its ids are unknown")]
    UnknownThread(u64),
    /// A thread that was introduced already.
    #[error("thread {0} is introduced again: the newer introduction counts from here on")]
    ThreadAgain(u64),
    /// A label list that does not exist.
    #[error("label list {0}, which does not exist: the event has none")]
    UnknownLabels(u32),
    /// A label of a kind that is not known, so that the end of its list can't be found.
    #[error("a label of the unknown kind {0}; the rest of the block is left out")]
    LabelKind(u8),
    /// More of something than is kept in memory.
    #[error("more {0} than are kept in memory: those from here on are left out")]
    TooMany(&'static str),
}
