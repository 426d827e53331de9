//! A read buffer that knows the offset of each byte in its file.
//!
//! ```text
//!   file     ……consumed……│ buffered, not consumed │……not read……
//!   buffer        at ────┘                  end ─┘
//! ```
//! The buffer doubles for an item that does not fit, but only when its bytes are present: a length stated in a damaged file allocates
//! nothing by itself.

use std::io::{self, Read};

/// An input that is read from its first byte to its last.
#[derive(Debug)]
pub struct Source<R> {
    input: R,
    buffer: Vec<u8>,
    /// The initial size of the buffer in bytes.
    usual: usize,
    /// The index in the buffer of the first byte that is not consumed.
    at: usize,
    /// The index in the buffer of the end of the buffered bytes.
    end: usize,
    /// The offset in the file of the buffer's first byte.
    base: u64,
}

impl<R: Read> Source<R> {
    /// Creates a source with a buffer of `usual` bytes. Reads nothing yet.
    pub fn new(input: R, usual: usize) -> Source<R> {
        Source { input, buffer: Vec::new(), usual, at: 0, end: 0, base: 0 }
    }

    /// The offset in the file of the next byte.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The offset in the file of the first byte that is not buffered, which is the number of bytes read.
    pub fn reached(&self) -> u64 {
        self.base + self.end as u64
    }

    /// The bytes that are buffered and not consumed.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    /// Consumes `count` buffered bytes, and returns them.
    ///
    /// # Panics
    /// If fewer than `count` bytes are buffered.
    #[inline]
    pub fn take(&mut self, count: usize) -> &[u8] {
        debug_assert!(count <= self.end - self.at);
        self.at += count;
        &self.buffer[self.at - count..self.at]
    }

    /// Buffers at least `count` bytes. Returns `false` if the input ends before that.
    ///
    /// # Errors
    /// The input fails.
    #[inline]
    pub fn has(&mut self, count: usize) -> io::Result<bool> {
        while self.end - self.at < count {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Skips `count` bytes, or up to the end of the input. Returns the number of missing bytes.
    ///
    /// # Errors
    /// The input fails.
    pub fn skip(&mut self, mut count: u64) -> io::Result<u64> {
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

    /// Buffers more bytes. Returns `false` at the end of the input.
    ///
    /// # Errors
    /// The input fails.
    pub fn more(&mut self) -> io::Result<bool> {
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
            // The memory is pages of zeros: pages that a small file does not reach cost nothing.
            self.buffer = vec![0; self.usual];
        } else {
            self.buffer.resize(2 * self.end, 0);
        }
    }
}
