//! One collection, phase by phase.
//!
//! `collection.rs` *is* the collection: it reads from top to bottom in the order of what happens. Each phase is one call
//! (`phases.rs`), which fires its events, notifies the vtable, and takes its time. Everything that it needs
//! while the world is stopped is found or taken before the first signal: the three locks of the world and that of the finalizer
//! tables, the sweep gate, all memory. From "all stopped" to "restart" nothing allocates from malloc, prints, or waits for a
//! lock that a stopped thread could hold (`.stop.no-malloc`, `.stop.locks`).

mod account;
pub(crate) mod binding;
pub(crate) mod caches;
mod collection;
mod dump;
mod ephemerons;
pub(crate) mod error;
pub(crate) mod figures;
pub(crate) mod finalize;
mod helpers;
mod key_index;
mod linked_objects;
pub(crate) mod live_heap;
pub(crate) mod mark;
mod mark_byte;
mod mark_stack;
pub(crate) mod masks;
mod mutator_time;
mod observer;
mod outcome;
pub(crate) mod pacing;
pub(crate) mod parallel;
mod phases;
#[cfg(feature = "check")]
pub(crate) mod promise;
mod ranges;
pub(crate) mod report;
mod root_areas;
pub(crate) mod roots;
pub(crate) mod samples;
pub(crate) mod scan;
mod scopes;
pub(crate) mod select;
mod sharing;
pub(crate) mod state;
mod stopping;
pub mod tables;
pub(crate) mod termination;
pub(crate) mod timing;
mod verify;

pub(crate) use caches::cache_of;
pub(crate) use collection::Collected;
pub use error::{CloseError, CollectError};
pub(crate) use state::{Afterwards, Attention, Collecting, Collector, FailureListener, Observer, Parts};
