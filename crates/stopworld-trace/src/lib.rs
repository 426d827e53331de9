//! File formats of other projects' tools.
//!
//! Each format has a module with its writer, which turns the events of this library into records. The layouts of the
//! records and the parsers are in a crate for each format. A mutator links only layouts and writers; the code
//! that reads files afterwards requires the feature `readers`.
//!
//! A reader does not trust its input (`.format.hostile`). It compares a length with the bytes available before it uses it.
//! Constants, not numbers from the file, bound its memory. It returns everything readable before damage, and its message
//! about the damage gives the byte offset.

pub mod eventlog;
mod failure;
mod finished;
mod format;
pub mod mps;
pub mod nettrace;
mod options;
mod outlet;
pub mod perfetto;
pub mod profile_text;
mod progress;
mod target;
mod trace;
mod trace_error;
mod worlds;

pub use failure::{FailureReport, report_failure};
pub use finished::Finished;
pub use format::Format;
pub use options::Options;
pub use trace::Trace;
pub use trace_error::TraceError;
