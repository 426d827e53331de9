//! Files for those who may not allocate: a drain writes a trace while the threads that hold malloc's lock stand still.
//!
//! The standard library's `File` would do for writing, but it opens by a path that it copies to the heap when it is
//! long, and its `Write` retries nothing. Everything here is a system call or two; errors are numbers of the system and take no memory.

use std::ffi::CStr;
use std::io;

use nix::errno::Errno;

/// A file that is open for writing. Closed when dropped.
#[derive(Debug)]
pub struct Output {
    fd: libc::c_int,
}

/// A write that failed half-way.
#[derive(Debug)]
pub struct Cut {
    /// How many bytes have gone out.
    pub written: usize,
    /// Why no more.
    pub error: io::Error,
}

impl Output {
    /// Creates the file, or empties it.
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

    /// Writes all of it.
    pub fn write_all(&self, bytes: &[u8]) -> Result<(), Cut> {
        let mut written = 0;
        while written < bytes.len() {
            let rest = &bytes[written..];
            // SAFETY: the bytes are readable, as many as are said.
            let result = Errno::result(unsafe { libc::write(self.fd, rest.as_ptr().cast(), rest.len()) });
            match result {
                Ok(0) => return Err(Cut { written, error: io::ErrorKind::WriteZero.into() }),
                Ok(count) => written += count as usize,
                Err(Errno::EINTR) => {}
                // Whoever gave us a pipe that does not block gets the patience of one that does.
                Err(Errno::EAGAIN) => self.wait(),
                Err(error) => return Err(Cut { written, error: error.into() }),
            }
        }
        Ok(())
    }

    /// Whether what was written can be written over: it is a file, and not a pipe or a terminal.
    pub fn has_positions(&self) -> bool {
        // SAFETY: two numbers.
        unsafe { libc::lseek(self.fd, 0, libc::SEEK_CUR) >= 0 }
    }

    /// Writes all of it from this byte of the file on.
    pub fn write_all_at(&self, bytes: &[u8], at: u64) -> Result<(), Cut> {
        let mut written = 0;
        while written < bytes.len() {
            let (rest, at) = (&bytes[written..], (at + written as u64) as libc::off_t);
            // SAFETY: the bytes are readable, as many as are said.
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

    /// The same file, for writing from memory to the device, past the page cache: what is written begins and ends at multiples
    /// of a page, in memory and in the file. `None` if the file system can't, or the path names another file by now.
    pub fn past_the_cache(&self, path: &CStr) -> Option<Output> {
        // SAFETY: a string that ends with 0.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC | libc::O_DIRECT) };
        let direct = Output { fd: Errno::result(fd).ok()? };
        (direct.identity()? == self.identity()?).then_some(direct)
    }

    /// Device and number, if it is a file that has bytes.
    fn identity(&self) -> Option<(u64, u64)> {
        let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: room for what the call writes.
        Errno::result(unsafe { libc::fstat(self.fd, stat.as_mut_ptr()) }).ok()?;
        // SAFETY: the call has written it.
        let stat = unsafe { stat.assume_init() };
        (stat.st_mode & libc::S_IFMT == libc::S_IFREG).then_some((stat.st_dev, stat.st_ino))
    }

    /// Makes it this long, if it is a file that has a length.
    pub fn truncate(&self, bytes: u64) {
        // SAFETY: a number and a number. What has no length stays as it is.
        unsafe { libc::ftruncate(self.fd, bytes as libc::off_t) };
    }

    /// From now on what is written here goes to the other file, whoever writes, and is about to: at no time does the number
    /// name anything else.
    pub fn lead_to(&self, other: &Output) {
        // SAFETY: two numbers that are ours. If the system is short of something, it is as it was.
        unsafe { libc::dup3(other.fd, self.fd, libc::O_CLOEXEC) };
    }

    fn wait(&self) {
        let mut wanted = libc::pollfd { fd: self.fd, events: libc::POLLOUT, revents: 0 };
        // SAFETY: one place of this shape.
        unsafe { libc::poll(&mut wanted, 1, 1_000) };
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // SAFETY: ours, and used by nobody after this.
        unsafe { libc::close(self.fd) };
    }
}

/// Writes a line to standard error, as it is. If that is closed, nothing can be said.
pub fn say(line: &[u8]) {
    // SAFETY: the bytes are readable, as many as are said.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_written_says_why() {
        let full = Output::create(c"/dev/full").unwrap();
        let cut = full.write_all(b"something").unwrap_err();
        assert_eq!((cut.written, cut.error.raw_os_error()), (0, Some(libc::ENOSPC)));
        assert_eq!(Output::create(c"/").unwrap_err().raw_os_error(), Some(libc::EISDIR));
    }
}
