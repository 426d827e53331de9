//! Files for code that may not allocate: a drain writes a trace while the threads that hold malloc's lock are stopped.
//!
//! The standard library's `File` is almost enough, but opening one copies a long path to the heap, and its `write` does not
//! retry. Each function here is a few system calls: those of `nix` pass on what they get, and allocate nothing for a `CStr`. Errors are
//! error numbers and take no memory.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::stat::{Mode, fstat};
use nix::sys::uio::pwrite;
use nix::unistd::{Whence, ftruncate, lseek, read, write};

/// A file that is open for writing. Closed when dropped.
#[derive(Debug)]
pub struct Output {
    fd: OwnedFd,
}

/// A write that failed part-way.
#[derive(Debug)]
pub struct Cut {
    /// The number of bytes written.
    pub written: usize,
    /// Why the rest was not written.
    pub error: io::Error,
}

impl Output {
    /// Creates the file, or truncates it.
    pub fn create(path: &CStr) -> io::Result<Output> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_CLOEXEC;
        loop {
            match open(path, flags, Mode::from_bits_truncate(0o666)) {
                Ok(fd) => return Ok(Output { fd }),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes all bytes.
    pub fn write_all(&self, bytes: &[u8]) -> Result<(), Cut> {
        write_with(bytes, |rest, _| match write(&self.fd, rest) {
            // A non-blocking pipe is treated as a blocking one.
            Err(Errno::EAGAIN) => {
                self.wait();
                Err(Errno::EINTR)
            }
            result => result,
        })
    }

    /// Whether written bytes can be overwritten later: true for a file, false for a pipe or a terminal.
    pub fn has_positions(&self) -> bool {
        lseek(&self.fd, 0, Whence::SeekCur).is_ok()
    }

    /// Writes all bytes to the file at offset `at`.
    pub fn write_all_at(&self, bytes: &[u8], at: u64) -> Result<(), Cut> {
        write_with(bytes, |rest, written| pwrite(&self.fd, rest, (at + written as u64) as libc::off_t))
    }

    /// Opens the same file for direct I/O, past the page cache. Each write must then begin and end at multiples of a page, in
    /// memory and in the file. `None` if the file system does not support it, or if the path now names another file.
    pub fn past_the_cache(&self, path: &CStr) -> Option<Output> {
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_DIRECT;
        let direct = Output { fd: open(path, flags, Mode::empty()).ok()? };
        (direct.identity()? == self.identity()?).then_some(direct)
    }

    /// Returns the device and the inode number of a regular file; `None` for any other file.
    fn identity(&self) -> Option<(u64, u64)> {
        let stat = fstat(&self.fd).ok()?;
        (stat.st_mode & libc::S_IFMT == libc::S_IFREG).then_some((stat.st_dev, stat.st_ino))
    }

    /// Sets the length of the file, if it has one.
    pub fn truncate(&self, bytes: u64) {
        // The call changes nothing for a file without a length.
        let _ = ftruncate(&self.fd, bytes as libc::off_t);
    }

    /// Redirects this descriptor to the other file, also for writes that other threads are about to make. At any moment, the
    /// descriptor's number names one of the two files.
    pub fn lead_to(&self, other: &Output) {
        // SAFETY: two open descriptors that `self` and `other` own. If the call fails, nothing has changed.
        unsafe { libc::dup3(other.fd.as_raw_fd(), self.fd.as_raw_fd(), libc::O_CLOEXEC) };
    }

    fn wait(&self) {
        // If the wait is interrupted, the caller tries to write earlier.
        let _ = poll(&mut [PollFd::new(self.fd.as_fd(), PollFlags::POLLOUT)], 1_000_u16);
    }
}

/// Calls `write` with the bytes that are not written yet, and their position among all bytes, until all are written. A call that is
/// interrupted is repeated.
fn write_with(bytes: &[u8], write: impl Fn(&[u8], usize) -> nix::Result<usize>) -> Result<(), Cut> {
    let mut written = 0;
    while written < bytes.len() {
        match write(&bytes[written..], written) {
            Ok(0) => return Err(Cut { written, error: io::ErrorKind::WriteZero.into() }),
            Ok(count) => written += count,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(Cut { written, error: error.into() }),
        }
    }
    Ok(())
}

/// Writes a line to standard error, unchanged. Ignores errors: there is no other place to report them.
pub fn say(line: &[u8]) {
    // The handle only names the descriptor: the standard library's lock is not taken.
    let _ = write(io::stderr(), line);
}

/// Reads the beginning of a file, by system calls only. Returns the number of bytes read; 0 if the file cannot be read.
/// Async-signal-safe, stop-safe, errno preserved.
pub fn read_beginning(path: &CStr, to: &mut [u8]) -> usize {
    super::preserving_errno(|| {
        open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).and_then(|file| read(file, to)).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_reports_its_cause() {
        let full = Output::create(c"/dev/full").unwrap();
        let cut = full.write_all(b"something").unwrap_err();
        assert_eq!((cut.written, cut.error.raw_os_error()), (0, Some(libc::ENOSPC)));
        assert_eq!(Output::create(c"/").unwrap_err().raw_os_error(), Some(libc::EISDIR));
    }
}
