//! Targets for input from users, other processes and a debugged program: command lines, prompts, the environment, messages, memory.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use stopworld_cli::fuzzing as command;
use stopworld_diagnostics::fuzzing as socket;
use stopworld_ptrace::fuzzing as ptrace;
use stopworld_trace::mps::control::Environment;

use crate::{is_one_line, limited};

const MIB: usize = 1 << 20;

/// Parses a command line, one word per line: the sizes, numbers, lists and names that options take.
pub fn command_line(words: &[u8]) {
    let text = String::from_utf8_lossy(words);
    // clap allocates for the option declarations; the parsers of single options need little.
    limited(64 * MIB, || {
        let words: Vec<&str> = std::iter::once("stopworld").chain(text.lines()).collect();
        if let Some(message) = command::command_line(&words) {
            is_one_line(&message);
        }
    });
}

/// Parses lines typed at the debugger's prompt.
pub fn debugger_command(lines: &[u8]) {
    let text = String::from_utf8_lossy(lines);
    for line in text.lines() {
        limited(4 * MIB + 64 * line.len(), || {
            if let Some(message) = command::debugger_line(line) {
                is_one_line(&message);
            }
        });
    }
}

/// Parses the values of `MPS_TELEMETRY_CONTROL` and, after a line feed, `MPS_TELEMETRY_FILENAME`.
pub fn environment(values: &[u8]) {
    let mut values = values.splitn(2, |byte| *byte == b'\n').map(|value| OsString::from(OsStr::from_bytes(value)));
    let (control, file) = (values.next(), values.next());
    limited(MIB, || {
        let environment = Environment::of(control.clone(), file.clone());
        environment.unknown.iter().for_each(|word| is_one_line(&word.to_string()));
        let named = file.is_some_and(|file| !file.is_empty());
        assert_eq!(environment.file.is_some(), named);
        assert_eq!(environment.categories.is_some(), control.is_some());
    });
}

/// Parses a message to or from the diagnostics socket, and the /proc files used to find the socket.
pub fn diagnostics(message: &[u8]) {
    // A message has at most 64 KiB, and its UTF-16 strings can double in size as UTF-8.
    limited(2 * MIB, || socket::diagnostics_message(message));
    limited(2 * MIB + 4 * message.len(), || socket::process_files(message));
}

/// Reads a page of a hostile target's memory, with a descriptor in it, as the ptrace debugger does.
pub fn hostile_target(image: &[u8]) {
    limited(8 * MIB, || ptrace::hostile_target(image));
    limited(2 * MIB + 64 * image.len(), || ptrace::mappings(&String::from_utf8_lossy(image)));
}
