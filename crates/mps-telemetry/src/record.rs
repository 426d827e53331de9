//! One record of a stream.

use super::layout::{HEADER, Layout, Param};

/// A view of a record in the stream.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub(super) bytes: &'a [u8],
    /// The byte offset at which it begins.
    pub offset: u64,
}

impl<'a> Record<'a> {
    /// A record that was copied. It must be one that a [`Reader`] returned.
    pub(super) fn kept(bytes: &'a [u8]) -> Record<'a> {
        debug_assert!(bytes.len() >= HEADER);
        Record { bytes, offset: 0 }
    }

    /// The code of its event.
    #[inline]
    pub fn code(&self) -> u16 {
        u16::from_le_bytes([self.bytes[0], self.bytes[1]])
    }

    /// Its time, in ticks of the processor's counter.
    #[inline]
    pub fn clock(&self) -> u64 {
        self.word(8).unwrap_or(0)
    }

    /// All its bytes, with the header.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns whether the record has room for all parameters of the layout.
    #[inline]
    pub fn has_all(&self, layout: &Layout) -> bool {
        self.bytes.len() >= usize::from(layout.needs)
    }

    /// Returns the eight bytes at this offset.
    #[inline]
    pub fn word(&self, offset: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*self.bytes.get(offset..)?.first_chunk()?))
    }

    /// Returns the four bytes at this offset.
    #[inline]
    pub fn unsigned(&self, offset: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.bytes.get(offset..)?.first_chunk()?))
    }

    /// Returns the value of this Boolean parameter, which is stored in a byte or a bit.
    #[inline]
    pub fn boolean(&self, param: &Param) -> Option<u8> {
        let byte = *self.bytes.get(usize::from(param.offset))?;
        Some(param.bit.map_or(byte, |bit| byte >> bit & 1))
    }

    /// Returns the string at this offset, up to its NUL, or to the end of the record if it has none.
    #[inline]
    pub fn string(&self, offset: usize) -> Option<&'a [u8]> {
        let bytes = self.bytes.get(offset..)?;
        Some(bytes.iter().position(|&byte| byte == 0).map_or(bytes, |end| &bytes[..end]))
    }
}
