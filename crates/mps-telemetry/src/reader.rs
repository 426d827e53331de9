//! From bytes to records, in a buffer of fixed size.
//!
//! A stream has no marks to find one's way back by: where a record ends is said by its own size, and by nothing else. So
//! a size that can't be true ends the reading, since whatever came after would be guessed; and everything before it is
//! good. The three ways in which a stream can be [`Damage`]d are told with the byte at which that is.
//!
//! `.format.hostile`: a size is compared with the smallest and the largest that exist, and with the bytes that are
//! there, before anything is done with it. Memory is the buffer, whatever the stream says. What a record holds beyond
//! its parameters is ignored, what it lacks is missing ([`Record::word`] gives `None`), and nothing is made up for it.

use std::io::{self, Read};

use super::detect;
use super::format::{HEADER, LARGEST_RECORD, Version};
pub use super::record::Record;
use trace_io::source::Source;

/// The bytes that are read at once. Large enough that the system calls don't show, small enough for the second cache.
const BUFFER: usize = 128 << 10;

/// Reads a stream, record by record.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    /// The last record's clock.
    clock: u64,
}

/// A stream that can't be read on, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The first byte of the record that is wrong.
    pub offset: u64,
    /// The clock of the last good record, 0 if there is none.
    pub clock: u64,
    /// What is wrong with it.
    pub kind: DamageKind,
}

/// What can be wrong with a record as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageKind {
    /// It says that it is shorter than its own beginning, or longer than any record.
    #[error("says that it has {size} bytes, but records have {HEADER} to {LARGEST_RECORD}; what follows can't be read")]
    Size {
        /// What it says.
        size: u16,
    },
    /// The stream ends inside it.
    #[error("has {size} bytes, but the stream ends after {present} of them")]
    Cut {
        /// What it says.
        size: u16,
        /// The bytes that are there.
        present: usize,
    },
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Truncated log: the record at byte {} {}", self.offset, self.kind)
    }
}

impl std::error::Error for Damage {}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After a whole record.
    Clean,
    /// With these bytes of a record's beginning: too few to say what it was.
    Stray {
        /// Where they begin.
        offset: u64,
        /// How many they are.
        bytes: usize,
    },
}

impl<R: Read> Reader<R> {
    /// Nothing is read yet.
    pub fn new(input: R) -> Reader<R> {
        Reader { source: Source::new(input, BUFFER), clock: 0 }
    }

    /// The version whose records these are. Reads as much as it takes to tell, and loses nothing of it.
    pub fn detect(&mut self) -> io::Result<Version> {
        while self.source.bytes().len() < BUFFER {
            if let Some(version) = detect::announced(self.source.bytes()) {
                return Ok(version);
            }
            if !self.fill()? {
                break;
            }
        }
        Ok(detect::guess(self.source.bytes()))
    }

    /// The next record, if all of it has been read already; if not, [`fill`](Self::fill) is needed.
    #[inline]
    pub fn buffered(&mut self) -> Result<Option<Record<'_>>, Damage> {
        let rest = self.source.bytes();
        let Some((header, _)) = rest.split_first_chunk::<HEADER>() else { return Ok(None) };
        let size = u16::from_le_bytes([header[2], header[3]]);
        // `.format.hostile`: the one number of the stream that moves the reader.
        if !(HEADER..=LARGEST_RECORD).contains(&usize::from(size)) {
            return Err(self.damage(DamageKind::Size { size }));
        }
        if rest.len() < usize::from(size) {
            return Ok(None);
        }
        let offset = self.source.offset();
        let record = Record { bytes: self.source.take(size.into()), offset };
        self.clock = record.clock();
        Ok(Some(record))
    }

    /// Reads more. False at the stream's end. Call it only when [`buffered`](Self::buffered) has none left.
    pub fn fill(&mut self) -> io::Result<bool> {
        self.source.more()
    }

    /// After the last `fill`: whether the stream ended where a record does.
    pub fn end(&self) -> Result<End, Damage> {
        let rest = self.source.bytes();
        match *rest {
            [] => Ok(End::Clean),
            [_, _, low, high, ..] if rest.len() >= HEADER => {
                Err(self.damage(DamageKind::Cut { size: u16::from_le_bytes([low, high]), present: rest.len() }))
            }
            _ => Ok(End::Stray { offset: self.source.offset(), bytes: rest.len() }),
        }
    }

    /// The clock of the last record, 0 if there is none yet.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// How many bytes were read.
    pub fn offset(&self) -> u64 {
        self.source.reached()
    }

    fn damage(&self, kind: DamageKind) -> Damage {
        Damage { offset: self.source.offset(), clock: self.clock, kind }
    }
}
