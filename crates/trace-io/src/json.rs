//! Strings as JSON.

/// Passes a string to `put` piece by piece, quoted and escaped. Allocates nothing.
/// All control characters are escaped, including those that JSON allows unescaped, because text from a file must not control a terminal.
///
/// # Errors
/// The first error of `put`.
pub fn quote<E>(text: &str, mut put: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    put("\"")?;
    let mut plain = 0;
    for (at, character) in text.char_indices() {
        if !character.is_control() && character != '"' && character != '\\' {
            continue;
        }
        put(&text[plain..at])?;
        plain = at + character.len_utf8();
        match character {
            '"' => put("\\\"")?,
            '\\' => put("\\\\")?,
            '\n' => put("\\n")?,
            '\r' => put("\\r")?,
            '\t' => put("\\t")?,
            // All other control characters are below U+00A0.
            control => ["\\u00", digit(u32::from(control) >> 4), digit(u32::from(control))]
                .into_iter()
                .try_for_each(&mut put)?,
        }
    }
    put(&text[plain..])?;
    put("\"")
}

fn digit(value: u32) -> &'static str {
    let at = value as usize & 15;
    &"0123456789abcdef"[at..=at]
}

/// Displays a string as JSON: quoted and escaped.
pub struct Quoted<'a>(pub &'a str);

impl std::fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        quote(self.0, |piece| f.write_str(piece))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a\"b\\c\nd µ", r#""a\"b\\c\nd µ""#)]
    #[case("\n\r\t", r#""\n\r\t""#)]
    #[case("\0\u{1b}\u{7f}\u{9f}", r#""\u0000\u001b\u007f\u009f""#)]
    #[case("µ\u{a0}∑", "\"µ\u{a0}∑\"")]
    fn control_characters_are_escaped(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(Quoted(text).to_string(), expected);
    }

    proptest! {
        /// A strict parser reads any text back unchanged.
        #[test]
        fn a_strict_parser_reads_any_text_back(text in any::<String>()) {
            let parsed: String = serde_json::from_str(&Quoted(&text).to_string()).unwrap();
            prop_assert_eq!(parsed, text);
        }
    }
}
