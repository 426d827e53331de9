//! Reads the header that precedes an event's payload.
//! There are three layouts: one with fixed fields in version 4, another in version 6 (both are rare), and the compressed one, which is
//! nearly the same in both versions. In a compressed header the first byte states which fields follow; the others equal those of the
//! previous event in the block (all zero before the first), and the time is always a difference:
//!
//! | bit | fields | if clear |
//! |---|---|---|
//! | 01 | type | as before |
//! | 02 | difference of the sequence number less 1, capturing thread, processor | number one higher, rest as before |
//! | 04 | thread | as before |
//! | 08 | stack | as before |
//! | | difference of the time | |
//! | 10 | activity (version 6: label list) | as before |
//! | 20 | related activity (version 6: nothing) | as before |
//! | 40 | no later event of the file has an earlier time | not so |
//! | 80 | size of the payload | as before |

use super::Container;
use super::block::header_bit;
use super::bytes::{Bytes, ItemError};
use super::damage::DamageKind;

/// The limit for a header's length in any layout.
pub(super) const LONGEST: usize = 96;

/// The layout of the headers in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) container: Container,
    pub(super) compressed: bool,
}

/// The header of one event; the next header in the block is relative to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Header {
    pub(super) kind: u32,
    pub(super) sequence: u32,
    pub(super) capture: u64,
    pub(super) processor: u32,
    /// The operating system's id in version 4, an index in the thread table in version 6.
    pub(super) thread: u64,
    pub(super) stack: u32,
    pub(super) time: i64,
    pub(super) labels: u32,
    pub(super) sorted: bool,
    pub(super) payload: u32,
    /// The bytes of padding after the payload in the layout with fixed fields.
    pub(super) padding: u32,
    pub(super) activity: [u8; 16],
    pub(super) related: [u8; 16],
}

impl Header {
    /// Replaces the header by the next one in the block.
    #[inline]
    pub(super) fn read(&mut self, layout: Layout, bytes: &mut Bytes<'_>) -> Result<(), ItemError> {
        if layout.compressed { self.compressed(layout.container, bytes) } else { self.fixed(layout.container, bytes) }
    }

    #[inline]
    fn compressed(&mut self, container: Container, bytes: &mut Bytes<'_>) -> Result<(), ItemError> {
        let flags = bytes.byte()?;
        if flags & header_bit::KIND != 0 {
            self.kind = bytes.var32()?;
        }
        if flags & header_bit::CAPTURE != 0 {
            self.sequence = self.sequence.wrapping_add(bytes.var32()?).wrapping_add(1);
            self.capture = bytes.var64()?;
            self.processor = bytes.var32()?;
        } else if self.kind != 0 || container == Container::V6 {
            self.sequence = self.sequence.wrapping_add(1);
        }
        if flags & header_bit::THREAD != 0 {
            self.thread = bytes.var64()?;
        }
        if flags & header_bit::STACK != 0 {
            self.stack = bytes.var32()?;
        }
        // A step back in time is a difference that wraps.
        self.time = self.time.wrapping_add(bytes.var64()? as i64);
        if flags & (header_bit::ACTIVITY | header_bit::RELATED) != 0 {
            self.activities(flags, container, bytes)?;
        }
        self.sorted = flags & header_bit::SORTED != 0;
        if flags & header_bit::LENGTH != 0 {
            self.payload = bytes.var32()?;
        }
        Ok(())
    }

    #[cold]
    fn activities(&mut self, flags: u8, container: Container, bytes: &mut Bytes<'_>) -> Result<(), ItemError> {
        match container {
            Container::V4 => {
                if flags & header_bit::ACTIVITY != 0 {
                    self.activity = bytes.array()?;
                }
                if flags & header_bit::RELATED != 0 {
                    self.related = bytes.array()?;
                }
            }
            Container::V6 => {
                if flags & header_bit::ACTIVITY != 0 {
                    self.labels = bytes.var32()?;
                }
            }
        }
        Ok(())
    }

    /// The layout with fixed fields. Its size must match its payload: with up to three bytes of padding, or
    /// without (some readers accept that).
    #[cold]
    fn fixed(&mut self, container: Container, bytes: &mut Bytes<'_>) -> Result<(), ItemError> {
        let size = bytes.word()?;
        let before = bytes.len();
        let kind = bytes.word()?;
        self.kind = kind & 0x7FFF_FFFF;
        // The bit's name says the opposite of its meaning.
        self.sorted = kind >> 31 == 0;
        self.sequence = bytes.word()?;
        self.thread = bytes.long()?;
        self.capture = bytes.long()?;
        self.processor = bytes.word()?;
        self.stack = bytes.word()?;
        self.time = bytes.long()? as i64;
        match container {
            Container::V4 => {
                self.activity = bytes.array()?;
                self.related = bytes.array()?;
            }
            Container::V6 => self.labels = bytes.word()?,
        }
        self.payload = bytes.word()?;
        let header = (before - bytes.len()) as u64;
        self.padding = match u64::from(size).checked_sub(header + u64::from(self.payload)) {
            Some(padding @ 0..=3) => padding as u32,
            _ => return Err(ItemError::Wrong(DamageKind::EventSize { size, payload: self.payload })),
        };
        Ok(())
    }
}
