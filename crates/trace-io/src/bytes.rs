//! A byte buffer of fixed capacity, in which the parts of a trace are assembled.
//!
//! Writers run where allocation is forbidden, so the buffer grows only when a caller reserves room. A value that does not fit is not
//! written; callers check [`Bytes::room`] first. Strings, whose length the caller does not control, are truncated.

use std::fmt;

/// A byte buffer of fixed capacity. All numbers are little-endian.
#[derive(Debug)]
pub struct Bytes {
    memory: Box<[u8]>,
    len: usize,
}

impl Bytes {
    /// Creates an empty buffer of this capacity, in bytes. Only this call and [`reserve`](Self::reserve) allocate.
    pub fn with_capacity(bytes: usize) -> Bytes {
        Bytes { memory: vec![0; bytes].into(), len: 0 }
    }

    /// Makes room for this many more bytes. Allocates if there is not as much room.
    pub fn reserve(&mut self, bytes: usize) {
        if self.room() < bytes {
            let mut memory = std::mem::take(&mut self.memory).into_vec();
            memory.resize(self.len + bytes, 0);
            self.memory = memory.into();
        }
    }

    /// Empties the buffer.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// The number of bytes written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of bytes that still fit.
    pub fn room(&self) -> usize {
        self.memory.len() - self.len
    }

    /// The bytes written.
    pub fn as_slice(&self) -> &[u8] {
        &self.memory[..self.len]
    }

    /// Appends the bytes, if all of them fit.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.memory.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// Appends one byte, if it fits.
    #[inline(always)]
    pub fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Appends two bytes, if they fit.
    #[inline(always)]
    pub fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    /// Appends four bytes, if they fit.
    #[inline(always)]
    pub fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// Appends eight bytes, if they fit.
    #[inline(always)]
    pub fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a number as LEB128: seven bits per byte, the lowest first; the top bit is set if another byte follows.
    #[inline(always)]
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8);
    }

    /// Appends a string as NUL-terminated UTF-16, truncated to `most` units. NULs in the string are left out.
    pub fn utf16(&mut self, text: &str, most: usize) {
        let most = most.min((self.room() / 2).saturating_sub(1));
        let mut units = 0;
        for letter in text.chars().filter(|letter| *letter != '\0') {
            let mut buffer = [0; 2];
            let encoded = letter.encode_utf16(&mut buffer);
            if units + encoded.len() > most {
                break;
            }
            units += encoded.len();
            encoded.iter().for_each(|unit| self.u16(*unit));
        }
        self.u16(0);
    }

    /// Appends a string as UTF-8 after its length, which is a [`varint`](Self::varint).
    pub fn utf8(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.put(text.as_bytes());
    }

    /// Overwrites bytes that were written.
    ///
    /// # Panics
    /// If they are not all within the buffer's capacity.
    pub fn set(&mut self, at: usize, bytes: &[u8]) {
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Drops the bytes after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

/// Appends a piece of text; a piece that does not fit is left out.
impl fmt::Write for Bytes {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, &[0])]
    #[case(0x7f, &[0x7f])]
    #[case(0x80, &[0x80, 1])]
    #[case(300, &[0xac, 2])]
    #[case(u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1])]
    fn a_number_takes_as_many_bytes_as_it_has_groups_of_seven_bits(#[case] number: u64, #[case] expected: &[u8]) {
        let mut bytes = Bytes::with_capacity(16);
        bytes.varint(number);
        assert_eq!(bytes.as_slice(), expected);
    }

    #[test]
    fn a_text_is_cut_between_characters_and_always_terminated() {
        let mut bytes = Bytes::with_capacity(8);
        bytes.utf16("ab\u{1f600}", 100);
        assert_eq!(bytes.as_slice(), [b'a', 0, b'b', 0, 0, 0], "half a surrogate pair is not written");
        bytes.clear();
        bytes.utf16("a\0bcd", 2);
        assert_eq!(bytes.as_slice(), [b'a', 0, b'b', 0, 0, 0]);
        bytes.put(&[1, 2, 3]);
        assert_eq!(bytes.len(), 6, "what does not fit is left out as a whole");
    }
}
