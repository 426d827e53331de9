//! Texts of events. Long texts are cut.

use std::fmt;

use stopworld::events::{Label, Labels};

/// Texts are cut to this many bytes, so that any payload stays below 64 KiB and a line stays readable.
const MOST_TEXT: usize = 4_000;

/// Cuts a text between two characters.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_TEXT)]
}

/// Returns the text of a label.
pub(super) fn of_label(label: u64) -> &'static str {
    let text = Label::from_raw(label).and_then(|label| Labels::of_the_process().text(label));
    cut(text.unwrap_or_default())
}

/// Memory for a line of a message, in which it is formatted without allocation.
#[derive(Debug)]
pub(super) struct Line {
    bytes: Box<[u8]>,
    len: usize,
}

impl Line {
    pub(super) fn new() -> Line {
        Line { bytes: vec![0; MOST_TEXT].into(), len: 0 }
    }

    /// Formats a line. Does not allocate.
    pub(super) fn format(&mut self, parts: fmt::Arguments<'_>) -> &[u8] {
        self.len = 0;
        // Text that does not fit is cut.
        let _ = fmt::write(self, parts);
        &self.bytes[..self.len]
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let part = &text[..text.floor_char_boundary(self.bytes.len() - self.len)];
        self.bytes[self.len..][..part.len()].copy_from_slice(part.as_bytes());
        self.len += part.len();
        if part.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_character_boundaries() {
        let long = "ä".repeat(MOST_TEXT);
        assert_eq!(cut(&format!("b{long}")).len(), MOST_TEXT - 1);
        let mut line = Line::new();
        assert_eq!(line.format(format_args!("{}-{long}{}", 1, 2)).len(), MOST_TEXT);
        assert_eq!(line.format(format_args!("{}-{long}{}", 12, 2)).len(), MOST_TEXT - 1);
        assert_eq!(line.format(format_args!("{}", 34)), b"34", "each line begins anew");
    }
}
