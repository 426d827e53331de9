//! What can be wrong with a log.

use std::{fmt, io};

use super::event::Event;
use trace_io::more_bytes;

/// Where a log can't be read as it should be, and why.
///
/// Everything that could be read has been delivered, also what comes behind the damage where the next event could be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The byte of the file at which it is.
    pub offset: u64,
    /// What is wrong.
    pub kind: DamageKind,
    /// The last event before it, if there was any.
    pub last_good: Option<LastGood>,
}

/// An event that could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastGood {
    /// Which one it is in the order of the file, from 1, block markers counted.
    pub number: u64,
    /// Where it begins.
    pub offset: u64,
    /// Its type.
    pub id: u16,
    /// Its time.
    pub time: u64,
}

impl LastGood {
    /// The event that comes after the last one.
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

/// What can be wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file can't be read on.
    #[error("the file can't be read on: {0}")]
    Input(io::ErrorKind),
    /// The file is not what it was a moment ago.
    #[error("the file changed while it was read")]
    Changed,
    /// It is no log.
    #[error("this is no eventlog: it would begin with \"hdrb\"")]
    Magic,
    /// Something else is where a marker of the header must be.
    #[error("the header has {what} here, but something else stands there")]
    Marker {
        /// What must be here.
        what: &'static str,
    },
    /// A description is longer than any that is kept.
    #[error("the description of type {id} has {bytes} bytes, more than is kept in memory")]
    Description {
        /// The type.
        id: u16,
        /// How long it says it is.
        bytes: u32,
    },
    /// More of something than is kept in memory.
    #[error("more {0} than are kept in memory: reading ends here")]
    TooMany(&'static str),
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
    /// The file ends after a whole event, without the mark of its end.
    #[error("the file ends here without the mark of its end")]
    NoEnd,
    /// There is something behind the mark of the end.
    #[error("the mark of the end stands before this byte, but the file goes on; what follows is read as events")]
    AfterEnd,
    /// An event of a type that the header does not declare, but GHC has.
    #[error("an event of type {0}, which the header does not declare: it is taken to be as long as GHC makes it")]
    Undeclared(u16),
    /// An event of a type that neither the header nor GHC has.
    #[error("an event of type {id}, which is not declared, so that its length is unknown; {what_follows}")]
    Unknown {
        /// The type.
        id: u16,
        /// How reading goes on.
        what_follows: Resumed,
    },
    /// A block marker whose size leaves no room for itself.
    #[error("a block says that it has {0} bytes, which is less than its own marker")]
    BlockSize(u32),
    /// An event that reaches over the end of its block.
    #[error("an event of type {id} is longer than the rest of its block; {what_follows}")]
    Overrun {
        /// The type.
        id: u16,
        /// How reading goes on.
        what_follows: Resumed,
    },
    /// An event whose length is not that of its fields, which say themselves where they end.
    #[error(
        "an event of type {id} says that it has {said} bytes of payload, but its fields have {found}; it is read with {found}"
    )]
    Length {
        /// The type.
        id: u16,
        /// The length in the event's head.
        said: u16,
        /// The length of its fields.
        found: usize,
    },
    /// An event that is too short for its type.
    #[error("an event of type {id} with {bytes} bytes of payload, which is too short for what it must say")]
    Short {
        /// The type.
        id: u16,
        /// How long it is.
        bytes: usize,
    },
    /// A text that is no UTF-8.
    #[error("an event of type {0} with a text that is no UTF-8")]
    Text(u16),
    /// A text without the zero that ends it.
    #[error("an event of type {0} with a text that the event ends before its zero")]
    Unended(u16),
    /// A number that stands for nothing known.
    #[error("an event of type {id} with the unknown {what} {value}")]
    Value {
        /// The type.
        id: u16,
        /// What the number stands for.
        what: &'static str,
        /// The number.
        value: u64,
    },
}

/// How reading goes on behind damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// As if nothing were.
    AtOnce,
    /// Where the next block begins.
    AtBlock(u64),
    /// Nowhere.
    Nowhere,
}

impl fmt::Display for Resumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resumed::AtOnce => f.write_str("it is read all the same"),
            Resumed::AtBlock(offset) => write!(f, "reading goes on at byte {offset}, where a block begins"),
            Resumed::Nowhere => f.write_str("nothing tells where the next event begins, so reading ends"),
        }
    }
}
