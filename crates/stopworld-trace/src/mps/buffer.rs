//! Assembles a stream, block by block.
//!
//! Records are assembled from words: every record and every parameter is aligned to its size, and the padding may have any value
//! (here zero).
//!
//! ```text
//!              ┌ block ──────────────────────────┐slack
//!              │ end │ record │ record │ … │ rec:ord │          the slack is copied to the start of the next block
//!              └─────────────────────────────────┘
//!      ┌───────┬─────────────────────────────────┬───────────
//!      │   rec:end │ record │ record │ … │ rec:ord │  …         the file: blocks at multiples of their size
//! ```
//!
//! **Non-temporal stores.** Only the device reads a block again. When a block is reused, its lines are not in this processor's caches
//! any more, and fetching each line only to overwrite it takes longer than all other work for a record; it takes twice as long when other
//! programs on the machine fill the last-level cache. So records are written with non-temporal stores.
//!
//! A block usually ends in the middle of a record, because whole aligned blocks are written to the device fastest (see `async_file`). A
//! flush writes whole records, and the rest of its last record follows the last block in the file. So the stream of a killed process
//! ends with a whole record, unless the kernel was in the middle of a write or blocks were waiting (`.event.crash`).
//!
//! The file is created at the first write. A failed write ends the stream: the file is truncated to its last whole record, the
//! remaining events are counted as lost, and one line on standard error reports the failure if the owner wants that
//! (`.event.full-disk`). None of this allocates.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::ptr::NonNull;

use super::async_file::{AsyncFile, BLOCK_BYTES, SLACK_BYTES, SLOTS, WriterThread};
use crate::failure::{FailureReport, report};
use crate::os::file::Cut;
use crate::sync::{fence_past_the_caches, write_past_the_caches};
use crate::target::OutputFile;
use mps_telemetry::TypedRecord;

const BLOCK_WORDS: usize = BLOCK_BYTES / 8;

/// The output buffer of a stream.
pub(super) struct Buffer {
    /// The block that is being filled.
    words: NonNull<u64>,
    len: usize,
    /// The offset of the last record in the block, in words.
    last: usize,
    path: CString,
    async_file: AsyncFile,
    on_failure: Option<FailureReport>,
    /// Number of events lost after an error.
    lost: u64,
    /// The number of events taken from the recorder.
    events: u64,
    pub(super) records: u64,
    /// The number of bytes of the block that are in the file already.
    flushed: usize,
    /// The beginning of the block that is being filled.
    start: Start,
    /// The contents of the blocks that may not be in the file yet.
    contents: [Contents; SLOTS as usize],
}

/// The beginning of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    /// The file offset of the block.
    at: u64,
    /// The number of bytes at the beginning of the block that are the end of a record of the previous block.
    carried: usize,
    /// The number of bytes of that record that are in the previous block.
    before: usize,
    /// The number of records before that record.
    records: u64,
    /// Number of events before the first event with a record in the block.
    events: u64,
}

/// The contents of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Contents {
    start: Start,
    /// The size in bytes, including the end of the last record, which is past the end of the block.
    bytes: usize,
    /// The number of these bytes that are in the file already.
    flushed: usize,
    /// The number of events taken from the recorder when the block was full.
    events: u64,
}

// SAFETY: the buffer is the only owner of the block that is being filled.
unsafe impl Send for Buffer {}

impl Buffer {
    pub(super) fn new(file: OutputFile, by: WriterThread) -> io::Result<Buffer> {
        Ok(Buffer::over(AsyncFile::new(by)?, file))
    }

    fn over(async_file: AsyncFile, file: OutputFile) -> Buffer {
        Buffer {
            words: async_file.place(0).cast(),
            len: 0,
            last: 0,
            path: file.c_path,
            async_file,
            on_failure: file.on_failure,
            lost: 0,
            events: 0,
            records: 0,
            flushed: 0,
            start: Start::default(),
            contents: [Contents::default(); SLOTS as usize],
        }
    }

    /// Appends the record of an event.
    #[inline(always)]
    pub(super) fn put<'a, E: TypedRecord<'a>>(&mut self, clock: u64, event: &E) -> io::Result<()> {
        let words = event.words();
        let words = words.as_ref();
        // Decided at compile time: the words are an array.
        assert!(8 * (2 + words.len()) <= SLACK_BYTES);
        if let Some(text) = event.text() {
            return self.put_text([u64::from(E::CODE) | (E::LAYOUT.size(text.len()) as u64) << 16, clock], words, text);
        }
        if self.len >= BLOCK_WORDS {
            self.next_block()?;
        }
        // SAFETY: the record begins inside the block, and after the block there is room for the longest record.
        unsafe {
            let place = self.words.add(self.len);
            write_past_the_caches(place, const { E::CODE as u64 | (E::LAYOUT.size(0) as u64) << 16 });
            write_past_the_caches(place.add(1), clock);
            for (index, word) in words.iter().enumerate() {
                write_past_the_caches(place.add(2 + index), *word);
            }
        }
        self.last = self.len;
        self.len += 2 + words.len();
        self.records += 1;
        Ok(())
    }

    /// Appends a record that ends with a text: the two words of its header, which have its code and size, and its other words.
    fn put_text(&mut self, header: [u64; 2], words: &[u64], text: &[u8]) -> io::Result<()> {
        let size = (header[0] >> 16) as usize;
        let at = 2 + words.len();
        assert!(size.is_multiple_of(8) && size <= SLACK_BYTES && 8 * at + text.len() < size);
        if self.len >= BLOCK_WORDS {
            self.next_block()?;
        }
        // SAFETY: as above; the record has room for the text and its terminator.
        unsafe {
            let place = self.words.add(self.len);
            place.write_bytes(0, size / 8);
            place.copy_from_nonoverlapping(NonNull::from(&header).cast(), header.len());
            place.add(2).copy_from_nonoverlapping(NonNull::from(words).cast(), words.len());
            place.add(at).cast().copy_from_nonoverlapping(NonNull::from(text).cast::<u8>(), text.len());
        }
        self.last = self.len;
        self.len += size / 8;
        self.records += 1;
        Ok(())
    }

    /// Counts an event, before its records.
    #[inline(always)]
    pub(super) fn count_event(&mut self) {
        self.events += 1;
    }

    /// Returns the number of events lost because of an error.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the size of the file in bytes, if everything has been written.
    pub(super) fn written_bytes(&self) -> u64 {
        self.start.at + self.flushed as u64
    }

    /// Begins the next block. The full one is handed over to the I/O thread; if the I/O thread cannot take it, it is written here.
    #[cold]
    fn next_block(&mut self) -> io::Result<()> {
        fence_past_the_caches();
        self.open()?;
        self.note_contents();
        let tail = (self.len - BLOCK_WORDS) * 8;
        while !self.async_file.hand_over(self.start.at, tail) {
            if self.async_file.wait() {
                continue;
            }
            // Write without the I/O thread, beginning with the blocks that it did not write.
            self.catch_up()?;
            if !self.async_file.hand_over(self.start.at, tail) {
                self.write_rest()?;
            }
            break;
        }
        self.begin_block();
        Ok(())
    }

    /// Writes everything to the file.
    #[cold]
    pub(super) fn write_out(&mut self) -> io::Result<()> {
        fence_past_the_caches();
        if self.len > 0 {
            self.open()?;
        }
        self.note_contents();
        self.catch_up()?;
        self.write_rest()
    }

    fn open(&mut self) -> io::Result<()> {
        let opened = self.async_file.open(&self.path);
        opened.or_else(|error| {
            self.note_contents();
            self.give_up(self.async_file.block(), Cut { written: 0, error })
        })
    }

    fn note_contents(&mut self) {
        let Buffer { start, events, len, flushed, .. } = *self;
        *self.contents(self.async_file.block()) = Contents { start, bytes: len * 8, flushed, events };
    }

    fn contents(&mut self, block: u64) -> &mut Contents {
        &mut self.contents[(block % SLOTS) as usize]
    }

    /// Writes the blocks that were handed over and are not in the file.
    fn catch_up(&mut self) -> io::Result<()> {
        for block in self.async_file.take_over() {
            let flushed = self.contents(block).flushed;
            self.async_file
                .write(block, flushed)
                .or_else(|Cut { written, error }| self.give_up(block, Cut { written: flushed + written, error }))?;
        }
        Ok(())
    }

    /// Writes the part of the current block that is not in the file yet. Everything before the block must be in the file.
    fn write_rest(&mut self) -> io::Result<()> {
        let rest = self.flushed..self.len * 8;
        let written = self.async_file.write_filled(rest, self.written_bytes());
        written.or_else(|Cut { written, error }| {
            self.give_up(self.async_file.block(), Cut { written: self.flushed + written, error })
        })?;
        self.flushed = self.len * 8;
        Ok(())
    }

    /// Begins the next block with the end of the last record.
    fn begin_block(&mut self) {
        let full = self.words;
        let words = self.async_file.place(self.async_file.block()).cast::<u64>();
        let carried = self.len - BLOCK_WORDS;
        // SAFETY: `carried` words of the last record are after the block. This thread owns the next block's slot; if it is the same
        // slot, the two ranges do not overlap.
        unsafe { words.copy_from(full.add(BLOCK_WORDS), carried) };
        let is_cut = carried > 0;
        self.start = Start {
            at: self.start.at + BLOCK_BYTES as u64,
            carried: carried * 8,
            before: if is_cut { (BLOCK_WORDS - self.last) * 8 } else { 0 },
            records: self.records - u64::from(is_cut),
            // The event whose record comes next has been counted already.
            events: self.events.saturating_sub(1 + u64::from(is_cut)),
        };
        self.flushed = self.flushed.saturating_sub(BLOCK_BYTES);
        (self.words, self.len) = (words, carried);
    }

    /// Ends the stream after a failed write, which wrote `cut.written` bytes of this block and nothing of later ones: truncates the
    /// file to whole records, counts the lost events, and reports the error.
    fn give_up(&mut self, block: u64, cut: Cut) -> io::Result<()> {
        let Contents { start, bytes, events, .. } = *self.contents(block);
        // SAFETY: this many bytes of the slot have been written, and no thread writes to it before the block is given up.
        let bytes = unsafe { std::slice::from_raw_parts(self.async_file.place(block).as_ptr(), bytes) };
        let size_at = |at: usize| usize::from(u16::from_le_bytes([bytes[at + 2], bytes[at + 3]]));
        let mut whole = start.at - start.before as u64;
        let (mut records, mut all) = (0, u64::from(start.carried > 0));
        let mut end = start.carried;
        while end <= cut.written {
            (whole, records) = (start.at + end as u64, all);
            if end >= bytes.len() {
                break;
            }
            end += size_at(end);
            all += 1;
        }
        while end < bytes.len() {
            end += size_at(end);
            all += 1;
        }
        // An event has one or a few records. The events of the block are counted as lost in proportion to its lost records, rounded
        // up; all later events are lost.
        let in_block = u128::from(events - start.events);
        self.lost = (in_block * u128::from(all - records)).div_ceil(u128::from(all.max(1))) as u64;
        self.lost += self.events - events;
        self.records = start.records + records;
        self.async_file.cut(whole);
        (self.start.at, self.len, self.flushed) = (whole, 0, 0);
        report(self.on_failure, &self.path, &cut.error);
        Err(cut.error)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("path", &self.path).field("bytes", &(self.len * 8)).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
mod tests;
