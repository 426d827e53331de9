//! Formats lines of text into a large buffer.
//!
//! A stream of half a gigabyte is twelve million records, and each becomes a line of four numbers. At half a gigabyte per second that
//! leaves 75 ns per line, which is the time that `std::fmt` takes for one number. Here a number of up to sixteen hexadecimal digits is
//! formatted at once in a sixteen-byte vector and stored whole; the cursor then advances by the digits that count. The next write
//! overwrites the excess.
//!
//! No line allocates: it is written into the output's buffer, which always has room for the longest line.

use std::arch::x86_64::{
    __m128i, _mm_add_epi8, _mm_and_si128, _mm_cmpgt_epi8, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_set1_epi8,
    _mm_srli_epi16, _mm_unpackhi_epi64, _mm_unpacklo_epi8,
};
use std::io::{self, Write};

/// An upper limit for a line's length: fourteen parameters with names, five of them labelled with the longest string and every byte
/// of it escaped.
const LONGEST_LINE: usize = 8 << 10;
/// The number of bytes written at once.
const BUFFER: usize = 256 << 10;

/// Buffered lines for an output.
#[derive(Debug)]
pub(super) struct Output<W> {
    to: W,
    buffer: Box<[u8]>,
    filled: usize,
}

impl<W: Write> Output<W> {
    pub(super) fn new(to: W) -> Output<W> {
        Output { to, buffer: vec![0; BUFFER].into(), filled: 0 }
    }

    /// Appends the line that `make` writes.
    #[inline]
    pub(super) fn line(&mut self, make: impl FnOnce(&mut Line<'_>)) -> io::Result<()> {
        if BUFFER - self.filled < LONGEST_LINE {
            self.write()?;
        }
        if let Some(at) = self.buffer[self.filled..].first_chunk_mut() {
            let mut line = Line { at, len: 0 };
            make(&mut line);
            self.filled += line.len;
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let filled = std::mem::take(&mut self.filled);
        self.to.write_all(&self.buffer[..filled])
    }

    /// Writes the buffered lines to the output.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.write()?;
        self.to.flush()
    }
}

/// Room for one line that is compared and not output.
#[derive(Debug)]
pub(super) struct LineBuffer(Box<[u8; LONGEST_LINE]>);

impl Default for LineBuffer {
    fn default() -> LineBuffer {
        LineBuffer(Box::new([0; LONGEST_LINE]))
    }
}

impl LineBuffer {
    /// Returns the line that `make` writes.
    pub(super) fn fill(&mut self, make: impl FnOnce(&mut Line<'_>)) -> &[u8] {
        let mut line = Line { at: &mut self.0, len: 0 };
        make(&mut line);
        let len = line.len;
        &self.0[..len]
    }
}

/// The line that is being written.
#[derive(Debug)]
pub(super) struct Line<'a> {
    at: &'a mut [u8; LONGEST_LINE],
    len: usize,
}

/// The character that fills a column to the left of a number that is narrower than the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pad {
    Zero,
    Space,
}

impl Line<'_> {
    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.at[self.len] = byte;
        self.len += 1;
    }

    #[inline]
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.at[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Writes the text, followed by spaces up to this width.
    pub(super) fn padded(&mut self, text: &[u8], width: usize) {
        self.bytes(text);
        for _ in text.len()..width {
            self.byte(b' ');
        }
    }

    /// Writes the text, preceded by spaces up to this width.
    pub(super) fn right(&mut self, text: &[u8], width: usize) {
        for _ in text.len()..width {
            self.byte(b' ');
        }
        self.bytes(text);
    }

    /// Formats the value as C does with `%X`.
    #[inline]
    pub(super) fn hex(&mut self, value: u64) {
        self.leading_digits(value, significant(value));
    }

    /// Formats the value as C does with `%0*X` or `%*X`. The width is at most 16.
    #[inline]
    pub(super) fn hex_wide(&mut self, value: u64, width: usize, pad: Pad) {
        let digits = significant(value);
        match pad {
            Pad::Zero => self.leading_digits(value, digits.max(width)),
            Pad::Space => {
                for _ in digits..width {
                    self.byte(b' ');
                }
                self.leading_digits(value, digits);
            }
        }
    }

    /// Writes the last `digits` hexadecimal digits of a value, 1 to 16.
    #[inline]
    fn leading_digits(&mut self, value: u64, digits: usize) {
        let text = sixteen_digits(value << (64 - 4 * digits));
        self.at[self.len..][..16].copy_from_slice(&text);
        self.len += digits;
    }

    /// Formats the value as C does with `%u`.
    pub(super) fn decimal(&mut self, value: u64) {
        self.decimal_wide(value, 1);
    }

    /// Formats the value as C does with `%*u`.
    pub(super) fn decimal_wide(&mut self, mut value: u64, width: usize) {
        let mut text = [0; 20];
        let mut first = text.len();
        loop {
            first -= 1;
            text[first] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.right(&text[first..], width);
    }

    /// Writes the string in quotes, with `"` and `\` escaped and all other bytes unchanged.
    pub(super) fn quoted(&mut self, string: &[u8]) {
        self.byte(b'"');
        for &byte in string {
            if matches!(byte, b'"' | b'\\') {
                self.byte(b'\\');
            }
            self.byte(byte);
        }
        self.byte(b'"');
    }
}

/// Returns the number of hexadecimal digits of the value; one for 0.
#[inline]
fn significant(value: u64) -> usize {
    16 - (value | 1).leading_zeros() as usize / 4
}

/// Returns all sixteen digits.
#[inline]
fn sixteen_digits(value: u64) -> [u8; 16] {
    // SAFETY: every x86-64 processor has SSE2, and this crate is only for x86-64.
    let digits = unsafe { digits_of(value) };
    let mut text = [0; 16];
    text[..8].copy_from_slice(&digits[0].to_le_bytes());
    text[8..].copy_from_slice(&digits[1].to_le_bytes());
    text
}

/// Converts each half byte to the byte of its digit, in order: adds `'0'`, and seven more for 10 to 15, so that they begin at `'A'`.
#[inline]
#[target_feature(enable = "sse2")]
fn digits_of(value: u64) -> [u64; 2] {
    let halves = |wide: __m128i| _mm_and_si128(wide, _mm_set1_epi8(0x0F));
    let bytes = _mm_cvtsi64_si128(value.swap_bytes() as i64);
    let digits = _mm_unpacklo_epi8(halves(_mm_srli_epi16::<4>(bytes)), halves(bytes));
    let letters = _mm_and_si128(_mm_cmpgt_epi8(digits, _mm_set1_epi8(9)), _mm_set1_epi8(7));
    let text = _mm_add_epi8(_mm_add_epi8(digits, _mm_set1_epi8(b'0' as i8)), letters);
    [_mm_cvtsi128_si64(text) as u64, _mm_cvtsi128_si64(_mm_unpackhi_epi64(text, text)) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made(make: impl FnOnce(&mut Line<'_>)) -> String {
        String::from_utf8(LineBuffer::default().fill(make).to_vec()).unwrap()
    }

    /// Generates numbers with every number of digits, including the smallest and the largest.
    fn numbers() -> impl Strategy<Value = u64> {
        prop_oneof![
            (any::<u64>(), 0..64u32).prop_map(|(bits, shift)| bits >> shift),
            (0..64u32).prop_map(|shift| 1 << shift),
            (0..64u32).prop_map(|shift| u64::MAX >> shift),
            Just(0),
        ]
    }

    proptest! {
        #[test]
        fn numbers_are_printed_as_the_standard_library_prints_them(value in numbers(), width in 1..=16usize) {
            prop_assert_eq!(made(|line| line.hex(value)), format!("{value:X}"));
            prop_assert_eq!(made(|line| line.hex_wide(value, width, Pad::Zero)), format!("{value:0width$X}"));
            prop_assert_eq!(made(|line| line.hex_wide(value, width, Pad::Space)), format!("{value:width$X}"));
            prop_assert_eq!(made(|line| line.decimal(value)), format!("{value}"));
            prop_assert_eq!(made(|line| line.decimal_wide(value, width)), format!("{value:width$}"));
        }
    }
}
