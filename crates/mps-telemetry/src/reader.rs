//! Reads records from bytes, with a buffer of fixed size.
//!
//! A stream has no markers to resynchronise at: only a record's own size shows where the record ends. So reading ends at an impossible
//! size, because any position after it would be a guess; everything before it is good. The kinds of [`Damage`] are reported with their byte
//! offset.
//!
//! `.format.hostile`: a size is compared with the smallest and the largest record, and with the bytes
//! present, before it is used. Memory is the buffer, whatever the stream contains. Bytes of a record after
//! its parameters are ignored, and a missing parameter stays missing ([`Record::word`] returns `None`).

use std::io::{self, Read};

use super::detect;
use super::format::{HEADER, LARGEST_RECORD, Version};
pub use super::record::Record;
use trace_io::source::Source;

/// The number of bytes read at once: so large that the time of the system calls is negligible, and small enough for the second-level cache.
const BUFFER: usize = 128 << 10;

/// Reads a stream record by record.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    /// The clock of the last record.
    clock: u64,
}

/// Where a stream is damaged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The byte offset of the damaged record.
    pub offset: u64,
    /// The clock of the last good record, 0 if there is none.
    pub clock: u64,
    /// The kind of damage.
    pub kind: DamageKind,
}

/// The kinds of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageKind {
    /// The record's size is smaller than a record's header, or larger than the largest record.
    #[error("says that it has {size} bytes, but records have {HEADER} to {LARGEST_RECORD}; what follows can't be read")]
    Size {
        /// The size found, in bytes.
        size: u16,
    },
    /// The stream ends inside the record.
    #[error("has {size} bytes, but the stream ends after {present} of them")]
    Cut {
        /// The record's size, in bytes.
        size: u16,
        /// The bytes present.
        present: usize,
    },
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Truncated log: the record at byte {} {}", self.offset, self.kind)
    }
}

impl std::error::Error for Damage {}

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After a whole record.
    Clean,
    /// Inside the header of a record: too few bytes to know its type.
    Stray {
        /// The byte offset of the remaining bytes.
        offset: u64,
        /// Their number.
        bytes: usize,
    },
}

impl<R: Read> Reader<R> {
    /// Creates a reader that has read nothing.
    pub fn new(input: R) -> Reader<R> {
        Reader { source: Source::new(input, BUFFER), clock: 0 }
    }

    /// Detects the version of the stream. Buffers the bytes that are needed for that; they are read as records later.
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

    /// Returns the next record if it is buffered as a whole; otherwise [`fill`](Self::fill) is needed.
    #[inline]
    pub fn buffered(&mut self) -> Result<Option<Record<'_>>, Damage> {
        let rest = self.source.bytes();
        let Some((header, _)) = rest.split_first_chunk::<HEADER>() else { return Ok(None) };
        let size = u16::from_le_bytes([header[2], header[3]]);
        // `.format.hostile`: the size is the only number of the stream by which the reader advances.
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

    /// Reads more bytes. Returns false at the end of the stream. Call it only when [`buffered`](Self::buffered) returns `None`.
    pub fn fill(&mut self) -> io::Result<bool> {
        self.source.more()
    }

    /// Returns how the stream ended; call it after the last `fill`.
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

    /// Returns the clock of the last record, 0 if there is none yet.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Returns the number of bytes read.
    pub fn offset(&self) -> u64 {
        self.source.reached()
    }

    fn damage(&self, kind: DamageKind) -> Damage {
        Damage { offset: self.source.offset(), clock: self.clock, kind }
    }
}
