//! Output files for code that may not allocate: a drain writes a trace while the threads that hold malloc's lock are stopped.
//!
//! The standard library's `File` is almost enough, but opening one copies a long path to the heap, and its `write` does not
//! retry. Each function here is one or two system calls. Errors are error numbers and take no memory.

use std::ffi::CStr;
use std::io;

use nix::errno::Errno;

/// A file that is open for writing. Closed when dropped.
#[derive(Debug)]
pub struct Output {
    fd: libc::c_int,
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
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        loop {
            // SAFETY: a string that ends with 0.
            let fd = unsafe { libc::open(path.as_ptr(), flags, 0o666) };
            match Errno::result(fd) {
                Ok(fd) => return Ok(Output { fd }),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes all bytes.
    pub fn write_all(&self, bytes: &[u8]) -> Result<(), Cut> {
        let mut written = 0;
        while written < bytes.len() {
            let rest = &bytes[written..];
            // SAFETY: the bytes are readable, and the length is theirs.
            let result = Errno::result(unsafe { libc::write(self.fd, rest.as_ptr().cast(), rest.len()) });
            match result {
                Ok(0) => return Err(Cut { written, error: io::ErrorKind::WriteZero.into() }),
                Ok(count) => written += count as usize,
                Err(Errno::EINTR) => {}
                // A non-blocking pipe is treated as a blocking one.
                Err(Errno::EAGAIN) => self.wait(),
                Err(error) => return Err(Cut { written, error: error.into() }),
            }
        }
        Ok(())
    }

    /// Whether written bytes can be overwritten later: true for a file, false for a pipe or a terminal.
    pub fn has_positions(&self) -> bool {
        // SAFETY: two numbers.
        unsafe { libc::lseek(self.fd, 0, libc::SEEK_CUR) >= 0 }
    }

    /// Writes all bytes to the file at offset `at`.
    pub fn write_all_at(&self, bytes: &[u8], at: u64) -> Result<(), Cut> {
        let mut written = 0;
        while written < bytes.len() {
            let (rest, at) = (&bytes[written..], (at + written as u64) as libc::off_t);
            // SAFETY: the bytes are readable, and the length is theirs.
            let result = Errno::result(unsafe { libc::pwrite(self.fd, rest.as_ptr().cast(), rest.len(), at) });
            match result {
                Ok(0) => return Err(Cut { written, error: io::ErrorKind::WriteZero.into() }),
                Ok(count) => written += count as usize,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(Cut { written, error: error.into() }),
            }
        }
        Ok(())
    }

    /// Opens the same file for direct I/O, past the page cache. Each write must then begin and end at multiples of a page, in
    /// memory and in the file. `None` if the file system does not support it, or if the path now names another file.
    pub fn past_the_cache(&self, path: &CStr) -> Option<Output> {
        // SAFETY: a string that ends with 0.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC | libc::O_DIRECT) };
        let direct = Output { fd: Errno::result(fd).ok()? };
        (direct.identity()? == self.identity()?).then_some(direct)
    }

    /// Returns the device and the inode number of a regular file; `None` for any other file.
    fn identity(&self) -> Option<(u64, u64)> {
        let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: room for what the call writes.
        Errno::result(unsafe { libc::fstat(self.fd, stat.as_mut_ptr()) }).ok()?;
        // SAFETY: the call has written it.
        let stat = unsafe { stat.assume_init() };
        (stat.st_mode & libc::S_IFMT == libc::S_IFREG).then_some((stat.st_dev, stat.st_ino))
    }

    /// Sets the length of the file, if it has one.
    pub fn truncate(&self, bytes: u64) {
        // SAFETY: two numbers. The call changes nothing for a file without a length.
        unsafe { libc::ftruncate(self.fd, bytes as libc::off_t) };
    }

    /// Redirects this descriptor to the other file, also for writes that other threads are about to make. At any moment, the
    /// descriptor's number names one of the two files.
    pub fn lead_to(&self, other: &Output) {
        // SAFETY: two open descriptors that `self` and `other` own. If the call fails, nothing has changed.
        unsafe { libc::dup3(other.fd, self.fd, libc::O_CLOEXEC) };
    }

    fn wait(&self) {
        let mut wanted = libc::pollfd { fd: self.fd, events: libc::POLLOUT, revents: 0 };
        // SAFETY: one pollfd.
        unsafe { libc::poll(&mut wanted, 1, 1_000) };
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // SAFETY: the descriptor belongs to `self`, and is not used after this.
        unsafe { libc::close(self.fd) };
    }
}

/// Writes a line to standard error, unchanged. Ignores errors: there is no other place to report them.
pub fn say(line: &[u8]) {
    // SAFETY: the bytes are readable, and the length is theirs.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
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
