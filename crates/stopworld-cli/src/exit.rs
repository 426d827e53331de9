//! How the command ends: exit codes, and why it failed.

use std::fmt::Display;
use std::io::{self, Write};

/// Exit code for arguments that can't be understood.
pub(super) const USAGE: u8 = 2;

/// 128 and SIGPIPE's number.
pub(super) const PIPE_CLOSED: u8 = 141;

/// Exit code for a run that failed.
pub(super) const FAILED: u8 = 1;

/// Why the command does not succeed.
pub(super) enum Failure {
    /// The arguments don't fit together; the text says which and what to do.
    Usage(String),
    /// The run failed.
    Run(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Run(error.into())
    }
}

/// Prints to standard output. A closed standard output is no error.
pub(super) fn print(text: impl Display) {
    let mut stdout = io::stdout().lock();
    let _ = write!(stdout, "{text}").and_then(|()| stdout.flush());
}
