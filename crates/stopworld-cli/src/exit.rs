//! The exit codes of the command, the reasons of a failure, and what may be written to a terminal.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use stopworld_platform::os::remedy::remedy_of;

/// Exit code for arguments that can't be understood.
pub(super) const USAGE: u8 = 2;

/// Exit code if standard output was closed: 128 + SIGPIPE.
pub(super) const PIPE_CLOSED: u8 = 141;

/// Exit code for a run that failed.
pub(super) const FAILED: u8 = 1;

/// The reason of a failure.
pub(super) enum Failure {
    /// The arguments contradict each other; the text names them and the remedy.
    Usage(String),
    /// The run failed.
    Run(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Run(error.into())
    }
}

/// Whether something could not be written to standard output.
static UNWRITTEN: AtomicBool = AtomicBool::new(false);

/// Prints to standard output. A closed standard output is not an error. Another error is reported once, and makes the command
/// [fail](code) at its end.
pub(super) fn print(text: impl Display) {
    check_printed(write!(io::stdout(), "{text}"));
}

/// Reports an error of what was [printed](print) to standard output.
pub(super) fn check_printed(printed: io::Result<()>) {
    if let Err(error) = printed.and_then(|()| io::stdout().flush())
        && error.kind() != io::ErrorKind::BrokenPipe
        && !UNWRITTEN.swap(true, Ordering::Relaxed)
    {
        eprintln!("error: can't write to standard output: {error}; {}", remedy_of(&error));
    }
}

/// Returns the exit code of a command that would end with this one: a command that could not print its output has failed.
pub(super) fn code(code: u8) -> u8 {
    if code == 0 && UNWRITTEN.load(Ordering::Relaxed) { FAILED } else { code }
}

/// Returns the failure of a report that could not be written to standard output.
pub(super) fn unwritten_report(error: &io::Error) -> Failure {
    anyhow!("can't write the report: {error}; {}", remedy_of(error)).into()
}

/// Refuses to write a binary file to a terminal.
pub(super) fn refuse_terminal(what: &str, example: &str) -> Result<(), Failure> {
    if !io::stdout().is_terminal() {
        return Ok(());
    }
    let (command, _) = what.split_once(' ').unwrap_or((what, ""));
    Err(Failure::Usage(format!(
        "{what} writes a binary file, not text for a terminal: `stopworld {command} {example}`"
    )))
}
