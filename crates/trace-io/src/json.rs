//! Strings as JSON.

/// Passes a string to `put` piece by piece, quoted and escaped. Allocates nothing.
/// All control characters are escaped, including those that JSON allows unescaped, because text from a file must not control a terminal.
///
/// # Errors
/// The first error of `put`.
pub fn quote<E>(text: &str, mut put: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    put("\"")?;
    // `text[..plain]` has been passed to `put`, and `text[..seen]` has been examined.
    let (mut plain, mut seen) = (0, 0);
    while let Some(found) = text.as_bytes()[seen..].iter().position(|&byte| MAY_NEED_ESCAPE[usize::from(byte)]) {
        let at = seen + found;
        // Such a byte is always the first of a character.
        let Some(character) = text[at..].chars().next() else { break };
        seen = at + character.len_utf8();
        if !needs_escape(character) {
            continue;
        }
        put(&text[plain..at])?;
        plain = seen;
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

/// The first byte, in UTF-8, of the control characters U+0080 to U+009F, and of 32 characters that need no escaping.
const LATIN: u8 = 0xC2;

/// The bytes that begin a character that needs escaping, and [`LATIN`].
static MAY_NEED_ESCAPE: [bool; 256] = {
    let mut may = [false; 256];
    let mut byte = 0u8;
    while byte < 0x80 {
        may[byte as usize] = needs_escape(byte as char);
        byte += 1;
    }
    may[LATIN as usize] = true;
    may
};

const fn needs_escape(character: char) -> bool {
    matches!(character, '\0'..='\x1f' | '"' | '\\' | '\x7f'..='\u{9f}')
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
    use proptest::char::range;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a\"b\\c\nd µ", r#""a\"b\\c\nd µ""#)]
    #[case("\n\r\t", r#""\n\r\t""#)]
    #[case("\0\u{1b}\u{7f}\u{9f}", r#""\u0000\u001b\u007f\u009f""#)]
    #[case("µ\u{a0}∑", "\"µ\u{a0}∑\"")]
    #[case("µ\u{80}\u{bf}\"", "\"µ\\u0080\u{bf}\\\"\"")]
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

        /// Each character is escaped, or not, whatever its neighbours are.
        #[test]
        fn each_character_is_quoted_by_itself(
            characters in vec(prop_oneof![range('\0', '\u{ff}'), any::<char>()], 0..40),
        ) {
            let quoted = |character: &char| match character {
                '"' => "\\\"".to_owned(),
                '\\' => "\\\\".to_owned(),
                '\n' => "\\n".to_owned(),
                '\r' => "\\r".to_owned(),
                '\t' => "\\t".to_owned(),
                control if control.is_control() => format!("\\u{:04x}", u32::from(*control)),
                other => other.to_string(),
            };
            let expected: String = characters.iter().map(quoted).collect();
            let text: String = characters.iter().collect();
            prop_assert_eq!(Quoted(&text).to_string(), format!("\"{expected}\""));
        }
    }
}
