//! How it is told that a file that is being written has failed: by who writes in a drain, where nothing may be allocated.

use std::ffi::CStr;
use std::fmt::{self, Write};
use std::io;

use crate::os::Errno;
use crate::os::file::say;

/// How the failure of a file is told.
#[derive(Clone, Debug)]
pub(crate) enum Complaint {
    /// Whoever asks gets the error.
    Returned,
    /// At once, on standard error; the text says what names another file.
    Told(&'static str),
}

impl Complaint {
    /// Tells, if that is wanted.
    pub(crate) fn tell(&self, path: &CStr, error: &io::Error) {
        let Complaint::Told(another) = self else { return };
        let mut line = Line { bytes: [0; 1024], len: 0 };
        // A line that is too long for its place ends there.
        let _ = write!(line, "stopworld: no more trace in {}: ", Path(path));
        let _ = match error.raw_os_error().map(Errno::from_raw) {
            Some(errno) => write!(line, "{}; {}", errno.desc(), remedy(errno)),
            None => write!(line, "nothing could be written; {}", remedy_of(error)),
        };
        let _ = write!(line, ", or name another file ({another}); the program goes on");
        line.len = line.len.min(line.bytes.len() - 1);
        line.bytes[line.len] = b'\n';
        say(&line.bytes[..=line.len]);
    }
}

/// What whoever runs the program can do about a file that fails so.
pub(crate) fn remedy_of(error: &io::Error) -> &'static str {
    error.raw_os_error().map_or("make room", |number| remedy(Errno::from_raw(number)))
}

fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG => "make room",
        Errno::EPIPE => "its reader has gone: let it read to the end",
        Errno::EISDIR => "it is a directory: name a file in it",
        Errno::EACCES | Errno::EPERM | Errno::EROFS => "make it writable",
        Errno::ENOENT | Errno::ENOTDIR => "make its directory",
        _ => "look at the device",
    }
}

struct Path<'a>(&'a CStr);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.to_bytes().utf8_chunks().try_for_each(|chunk| f.write_str(chunk.valid()))
    }
}

/// A line that is put together without allocating.
struct Line {
    bytes: [u8; 1024],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.len;
        let text = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
        Ok(())
    }
}
