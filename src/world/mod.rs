//! Threads and how they stop.
//!
//! A collection needs every thread of its world to stand still, with all that the thread holds in registers
//! somewhere in memory that can be scanned. How that comes about is a value that can be swapped while the program runs;
//! what must hold afterwards is checked in one place, whoever did it.
//!
//! | to know | read |
//! |---|---|
//! | what is recorded of a thread, and where a debugger finds it | [`stop_info`], [`published`] |
//! | how threads attach and detach; how a world begins and ends; forks | [`registry`], [`lifecycle`], [`fork`] |
//! | one stop, from its locks to its start | [`stop`] |
//! | what a way of stopping promises | [`vtable`] |
//! | the two built-in ways, and what they share | [`signals`], [`safepoints`], [`ask`] |
//! | what runs in the signal handler | [`handler`] |
//! | what a thread does about itself: safepoints, blocking regions | [`region`] |
//! | which addresses a collection scans, and a debugger's question | [`stacks`], [`debugged_stacks`] |
//! | the protocols, pure, as the model checker runs them | [`handshake`], [`locks`], [`latch`] |
//! | what a user is told when it does not work | [`error`] |
//!
//! ```text
//!            collector                                   threads
//!   registry ── lock_for_stop ──> locks
//!      │                                        blocking region ─┐   (nothing is sent, nothing waited for)
//!      └─ stop ──> vtable.stop_world ── signal ──> handler ──────┼──> handshake: publish, acknowledge, wait
//!           │                       ── hold ─────> safepoint ────┘
//!           └─ check each slot ──> stacks ──> [stack_ptr, base)
//! ```

pub(crate) mod ask;
pub(crate) mod debugged_stacks;
pub mod error;
pub(crate) mod fork;
pub(crate) mod handler;
pub(crate) mod handshake;
#[cfg(test)]
mod handshake_stress;
pub(crate) mod inside;
pub(crate) mod latch;
mod lifecycle;
pub(crate) mod locks;
pub(crate) mod name;
pub(crate) mod published;
pub(crate) mod region;
pub(crate) mod registry;
pub(crate) mod safepoints;
mod setup_error;
pub(crate) mod signals;
pub(crate) mod stacks;
pub(crate) mod stop;
pub(crate) mod stop_info;
pub(crate) mod tid_table;
pub(crate) mod vtable;

#[cfg(test)]
pub(crate) mod tests;

pub use error::{
    AttachError, DebuggerPart, FalseAnswer, HoldFault, SilenceReason, SilentThread, StopAttempts, StopError,
    ThreadDescription, Tid,
};
pub use name::ThreadName;
pub use published::{Phase, PublishedWorld, WORLD_OFFSETS, WorldList, WorldOffsets};
pub use safepoints::SafepointStopper;
pub use setup_error::SetupError;
pub use signals::SignalStopper;
pub use stop_info::{OFFSETS, Slot, StopInfoOffsets, ThreadStopInfo};
pub use vtable::{DebuggerNews, ForkStep, StopRequest, ThreadVtable};
