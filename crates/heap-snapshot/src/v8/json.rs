//! Reads JSON as a stream of tokens, each with its offset. A snapshot is mostly numbers: gigabytes of them, which are never in memory
//! together.

use std::io::Read;

use trace_io::source::Source;

use crate::error::{Error, Result};

/// How deep values may be nested.
const DEEPEST: u32 = 64;
/// The longest string, in bytes of the file. V8 truncates the strings of a program to 1,024 characters.
const LONGEST: usize = 16 << 20;
/// The size of the read buffer in bytes.
const BUFFER: usize = 256 << 10;

/// A JSON text that is read token by token.
pub(super) struct Json<R> {
    source: Source<R>,
}

impl<R: Read> Json<R> {
    pub(super) fn new(input: R) -> Json<R> {
        Json { source: Source::new(input, BUFFER) }
    }

    /// The offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// The next byte, which is not consumed; `None` at the end.
    fn byte(&mut self) -> Result<Option<u8>> {
        if let Some(byte) = self.source.bytes().first() {
            return Ok(Some(*byte));
        }
        Ok(if self.source.has(1).map_err(Error::Input)? { Some(self.source.bytes()[0]) } else { None })
    }

    /// Skips white space, and returns the next byte, which is not consumed.
    pub(super) fn peek(&mut self) -> Result<u8> {
        loop {
            match self.byte()? {
                Some(b' ' | b'\n' | b'\r' | b'\t') => {
                    self.source.take(1);
                }
                Some(byte) => return Ok(byte),
                None => return Error::damaged(self.offset(), "the file ends here, inside a value: it is truncated"),
            }
        }
    }

    /// Consumes a punctuation mark.
    pub(super) fn expect(&mut self, mark: u8) -> Result<()> {
        match self.peek()? {
            byte if byte == mark => {
                self.source.take(1);
                Ok(())
            }
            _ => Error::damaged(self.offset(), format!("expected `{}`", char::from(mark))),
        }
    }

    /// Consumes a comma and returns `true`, or the closing mark and returns `false`. Before the first item call it with `is_first`.
    pub(super) fn next(&mut self, close: u8, is_first: &mut bool) -> Result<bool> {
        if self.peek()? == close {
            self.source.take(1);
            return Ok(false);
        }
        if !std::mem::take(is_first) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    /// Visits the members of an object: `visit` consumes the value.
    pub(super) fn object(&mut self, mut visit: impl FnMut(&mut Self, &str) -> Result<()>) -> Result<()> {
        self.expect(b'{')?;
        let mut is_first = true;
        while self.next(b'}', &mut is_first)? {
            let key = self.string()?;
            self.expect(b':')?;
            visit(self, &key)?;
        }
        Ok(())
    }

    /// Visits the items of an array: `visit` consumes the item.
    pub(super) fn array(&mut self, mut visit: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.expect(b'[')?;
        let mut is_first = true;
        while self.next(b']', &mut is_first)? {
            visit(self)?;
        }
        Ok(())
    }

    /// Consumes a whole number that is not negative.
    pub(super) fn number(&mut self) -> Result<u64> {
        self.peek()?;
        let at = self.offset();
        let (mut number, mut digits) = (0_u64, 0);
        while let Some(byte @ b'0'..=b'9') = self.byte()? {
            self.source.take(1);
            digits += 1;
            let next = number.checked_mul(10).and_then(|number| number.checked_add(u64::from(byte - b'0')));
            let Some(next) = next else { return Error::damaged(at, "the number exceeds 64 bits") };
            number = next;
        }
        match self.byte()? {
            Some(b'.' | b'e' | b'E') => Error::damaged(at, "expected a whole number"),
            _ if digits == 0 => Error::damaged(at, "expected a number"),
            _ => Ok(number),
        }
    }

    /// Consumes a string.
    pub(super) fn string(&mut self) -> Result<String> {
        self.expect(b'"')?;
        let at = self.offset();
        let mut text = Vec::new();
        loop {
            let Some(byte) = self.byte()? else {
                return Error::damaged(self.offset(), "the file ends here, inside a string: it is truncated");
            };
            self.source.take(1);
            match byte {
                b'"' => break,
                b'\\' => self.escape(&mut text)?,
                _ => text.push(byte),
            }
            if text.len() > LONGEST {
                return Error::damaged(at, "the string is longer than 16 MiB");
            }
        }
        String::from_utf8(text).or_else(|_| Error::damaged(at, "the string is not UTF-8"))
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<()> {
        let at = self.offset() - 1;
        let Some(byte) = self.byte()? else {
            return Error::damaged(at, "the file ends here, inside a string: it is truncated");
        };
        self.source.take(1);
        let plain = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            b'u' => {
                let unit = self.unit(at)?;
                let mut pair = [unit, 0];
                let is_high = (0xd800..0xdc00).contains(&unit);
                // A snapshot of V8 cuts strings between the halves of a pair.
                if is_high && self.source.has(2).map_err(Error::Input)? && self.source.bytes().starts_with(b"\\u") {
                    self.source.take(2);
                    pair[1] = self.unit(at)?;
                }
                let units = if pair[1] == 0 { &pair[..1] } else { &pair[..] };
                let decoded = char::decode_utf16(units.iter().copied()).map(|char| char.unwrap_or('\u{fffd}'));
                text.extend_from_slice(decoded.collect::<String>().as_bytes());
                return Ok(());
            }
            _ => return Error::damaged(at, "unknown escape in a string"),
        };
        text.push(plain);
        Ok(())
    }

    /// Consumes the four digits of a UTF-16 unit.
    fn unit(&mut self, at: u64) -> Result<u16> {
        if !self.source.has(4).map_err(Error::Input)? {
            return Error::damaged(at, "the file ends here, inside a string: it is truncated");
        }
        let digits = self.source.take(4);
        let unit =
            std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match unit.and_then(|digits| u16::from_str_radix(digits, 16).ok()) {
            Some(unit) => Ok(unit),
            None => Error::damaged(at, "unknown escape in a string"),
        }
    }

    /// Consumes a value of any kind.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.skip_within(DEEPEST)
    }

    fn skip_within(&mut self, levels: u32) -> Result<()> {
        let Some(levels) = levels.checked_sub(1) else {
            return Error::damaged(self.offset(), "values are nested deeper than 64 levels");
        };
        match self.peek()? {
            b'{' => self.object(|json, _| json.skip_within(levels)),
            b'[' => self.array(|json| json.skip_within(levels)),
            b'"' => self.string().map(drop),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                while let Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E') = self.byte()? {
                    self.source.take(1);
                }
                Ok(())
            }
            _ => Error::damaged(self.offset(), "expected a value"),
        }
    }
}
