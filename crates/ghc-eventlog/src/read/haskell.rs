//! Writes texts as Haskell's `show` does.

/// The names of the control characters below 32.
const CONTROL: [&str; 32] = [
    "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "a", "b", "t", "n", "v", "f", "r", "SO", "SI", "DLE", "DC1",
    "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US",
];

/// Writes a text as a literal in quotes, with a decimal escape for each character that is not ASCII. If the next character would be read as
/// part of an escape, the escape ends with `\&`.
pub(super) fn literal(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek();
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\x7f' => out.extend_from_slice(b"\\DEL"),
            ' '..='\x7e' => out.push(character as u8),
            '\0'..='\x1f' => {
                out.push(b'\\');
                out.extend_from_slice(CONTROL[character as usize].as_bytes());
                if character == '\x0e' && next == Some(&'H') {
                    out.extend_from_slice(b"\\&");
                }
            }
            _ => {
                out.extend_from_slice(format!("\\{}", character as u32).as_bytes());
                if next.is_some_and(char::is_ascii_digit) {
                    out.extend_from_slice(b"\\&");
                }
            }
        }
    }
    out.push(b'"');
}

/// Returns whether Haskell's `isPrint` holds: true for all characters but controls, format characters, private and unassigned ones, and
/// separators of lines and paragraphs.
pub(super) fn is_printable(character: char) -> bool {
    if matches!(character, ' '..='\x7e') {
        return true;
    }
    if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
        return false;
    }
    if character.is_whitespace() {
        return true;
    }
    // Rust's debug output escapes all other characters that are not printable. It also escapes a combining mark at the beginning of a
    // text, so an `a` precedes the character.
    let mut both = [b'a'; 5];
    let length = 1 + character.encode_utf8(&mut both[1..]).len();
    let shown = std::str::from_utf8(&both[..length]).map_or(0, |both| both.escape_debug().count());
    shown == 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("plain text", "\"plain text\"")]
    #[case("a\"b\\c", r#""a\"b\\c""#)]
    #[case("\n\t\0\x7f", r#""\n\t\NUL\DEL""#)]
    #[case("\u{e9}1", r#""\233\&1""#)]
    #[case("\u{e9}x", r#""\233x""#)]
    #[case("\x0eH", r#""\SO\&H""#)]
    #[case("\x0eI", r#""\SOI""#)]
    #[case("\u{1F600}", r#""\128512""#)]
    fn literals_are_those_of_haskells_show(#[case] text: &str, #[case] shown: &str) {
        let mut out = Vec::new();
        literal(&mut out, text);
        assert_eq!(String::from_utf8(out).unwrap(), shown);
    }

    #[rstest]
    #[case('a', true)]
    #[case('\u{e9}', true)]
    #[case('\u{a0}', true)]
    #[case('\u{301}', true)]
    #[case('\u{4e2d}', true)]
    #[case('\n', false)]
    #[case('\u{85}', false)]
    #[case('\u{ad}', false)]
    #[case('\u{200b}', false)]
    #[case('\u{2028}', false)]
    #[case('\u{e000}', false)]
    #[case('\u{378}', false)]
    fn characters_are_printable_as_haskell_has_it(#[case] character: char, #[case] printable: bool) {
        assert_eq!(is_printable(character), printable);
    }
}
