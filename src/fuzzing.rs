//! Access to internals for the fuzz targets in `fuzz/`. Not part of the public interface.

pub use crate::cli::fuzzing::{command_line, debugger_line, dump, flame_graph};
pub use crate::debugger::ptrace::fuzzing::{hostile_seed, hostile_target, mappings};
pub use crate::diagnostics::fuzzing::{diagnostics_message, process_files};
pub use crate::formats::eventlog::write::consumer as eventlog_writer;
pub use crate::formats::nettrace::write::consumer as nettrace_writer;
pub use crate::formats::perfetto::consumer as timeline_writer;
