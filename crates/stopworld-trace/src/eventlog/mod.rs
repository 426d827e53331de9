//! Writes eventlogs of the collector's events for ghc-events, ThreadScope, eventlog2html and hs-speedscope.
//!
//! ```text
//!   recorder ──► Writer ──────────────► Blocks ─────► TraceOutput ──► file, complete after each write
//!                maps to GHC events,    capability, time,
//!                assigns capabilities   length of a block
//!                to threads
//! ```
//!
//! A log is started with [`Options`] and records the worlds that join it ([`Trace`]). It contains the event [`Classes`] selected,
//! and profiles if they are taken. `docs/eventlog.md` lists for each event what each field means here, which fields are 0, and why.

mod blocks;
mod capabilities;
mod classes;
mod collection;
mod process;
mod profile;
mod shared_state;
mod text;
mod trace;
mod writer;

pub use classes::{Classes, UnknownClass};
#[cfg(feature = "fuzzing")]
pub use trace::consumer;
pub use trace::{Eventlog, Options, Trace};
