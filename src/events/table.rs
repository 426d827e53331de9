//! The one table of events.
//!
//! A collector that wants to be seen by five families of tools must say everything five times, and five lists of the
//! same thing drift apart. So each event is declared once, in `table/rows`:
//!
//! ```text
//! /// what happened, for people
//! GcStart / fire_gc_start in Collection {
//!     net [GCStart = 1 v 2 op 1: Default GC Informational]    what it becomes for .NET tools: name, id, version, opcode,
//!                                                             and which provider, keyword and level select it
//!     mps [TraceCreate = 0x44: Trace, …]                      what it becomes in an MPS stream: name, code, category
//!     ghc [GC_START = 9]                                      what it becomes in a GHC eventlog: name, tag
//!     usdt [gc_start]                                         the probe at which gdb, perf and bpftrace see it, if it has one
//!     fields { number: u32 [Ordinal] "which collection, from 1", … }
//! }
//! ```
//!
//! and everything else is derived from it: [`EventId`], the [`DESCRIPTORS`] that documentation and consumers walk, a
//! payload struct per event in [`payload`], which serializes itself, a reader of such bytes per event in [`template`],
//! [`Event`] (any payload, for a `match`), `Events::fire_…` per event, and the reference page (`stopworld events`).
//!
//! **Payloads grow at the end.** A field that came later says so (`since 2`): a reader of an older payload asks for it and
//! is told that it is not there, and an older reader of a newer payload never looks that far.
//!
//! **An event tells the story of the collector, not a record of some format.** One phase may become several records in
//! one format (a collection that starts is three MPS records) and none in another, so each of the three lists may be
//! empty or long. The order of the records inside a file is the affair of that format's writer.
//!
//! In a record a payload is at most [`PAYLOAD_WORDS`] words, each field in a word of its own. Serialized it is compact: the
//! fields in order, little-endian, without padding.

#[macro_use]
mod rows;

/// Gives the whole table to a macro, as `macro! { {rows} }`: the subjects' rows, in this order.
macro_rules! for_each_event {
    ($macro:ident) => {
        world_rows! { collection_rows heap_rows program_rows profile_rows debugger_rows $macro {} }
    };
}

mod descriptor;
mod event;
mod id;
pub mod payload;
pub mod template;
mod view;

pub(super) use self::descriptor::FieldType;
pub use self::descriptor::{
    DESCRIPTORS, Descriptor, Field, FieldKind, GhcEvent, MAX_PAYLOAD_BYTES, MpsEvent, NetEvent, PAYLOAD_WORDS,
    PlacedField, Unit,
};
pub use self::event::Event;
pub use self::id::{EventId, GROUPS, Group};
