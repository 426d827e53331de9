//! Where a stream is put together: block by block, on its way to the file.
//!
//! Records are put together word by word, since every record and every parameter begins at a multiple of its size and the
//! padding is ours to define (zero).
//!
//! ```text
//!              ┌ block ──────────────────────────┐slack
//!              │ end │ record │ record │ … │ rec:ord │          what is behind the block is carried into the next
//!              └─────────────────────────────────┘
//!      ┌───────┬─────────────────────────────────┬───────────
//!      │   rec:end │ record │ record │ … │ rec:ord │  …         the file: blocks at multiples of their size
//! ```
//!
//! **Past the caches.** Nobody reads a block again but the device. The lines of a block that was written are no longer in this
//! processor's caches, and to have each fetched, only to overwrite it, takes longer than all else that is done for a record: as long
//! again when neighbours on the machine fill its last cache. So records are stored past the caches.
//!
//! Blocks end where they end, in the middle of a record as a rule, since whole blocks at their places are what goes to the
//! device fastest (`behind`, which also says who writes them). A flush brings out whole records, and the last block in the file
//! is followed by the rest of its last record. So the stream of a process that is killed ends with a whole record, unless the
//! kernel was in the middle of a write or the device was behind (`.event.crash`).
//!
//! The file is made when there is something to write to it, and not before. A write that fails is the end: what of the
//! blocks went out is cut back to its last whole record, the rest is counted, and one line on standard error says so if the
//! owner wants that (`.event.full-disk`). All of this without allocating.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::ptr::NonNull;

use super::behind::{BLOCK_BYTES, Behind, By, PLACES, SLACK_BYTES};
use crate::formats::complaint::Complaint;
use crate::os::file::Cut;
use crate::sync::{fence_past_the_caches, write_past_the_caches};

const BLOCK_WORDS: usize = BLOCK_BYTES / 8;
/// Behind the block there is room for the end of its last record, whatever it is.
const SLACK_WORDS: usize = SLACK_BYTES / 8;

/// Records on their way to a file.
pub(super) struct Buffer {
    /// The block that is being filled.
    words: NonNull<u64>,
    len: usize,
    /// Where in the block the last record begins.
    last: usize,
    path: CString,
    behind: Behind,
    complaint: Complaint,
    /// What is lost, after an error, in events.
    lost: u64,
    /// Events that have been taken.
    events: u64,
    pub(super) records: u64,
    /// So much of the block is in the file.
    flushed: usize,
    /// Where the block belongs, and how it begins.
    start: Start,
    /// Of the blocks that may not be in the file yet.
    contents: [Contents; PLACES as usize],
}

/// How a block begins.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    /// Its place in the file.
    at: u64,
    /// So much of it is the end of a record that begins in the block before.
    carried: usize,
    /// So much of that record is there.
    before: usize,
    /// Records before that one.
    records: u64,
    /// Events before those of which something is in it.
    events: u64,
}

/// What is in a block.
#[derive(Clone, Copy, Debug, Default)]
struct Contents {
    start: Start,
    /// With the end of the last record, which is behind the block.
    bytes: usize,
    /// So much of it is in the file already.
    flushed: usize,
    /// Events that had been taken when it was full.
    events: u64,
}

// SAFETY: the block that is being filled belongs to it alone.
unsafe impl Send for Buffer {}

impl Buffer {
    pub(super) fn new(path: CString, complaint: Complaint, by: By) -> io::Result<Buffer> {
        Ok(Buffer::over(Behind::new(by)?, path, complaint))
    }

    fn over(behind: Behind, path: CString, complaint: Complaint) -> Buffer {
        Buffer {
            words: behind.place(0).cast(),
            len: 0,
            last: 0,
            path,
            behind,
            complaint,
            lost: 0,
            events: 0,
            records: 0,
            flushed: 0,
            start: Start::default(),
            contents: [Contents::default(); PLACES as usize],
        }
    }

    /// Appends a record of so many words of parameters.
    #[inline(always)]
    pub(super) fn put<const N: usize>(&mut self, code: u16, clock: u64, parameters: [u64; N]) -> io::Result<()> {
        const { assert!(N + 2 <= SLACK_WORDS) };
        if self.len >= BLOCK_WORDS {
            self.next_block()?;
        }
        // SAFETY: the length is below the block's, and behind the block there is room for the longest record.
        unsafe {
            let place = self.words.add(self.len);
            write_past_the_caches(place, u64::from(code) | (8 * (N as u64 + 2)) << 16);
            write_past_the_caches(place.add(1), clock);
            for (index, word) in parameters.into_iter().enumerate() {
                write_past_the_caches(place.add(2 + index), word);
            }
        }
        self.last = self.len;
        self.len += N + 2;
        self.records += 1;
        Ok(())
    }

    /// Appends a record of a word and a string, of a size that the caller knows.
    pub(super) fn put_text(&mut self, code: u16, clock: u64, word: u64, text: &str, size: usize) -> io::Result<()> {
        debug_assert!(size.is_multiple_of(8) && size <= SLACK_WORDS * 8 && 24 + text.len() < size);
        if self.len >= BLOCK_WORDS {
            self.next_block()?;
        }
        // SAFETY: as above; the size has room for the text and its end.
        unsafe {
            let place = self.words.add(self.len);
            place.write_bytes(0, size / 8);
            place.write(u64::from(code) | (size as u64) << 16);
            place.add(1).write(clock);
            place.add(2).write(word);
            std::ptr::copy_nonoverlapping(text.as_ptr(), place.add(3).as_ptr().cast(), text.len());
        }
        self.last = self.len;
        self.len += size / 8;
        self.records += 1;
        Ok(())
    }

    /// An event has been taken; its records follow.
    #[inline(always)]
    pub(super) fn count_event(&mut self) {
        self.events += 1;
    }

    /// Events that were lost with an error.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// What is in the file, once everything was written out.
    pub(super) fn written_bytes(&self) -> u64 {
        self.start.at + self.flushed as u64
    }

    /// The block is full: the carrier's, or, if that has no time for it, to be written here.
    #[cold]
    fn next_block(&mut self) -> io::Result<()> {
        fence_past_the_caches();
        self.open()?;
        self.note_contents();
        let tail = (self.len - BLOCK_WORDS) * 8;
        while !self.behind.hand_over(self.start.at, tail) {
            if self.behind.wait() {
                continue;
            }
            // As if we were alone, beginning with what nobody got to.
            self.catch_up()?;
            if !self.behind.hand_over(self.start.at, tail) {
                self.write_rest()?;
            }
            break;
        }
        self.begin_block();
        Ok(())
    }

    /// Writes everything out.
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
        let opened = self.behind.open(&self.path);
        opened.or_else(|error| {
            self.note_contents();
            self.give_up(self.behind.block(), Cut { written: 0, error })
        })
    }

    fn note_contents(&mut self) {
        let Buffer { start, events, len, flushed, .. } = *self;
        *self.contents(self.behind.block()) = Contents { start, bytes: len * 8, flushed, events };
    }

    fn contents(&mut self, block: u64) -> &mut Contents {
        &mut self.contents[(block % PLACES) as usize]
    }

    /// Writes the blocks that were handed over and are not in the file.
    fn catch_up(&mut self) -> io::Result<()> {
        for block in self.behind.take_over() {
            let flushed = self.contents(block).flushed;
            self.behind
                .write(block, flushed)
                .or_else(|Cut { written, error }| self.give_up(block, Cut { written: flushed + written, error }))?;
        }
        Ok(())
    }

    /// Writes what of the block that is being filled is not in the file; all before it is.
    fn write_rest(&mut self) -> io::Result<()> {
        let rest = self.flushed..self.len * 8;
        let written = self.behind.write_filled(rest, self.written_bytes());
        written.or_else(|Cut { written, error }| {
            self.give_up(self.behind.block(), Cut { written: self.flushed + written, error })
        })?;
        self.flushed = self.len * 8;
        Ok(())
    }

    /// Goes on in the next block, with the end of the last record.
    fn begin_block(&mut self) {
        let full = self.words;
        let words = self.behind.place(self.behind.block()).cast::<u64>();
        let carried = self.len - BLOCK_WORDS;
        // SAFETY: so much is behind the block; the place is ours to fill, and if it is the same one the two are far apart.
        unsafe { words.copy_from(full.add(BLOCK_WORDS), carried) };
        let is_cut = carried > 0;
        self.start = Start {
            at: self.start.at + BLOCK_BYTES as u64,
            carried: carried * 8,
            before: if is_cut { (BLOCK_WORDS - self.last) * 8 } else { 0 },
            records: self.records - u64::from(is_cut),
            // The one whose record comes next has been counted already.
            events: self.events.saturating_sub(1 + u64::from(is_cut)),
        };
        self.flushed = self.flushed.saturating_sub(BLOCK_BYTES);
        (self.words, self.len) = (words, carried);
    }

    /// So much of this block has gone out, and nothing of those after it: cuts the file back to whole records, tells, and
    /// counts what is lost.
    fn give_up(&mut self, block: u64, cut: Cut) -> io::Result<()> {
        let Contents { start, bytes, events, .. } = *self.contents(block);
        // SAFETY: so many bytes have been written into the place, which is nobody's to write to before this block is given
        // up.
        let bytes = unsafe { std::slice::from_raw_parts(self.behind.place(block).as_ptr(), bytes) };
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
        // Events have one record or a few: of those in the block the share of the records, to the worse; and all later ones.
        let in_block = u128::from(events - start.events);
        self.lost = (in_block * u128::from(all - records)).div_ceil(u128::from(all.max(1))) as u64;
        self.lost += self.events - events;
        self.records = start.records + records;
        self.behind.cut(whole);
        (self.start.at, self.len, self.flushed) = (whole, 0, 0);
        self.complaint.tell(&self.path, &cut.error);
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
