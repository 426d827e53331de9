//! The fuzz targets. Each is a function here, and a program in `targets/` that calls it.
//!
//! All of them check: no panic, no overflow (the profile checks for both), memory within a limit, and for damaged input a message that gives
//! the byte offset. `run` limits the time for one input.

mod commands;
mod core_seed;
mod differential;
mod formats;
mod memory;
#[cfg(feature = "planted")]
mod planted;
mod post_mortem;
mod scheme;
mod snapshots;
mod tables;
mod written;

pub use commands::{command_line, debugger_command, diagnostics, environment, hostile_target};
pub use differential::{convert_mps, convert_nettrace, cut};
pub use formats::{
    convert_json, eventlog_inc, eventlog_show, gcstats, heapprof, hp, mps_decode, nettrace_dump, timeprof,
};
pub use memory::limited;
#[cfg(feature = "planted")]
pub use planted::planted;
pub use post_mortem::{checked_core_seed, core_file};
pub use scheme::scheme;
pub use snapshots::heap_snapshot;
pub use tables::tables;
pub use written::written;

/// Asserts that a message about a damaged file contains the byte offset.
fn names_a_byte(message: &str) {
    let named = message.split("byte ").skip(1).any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    assert!(named, "the message contains no byte offset: {message}");
}

/// Asserts that the error message of a command is not empty.
fn is_one_line(message: &str) {
    assert!(!message.trim().is_empty(), "an empty message");
}
