//! Where a stream is put together: one buffer, written to the file a block at a time.
//!
//! Records are put together word by word, since every record and every parameter begins at a multiple of its size and the
//! padding is ours to define (zero). Whole records only: a block ends where a record ends, so the stream of a process
//! that is killed ends in order, unless it was in the very act of writing; then its last record may be cut (`.event.crash`).
//!
//! The file is made when there is something to write to it, and not before. A write that fails is the end: what of the block went
//! out is cut back to its last whole record, the rest is counted, and one line on standard error says so if the
//! owner wants that (`.event.full-disk`). All of this without allocating.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::ptr::NonNull;

use crate::formats::complaint::Complaint;
use crate::os::file::{Cut, Output};
use crate::os::memory::{map_anonymous, unmap};

/// What goes to the file at once, at least.
const BLOCK_WORDS: usize = (512 << 10) / 8;
/// Behind the block there is room for one more record, whatever it is.
const SLACK_WORDS: usize = 64;

/// Records on their way to a file.
pub(super) struct Buffer {
    words: NonNull<u64>,
    len: usize,
    path: CString,
    file: Option<Output>,
    complaint: Complaint,
    /// What of the buffer is lost, after an error, in events.
    lost: u64,
    /// Events that are in the buffer, in whole or in part.
    events: u64,
    pub(super) records: u64,
    pub(super) written_bytes: u64,
}

// SAFETY: the memory belongs to it alone.
unsafe impl Send for Buffer {}

impl Buffer {
    pub(super) fn new(path: CString, complaint: Complaint) -> io::Result<Buffer> {
        let memory = map_anonymous((BLOCK_WORDS + SLACK_WORDS) * 8)?;
        let words = NonNull::new(memory.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Buffer { words, len: 0, path, file: None, complaint, lost: 0, events: 0, records: 0, written_bytes: 0 })
    }

    /// Appends a record of so many words of parameters.
    #[inline(always)]
    pub(super) fn put<const N: usize>(&mut self, code: u16, clock: u64, parameters: [u64; N]) -> io::Result<()> {
        const { assert!(N + 2 <= SLACK_WORDS) };
        if self.len >= BLOCK_WORDS {
            self.write_out()?;
        }
        // SAFETY: the length is below the block's, and behind the block there is room for the longest record.
        unsafe {
            let place = self.words.add(self.len);
            place.write(u64::from(code) | (8 * (N as u64 + 2)) << 16);
            place.add(1).write(clock);
            for (index, word) in parameters.into_iter().enumerate() {
                place.add(2 + index).write(word);
            }
        }
        self.len += N + 2;
        self.records += 1;
        Ok(())
    }

    /// Appends a record of a word and a string, of a size that the caller knows.
    pub(super) fn put_text(&mut self, code: u16, clock: u64, word: u64, text: &str, size: usize) -> io::Result<()> {
        debug_assert!(size.is_multiple_of(8) && size <= SLACK_WORDS * 8 && 24 + text.len() < size);
        if self.len >= BLOCK_WORDS {
            self.write_out()?;
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

    /// Writes everything out.
    #[cold]
    pub(super) fn write_out(&mut self) -> io::Result<()> {
        if self.len == 0 {
            return Ok(());
        }
        let result = self.opened().map_err(|error| Cut { written: 0, error });
        let result = result.and_then(|()| match &self.file {
            Some(file) => file.write_all(self.bytes()),
            None => Ok(()),
        });
        match result {
            Ok(()) => {
                self.written_bytes += self.len as u64 * 8;
                (self.len, self.events) = (0, 0);
                Ok(())
            }
            Err(cut) => {
                self.give_up(cut.written);
                self.complaint.tell(&self.path, &cut.error);
                Err(cut.error)
            }
        }
    }

    fn opened(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(Output::create(&self.path)?);
        }
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: so many words have been written.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len * 8) }
    }

    /// So much of the block has gone out: cuts the file back to whole records, and counts what is lost.
    fn give_up(&mut self, written: usize) {
        let (mut whole, mut records, mut all) = (0, 0, 0);
        let bytes = self.bytes();
        let mut at = 0;
        while at < bytes.len() {
            at += usize::from(u16::from_le_bytes([bytes[at + 2], bytes[at + 3]]));
            all += 1;
            if at <= written {
                (whole, records) = (at, all);
            }
        }
        self.written_bytes += whole as u64;
        if let Some(file) = &self.file {
            file.truncate(self.written_bytes);
        }
        // Events have one record or a few: the share of the records, to the worse.
        self.lost = (u128::from(self.events) * u128::from(all - records)).div_ceil(u128::from(all.max(1))) as u64;
        self.records -= all - records;
        self.len = 0;
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("path", &self.path).field("bytes", &(self.len * 8)).finish_non_exhaustive()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size.
        unsafe { unmap(self.words.as_ptr().cast(), (BLOCK_WORDS + SLACK_WORDS) * 8) };
    }
}
