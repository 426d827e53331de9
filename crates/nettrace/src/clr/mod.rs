//! What the payloads of the CLR's events consist of.
//!
//! The runtime's own events don't describe themselves: their metadata in real files has no name and no fields, and readers
//! are expected to know them by provider, number and version. This room is that knowledge, for what concerns memory: the
//! events of the collector, of the heap dump and of handles, and the few of the runtime that a report's header needs.
//!
//! A payload is packed and little-endian; some fields are as wide as the traced process's pointers. A *template* is laid
//! over the bytes where they lie, nothing is copied and nothing allocated:
//!
//! ```text
//!   HeapStats   0        8        16            88     92     94             102            110
//!               ├ size 0 ┼ prom 0 ┼ …  handles ─┤─ clr ┤─ size 4 ─┼─ prom 4 ─┤ … what a later version adds
//!               └───────────── V0 ──────────────┘└ V1 ─┘└───────── V2 ───────┘
//! ```
//!
//! Versions add at the end. So each field has the version that brought it, and its accessor answers `None` for an event
//! of an older version, and also where the payload is too short to hold it, whatever version it claims: the length that
//! is there always wins over the version that is claimed. An old template reads a new event by not looking at its tail.
//! The exceptions are three events whose version 1 put a wider field in place of a narrower one; they have two templates.
//!
//! Each event is declared once, as text of the macro in `template`; from that come the struct with its accessors and the
//! row of [`Template`] by which a listing prints any of these events field by field.
//!
//! | file | events |
//! |---|---|
//! | `payload` | bytes, pointers and UTF-16 text in a payload |
//! | `template` | the declaration, and the decoding by table |
//! | `labels` | names of enumerated values |
//! | `gc` | collections, suspensions, allocation, segments, finalizers, handles |
//! | `history` | what a collection did, per heap and in whole; phases, joins, marks |
//! | `bulk` | types, heap dumps, surviving and moved ranges |
//! | `private` | the private provider |
//! | `runtime` | the process, the runtime and its settings |

pub mod bulk;
pub mod gc;
pub mod history;
mod labels;
pub mod payload;
pub mod private;
mod provider;
pub mod runtime;
mod template;

pub use labels::{Enumeration, MARK_ROOTS, label};
pub use payload::{Payload, Z16};
pub use provider::Provider;
pub use template::{Field, FieldValue, Kind, Template};

/// The template of an event, if there is one.
///
/// A version that is newer than any known here is read by the newest template.
pub fn find(provider: Provider, event: u32, version: u32) -> Option<&'static Template> {
    all().find(|template| {
        template.providers.contains(&provider)
            && template.events.contains(&event)
            && template.versions.contains(&version)
    })
}

/// All templates.
pub fn all() -> impl Iterator<Item = &'static Template> {
    [gc::TEMPLATES, history::TEMPLATES, bulk::TEMPLATES, private::TEMPLATES, runtime::TEMPLATES]
        .into_iter()
        .flatten()
        .copied()
}
