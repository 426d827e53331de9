//! Encodes numbers and texts for an eventlog: numbers are big-endian, and long texts are cut.

use std::fmt;

use trace_io::bytes::Bytes;

/// Texts are cut to this many bytes, so that any payload stays below 64 KiB and a line stays readable.
pub(super) const MOST_TEXT: usize = 4_000;

/// The parts of payloads.
pub(super) trait Payload {
    fn word16(&mut self, value: u16);
    fn word32(&mut self, value: u32);
    fn word64(&mut self, value: u64);
    /// Appends a text that ends where the payload ends.
    fn text(&mut self, text: &str);
    /// Appends a NUL-terminated text. NUL bytes inside the text are left out.
    fn ended(&mut self, text: &str);
    /// As [`text`](Payload::text), for a formatted text. Does not allocate.
    fn line(&mut self, parts: fmt::Arguments<'_>);
}

impl Payload for Bytes {
    fn word16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    fn word32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    fn word64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.put(&text.as_bytes()[..text.floor_char_boundary(MOST_TEXT)]);
    }

    fn ended(&mut self, text: &str) {
        text[..text.floor_char_boundary(MOST_TEXT)].split('\0').for_each(|part| self.put(part.as_bytes()));
        self.put(&[0]);
    }

    fn line(&mut self, parts: fmt::Arguments<'_>) {
        let mut line = Line { bytes: self, left: MOST_TEXT };
        // What does not fit is cut.
        let _ = fmt::write(&mut line, parts);
    }
}

struct Line<'a> {
    bytes: &'a mut Bytes,
    left: usize,
}

impl fmt::Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let part = &text[..text.floor_char_boundary(self.left)];
        self.bytes.put(part.as_bytes());
        self.left -= part.len();
        if part.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_character_boundaries() {
        let long = "ä".repeat(MOST_TEXT);
        let mut bytes = Bytes::with_capacity(3 * MOST_TEXT);
        bytes.text(&format!("b{long}"));
        assert_eq!(bytes.len(), MOST_TEXT - 1);
        bytes.clear();
        bytes.ended("a\0b");
        assert_eq!(bytes.as_slice(), b"ab\0");
        bytes.clear();
        bytes.line(format_args!("{}-{long}{}", 1, 2));
        assert_eq!(bytes.len(), MOST_TEXT);
    }
}
