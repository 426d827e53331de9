//! Threads and how they stop.

pub(crate) mod ask;
pub mod error;
pub(crate) mod fork;
pub(crate) mod handler;
pub(crate) mod handshake;
#[cfg(test)]
mod handshake_stress;
pub(crate) mod latch;
pub(crate) mod locks;
pub(crate) mod name;
pub(crate) mod region;
pub(crate) mod registry;
pub(crate) mod safepoints;
pub(crate) mod signals;
pub(crate) mod stacks;
pub(crate) mod stop;
pub(crate) mod stop_info;
pub(crate) mod tid_table;
pub(crate) mod vtable;

#[cfg(test)]
pub(crate) mod tests;

pub use error::{AttachError, SetupError, SilenceReason, SilentThread, StopError, ThreadDescription, Tid};
pub use name::ThreadName;
pub use safepoints::SafepointStopper;
pub use signals::SignalStopper;
pub use stop_info::{OFFSETS, StopInfoOffsets, ThreadStopInfo};
pub use vtable::{StopRequest, ThreadVtable};
