//! Reports a failed output file at once. The drain calls it, so it does not allocate.

use std::ffi::CStr;
use std::fmt::{self, Write};
use std::io;

use crate::os::Errno;
use crate::os::file::say;
use crate::os::remedy::remedy_of;

/// A function that is called when the file of a trace fails, with the file and the error.
///
/// It is called in a drain, so the rules of [`Consumer`](stopworld::events::record::Consumer) apply to it: it must not allocate, take
/// a lock, or fire events. [`report_failure`] can be used as such a function.
pub type FailureReport = fn(&CStr, &io::Error);

/// Calls the report, if there is one.
pub(super) fn report(to: Option<FailureReport>, file: &CStr, error: &io::Error) {
    if let Some(report) = to {
        report(file, error);
    }
}

/// Reports a failed trace file in one line on standard error. `another` is the option or environment variable by which the user can choose
/// another file. Does not allocate; a line of more than 1 KiB is cut.
pub fn report_failure(file: &CStr, error: &io::Error, another: &str) {
    let mut line = Line { bytes: [0; 1024], len: 0 };
    // A line that does not fit the buffer is cut.
    let _ = write!(line, "stopworld: the trace ends early: {}: ", Path(file));
    let _ = match error.raw_os_error().map(Errno::from_raw) {
        Some(errno) => write!(line, "{}; {}", errno.desc(), remedy_of(error)),
        None => write!(line, "nothing could be written; {}", remedy_of(error)),
    };
    let _ = write!(line, ", or name another file ({another}); the program continues");
    line.len = line.len.min(line.bytes.len() - 1);
    line.bytes[line.len] = b'\n';
    say(&line.bytes[..=line.len]);
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
