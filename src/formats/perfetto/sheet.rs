//! Rows of JSON, put together without allocating: what a drain writes is written so, and a conversion does it the same way.

use std::io;

use trace_io::json::quote;

/// A text is cut to this many bytes.
const MOST_TEXT: usize = 4 << 10;
/// Numbers above are not exact where a reader has only doubles.
const EXACT: u64 = 1 << 53;

/// Where the bytes of rows go.
pub(crate) trait Sheet {
    /// Takes the next bytes of a row.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// A row is complete.
    fn end_row(&mut self) -> io::Result<()>;
}

/// The members of an object that is being written.
pub(crate) struct Args<'s, S> {
    sheet: &'s mut S,
    is_first: bool,
    failed: io::Result<()>,
}

impl<'s, S: Sheet> Args<'s, S> {
    /// Writes an object of what `fill` puts into it.
    pub(super) fn object(sheet: &'s mut S, fill: impl FnOnce(&mut Args<'_, S>)) -> io::Result<()> {
        sheet.put(b"{")?;
        let mut args = Args { sheet, is_first: true, failed: Ok(()) };
        fill(&mut args);
        let Args { sheet, failed, .. } = args;
        failed?;
        sheet.put(b"}")
    }

    fn member(&mut self, name: &str, value: impl FnOnce(&mut S) -> io::Result<()>) {
        if self.failed.is_ok() {
            self.failed = self.attempt(name, value);
        }
    }

    fn attempt(&mut self, name: &str, value: impl FnOnce(&mut S) -> io::Result<()>) -> io::Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.sheet.put(b",")?;
        }
        text(self.sheet, name)?;
        self.sheet.put(b":")?;
        value(self.sheet)
    }

    /// A number; as a text if a reader could not tell it from its neighbours.
    pub(crate) fn number(&mut self, name: &str, value: u64) {
        self.member(name, |sheet| {
            if value <= EXACT {
                return number(sheet, value);
            }
            sheet.put(b"\"")?;
            number(sheet, value)?;
            sheet.put(b"\"")
        });
    }

    /// What is counted, which is a number whatever becomes of it.
    pub(crate) fn count(&mut self, name: &str, value: u64) {
        self.member(name, |sheet| number(sheet, value));
    }

    /// An address.
    pub(crate) fn address(&mut self, name: &str, value: u64) {
        self.member(name, |sheet| {
            sheet.put(b"\"0x")?;
            hexadecimal(sheet, value)?;
            sheet.put(b"\"")
        });
    }

    /// A text.
    pub(crate) fn text(&mut self, name: &str, value: &str) {
        self.member(name, |sheet| text(sheet, value));
    }

    /// What is JSON already.
    #[cfg(feature = "readers")]
    pub(crate) fn json(&mut self, name: &str, value: &str) {
        self.member(name, |sheet| sheet.put(value.as_bytes()));
    }
}

/// A text between quotation marks.
pub(super) fn text<S: Sheet>(sheet: &mut S, text: &str) -> io::Result<()> {
    let text = &text[..text.floor_char_boundary(MOST_TEXT)];
    quote(text, |piece| sheet.put(piece.as_bytes()))
}

/// A number in decimal digits.
pub(super) fn number<S: Sheet>(sheet: &mut S, mut value: u64) -> io::Result<()> {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return sheet.put(&digits[at..]);
        }
    }
}

/// Nanoseconds as microseconds with three decimals.
pub(super) fn microseconds<S: Sheet>(sheet: &mut S, ns: i64) -> io::Result<()> {
    if ns < 0 {
        sheet.put(b"-")?;
    }
    let ns = ns.unsigned_abs();
    number(sheet, ns / 1000)?;
    let rest = ns % 1000;
    sheet.put(&[b'.', b'0' + (rest / 100) as u8, b'0' + (rest / 10 % 10) as u8, b'0' + (rest % 10) as u8])
}

fn hexadecimal<S: Sheet>(sheet: &mut S, value: u64) -> io::Result<()> {
    let digits: [u8; 16] = std::array::from_fn(|place| digit((value >> (60 - 4 * place)) as u8 & 15));
    let first = (value.leading_zeros() as usize / 4).min(15);
    sheet.put(&digits[first..])
}

fn digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'a' + value - 10 }
}

/// Rows in memory.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Paper(pub(crate) Vec<u8>);

#[cfg(test)]
impl Sheet for Paper {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
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

    fn written(write: impl FnOnce(&mut Paper) -> io::Result<()>) -> String {
        let mut paper = Paper::default();
        write(&mut paper).unwrap();
        String::from_utf8(paper.0).unwrap()
    }

    #[rstest]
    #[case(0, "0.000")]
    #[case(1, "0.001")]
    #[case(1_234_567, "1234.567")]
    #[case(-1_050, "-1.050")]
    #[case(i64::MIN, "-9223372036854775.808")]
    fn nanoseconds_are_decimals_of_microseconds(#[case] ns: i64, #[case] expected: &str) {
        assert_eq!(written(|paper| microseconds(paper, ns)), expected);
    }

    #[test]
    fn numbers_that_doubles_do_not_have_are_texts() {
        let object = written(|paper| {
            Args::object(paper, |args| {
                args.number("a", 1 << 53);
                args.number("b", u64::MAX);
                args.address("c", 0);
                args.address("d", 0xFFFF_8000_0000_0001);
            })
        });
        assert_eq!(object, r#"{"a":9007199254740992,"b":"18446744073709551615","c":"0x0","d":"0xffff800000000001"}"#);
    }

    proptest! {
        /// A strict parser reads any text back as it was.
        #[test]
        fn any_text_is_one_of_json(name in any::<String>(), value in any::<String>()) {
            let object = written(|paper| Args::object(paper, |args| args.text(&name, &value)));
            let parsed: serde_json::Value = serde_json::from_str(&object).unwrap();
            prop_assert_eq!(parsed.get(&name).and_then(|value| value.as_str()), Some(value.as_str()));
        }
    }
}
