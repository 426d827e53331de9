//! Bytes in a row, in memory that was there before: what every part of a trace is put together in.
//!
//! A drain may not allocate, so a row has the size that it was made with. What no longer fits is left out, and whoever
//! fills one asks for room first; texts, whose length is somebody else's, are cut to the room that there is.

use std::fmt;

/// A row of bytes that grows up to its capacity.
#[derive(Debug)]
pub(crate) struct Bytes {
    memory: Box<[u8]>,
    len: usize,
}

impl Bytes {
    pub(crate) fn with_capacity(bytes: usize) -> Bytes {
        Bytes { memory: vec![0; bytes].into(), len: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn room(&self) -> usize {
        self.memory.len() - self.len
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.memory[..self.len]
    }

    /// Appends them, if all of them fit.
    #[inline(always)]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.memory.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    #[inline(always)]
    pub(crate) fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    #[inline(always)]
    pub(crate) fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    #[inline(always)]
    pub(crate) fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    #[inline(always)]
    pub(crate) fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Seven bits a byte, the lowest first; all but the last have the highest bit.
    #[inline(always)]
    pub(crate) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8);
    }

    /// UTF-16 with a 0 behind it, cut to `most` units.
    pub(crate) fn utf16(&mut self, text: &str, most: usize) {
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

    /// UTF-8 behind its length.
    pub(crate) fn utf8(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.put(text.as_bytes());
    }

    /// Writes over what was put here.
    pub(crate) fn set(&mut self, at: usize, bytes: &[u8]) {
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Forgets what lies behind.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

/// What has no room is left out, piece by piece.
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
    fn a_text_is_cut_between_letters_and_never_goes_without_its_end() {
        let mut bytes = Bytes::with_capacity(8);
        bytes.utf16("ab\u{1f600}", 100);
        assert_eq!(bytes.as_slice(), [b'a', 0, b'b', 0, 0, 0], "half a pair is no letter");
        bytes.clear();
        bytes.utf16("a\0bcd", 2);
        assert_eq!(bytes.as_slice(), [b'a', 0, b'b', 0, 0, 0]);
        bytes.put(&[1, 2, 3]);
        assert_eq!(bytes.len(), 6, "what does not fit is left out as a whole");
    }
}
