//! What happened: events, who wants them, and where they go.
//!
//! Everything that a world knows about itself leaves it as events. Each is declared once, in [`table`]; a world has one
//! [`Events`], and the collector calls `events.fire_gc_start(number, reason)` and thinks no further.
//!
//! ```text
//!  fire_gc_start(..)   inlined: one load, one test, a predicted branch        nobody listens: that was all
//!      │ someone listens
//!      ▼
//!  stopworld_fire_gc_start   out of line, cold: clock, thread id, Record      one 64-byte value, on the stack
//!      │
//!      ▼
//!  gate 0 ─► sink      each listener's own Selection decides: keywords × levels, MPS categories, events by name
//!  gate 1 ─► sink
//!   ⋮                  MemorySink: keeps records;  Statistics: keeps numbers;  Chain(a, b): both;  or your own Sink
//! ```
//!
//! **Where firing is legal: everywhere.** In the stopped world, where malloc's lock may belong to a thread that stands
//! still; in a signal handler, even one that interrupted a fire. So a fire allocates nothing, takes no lock, waits for
//! nobody, and touches no thread-local storage (the first use of which may allocate). *Changing* who listens takes a
//! lock and is for ordinary threads outside the stop.
//!
//! **Switching is exact.** When [`Events::select`] has returned, no record of an event that it disabled carries a later
//! timestamp; an event that was wanted all the while is never lost; and every decision was made from one bit, computed
//! from the new selection or from the old one, never from a mixture. The `gate` module tells how, and why nobody has to
//! wait for a thread that is frozen in the middle.
//!
//! **The tools' own words.** A listener is switched in the language of its tools ([`Control`]: keywords and levels, the
//! MPS filter; [`filter`] reads the latter from text). A record's payload becomes bytes and fields again by what the table
//! derives ([`payload`], [`templates`]); what its addresses are called is in [`labels`]; and [`mod@reference`] is the table for
//! people.
//!
//! **What the off state costs.** With nobody listening a fire is `mov eax, [events + k]; test eax, mask; jne`, with the
//! jump not taken; the word is on a cache line that is written only when a selection changes. The phases of a collection,
//! which are also probes for tracers, look at a second word before that jump.

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
