//! Why a trace could not be started, whatever its format.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::events::record::RecordError;

/// Why a trace could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The name holds a byte 0.
    #[error("{0:?} can't be the name of a file: it holds the byte 0")]
    Path(PathBuf),
    /// A flight recorder is written to a file again and again.
    #[error("a flight recorder needs a file: name one instead of a destination")]
    FlightWithoutFile,
    /// Its events could not be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// No memory.
    #[error("the system gave no memory for a trace: {0}")]
    System(#[from] io::Error),
}

/// A path as the system takes it, made before a drain needs it.
pub(super) fn c_path(path: &Path) -> Result<CString, TraceError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| TraceError::Path(path.to_owned()))
}
