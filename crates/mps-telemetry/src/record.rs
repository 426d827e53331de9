//! One record of a stream.

use super::layout::{HEADER, Layout, Param};

/// One record, as it stands in the stream.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub(super) bytes: &'a [u8],
    /// Where in the stream it begins.
    pub offset: u64,
}

impl<'a> Record<'a> {
    /// A record that was kept for a while. It must be one that a [`Reader`] gave.
    pub(super) fn kept(bytes: &'a [u8]) -> Record<'a> {
        debug_assert!(bytes.len() >= HEADER);
        Record { bytes, offset: 0 }
    }

    /// Which event it is.
    #[inline]
    pub fn code(&self) -> u16 {
        u16::from_le_bytes([self.bytes[0], self.bytes[1]])
    }

    /// When it happened, in ticks.
    #[inline]
    pub fn clock(&self) -> u64 {
        self.word(8).unwrap_or(0)
    }

    /// All of it.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether the record is long enough for all parameters of the layout.
    #[inline]
    pub fn has_all(&self, layout: &Layout) -> bool {
        self.bytes.len() >= usize::from(layout.needs)
    }

    /// The eight bytes here.
    #[inline]
    pub fn word(&self, offset: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*self.bytes.get(offset..)?.first_chunk()?))
    }

    /// The four bytes here.
    #[inline]
    pub fn unsigned(&self, offset: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.bytes.get(offset..)?.first_chunk()?))
    }

    /// This Boolean: its byte as it is, or its bit.
    #[inline]
    pub fn boolean(&self, param: &Param) -> Option<u8> {
        let byte = *self.bytes.get(usize::from(param.offset))?;
        Some(param.bit.map_or(byte, |bit| byte >> bit & 1))
    }

    /// The string that begins here, up to its NUL; or to the record's end if it has none.
    #[inline]
    pub fn string(&self, offset: usize) -> Option<&'a [u8]> {
        let bytes = self.bytes.get(offset..)?;
        Some(bytes.iter().position(|&byte| byte == 0).map_or(bytes, |end| &bytes[..end]))
    }
}
