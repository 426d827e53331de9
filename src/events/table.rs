//! The one table of events.
//!
//! A collector that supports five families of tools must report everything in five ways, and five separate lists of the
//! same events would drift apart. So each event is declared once, in `table/rows`:
//!
//! ```text
//! /// what happened, as text
//! GcStart / fire_gc_start in Collection {
//!     net [GCStart = 1 v 2 op 1: Default GC Informational]    its counterpart for .NET tools: name, id, version, opcode,
//!                                                             and the provider, keyword and level that select it
//!     mps [TraceCreate = 0x44: Trace, …]                      its counterparts in an MPS stream: name, code, category
//!     ghc [GC_START = 9]                                      its counterpart in a GHC eventlog: name, tag
//!     usdt [gc_start]                                         its probe for gdb, perf and bpftrace, if it has one
//!     fields { number: u32 [Ordinal] "collection number, from 1", … }
//! }
//! ```
//!
//! Everything else is derived from it: [`EventId`], the [`DESCRIPTORS`] for documentation and consumers, a
//! serializable payload struct per event in [`payload`], a reader of serialized payloads per event in [`template`],
//! [`Event`] (any payload, for a `match`), `Events::fire_…` per event, and the reference page (`stopworld events`).
//!
//! **Payloads grow at the end.** A field that was added later is marked (`since 2`). A reader that requests it from an older payload
//! gets an error, and an older reader of a newer payload ignores it.
//!
//! **An event describes a step of the collector, not a record of some format.** One phase may become several records in
//! one format (the start of a collection is three MPS records) and none in another, so each of the three lists may be
//! empty or long. The writer of a format determines the order of the records in its file.
//!
//! In a record a payload is at most [`PAYLOAD_WORDS`] words, each field in a word of its own. A serialized payload is compact: the
//! fields in order, little-endian, without padding.

#[macro_use]
mod rows;

/// Passes the whole table to a macro, as `macro! { {rows} }`: the rows of the subjects, in this order.
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
