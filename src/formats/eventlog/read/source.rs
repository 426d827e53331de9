//! Bytes of a file, as far as they are in memory.
//!
//! The buffer begins with [`BUFFER`] bytes and is doubled for what does not fit. What asks for bytes asks for an event (65547 at
//! most) or for a description in the header, whose length is bounded there; so a length in the file moves no memory
//! (`.format.hostile`).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// The bytes that are read at once: four events of the largest kind, and no system call shows.
const BUFFER: usize = 256 << 10;

/// An input that can be read at any place, as often as needed.
pub trait ReadAt {
    /// Fills the buffer with the bytes from this offset on, as far as there are any, and says how many there were: fewer than asked for
    /// only at the end.
    ///
    /// # Errors
    ///
    /// The input can't be read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match FileExt::read_at(self, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let count = buffer.len().min(rest.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// Reads an input from its first byte to its last.
#[derive(Debug)]
pub(super) struct FromStart<'a, S: ?Sized> {
    input: &'a S,
    at: u64,
}

impl<'a, S: ReadAt + ?Sized> FromStart<'a, S> {
    pub(super) fn new(input: &'a S) -> FromStart<'a, S> {
        FromStart { input, at: 0 }
    }
}

impl<S: ReadAt + ?Sized> Read for FromStart<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// A file that is read from its first byte on.
#[derive(Debug)]
pub(super) struct Source<R> {
    input: R,
    buffer: Vec<u8>,
    /// The first byte that is not taken yet.
    at: usize,
    /// The byte after the last one that is here.
    end: usize,
    /// Where in the file the buffer's first byte is.
    base: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(input: R) -> Source<R> {
        Source { input, buffer: Vec::new(), at: 0, end: 0, base: 0 }
    }

    /// Where in the file the next byte is.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// What is here and not taken yet.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    /// Takes bytes that are here.
    #[inline]
    pub(super) fn take(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.at);
        self.at += count;
    }

    /// Whether so many bytes are here, or could be read.
    pub(super) fn has(&mut self, count: usize) -> io::Result<bool> {
        while self.end - self.at < count {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Leaves out bytes; false if the file has not so many.
    pub(super) fn skip(&mut self, mut count: u64) -> io::Result<bool> {
        while count > 0 {
            if self.at == self.end && !self.more()? {
                return Ok(false);
            }
            let here = count.min((self.end - self.at) as u64);
            self.at += here as usize;
            count -= here;
        }
        Ok(true)
    }

    /// Reads more behind what is here. False at the end of the file.
    fn more(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.base += self.at as u64;
        self.end -= self.at;
        self.at = 0;
        if self.end == self.buffer.len() {
            self.buffer.resize((2 * self.end).max(BUFFER), 0);
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
}
