//! Why a trace could not be started, whatever its format.

use std::io;
use std::path::PathBuf;

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
