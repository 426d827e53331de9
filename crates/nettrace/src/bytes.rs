//! Reads numbers and strings from untrusted bytes.
//!
//! Each step distinguishes two failures: the bytes ran out ([`ItemError::Short`]: more of them may
//! follow), or the bytes present are invalid ([`ItemError::Wrong`]). Memory is allocated for a length only
//! if that many bytes are present (`.format.hostile`).

use super::damage::DamageKind;

/// Why an item could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemError {
    /// The bytes end inside the item.
    Short,
    /// The item is invalid, whatever bytes follow.
    Wrong(DamageKind),
}

/// A cursor over bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
}

macro_rules! little_endian {
    ($($name:ident $number:ty)*) => { $(
        #[inline]
        pub(super) fn $name(&mut self) -> Result<$number, ItemError> {
            self.array().map(<$number>::from_le_bytes)
        }
    )* };
}

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { rest: bytes }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], ItemError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(ItemError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Takes the first `count` bytes as a cursor of their own.
    pub(super) fn part(&mut self, count: usize) -> Result<Bytes<'a>, ItemError> {
        self.take(count).map(Bytes::new)
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ItemError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(ItemError::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, ItemError> {
        let (&first, rest) = self.rest.split_first().ok_or(ItemError::Short)?;
        self.rest = rest;
        Ok(first)
    }

    little_endian!(short u16  word u32  long u64);

    /// Reads a variable-length number: each byte has seven bits of the number, the lowest first; its eighth bit is set if another byte
    /// follows.
    #[inline]
    pub(super) fn var64(&mut self) -> Result<u64, ItemError> {
        let (&first, rest) = self.rest.split_first().ok_or(ItemError::Short)?;
        if first < 0x80 {
            self.rest = rest;
            return Ok(u64::from(first));
        }
        self.longer_var()
    }

    fn longer_var(&mut self) -> Result<u64, ItemError> {
        let mut value = 0;
        for (index, &byte) in self.rest.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7F);
            // The tenth byte has room for one bit only.
            if index == 9 && byte > 1 {
                return Err(ItemError::Wrong(DamageKind::Number));
            }
            value |= bits << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { ItemError::Short } else { ItemError::Wrong(DamageKind::Number) })
    }

    /// Reads a variable-length number of at most 32 bits.
    #[inline]
    pub(super) fn var32(&mut self) -> Result<u32, ItemError> {
        u32::try_from(self.var64()?).map_err(|_| ItemError::Wrong(DamageKind::Number))
    }

    /// Reads a string of version 6: a number of bytes, then UTF-8. Invalid UTF-8 is replaced.
    pub(super) fn utf8(&mut self) -> Result<String, ItemError> {
        let length = self.var32()?;
        Ok(String::from_utf8_lossy(self.take(length as usize)?).into_owned())
    }

    /// Reads a string of version 4: UTF-16 up to a NUL. Invalid UTF-16 is replaced.
    pub(super) fn utf16(&mut self) -> Result<String, ItemError> {
        let units = self.utf16_units()?;
        Ok(decode_utf16(units))
    }

    /// Reads a UTF-16 string, and returns its bytes without the NUL.
    pub(super) fn utf16_units(&mut self) -> Result<&'a [u8], ItemError> {
        let units = self.rest.as_chunks::<2>().0.iter().position(|unit| *unit == [0, 0]).ok_or(ItemError::Short)?;
        let text = self.take(2 * units)?;
        self.take(2)?;
        Ok(text)
    }
}

/// Decodes little-endian UTF-16.
pub(super) fn decode_utf16(bytes: &[u8]) -> String {
    let units = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}
