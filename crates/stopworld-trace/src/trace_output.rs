//! The output of a trace: a file that is complete after each write, or a [`Destination`] supplied by the caller.
//!
//! Some readers, such as the .NET tools, reject a file without its end tag, and a process may end at any moment. So each write
//! to a file ends with the end tag, and the next write begins by overwriting it. However a run ends, everything that was flushed is a trace
//! with an end tag (`.event.crash`). The contents of a pipe cannot be overwritten, so a pipe gets the tag only when the trace is finished
//! normally.
//!
//! A failed write ends the trace: the file is truncated to the part that was complete before that write, and the tag is written again
//! (`.event.full-disk`).

use std::ffi::CString;
use std::{fmt, io};

use super::failure::{FailureReport, report};
use crate::os::file::Output;
use trace_io::bytes::Bytes;

/// Receives the bytes of a trace that is not written to a file.
///
/// It is called in a drain, so the rules of [`Consumer`](stopworld::events::record::Consumer) apply to it. A destination that blocks
/// the writer blocks every thread that fires events. To send a trace elsewhere, copy the bytes here and send them on another thread.
pub trait Destination: fmt::Debug + Send {
    /// Takes all bytes, or fails permanently.
    ///
    /// # Errors
    /// The destination accepts no more bytes: the trace ends.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// The buffer is written when it holds at least this many bytes.
const WRITE_BYTES: usize = 512 << 10;
/// Additional room for one more block and the end tag.
const SLACK_BYTES: usize = 128 << 10;

/// The output buffer of a trace, and where it is written.
#[derive(Debug)]
pub struct TraceOutput {
    bytes: Bytes,
    to: To,
    on_failure: Option<FailureReport>,
    /// The number of bytes written so far, without the end tag.
    pub(crate) written: u64,
    /// The number of records in the buffer.
    records: u64,
    /// The number of records that were in the buffer when a write failed.
    lost: u64,
    failed: bool,
}

#[derive(Debug)]
enum To {
    File { path: CString, open: Option<(Output, bool)> },
    Other(Box<dyn Destination>),
}

impl TraceOutput {
    pub(crate) fn to_file(path: CString, on_failure: Option<FailureReport>) -> TraceOutput {
        TraceOutput::new(To::File { path, open: None }, on_failure)
    }

    pub(crate) fn to(destination: Box<dyn Destination>) -> TraceOutput {
        TraceOutput::new(To::Other(destination), None)
    }

    fn new(to: To, on_failure: Option<FailureReport>) -> TraceOutput {
        let bytes = Bytes::with_capacity(WRITE_BYTES + SLACK_BYTES);
        TraceOutput { bytes, to, on_failure, written: 0, records: 0, lost: 0, failed: false }
    }

    /// Returns the buffer to which the next bytes are appended.
    pub(crate) fn bytes(&mut self) -> &mut Bytes {
        &mut self.bytes
    }

    /// Counts `records` records as added to the buffer.
    pub(crate) fn count_records(&mut self, records: u64) {
        self.records += records;
    }

    /// Returns the number of records that were added to the buffer and lost when a write failed.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Returns how many bytes can be added before the buffer is full.
    pub(crate) fn room(&self) -> usize {
        WRITE_BYTES.saturating_sub(self.bytes.len())
    }

    /// Writes the buffer and, after it, `end`. If `is_last` is false, the next write overwrites `end`.
    pub(crate) fn write_out(&mut self, end: &[u8], is_last: bool) -> io::Result<()> {
        self.write_out_up_to(self.bytes.len(), end, is_last)
    }

    /// Like [`write_out`](Self::write_out), but the buffered bytes after the first `whole` bytes count as part of the end.
    #[cold]
    pub(crate) fn write_out_up_to(&mut self, whole: usize, end: &[u8], is_last: bool) -> io::Result<()> {
        if self.failed || (self.bytes.is_empty() && !is_last) {
            return Ok(());
        }
        let for_good = if is_last { self.bytes.len() } else { whole };
        let result = self.attempt(whole, end, is_last);
        match result {
            Ok(()) => {
                self.written += for_good as u64;
                self.records = 0;
            }
            Err(_) => {
                (self.lost, self.failed) = (self.records, true);
            }
        }
        self.bytes.clear();
        result
    }

    fn attempt(&mut self, whole: usize, end: &[u8], is_last: bool) -> io::Result<()> {
        let at = self.written;
        match &mut self.to {
            To::Other(destination) => {
                if is_last {
                    self.bytes.put(end)
                } else {
                    self.bytes.truncate(whole)
                }
                destination.write_all(self.bytes.as_slice())
            }
            To::File { path, open } => {
                if open.is_none() {
                    match Output::create(path) {
                        Ok(output) => {
                            let can_be_written_over = output.has_positions();
                            *open = Some((output, can_be_written_over));
                        }
                        Err(error) => {
                            report(self.on_failure, path, &error);
                            return Err(error);
                        }
                    }
                }
                let Some((output, can_be_written_over)) = open else { return Ok(()) };
                let has_end = is_last || *can_be_written_over;
                if has_end {
                    self.bytes.put(end)
                } else {
                    self.bytes.truncate(whole)
                }
                let written = if *can_be_written_over {
                    output.write_all_at(self.bytes.as_slice(), at)
                } else {
                    output.write_all(self.bytes.as_slice())
                };
                written.map_err(|cut| {
                    output.truncate(at);
                    if *can_be_written_over && at > 0 {
                        // Restores the end as it was before the write. If the device has no room for that either, writes `end` alone; if
                        // that fails too, only the end is missing.
                        let whole_end = &self.bytes.as_slice()[whole..];
                        let _ = output.write_all_at(whole_end, at).or_else(|_| {
                            output.truncate(at);
                            output.write_all_at(end, at)
                        });
                    }
                    report(self.on_failure, path, &cut.error);
                    cut.error
                })
            }
        }
    }
}
