//! The bytes of a payload, and the encoding of numbers and text in them.

use std::fmt;

/// A payload: its bytes and the width of a pointer in the process that wrote it.
///
/// No accessor reads past the end; a missing value is `None`.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    bytes: &'a [u8],
    pointer: usize,
}

impl<'a> Payload<'a> {
    /// Creates a payload from its bytes and the pointer size of the process that wrote it, in bytes. Any size but 4 counts as 8.
    pub fn new(bytes: &'a [u8], pointer_bytes: u8) -> Payload<'a> {
        Payload { bytes, pointer: if pointer_bytes == 4 { 4 } else { 8 } }
    }

    /// All bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The pointer size in bytes: 4 or 8.
    pub fn pointer(&self) -> usize {
        self.pointer
    }

    /// The byte at this offset.
    pub fn u8(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// The two-byte number at this offset.
    pub fn u16(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    /// The four-byte number at this offset.
    pub fn u32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    /// The signed four-byte number at this offset.
    pub fn i32(&self, at: usize) -> Option<i32> {
        self.array(at).map(i32::from_le_bytes)
    }

    /// The eight-byte number at this offset.
    pub fn u64(&self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// The signed eight-byte number at this offset.
    pub fn i64(&self, at: usize) -> Option<i64> {
        self.array(at).map(i64::from_le_bytes)
    }

    /// The pointer-sized number at this offset.
    pub fn word(&self, at: usize) -> Option<u64> {
        if self.pointer == 4 { self.u32(at).map(u64::from) } else { self.u64(at) }
    }

    /// The sixteen bytes at this offset.
    pub fn guid(&self, at: usize) -> Option<[u8; 16]> {
        self.array(at)
    }

    /// The text at this offset; a text without a NUL ends with the payload.
    pub fn z16(&self, at: usize) -> Option<Z16<'a>> {
        self.bytes.get(at..).map(Z16::starting)
    }

    /// The `length` bytes at this offset.
    pub fn slice(&self, at: usize, length: usize) -> Option<&'a [u8]> {
        self.bytes.get(at..at.checked_add(length)?)
    }

    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..)?.first_chunk().copied()
    }
}

/// Little-endian UTF-16 text that ends with a NUL; formatted with a replacement character for invalid units.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Z16<'a> {
    text: &'a [u8],
    /// The bytes up to and including the NUL, as far as present.
    extent: usize,
}

impl<'a> Z16<'a> {
    /// The text that these bytes begin with.
    fn starting(bytes: &'a [u8]) -> Z16<'a> {
        let units = bytes.chunks_exact(2);
        match units.clone().position(|unit| unit == [0, 0]) {
            Some(length) => Z16 { text: &bytes[..2 * length], extent: 2 * length + 2 },
            None => Z16 { text: &bytes[..2 * units.len()], extent: bytes.len() },
        }
    }

    /// The bytes of the text, without its NUL.
    pub fn bytes(&self) -> &'a [u8] {
        self.text
    }

    /// The bytes that the text takes, with its NUL.
    pub fn extent(&self) -> usize {
        self.extent
    }

    /// Its characters.
    pub fn chars(&self) -> impl Iterator<Item = char> + use<'a> {
        let units = self.text.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        char::decode_utf16(units).map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

impl fmt::Display for Z16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        self.chars().try_for_each(|char| f.write_char(char))
    }
}

impl fmt::Debug for Z16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
