//! Bytes of a file, as far as they are in memory.
//!
//! ```text
//!   file     ………taken………│ here, and not taken yet │……not read……
//!   buffer        at ────┘                    end ─┘
//! ```
//!
//! The buffer has the size that its reader wants, once anything is read, and is doubled for an item that does not fit. What is an item, and how
//! long it may be, is the reader's to say: a length in the file moves no memory before what it says has been read
//! (`.format.hostile`).

use std::io::{self, Read};

/// A file that is read from its first byte on.
#[derive(Debug)]
pub(super) struct Source<R> {
    input: R,
    buffer: Vec<u8>,
    /// The buffer's size, as long as all items fit.
    usual: usize,
    /// The first byte that is not taken yet.
    at: usize,
    /// The byte after the last one that is here.
    end: usize,
    /// Where in the file the buffer's first byte is.
    base: u64,
}

impl<R: Read> Source<R> {
    /// With a buffer of so many bytes. Nothing is read yet.
    pub(super) fn new(input: R, usual: usize) -> Source<R> {
        Source { input, buffer: Vec::new(), usual, at: 0, end: 0, base: 0 }
    }

    /// Where in the file the next byte is.
    #[inline]
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// How many bytes were read: where in the file the first byte is that is not here yet.
    pub(super) fn reached(&self) -> u64 {
        self.base + self.end as u64
    }

    /// What is here and not taken yet.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    /// Takes bytes that are here.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        debug_assert!(count <= self.end - self.at);
        self.at += count;
        &self.buffer[self.at - count..self.at]
    }

    /// Whether so many bytes are here, or could be read.
    #[inline]
    pub(super) fn has(&mut self, count: usize) -> io::Result<bool> {
        while self.end - self.at < count {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Leaves out bytes, as many of these as the file has. Says how many it has not.
    pub(super) fn skip(&mut self, mut count: u64) -> io::Result<u64> {
        while count > 0 {
            if self.at == self.end && !self.more()? {
                break;
            }
            let here = count.min((self.end - self.at) as u64);
            self.at += here as usize;
            count -= here;
        }
        Ok(count)
    }

    /// Reads more behind what is here. False at the end of the file.
    pub(super) fn more(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.base += self.at as u64;
        self.end -= self.at;
        self.at = 0;
        if self.end == self.buffer.len() {
            self.grow();
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        if self.buffer.is_empty() {
            // Zeros from the system, which costs nothing for what a small file never touches.
            self.buffer = vec![0; self.usual];
        } else {
            self.buffer.resize(2 * self.end, 0);
        }
    }
}
