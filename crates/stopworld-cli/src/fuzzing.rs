//! The parts of the command that read untrusted bytes, for `fuzz/`.

use std::io::Write;

use clap::Parser;

use super::arguments::{Action, Command};
use super::complaint::ArgumentError;
use super::debug;
use super::dump::{self, Dumper};
use super::post_mortem;
use nettrace::Summary;
use stopworld_analysis::profstats::Profiles;
use stopworld_postmortem::CoreFile;

/// Runs `stopworld dump` over a trace with these options, and returns what it writes to standard output.
///
/// # Panics
/// If the options are not valid options of `dump`.
pub fn dump(trace: &[u8], options: &[&str]) -> (Vec<u8>, Summary) {
    let words = ["stopworld", "dump", "-"].iter().chain(options);
    let Ok(Command { action: Action::Dump(arguments) }) = Command::try_parse_from(words) else {
        panic!("{options:?} are not valid options of dump");
    };
    let mut output = Vec::new();
    let mut dumper = Dumper::new(&arguments, &mut output);
    if arguments.stacks {
        dumper.functions = dump::functions(trace);
    }
    let summary = dump::read(&arguments, &mut dumper, trace);
    let _ = dumper.nothing_found();
    dumper.finish().expect("writing to a vector does not fail");
    (output, summary)
}

/// Runs `stopworld core` over a core with these options, and returns what it prints.
///
/// # Panics
/// If the options are not valid options of `core`.
pub fn core(core: &CoreFile, options: &[&str]) -> String {
    let words = ["stopworld", "core", "core"].iter().chain(options);
    let Ok(Command { action: Action::Core(arguments) }) = Command::try_parse_from(words) else {
        panic!("{options:?} are not valid options of core");
    };
    post_mortem::printed(&arguments, core)
}

/// Parses a command line. Returns the one-line error message if it is wrong.
pub fn command_line(words: &[&str]) -> Option<String> {
    match Command::try_parse_from(words.iter().copied()) {
        Ok(command) => {
            // All values have been parsed by now.
            let _ = format!("{command:?}");
            None
        }
        Err(error) => match ArgumentError::about(error, words.get(1).map(std::ffi::OsStr::new)) {
            ArgumentError::Help(_) => None,
            ArgumentError::Usage(line) => Some(line),
        },
    }
}

/// Parses a line of the debugger's prompt. Returns the error message if it is wrong.
pub fn debugger_line(line: &str) -> Option<String> {
    debug::message_about(line)
}

/// Draws the flame graph of `stopworld timeprof --svg`, if there are ticks.
pub fn flame_graph(profiles: &Profiles, out: &mut dyn Write) {
    if profiles.time.samples > 0 {
        super::profiles::flame_graph(profiles, "title", out).expect("a time profile with ticks can be drawn");
    }
}
