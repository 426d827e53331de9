//! Writing eventlogs: what ghc-events, ThreadScope, eventlog2html and hs-speedscope read, from the events of our collector.
//!
//! ```text
//!   recorder ──► Writer ──────────────► Blocks ──────────► Outlet ──► file, whole after each write
//!                which event of GHC's   capability, time,
//!                it is; who has which   length of a block
//!                capability
//! ```
//!
//! A log is started with [`Options`], takes the events of the worlds that join it ([`Trace`]), and has what its [`Classes`]
//! say, and profiles, if they are taken. `docs/eventlog.md` says event by event what each field means here, which are 0, and why.

mod blocks;
mod board;
mod capabilities;
mod classes;
mod collection;
mod payload;
mod process;
mod profile;
mod trace;
mod writer;

pub use classes::{Classes, UnknownClass};
#[cfg(feature = "fuzzing")]
pub use trace::consumer;
pub use trace::{Options, Trace};

pub use crate::formats::{Finished, TraceError};
