//! The workload that reads files: Scheme programs, on as many threads as asked for; and the prompt.

use super::Failure;
use super::arguments::{Run, Settings};

/// What it is called on the command line.
pub(super) const NAME: &str = "lisp";
/// What it does, in a line.
pub(super) const ABOUT: &str =
    "Scheme programs from files, each thread with an interpreter of its own; without files, a prompt";

/// `stopworld run lisp FILE.scm…`.
pub(super) fn run(run: &Run) -> Result<u8, Failure> {
    Err(Failure::Usage(format!("{:?}", run.files)))
}

/// `stopworld repl`.
pub(super) fn repl(settings: &Settings) -> Result<u8, Failure> {
    Err(Failure::Usage(format!("{:?}", settings.json)))
}
