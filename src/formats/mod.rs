//! Formats that other people's tools read and write.
//!
//! Each has a room of its own with the layout of its records as data, a writer that turns our events into them, and (with
//! the feature `readers`) a reader that turns bytes of unknown origin back into something to look at. What a mutator
//! links is the layouts and the writers; readers are for whoever looks at a file afterwards.
//!
//! A reader trusts nothing (`.format.hostile`): a length is compared with the bytes that are there before it is used,
//! memory is bounded by constants and not by numbers from the file, what was readable before damage comes out, and
//! the message about the damage names the byte at which it is.

pub(crate) mod complaint;
pub mod eventlog;
mod finished;
pub mod mps;
pub mod nettrace;
mod ongoing;
mod outlet;
pub mod perfetto;
pub mod profile_text;
mod trace_error;
mod worlds;

pub use finished::Finished;
pub use trace_error::TraceError;
