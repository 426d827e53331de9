//! JSON for files and terminals.

use std::io::{self, Write};

use serde::{Serialize, Serializer};
use serde_json::ser::Formatter;

/// Writes a value as compact JSON.
///
/// # Errors
/// Writing failed.
pub(crate) fn write(to: impl Write, value: &impl Serialize) -> io::Result<()> {
    Ok(value.serialize(&mut serde_json::Serializer::with_formatter(to, Printable))?)
}

/// Escapes all control characters, including those that JSON allows unescaped, because text from a file must not control a terminal.
struct Printable;

impl Formatter for Printable {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        // serde_json itself escapes the control characters below U+0020.
        for piece in fragment.split_inclusive(char::is_control) {
            let plain = piece.trim_end_matches(char::is_control);
            to.write_all(plain.as_bytes())?;
            piece[plain.len()..].chars().try_for_each(|control| write!(to, "\\u{:04x}", u32::from(control)))?;
        }
        Ok(())
    }
}

/// A sequence whose items are made while they are written.
pub(crate) struct Items<F>(pub(crate) F);

impl<F: Fn() -> I, I: IntoIterator<Item: Serialize>> Serialize for Items<F> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a\"b\\c\nd µ", r#""a\"b\\c\nd µ""#)]
    #[case("\0\u{1b}\u{7f}\u{80}x\u{9f}", r#""\u0000\u001b\u007f\u0080x\u009f""#)]
    #[case("µ\u{a0}∑", "\"µ\u{a0}∑\"")]
    fn control_characters_are_escaped(#[case] text: &str, #[case] expected: &str) {
        let mut json = Vec::new();
        write(&mut json, &text).unwrap();
        assert_eq!(String::from_utf8(json).unwrap(), expected);
    }
}
