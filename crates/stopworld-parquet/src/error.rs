//! The reasons why a trace is not converted.

use stopworld_analysis::convert::ConvertError;

/// The reason why nothing was written of a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// It cannot be found or opened, or is a folder that cannot be listed.
    #[error("can't open it: {0}")]
    Open(String),
    /// Converting it ended with a panic, which is a bug of stopworld.
    #[error("a bug of stopworld ended its conversion: {0}; please report it, with the trace")]
    Panicked(String),
    /// The trace is damaged, and has fewer rows than the dataset has of an earlier conversion. Those are kept.
    #[error(
        "{damage}; {rows} rows can be read, but the dataset has {earlier} of an earlier conversion, which are kept: restore the trace, or delete the \
         files of the dataset whose names begin with {part}-"
    )]
    Worse {
        /// The damage of the trace, with its offset.
        damage: String,
        /// The number of rows that can be read.
        rows: u64,
        /// The number of rows of the earlier conversion.
        earlier: u64,
        /// The trace's part of the names of its part files.
        part: String,
    },
    /// It is not a regular file.
    #[error("the trace is not a regular file: it must be read more than once; copy it to a file first")]
    NotAFile,
    /// It cannot be converted.
    #[error(transparent)]
    Convert(#[from] ConvertError),
}
