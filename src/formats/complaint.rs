//! Reports a failed output file on standard error without allocating: the caller is the drain.

use std::ffi::CStr;
use std::fmt::{self, Write};
use std::io;

use crate::os::Errno;
use crate::os::file::say;
use crate::os::remedy::remedy_of;

/// How the failure of a file is reported.
#[derive(Clone, Debug)]
pub(crate) enum Complaint {
    /// Only as the error that the caller gets.
    Returned,
    /// Immediately on standard error as well. The text is the option that names another file.
    Told(&'static str),
}

impl Complaint {
    /// Reports the error on standard error, unless it is only returned.
    pub(crate) fn tell(&self, path: &CStr, error: &io::Error) {
        let Complaint::Told(another) = self else { return };
        let mut line = Line { bytes: [0; 1024], len: 0 };
        // A line that does not fit is cut.
        let _ = write!(line, "stopworld: the trace ends early: {}: ", Path(path));
        let _ = match error.raw_os_error().map(Errno::from_raw) {
            Some(errno) => write!(line, "{}; {}", errno.desc(), remedy_of(error)),
            None => write!(line, "nothing could be written; {}", remedy_of(error)),
        };
        let _ = write!(line, ", or name another file ({another}); the program continues");
        line.len = line.len.min(line.bytes.len() - 1);
        line.bytes[line.len] = b'\n';
        say(&line.bytes[..=line.len]);
    }
}

struct Path<'a>(&'a CStr);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.to_bytes().utf8_chunks().try_for_each(|chunk| f.write_str(chunk.valid()))
    }
}

/// A line formatted without allocating.
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
