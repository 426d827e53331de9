//! `stopworld eventcnv`: an MPS telemetry stream as text.
//!
//! Lines go to standard output. Messages about the stream go to standard error in the form that the MPS tools use: program,
//! severity, the clock of the record, and (unlike those tools) the byte offset of the record. Exit codes are those of the
//! MPS tools: 1 for a stream that is damaged or can't be read, 0 otherwise, with or without warnings; but 2 for wrong
//! arguments, as in every `stopworld` command. If standard output is a pipe and its reader closes it, the command ends
//! without a message, with the exit code that a shell reports for a program that SIGPIPE killed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::arguments::{Eventcnv, MpsVersion};
use super::exit::{FAILED, PIPE_CLOSED};
use mps_telemetry::Version;
use mps_telemetry::decode::{DecodeError, Form, Style, decode};
use stopworld_trace::mps::control::{DEFAULT_FILE, Environment};

/// The usage in one line, which is appended to errors about the arguments.
pub(super) const USAGE: &str =
    "usage: stopworld eventcnv [-f FILE] [-S[LC] | --cnv | --txt] [--mps-version 1.0.0|2.0.0] [-h]";

/// `stopworld eventcnv`.
pub(super) fn run(arguments: &Eventcnv) -> u8 {
    let form = match (arguments.cnv, arguments.txt) {
        (true, _) => Form::Hex,
        (_, true) => Form::Named,
        _ => Form::Manual(arguments.style.flatten().unwrap_or(Style::Human)),
    };
    let version = arguments.mps_version.map(|version| match version {
        MpsVersion::V1 => Version::V1,
        MpsVersion::V2 => Version::V2,
    });
    let path = arguments.file.clone().unwrap_or_else(|| default_file(form));
    let input: Box<dyn Read> = if path.as_os_str() == OsStr::new("-") {
        Box::new(io::stdin().lock())
    } else {
        match File::open(&path) {
            Ok(file) => Box::new(file),
            Err(error) => return cannot_open(&path, &error, arguments.file.is_none()),
        }
    };
    let outcome = decode(input, io::stdout().lock(), form, version, &mut |notice| say(format_args!("{notice}")));
    match outcome {
        Ok(_) => 0,
        Err(DecodeError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => PIPE_CLOSED,
        Err(DecodeError::Input { offset: 0, error }) if error.kind() == io::ErrorKind::IsADirectory => {
            cannot_open(&path, &error, arguments.file.is_none())
        }
        Err(error) => {
            say(format_args!("Error @{:016X} {error}", clock_of(&error)));
            FAILED
        }
    }
}

fn default_file(form: Form) -> PathBuf {
    match form {
        // The `eventcnv` of the MPS manual is older than the environment variable.
        Form::Manual(_) => DEFAULT_FILE.into(),
        Form::Hex | Form::Named => Environment::read().file(),
    }
}

fn cannot_open(path: &Path, error: &io::Error, by_default: bool) -> u8 {
    let remedy = if by_default { "; -f FILE reads another file, -f - reads standard input" } else { "" };
    say(format_args!("Error @{:016X} unable to open \"{}\": {error}{remedy}", 0, path.display()));
    FAILED
}

/// Returns the clock of the last good record.
fn clock_of(error: &DecodeError) -> u64 {
    match error {
        DecodeError::Damaged(damage) => damage.clock,
        _ => 0,
    }
}

/// Prints a line on standard error. If that is closed, the line is lost.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "eventcnv: {line}");
}
