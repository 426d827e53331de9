//! The input of a log, read at any offset or from its first byte to its last.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// An input that can be read at any offset, any number of times.
pub trait ReadAt {
    /// Fills the buffer with the bytes from this offset on, and returns their number, which is smaller than the buffer's length only at the
    /// end of the input.
    ///
    /// # Errors
    ///
    /// Reading the input fails.
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
