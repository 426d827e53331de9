//! What can fail.

use std::io;

/// The result of reading or writing a snapshot.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a snapshot could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input could not be read.
    #[error("can't read the input: {0}")]
    Input(io::Error),
    /// The output could not be written.
    #[error("can't write the output: {0}")]
    Output(io::Error),
    /// The input is damaged, or in another format.
    #[error("byte {at}: {what}")]
    Damaged {
        /// The offset of the first byte that can't be read.
        at: u64,
        /// What is wrong there.
        what: String,
    },
    /// The heap exceeds a limit of the format or of this crate.
    #[error("{0}")]
    TooLarge(&'static str),
}

impl Error {
    /// Creates the error for a damaged input.
    pub(crate) fn damaged<T>(at: u64, what: impl Into<String>) -> Result<T> {
        Err(Error::Damaged { at, what: what.into() })
    }
}
