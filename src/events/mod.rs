//! Events: what the collector reports, how listeners select it, and where it goes.
//!
//! A world reports everything about itself as events. Each event is declared once, in [`table`]. A world has one
//! [`Events`], and the collector only calls, for example, `events.fire_gc_start(number, reason)`.
//!
//! ```text
//!  fire_gc_start(..)   inlined: one load, one test, a predicted branch        without a listener, that is all
//!      │ with a listener
//!      ▼
//!  stopworld_fire_gc_start   out of line, cold: clock, thread id, Record      one 64-byte value, on the stack
//!      │
//!      ▼
//!  gate 0 ─► sink      each listener's own Selection decides: keywords × levels, MPS categories, events by name
//!  gate 1 ─► sink
//!   ⋮                  MemorySink: keeps records;  Statistics: keeps numbers;  Chain(a, b): both;  or your own Sink
//! ```
//!
//! **Firing is legal everywhere**: in the stopped world, where a stopped thread may hold malloc's lock, and in a signal handler,
//! even one that interrupted a fire. So a fire allocates nothing, takes no lock, never waits,
//! and uses no thread-local storage (the first use of which may allocate). *Changing* the listeners takes a
//! lock and is for ordinary threads outside a stop.
//!
//! **Switching is exact.** After [`Events::select`] has returned, no record of an event that it disabled carries a later
//! timestamp. An event that was selected throughout is never lost. Every decision is based on one bit, computed
//! from the new selection or from the old one, never from a mixture. The `gate` module explains how, and why no thread has to
//! wait for a thread that is suspended in the middle of a fire.
//!
//! **The vocabulary of the tools.** A listener is configured in the terms of its tools ([`Control`]: keywords and levels, or the
//! MPS filter; [`filter`] reads that filter from text). The table defines how a record's payload is converted to bytes and back to
//! fields ([`payload`], [`templates`]). The names of addresses are in [`labels`], and [`mod@reference`] prints the table for people.
//!
//! **What a disabled event costs.** Without a listener a fire is `mov eax, [events + k]; test eax, mask; jne`, with the
//! jump not taken. The word is on a cache line that is written only when a selection changes. The phases of a collection,
//! which are also probes for tracers, read a second word before that jump.

#[macro_use]
pub mod table;

pub mod clock;
mod control;
pub mod filter;
mod fire;
mod gate;
mod histogram;
pub mod host;
pub mod labels;
mod listeners;
mod memory;
pub mod record;
pub mod reference;
pub mod sink;
mod source;
pub mod state;
pub mod statistics;
mod telemetry;
mod vocabulary;

pub use control::Control;
pub use gate::Settled;
pub use histogram::{Histogram, Summary};
pub use labels::{Label, LabelError, Labels};
pub use listeners::{ListenError, ListenerId, MAX_LISTENERS};
pub use memory::MemorySink;
pub use sink::{AfterFork, Chain, NullSink, Record, Sink};
pub use source::Events;
pub use state::{Categories, EventSet, ProviderState, Selection, Switch};
pub use statistics::{Phase, Statistics, Totals};
pub use table::{DESCRIPTORS, Descriptor, Event, EventId, Group, payload, template as templates};
pub use vocabulary::{Category, Keywords, Level, Provider};
