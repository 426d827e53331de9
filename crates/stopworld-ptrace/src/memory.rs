//! The memory of the target.
//!
//! There are two ways to access it. `process_vm_readv` and `writev` take many pieces in one call; a stop of hundreds of threads uses them.
//! `/proc/PID/mem` can write into read-only text and make a stack grow, which the first way refuses with EFAULT. Since the file is opened
//! early, it also works when the process's first thread has ended and its id does not name the process any more. So the first way is
//! tried first, and the second if the first transfers fewer bytes than requested.

use std::cell::Cell;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use super::sys::{self, PIECES, Piece};

/// An address in the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

impl Address {
    /// Returns the address `bytes` further on. The addition wraps, because a hostile target may contain any address.
    #[must_use]
    pub fn offset(self, bytes: usize) -> Self {
        Self(self.0.wrapping_add(bytes as u64))
    }

    /// Returns whether it is the null address.
    pub fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::LowerHex for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// Memory of the target that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{bytes} bytes at {at} of the target cannot be {done}: {error}")]
pub struct MemoryError {
    /// The first address.
    pub at: Address,
    /// The number of bytes.
    pub bytes: usize,
    done: &'static str,
    /// The kernel's error.
    #[source]
    pub error: io::Error,
}

/// The memory of one process, or of the program that it executed.
#[derive(Debug)]
pub(super) struct Memory {
    file: File,
    /// A thread by which the process can be named.
    live: Cell<i32>,
}

impl Memory {
    /// Opens the memory by a living thread.
    pub(super) fn open(pid: i32, live: i32) -> io::Result<Self> {
        let open = |path: String| OpenOptions::new().read(true).write(true).open(path);
        let file = open(format!("/proc/{pid}/task/{live}/mem"))?;
        Ok(Self { file, live: Cell::new(live) })
    }

    /// Sets the thread by which the process is named.
    pub(super) fn set_live(&self, tid: i32) {
        self.live.set(tid);
    }

    pub(super) fn live(&self) -> i32 {
        self.live.get()
    }

    pub(super) fn read(&self, at: Address, into: &mut [u8]) -> Result<(), MemoryError> {
        let bytes = into.len();
        let all = sys::read_pieces(self.live.get(), &mut [Piece { at: at.0, bytes: &mut *into }]);
        if all.is_ok_and(|read| read == bytes) {
            return Ok(());
        }
        self.file.read_exact_at(into, at.0).map_err(|error| MemoryError { at, bytes, done: "read", error })
    }

    /// Reads what is available, at most the buffer's length. Returns the number of bytes.
    pub(super) fn read_some(&self, at: Address, into: &mut [u8]) -> usize {
        self.file.read_at(into, at.0).unwrap_or(0)
    }

    pub(super) fn write(&self, at: Address, bytes: &[u8]) -> Result<(), MemoryError> {
        let len = bytes.len();
        let all = sys::write_pieces(self.live.get(), &[Piece { at: at.0, bytes }]);
        if all.is_ok_and(|written| written == len) {
            return Ok(());
        }
        self.file.write_all_at(bytes, at.0).map_err(|error| MemoryError { at, bytes: len, done: "written", error })
    }

    pub(super) fn word(&self, at: Address) -> Result<u64, MemoryError> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads many pieces. Returns the indices of those that could not be read; their buffers are unchanged, or partially filled.
    pub(super) fn read_all(&self, pieces: &mut [Piece<&mut [u8]>]) -> Vec<usize> {
        let mut failed = Vec::new();
        for (chunk, pieces) in pieces.chunks_mut(PIECES).enumerate() {
            let wanted: usize = pieces.iter().map(|p| p.bytes.len()).sum();
            let read = sys::read_pieces(self.live.get(), pieces).unwrap_or(0);
            if read == wanted {
                continue;
            }
            let mut before = 0;
            for (i, piece) in pieces.iter_mut().enumerate() {
                before += piece.bytes.len();
                if before > read && self.file.read_exact_at(piece.bytes, piece.at).is_err() {
                    failed.push(chunk * PIECES + i);
                }
            }
        }
        failed
    }

    /// Writes many pieces in order. Stops at the first that cannot be written.
    pub(super) fn write_all(&self, pieces: &[Piece<&[u8]>]) -> Result<(), MemoryError> {
        for pieces in pieces.chunks(PIECES) {
            let wanted: usize = pieces.iter().map(|p| p.bytes.len()).sum();
            let written = sys::write_pieces(self.live.get(), pieces).unwrap_or(0);
            if written == wanted {
                continue;
            }
            let mut before = 0;
            for piece in pieces {
                before += piece.bytes.len();
                if before > written {
                    let (at, bytes) = (Address(piece.at), piece.bytes.len());
                    let write = self.file.write_all_at(piece.bytes, piece.at);
                    write.map_err(|error| MemoryError { at, bytes, done: "written", error })?;
                }
            }
        }
        Ok(())
    }
}

/// Reads a number from bytes. The caller checks the bounds: an unchecked offset is a bug of this crate.
pub(super) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[offset + i]))
}

/// As [`u64_at`].
pub(super) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[offset + i]))
}
