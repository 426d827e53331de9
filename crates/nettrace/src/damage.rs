//! The kinds of damage that a trace can have.

use std::{fmt, io};

use trace_io::more_bytes;

/// Where a trace is damaged, and how.
///
/// Some damage ends the reading, because the position of the next block is unknown; other damage costs a block
/// or a part of it, and reading resumes after the block. Everything that could be read has been delivered either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The byte offset of the damage.
    pub offset: u64,
    /// The kind of damage.
    pub kind: DamageKind,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.kind)
    }
}

impl std::error::Error for Damage {}

/// The kinds of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// Reading the file failed.
    #[error("reading the file failed: {0}")]
    Input(io::ErrorKind),
    /// The file is not a .nettrace file.
    #[error("this is not a .nettrace file: expected it to begin with \"Nettrace\"")]
    Magic,
    /// The file has a preview format that no current runtime writes.
    #[error("this is a .netperf file (version 1 to 3) of a preview of .NET Core 3.0; only versions 4 to 6 are read")]
    NetPerf,
    /// The version of the format is unknown.
    #[error("version {0} of the format is not known, only 4 to 6 are")]
    Version(u32),
    /// The serializer's name at the beginning differs.
    #[error("\"!FastSerialization.1\" was expected here")]
    Serializer,
    /// A tag differs from the expected one.
    #[error("expected tag {expected} ({what}), found {found}")]
    Tag {
        /// The expected tag.
        expected: u8,
        /// The tag found.
        found: u8,
        /// The meaning of the expected tag.
        what: &'static str,
    },
    /// The type of an object is unknown.
    #[error("an object of a known type was expected (Trace, EventBlock, MetadataBlock, StackBlock, SPBlock)")]
    ObjectType,
    /// An object requires a newer reader.
    #[error("an object requires a reader of version {0}")]
    ObjectVersion(i32),
    /// The first block does not describe the trace.
    #[error("the description of the trace was expected as the first block")]
    NoTrace,
    /// A second block describes the trace.
    #[error("a second description of the trace: it is skipped")]
    SecondTrace,
    /// The description of the trace is invalid.
    #[error("the description of the trace is invalid: {0}")]
    Trace(&'static str),
    /// The file ends inside an item.
    #[error("the file ends here, inside {what} that begins at byte {began}: {}", more_bytes(*missing))]
    Cut {
        /// The item.
        what: &'static str,
        /// The byte offset at which the item begins.
        began: u64,
        /// The least number of bytes that are missing.
        missing: u64,
    },
    /// The file ends after a whole block, without the end marker.
    #[error("the file ends here without its end marker")]
    NoEnd,
    /// An item does not fit into its block.
    #[error("{0} at this offset is longer than the rest of its block, which is skipped")]
    Overrun(&'static str),
    /// An item of a block is larger than the limit for items in memory.
    #[error("{0} at this offset is larger than the limit; the rest of its block is skipped")]
    TooLarge(&'static str),
    /// A variable-length number has too many bits.
    #[error("a number of variable length has too many bytes; the rest of the block is skipped")]
    Number,
    /// The header of a block states a size smaller than the header.
    #[error("a block header states a size of {0} bytes, which is too small; the block is skipped")]
    BlockHeader(u16),
    /// The two sizes of an event contradict each other.
    #[error(
        "an event has size {size} and payload size {payload}, which contradict each other; the rest of the block is skipped"
    )]
    EventSize {
        /// The size of the whole event.
        size: u32,
        /// The size of its payload.
        payload: u32,
    },
    /// An event of a type that was not described before it.
    #[error("an event of type {0}, which was not described before it: it is skipped")]
    UnknownType(u32),
    /// A type that was described already.
    #[error("type {0} is described again: the newer description is used from here on")]
    TypeAgain(u32),
    /// The description of a type is invalid.
    #[error("the description of a type is invalid: {0}")]
    Type(&'static str),
    /// A thread that was not introduced before.
    #[error("thread {0}, which was not introduced before: its ids are unknown")]
    UnknownThread(u64),
    /// A thread that was introduced already.
    #[error("thread {0} is introduced again: the newer introduction is used from here on")]
    ThreadAgain(u64),
    /// A label list that does not exist.
    #[error("label list {0}, which does not exist: the event has none")]
    UnknownLabels(u32),
    /// A label of an unknown kind, so the end of its list can't be found.
    #[error("a label of the unknown kind {0}; the rest of the block is skipped")]
    LabelKind(u8),
    /// More items than the limit for items in memory.
    #[error("more {0} than the limit: those from here on are skipped")]
    TooMany(&'static str),
}
