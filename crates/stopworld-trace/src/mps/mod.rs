//! MPS telemetry streams of this library's events. The crate `mps-telemetry` has the format itself.
//!
//! `mps::Options::new(path, categories).start()` starts a stream. Build worlds with `.record_to(&trace)`, or let environment
//! variables decide with [`Trace::from_environment`].
//!
//! | file | part |
//! |---|---|
//! | `trace`, `control` | the public handle of a stream: its worlds, its filter, its end; the environment variables |
//! | `world` | the state of one world in a stream |
//! | `writer` | translates events to records; its `events` has an arm for each event |
//! | `shared_state` | state shared by the handle and the writer |
//! | `blocks` | which space holds which heap block |
//! | `buffer` | the output buffer |
//! | `async_file`, `hand_off` | the I/O thread that writes blocks to the file, and the protocol of its hand-off queue |

mod async_file;
mod blocks;
mod buffer;
pub mod control;
mod hand_off;
mod shared_state;
mod trace;
mod world;
mod writer;

pub use trace::{CLOCK_TEXT, Options, Telemetry, Trace, usual};

#[cfg(test)]
mod table_tests;
