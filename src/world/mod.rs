//! Threads and how they stop.
//!
//! A collection needs every thread of its world to be stopped, with the contents of the thread's registers in memory that can
//! be scanned. The mechanism that stops threads is a value, which can be swapped while the program runs. The result is checked
//! in one place, whichever mechanism was used.
//!
//! | topic | file |
//! |---|---|
//! | the record of a thread, and how a debugger finds it | [`stop_info`], [`published`] |
//! | attaching and detaching threads; the beginning and end of a world; forks | [`registry`], [`lifecycle`], [`fork`] |
//! | one stop, from its locks to the restart; its request to a stopping mechanism | [`stop`], [`stop_request`] |
//! | the contract of a stopping mechanism; what it can do besides | [`vtable`], [`capabilities`] |
//! | the two built-in mechanisms, and their common part | [`signals`], [`safepoints`], [`handshake_stop`] |
//! | the code of the signal handler | [`handler`] |
//! | what a thread does itself so that it can be stopped: safepoints, blocking regions | [`region`] |
//! | the addresses that a collection or a debugger's request scans | [`stacks`], [`debugged_stacks`] |
//! | the pure protocols, which the model checker runs | [`handshake`], [`locks`], [`latch`] |
//! | the errors | [`error`] |
//!
//! ```text
//!            collector                                   threads
//!   registry ── lock_for_stop ──> locks
//!      │                                        blocking region ─┐   (nothing is sent, nothing waited for)
//!      └─ stop ──> vtable.stop_world ── signal ──> handler ──────┼──> handshake: publish, acknowledge, wait
//!           │                       ── hold ─────> safepoint ────┘
//!           └─ check each slot ──> stacks ──> [stack_ptr, base)
//! ```

pub(crate) mod capabilities;
pub(crate) mod debugged_stacks;
pub mod error;
pub(crate) mod fork;
pub(crate) mod handler;
pub(crate) mod handshake;
pub(crate) mod handshake_stop;
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
mod stop_request;
pub(crate) mod tid_table;
pub(crate) mod vtable;

#[cfg(test)]
pub(crate) mod tests;

pub use capabilities::{
    AtFork, AtInstall, AtPhase, AtSwap, ByHandshake, DebuggerClient, DebuggerNews, ForkStep, LostStop, RevocableStop,
};
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
pub use stop_request::StopRequest;
pub use vtable::ThreadVtable;
