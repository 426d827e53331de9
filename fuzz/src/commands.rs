//! What people, other processes and a debugged program say: command lines, prompts, the environment, messages, memory.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use stopworld::formats::mps::control::Environment;
use stopworld::fuzzing;

use crate::{is_one_line, limited};

const MIB: usize = 1 << 20;

/// A command line, a word a line: every size, number, list and name that an option takes.
pub fn command_line(words: &[u8]) {
    let text = String::from_utf8_lossy(words);
    // clap's parser keeps what the declarations say; an option's own parser has no reason to take much.
    limited(64 * MIB, || {
        let words: Vec<&str> = std::iter::once("stopworld").chain(text.lines()).collect();
        if let Some(message) = fuzzing::command_line(&words) {
            is_one_line(&message);
        }
    });
}

/// Lines at the debugger's prompt.
pub fn debugger_command(lines: &[u8]) {
    let text = String::from_utf8_lossy(lines);
    for line in text.lines() {
        limited(4 * MIB + 64 * line.len(), || {
            if let Some(message) = fuzzing::debugger_line(line) {
                is_one_line(&message);
            }
        });
    }
}

/// The variables `MPS_TELEMETRY_CONTROL` and, after a line feed, `MPS_TELEMETRY_FILENAME`.
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

/// A message to or from the diagnostics socket.
pub fn diagnostics(message: &[u8]) {
    // A message has at most 64 KiB, and strings double in UTF-8.
    limited(2 * MIB, || fuzzing::diagnostics_message(message));
    limited(2 * MIB + 4 * message.len(), || fuzzing::process_files(message));
}

/// A page of a hostile target's memory, with a descriptor in it.
pub fn hostile_target(image: &[u8]) {
    limited(8 * MIB, || fuzzing::hostile_target(image));
    limited(2 * MIB + 64 * image.len(), || fuzzing::mappings(&String::from_utf8_lossy(image)));
}
