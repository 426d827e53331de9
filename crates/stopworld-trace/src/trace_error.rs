//! Errors of starting a trace in any format.

use std::io;
use std::path::PathBuf;

use stopworld::events::record::RecordError;

/// The reason why a trace could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The path contains a NUL byte.
    #[error("{0:?} is not a valid path: it contains a NUL byte")]
    Path(PathBuf),
    /// A flight recorder may be written more than once, which needs a file.
    #[error("a flight recorder needs a file: give a path instead of a destination")]
    FlightWithoutFile,
    /// The recorder could not record its events.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The system refused memory for the trace.
    #[error("no memory for a trace: {0}")]
    System(#[from] io::Error),
}
