//! The payloads of the CLR's events.
//!
//! The runtime's own events don't describe themselves: their metadata in real files has no name and no fields, and readers
//! are expected to know them by provider, number and version. This module has that knowledge for memory management: the
//! events of the collector, of heap dumps and of handles, and the few runtime events that the header of a report needs.
//!
//! A payload is packed and little-endian; some fields are as wide as the traced process's pointers. A *template* is a view
//! of the bytes; nothing is copied or allocated:
//!
//! ```text
//!   HeapStats   0        8        16            88     92     94             102            110
//!               ├ size 0 ┼ prom 0 ┼ …  handles ─┤─ clr ┤─ size 4 ─┼─ prom 4 ─┤ … what a later version adds
//!               └───────────── V0 ──────────────┘└ V1 ─┘└───────── V2 ───────┘
//! ```
//!
//! Versions append fields. So each field has the version that added it, and its accessor returns `None` for an event
//! of an older version, and also if the payload is too short for it, whatever version the event states: the actual length
//! takes precedence over the stated version. An older template reads a newer event and ignores its tail.
//! The exceptions are three events whose version 1 widened a field; they have two templates.
//!
//! Each event is declared once, as input of the macro in `declare`. The macro generates the struct with its accessors, the row of
//! [`Template`] from which a listing prints the event field by field, and, for an event that a program of this project writes, a struct in
//! [`write`](mod@write) that appends a payload, and the event's metadata ([`Definition`]).
//!
//! | file | events |
//! |---|---|
//! | `payload` | bytes, pointers and UTF-16 text in a payload |
//! | `declare` | how events are declared |
//! | `template` | decoding by table |
//! | `encode` | metadata, and structs that append a payload |
//! | `values`, `labels` | enumerated values, and their names |
//! | `gc` | collections, suspensions, allocation, segments, finalizers, handles |
//! | `history` | the details of a collection, per heap and in total; phases, joins, marks |
//! | `bulk` | types, heap dumps, surviving and moved ranges |
//! | `private` | the private provider |
//! | `runtime` | the process, the runtime and its settings |
//! | `code` | functions and modules, at the end of a trace |

#[macro_use]
mod declare;
#[macro_use]
mod encode;

pub mod bulk;
pub mod code;
pub mod gc;
pub mod history;
mod labels;
pub mod payload;
pub mod private;
mod provider;
pub mod runtime;
mod template;
mod values;

pub use encode::{Definition, Encode, Level, Rows, Sink, Text, keyword};
pub use payload::{Payload, Z16};
pub use provider::Provider;
pub use template::{Field, FieldValue, Kind, Template, Unit};
pub use values::{
    AllocationKind, CollectionType, ElementType, Enumeration, HandleKind, JoinTime, JoinType, MarkRoot, Mechanisms,
    PauseMode, Reason, RootFlags, RootKind, SegmentKind, SettingBits, Sku, StartupFlags, StaticFlags, SuspendReason,
    label,
};

/// The events that can be written, each a struct with the name that the event has in a file.
pub mod write {
    pub use super::bulk::written::*;
    pub use super::code::written::*;
    pub use super::gc::written::*;
    pub use super::history::written::*;
    pub use super::private::written::*;
    pub use super::runtime::written::*;
}

/// Returns the template of an event, if there is one.
///
/// A version newer than all known versions is read with the newest template.
pub fn find(provider: Provider, event: u32, version: u32) -> Option<&'static Template> {
    all().find(|template| {
        template.providers.contains(&provider)
            && template.events.contains(&event)
            && template.versions.contains(&version)
    })
}

/// All templates.
pub fn all() -> impl Iterator<Item = &'static Template> {
    [gc::TEMPLATES, history::TEMPLATES, bulk::TEMPLATES, private::TEMPLATES, runtime::TEMPLATES, code::TEMPLATES]
        .into_iter()
        .flatten()
        .copied()
}

/// The metadata of all events that can be written.
pub fn definitions() -> impl Iterator<Item = &'static Definition> {
    [
        gc::written::DEFINITIONS,
        history::written::DEFINITIONS,
        bulk::written::DEFINITIONS,
        private::written::DEFINITIONS,
        runtime::written::DEFINITIONS,
        code::written::DEFINITIONS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
