//! Writes records of version 2.0.0, from typed events or from the layout of any event.
//!
//! All padding is 0, so equal records have equal bytes.

use std::io::{self, Write};

use super::format::{HEADER, LARGEST_RECORD, Layout, Sort};
pub use super::typed::LONGEST_STRING;
use super::typed::{TypedRecord, fitting};

/// A parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A parameter that is not a string; a double as its bits.
    Word(u64),
    /// A string, without its NUL.
    Text(&'a [u8]),
}

/// Writes a stream of version 2.0.0.
#[derive(Debug)]
pub struct Encoder<W> {
    out: W,
    /// The number of records written.
    pub records: u64,
}

impl<W: Write> Encoder<W> {
    /// Creates an encoder that has written nothing. The first record should be an `EventInit`.
    pub fn new(out: W) -> Encoder<W> {
        Encoder { out, records: 0 }
    }

    /// Appends the record of this event. Returns `false` if a string was truncated.
    ///
    /// # Errors
    /// Writing the output failed.
    pub fn event<'a, E: TypedRecord<'a>>(&mut self, clock: u64, event: &E) -> io::Result<bool> {
        self.raw(event.encode(clock, &mut [0; LARGEST_RECORD]))?;
        Ok(event.text().is_none_or(|text| fitting(text).len() == text.len()))
    }

    /// Appends a record with these parameters, for a program that handles all events alike. Missing parameters are 0. Returns `false` if a
    /// string was truncated.
    ///
    /// # Errors
    /// Writing the output failed.
    pub fn record(&mut self, layout: &Layout, clock: u64, values: &[Value<'_>]) -> io::Result<bool> {
        let mut bytes = [0; LARGEST_RECORD];
        let mut string = 0;
        let mut is_whole = true;
        for (param, value) in layout.params.iter().zip(values) {
            let offset = usize::from(param.offset);
            match (param.sort, value) {
                (Sort::S, Value::Text(text)) => {
                    let fitting = fitting(text);
                    (string, is_whole) = (fitting.len(), fitting.len() == text.len());
                    bytes[offset..offset + string].copy_from_slice(fitting);
                }
                (Sort::U, Value::Word(word)) => {
                    bytes[offset..offset + 4].copy_from_slice(&(*word as u32).to_le_bytes())
                }
                (Sort::B, Value::Word(word)) => bytes[offset] = *word as u8,
                (Sort::S, Value::Word(_)) | (_, Value::Text(_)) => {}
                (_, Value::Word(word)) => bytes[offset..offset + 8].copy_from_slice(&word.to_le_bytes()),
            }
        }
        let size = layout.size(string);
        bytes[..2].copy_from_slice(&layout.code.to_le_bytes());
        bytes[2..4].copy_from_slice(&(size as u16).to_le_bytes());
        bytes[8..HEADER].copy_from_slice(&clock.to_le_bytes());
        self.raw(&bytes[..size])?;
        Ok(is_whole)
    }

    /// Appends the bytes of a whole record.
    pub fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.records += 1;
        self.out.write_all(bytes)
    }

    /// Flushes and returns the output.
    pub fn end(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use crate::reader::Reader;

    #[test]
    fn a_record_of_each_kind_is_read_back_as_it_was_put_together() {
        let mut encoder = Encoder::new(Vec::new());
        let word = |index: usize| 0x0102_0304_0506_0700 + index as u64;
        for layout in Version::V2.layouts() {
            let value = |(index, param): (usize, &crate::Param)| match param.sort {
                Sort::S => Value::Text(b"text"),
                Sort::B => Value::Word(1),
                _ => Value::Word(word(index)),
            };
            let values: Vec<_> = layout.params.iter().enumerate().map(value).collect();
            assert!(encoder.record(layout, 7, &values).unwrap());
        }
        let stream = encoder.end().unwrap();
        let mut reader = Reader::new(&stream[..]);
        reader.fill().unwrap();
        for layout in Version::V2.layouts() {
            let record = reader.buffered().unwrap().unwrap();
            assert_eq!((record.code(), record.clock()), (layout.code, 7));
            for (index, param) in layout.params.iter().enumerate() {
                let at = usize::from(param.offset);
                match param.sort {
                    Sort::S => assert_eq!(record.string(at), Some(&b"text"[..])),
                    Sort::B => assert_eq!(record.boolean(param), Some(1)),
                    Sort::U => assert_eq!(record.unsigned(at), Some(word(index) as u32)),
                    _ => assert_eq!(record.word(at), Some(word(index))),
                }
            }
        }
        assert!(reader.buffered().unwrap().is_none());
    }
}
