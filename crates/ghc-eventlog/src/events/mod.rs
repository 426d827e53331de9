//! The one table of events: number, name, description, fields with types and units, and text.
//!
//! ```text
//!     /// The size of the heap.
//!     HEAP_SIZE = 50 "Current heap size" {            name in GHC, number, description in the header
//!         HeapSize {                                  the struct; several if the layout changed, oldest first
//!             capset: u32 [Id] "the heap",            field, type, unit, meaning
//!             bytes: u64 [Bytes] "its size",
//!         } "size of heap capset {capset}: …"         the text of `ghc-events show`
//!     }
//! ```
//!
//! Everything else is derived from it:
//!
//! | item | use |
//! |---|---|
//! | [`HeapSize`] and the other structs | a payload with named fields: [`Payload::encode`] appends it to a buffer, `decode` reads it |
//! | [`Record`] | the payload of any known event, for a `match` |
//! | [`EventType`], [`Layout`], [`Field`] | the table as data: what a header declares, and which fields there are |
//! | [`id`] | the numbers |
//!
//! ```
//! use ghc_eventlog::events::{EventType, HeapSize, Payload, id};
//! use trace_io::bytes::Bytes;
//!
//! let mut bytes = Bytes::with_capacity(64);
//! HeapSize { capset: 0, bytes: 1 << 20 }.encode(&mut bytes);
//! assert_eq!(bytes.as_slice(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0]);
//! assert_eq!(HeapSize::decode(bytes.as_slice()), Some(HeapSize { capset: 0, bytes: 1 << 20 }));
//! assert_eq!(HeapSize::decode(&[0; 11]), None, "too short");
//!
//! let heap_size = EventType::of(id::HEAP_SIZE).unwrap();
//! assert_eq!((heap_size.description, heap_size.declared_size()), ("Current heap size", 12));
//! ```
//!
//! **Versions.** A type of fixed size may get new fields at its end. A file declares the size of its events, so a reader selects the longest layout
//! that is not longer ([`Record::of`]), and a writer uses the newest. A type of variable size has one layout; what newer versions append is
//! ignored.

#[macro_use]
mod rows;

mod descriptor;
mod fields;
mod table;

pub use descriptor::{EventType, Field, FieldKind, Layout, Unit};
pub use fields::{
    Breakdown, CapsetKind, CentreFlags, Ended, Filters, Items, Leading, MessageTag, Raw, Stack, StackBuffer,
    StopReason, Text,
};
pub use table::*;
