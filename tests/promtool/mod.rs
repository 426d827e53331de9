//! promtool, for the tests of several packages.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::skipped::skipped;

/// Runs a command with this text as its standard input.
pub fn fed(command: &mut Command, text: &str) -> std::io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().unwrap().write_all(text.as_bytes())?;
    child.wait_with_output()
}

/// Returns promtool, from `.ci/promtool` or from the machine; `None`, with a skipped test reported, if there is none.
pub fn promtool() -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("promtool").join("promtool");
    let found = [unpacked, PathBuf::from("promtool")]
        .into_iter()
        .find(|tool| Command::new(tool).arg("--version").output().is_ok());
    if found.is_none() {
        skipped("promtool");
    }
    found
}

/// Runs `promtool check metrics`; `None` as for [`promtool`].
pub fn check_metrics(text: &str) -> Option<Output> {
    Some(fed(Command::new(promtool()?).args(["check", "metrics"]), text).unwrap())
}
