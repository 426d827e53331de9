//! Where the bytes of a trace go: a file that is whole after each write, or somebody's own place.
//!
//! A reader may take a file without its end tag for broken, as .NET's do, and a process may end at any moment. So each write
//! to a file ends with the end tag, and the next one begins by writing over it: however a run ends, what was flushed is a
//! trace with an end (`.event.crash`). A pipe can't be written over; it gets the tag when the trace ends in order.
//!
//! A write that fails is the end: the file is cut back to what was whole before, and gets its tag (`.event.full-disk`).

use std::ffi::CString;
use std::{fmt, io};

use super::complaint::Complaint;
use crate::os::file::Output;
use trace_io::bytes::Bytes;

/// Where the bytes of a trace go that are not for a file.
///
/// It is called in a drain: the rules of [`Consumer`](crate::events::record::Consumer) hold for it. A place that makes the
/// writer wait makes everybody wait; who sends a trace to somebody else takes the bytes here and sends them elsewhere.
pub trait Destination: fmt::Debug + Send {
    /// Takes all of them, or fails for good.
    ///
    /// # Errors
    /// They have no place to go any more: the trace ends.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// What goes out at once, at least.
const WRITE_BYTES: usize = 512 << 10;
/// Room for a block behind that, and for the end.
const SLACK_BYTES: usize = 128 << 10;

/// Bytes on their way out.
#[derive(Debug)]
pub(crate) struct Outlet {
    bytes: Bytes,
    to: To,
    complaint: Complaint,
    /// Bytes that have gone out, without an end tag.
    pub(crate) written: u64,
    /// Records that are among the bytes, and what became of them after an error.
    records: u64,
    lost: u64,
    failed: bool,
}

#[derive(Debug)]
enum To {
    File { path: CString, open: Option<(Output, bool)> },
    Other(Box<dyn Destination>),
}

impl Outlet {
    pub(crate) fn to_file(path: CString, complaint: Complaint) -> Outlet {
        Outlet::new(To::File { path, open: None }, complaint)
    }

    pub(crate) fn to(destination: Box<dyn Destination>) -> Outlet {
        Outlet::new(To::Other(destination), Complaint::Returned)
    }

    fn new(to: To, complaint: Complaint) -> Outlet {
        let bytes = Bytes::with_capacity(WRITE_BYTES + SLACK_BYTES);
        Outlet { bytes, to, complaint, written: 0, records: 0, lost: 0, failed: false }
    }

    /// The place of the next byte in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.written + self.bytes.len() as u64
    }

    /// Where the next bytes are put.
    pub(crate) fn bytes(&mut self) -> &mut Bytes {
        &mut self.bytes
    }

    /// So many records have been put.
    pub(crate) fn count_records(&mut self, records: u64) {
        self.records += records;
    }

    /// Records that were put and never went out.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// What can be put before it is full.
    pub(crate) fn room(&self) -> usize {
        WRITE_BYTES.saturating_sub(self.bytes.len())
    }

    /// Writes everything out, and the end behind it; for good, or to be written over.
    pub(crate) fn write_out(&mut self, end: &[u8], is_last: bool) -> io::Result<()> {
        self.write_out_up_to(self.bytes.len(), end, is_last)
    }

    /// The same; but what is behind the first `whole` bytes belongs to the end.
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
                            self.complaint.tell(path, &error);
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
                        // As before the write; if there is no room for that either, the end alone; without that, only it is missing.
                        let whole_end = &self.bytes.as_slice()[whole..];
                        let _ = output.write_all_at(whole_end, at).or_else(|_| {
                            output.truncate(at);
                            output.write_all_at(end, at)
                        });
                    }
                    self.complaint.tell(path, &cut.error);
                    cut.error
                })
            }
        }
    }
}
