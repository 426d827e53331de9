//! The kinds of damage that a log can have.

use std::{fmt, io};

use super::event::Event;
use trace_io::more_bytes;

/// Where a log is damaged, and how.
///
/// The reader has delivered everything that could be read, including events after the damage if it could find the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The byte offset of the damage.
    pub offset: u64,
    /// The kind of damage.
    pub kind: DamageKind,
    /// The last good event before the damage, if there is one.
    pub last_good: Option<LastGood>,
}

/// The position of an event that was read without damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastGood {
    /// Its position in the file, from 1; block markers count.
    pub number: u64,
    /// The byte offset of its first byte.
    pub offset: u64,
    /// The number of its type.
    pub id: u16,
    /// Its time.
    pub time: u64,
}

impl LastGood {
    /// Makes the record of an event that was read after `last`.
    pub(super) fn after(last: Option<LastGood>, event: &Event<'_>) -> LastGood {
        let number = last.map_or(0, |last| last.number) + 1;
        LastGood { number, offset: event.offset, id: event.kind.id, time: event.time }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.kind)?;
        let Some(last) = self.last_good else { return Ok(()) };
        let LastGood { number, offset, id, time } = last;
        write!(f, "; the last good event is number {number}, of type {id} at byte {offset}, time {time}")
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
    /// The file's contents changed between the two passes.
    #[error("the file changed while it was read")]
    Changed,
    /// The file is not an eventlog.
    #[error("this is not an eventlog: expected it to begin with \"hdrb\"")]
    Magic,
    /// A marker of the header is missing.
    #[error("expected {what} of the header here, found other bytes")]
    Marker {
        /// The missing marker.
        what: &'static str,
    },
    /// A description is longer than the limit.
    #[error("the description of type {id} has {bytes} bytes, which exceeds the limit")]
    Description {
        /// The number of the type.
        id: u16,
        /// The length in the header.
        bytes: u32,
    },
    /// More items than the limit.
    #[error("more {0} than the limit: reading ends here")]
    TooMany(&'static str),
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
    /// The file ends after a whole event, without the end marker.
    #[error("the file ends here without its end marker")]
    NoEnd,
    /// Bytes follow the end marker.
    #[error("the file continues after its end marker; what follows is read as events")]
    AfterEnd,
    /// An event of a type that GHC has and the header does not declare.
    #[error("an event of type {0}, which the header does not declare: read with the length that GHC gives it")]
    Undeclared(u16),
    /// An event of a type that neither the header nor GHC has.
    #[error("an event of type {id}, which is not declared, so its length is unknown; {what_follows}")]
    Unknown {
        /// The number of the type.
        id: u16,
        /// How reading resumes.
        what_follows: Resumed,
    },
    /// A block marker with a size smaller than the marker.
    #[error("a block has size {0}; expected at least the size of its own marker")]
    BlockSize(u32),
    /// An event that crosses the end of its block.
    #[error("an event of type {id} is longer than the rest of its block; {what_follows}")]
    Overrun {
        /// The number of the type.
        id: u16,
        /// How reading resumes.
        what_follows: Resumed,
    },
    /// An event whose stored length differs from the length of its fields, which mark their own ends.
    #[error(
        "an event of type {id} stores a payload length of {said} bytes, but its fields take {found}; read with {found}"
    )]
    Length {
        /// The number of the type.
        id: u16,
        /// The stored length, in bytes.
        said: u16,
        /// The length of the fields, in bytes.
        found: usize,
    },
    /// An event that is too short for the fields of its type.
    #[error("an event of type {id} with {bytes} bytes of payload, which is too short for its fields")]
    Short {
        /// The number of the type.
        id: u16,
        /// The length of the payload, in bytes.
        bytes: usize,
    },
    /// A text that is not UTF-8.
    #[error("an event of type {0} with a text that is not UTF-8")]
    Text(u16),
    /// A text without its terminating zero.
    #[error("an event of type {0} with a text that has no terminating zero")]
    Unended(u16),
    /// A number without a known meaning.
    #[error("an event of type {id} with the unknown {what} {value}")]
    Value {
        /// The number of the type.
        id: u16,
        /// What the value stands for, as the message names it: `closure type`.
        what: &'static str,
        /// The value found.
        value: u64,
    },
}

/// How reading resumes after damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// With the event itself: its length is known.
    AtOnce,
    /// At the byte offset of the next block.
    AtBlock(u64),
    /// Reading does not resume.
    Nowhere,
}

impl fmt::Display for Resumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resumed::AtOnce => f.write_str("it is read nevertheless"),
            Resumed::AtBlock(offset) => write!(f, "reading resumes at byte {offset}, where a block begins"),
            Resumed::Nowhere => f.write_str("no block follows to resume at, so reading ends"),
        }
    }
}
