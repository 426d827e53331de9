//! Writes records: a tag, a time, a length, and the contents. All numbers are big-endian.

use std::collections::HashMap;
use std::io::Write;

use super::{HEAP_DUMP_END, HEAP_DUMP_SEGMENT, MAGIC, STRING};
use crate::error::{Error, Result};

/// A segment is written when it has this many bytes.
const SEGMENT: usize = 1 << 20;

/// A file that is being written.
pub(super) struct Records<W> {
    out: W,
    segment: Vec<u8>,
    /// The ids of the strings that were written.
    strings: HashMap<String, u64>,
}

impl<W: Write> Records<W> {
    pub(super) fn begin(out: W) -> Result<Records<W>> {
        let mut records = Records { out, segment: Vec::with_capacity(SEGMENT), strings: HashMap::new() };
        records.put(MAGIC)?;
        records.put(b".2\0")?;
        // Ids have eight bytes. The time of the dump is unknown.
        records.put(&8_u32.to_be_bytes())?;
        records.put(&0_u64.to_be_bytes())?;
        Ok(records)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(Error::Output)
    }

    /// Writes a record.
    pub(super) fn record(&mut self, tag: u8, parts: &[&[u8]]) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let Ok(length) = u32::try_from(length) else {
            return Err(Error::TooLarge(
                "a name or an object exceeds 4 GiB, the largest record of HPROF: write a .heapsnapshot",
            ));
        };
        self.put(&[tag, 0, 0, 0, 0])?;
        self.put(&length.to_be_bytes())?;
        parts.iter().try_for_each(|part| self.put(part))
    }

    /// Returns the id of a string. Writes it when it is used first.
    pub(super) fn string(&mut self, text: &str) -> Result<u64> {
        if let Some(id) = self.strings.get(text) {
            return Ok(*id);
        }
        // The ids of strings are apart from those of objects.
        let id = self.strings.len() as u64 + 1;
        self.strings.insert(text.to_owned(), id);
        self.record(STRING, &[&id.to_be_bytes(), text.as_bytes()])?;
        Ok(id)
    }

    /// Appends to the current segment of the heap dump.
    pub(super) fn dump(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.segment.extend_from_slice(part));
    }

    /// Ends an object in the heap dump: writes the segment if it is full.
    pub(super) fn dumped(&mut self) -> Result<()> {
        if self.segment.len() < SEGMENT { Ok(()) } else { self.write_segment() }
    }

    fn write_segment(&mut self) -> Result<()> {
        let segment = std::mem::take(&mut self.segment);
        self.record(HEAP_DUMP_SEGMENT, &[&segment])?;
        self.segment = segment;
        self.segment.clear();
        // Do not keep the memory of a large array.
        self.segment.shrink_to(2 * SEGMENT);
        Ok(())
    }

    /// Ends the file.
    pub(super) fn finish(mut self) -> Result<()> {
        if !self.segment.is_empty() {
            self.write_segment()?;
        }
        self.record(HEAP_DUMP_END, &[])?;
        self.out.flush().map_err(Error::Output)
    }
}
