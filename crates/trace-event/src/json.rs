//! A JSON writer that does not allocate, because the recorder's drain must not allocate. Conversions use it too.

use std::io;

use trace_io::json::quote;

/// A text is cut to this many bytes.
const MOST_TEXT: usize = 4 << 10;
/// The largest integer up to which all integers are exact in a reader that has only doubles.
const EXACT: u64 = 1 << 53;

/// Receives the bytes of rows.
pub trait Output {
    /// Takes the next bytes of a row.
    ///
    /// # Errors
    /// The output failed. The writer stops at the first error.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Called when a row is complete.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    fn end_row(&mut self) -> io::Result<()>;
}

/// A JSON object that is being written.
pub struct Args<'s, S> {
    output: &'s mut S,
    is_first: bool,
    failed: io::Result<()>,
}

impl<'s, S: Output> Args<'s, S> {
    /// Writes an object with the members that `fill` adds.
    pub(super) fn object(output: &'s mut S, fill: impl FnOnce(&mut Args<'_, S>)) -> io::Result<()> {
        output.put(b"{")?;
        let mut args = Args { output, is_first: true, failed: Ok(()) };
        fill(&mut args);
        let Args { output, failed, .. } = args;
        failed?;
        output.put(b"}")
    }

    fn member(&mut self, name: &str, value: impl FnOnce(&mut S) -> io::Result<()>) {
        if self.failed.is_ok() {
            self.failed = self.attempt(name, value);
        }
    }

    fn attempt(&mut self, name: &str, value: impl FnOnce(&mut S) -> io::Result<()>) -> io::Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.output.put(b",")?;
        }
        text(self.output, name)?;
        self.output.put(b":")?;
        value(self.output)
    }

    /// Adds a number. If a double cannot represent it exactly, it is written as a string.
    pub fn number(&mut self, name: &str, value: u64) {
        self.member(name, |output| {
            if value <= EXACT {
                return number(output, value);
            }
            output.put(b"\"")?;
            number(output, value)?;
            output.put(b"\"")
        });
    }

    /// Adds the value of a counter. It is always a number, even if a double cannot represent it exactly.
    pub fn count(&mut self, name: &str, value: u64) {
        self.member(name, |output| number(output, value));
    }

    /// Adds an address, as a hexadecimal string.
    pub fn address(&mut self, name: &str, value: u64) {
        self.member(name, |output| {
            output.put(b"\"0x")?;
            hexadecimal(output, value)?;
            output.put(b"\"")
        });
    }

    /// Adds a string.
    pub fn text(&mut self, name: &str, value: &str) {
        self.member(name, |output| text(output, value));
    }

    /// Adds a value that is JSON text already.
    pub fn json(&mut self, name: &str, value: &str) {
        self.member(name, |output| output.put(value.as_bytes()));
    }
}

/// Writes a quoted and escaped string.
pub(super) fn text<S: Output>(output: &mut S, text: &str) -> io::Result<()> {
    let text = &text[..text.floor_char_boundary(MOST_TEXT)];
    quote(text, |piece| output.put(piece.as_bytes()))
}

/// Writes a number in decimal digits.
pub(super) fn number<S: Output>(output: &mut S, mut value: u64) -> io::Result<()> {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return output.put(&digits[at..]);
        }
    }
}

/// Writes nanoseconds as microseconds with three decimals.
pub(super) fn microseconds<S: Output>(output: &mut S, ns: i64) -> io::Result<()> {
    if ns < 0 {
        output.put(b"-")?;
    }
    let ns = ns.unsigned_abs();
    number(output, ns / 1000)?;
    let rest = ns % 1000;
    output.put(&[b'.', b'0' + (rest / 100) as u8, b'0' + (rest / 10 % 10) as u8, b'0' + (rest % 10) as u8])
}

fn hexadecimal<S: Output>(output: &mut S, value: u64) -> io::Result<()> {
    let digits: [u8; 16] = std::array::from_fn(|place| digit((value >> (60 - 4 * place)) as u8 & 15));
    let first = (value.leading_zeros() as usize / 4).min(15);
    output.put(&digits[first..])
}

fn digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'a' + value - 10 }
}

/// Rows in memory.
impl Output for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn end_row(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut rows = Vec::new();
        write(&mut rows).unwrap();
        String::from_utf8(rows).unwrap()
    }

    #[rstest]
    #[case(0, "0.000")]
    #[case(1, "0.001")]
    #[case(1_234_567, "1234.567")]
    #[case(-1_050, "-1.050")]
    #[case(i64::MIN, "-9223372036854775.808")]
    fn nanoseconds_become_microseconds_with_three_decimals(#[case] ns: i64, #[case] expected: &str) {
        assert_eq!(written(|rows| microseconds(rows, ns)), expected);
    }

    #[test]
    fn numbers_that_a_double_cannot_represent_are_strings() {
        let object = written(|rows| {
            Args::object(rows, |args| {
                args.number("a", 1 << 53);
                args.number("b", u64::MAX);
                args.address("c", 0);
                args.address("d", 0xFFFF_8000_0000_0001);
            })
        });
        assert_eq!(object, r#"{"a":9007199254740992,"b":"18446744073709551615","c":"0x0","d":"0xffff800000000001"}"#);
    }

    proptest! {
        /// A strict parser reads any string back unchanged.
        #[test]
        fn any_string_round_trips_through_json(name in any::<String>(), value in any::<String>()) {
            let object = written(|rows| Args::object(rows, |args| args.text(&name, &value)));
            let parsed: serde_json::Value = serde_json::from_str(&object).unwrap();
            prop_assert_eq!(parsed.get(&name).and_then(|value| value.as_str()), Some(value.as_str()));
        }
    }
}
