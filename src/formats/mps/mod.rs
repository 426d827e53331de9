//! MPS telemetry streams of our events. The format itself is the crate `mps-telemetry`.
//!
//! `mps::Options::new(path, categories).start()` begins a stream; worlds are built `.traced_by(&trace)`, or leave it to
//! the environment with [`trace_from_environment`](crate::WorldBuilder::trace_from_environment).
//!
//! | file | part |
//! |---|---|
//! | `trace`, `control` | a stream that is being written: its worlds, its filter, its end; what the environment asks for |
//! | `writer` | from our events to records |
//! | `codes`, `switchboard`, `blocks`, `buffer` | the events' codes; what owner and writer tell each other; who holds which block; records on their way to the file |
//! | `behind`, `relay` | the thread that brings blocks to the file, and who writes which |

mod behind;
mod blocks;
mod buffer;
mod codes;
pub mod control;
mod relay;
mod switchboard;
mod trace;
mod writer;

pub use trace::CLOCK_TEXT;
pub use trace::{Options, Trace};

pub use crate::formats::TraceError;

pub use super::Finished;
