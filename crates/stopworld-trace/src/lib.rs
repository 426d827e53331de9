//! Traces of stopworld worlds, in the formats of other projects' tools.
//!
//! ```text
//!   perfetto::Options::new(path) ── start ──► Trace ◄── record_to ── WorldBuilder, World
//!                                               │
//!                                               └── finish ──► Finished: what the file contains, and what was lost
//! ```
//!
//! Each format has a module with its writer, which turns the events of a world into records, and with the options that only this
//! format has. [`Options`] and [`Trace`] have the rest. The layouts of the records, and the parsers, are in a crate for each format.
//!
//! A writer runs in the recorder's drain, so it allocates nothing and takes no lock. The facts about a world that it needs besides the
//! events are passed to it as values when the world joins ([`Format`]).
//!
//! | file | part |
//! |---|---|
//! | `options`, `trace`, `worlds` | a trace in any format: how it is started, its worlds, its end |
//! | `format` | the properties that distinguish one format from another |
//! | `list` | the formats by name, for programs whose users choose one |
//! | `notes` | facts about a running world that its events do not have |
//! | `target`, `trace_output`, `failure` | the file or the caller's destination; its buffer; reports of its failure |
//! | `progress`, `finished`, `trace_error` | the results |

pub mod eventlog;
mod failure;
mod finished;
mod format;
mod list;
pub mod mps;
pub mod nettrace;
mod notes;
mod options;
pub mod perfetto;
pub mod profile_text;
mod progress;
mod target;
mod trace;
mod trace_error;
mod trace_output;
mod worlds;

use stopworld_platform::{os, sabotage, sync};

pub use failure::{FailureReport, report_failure};
pub use finished::Finished;
pub use format::Format;
pub use list::{FORMATS, OutputOptions, Profiles, RunningTrace, Selected, TraceFormat};
pub use options::Options;
pub use trace::Trace;
pub use trace_error::TraceError;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
