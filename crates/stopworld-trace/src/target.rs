//! The target of a trace: a file, or a destination supplied by the caller.

use std::ffi::CString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::failure::FailureReport;
use super::trace_error::TraceError;
use super::trace_output::{Destination, TraceOutput};

/// The file of a trace.
#[derive(Clone)]
pub struct OutputFile {
    path: PathBuf,
    /// The path as a C string, made in advance because a drain may not allocate.
    pub(super) c_path: CString,
    pub(super) on_failure: Option<FailureReport>,
}

impl OutputFile {
    pub(super) fn new(path: PathBuf, on_failure: Option<FailureReport>) -> Result<OutputFile, TraceError> {
        match CString::new(path.as_os_str().as_bytes()) {
            Ok(c_path) => Ok(OutputFile { path, c_path, on_failure }),
            Err(_) => Err(TraceError::Path(path)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for OutputFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

/// The target to which a trace is written.
#[derive(Debug)]
pub enum Target {
    /// A file.
    File(OutputFile),
    /// The caller's own destination.
    Destination(Box<dyn Destination>),
}

impl Target {
    pub(super) fn trace_output(self) -> TraceOutput {
        match self {
            Target::File(file) => TraceOutput::to_file(file.c_path, file.on_failure),
            Target::Destination(destination) => TraceOutput::to(destination),
        }
    }
}
