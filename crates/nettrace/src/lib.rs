//! The trace files of .NET: .nettrace, versions 4 to 6.
//!
//! A file is a description of the trace followed by blocks: of events, of descriptions of their types, of stacks, and
//! *sequence points*, which end the validity of ids. An event is a small header
//! (type, thread, time, sequence number within the thread) and a payload, whose fields are packed and are defined by the event's type. All
//! numbers are little-endian.
//!
//! Two containers have the same contents: version 4 wraps each block into an "object" of a serializer with tags and type names,
//! version 6 has blocks with a kind and a size, threads of many processes, and strings in UTF-8. (Version
//! 5 is version 4 with descriptions that may continue after their fields.)
//!
//! ```
//! use nettrace::{NetEvent, Reader, Visitor};
//!
//! #[derive(Default)]
//! struct Count(u64);
//!
//! impl Visitor for Count {
//!     fn event(&mut self, event: &NetEvent<'_>) {
//!         println!("{} {} on thread {}", event.time, event.kind.provider, event.thread);
//!         self.0 += 1;
//!     }
//! }
//!
//! let mut count = Count::default();
//! let summary = Reader::new(&b"Nettrace"[..]).read(&mut count);
//! assert_eq!(count.0, 0);
//! assert!(summary.damage.unwrap().to_string().starts_with("at byte 8: the file ends here"));
//! ```
//!
//! | file | part |
//! |---|---|
//! | `block` | the kinds of blocks |
//! | `container` | reads the blocks of either container, in a buffer that grows with the bytes present |
//! | `header` | the header before a payload |
//! | `metadata` | descriptions: of the trace, of types and their fields |
//! | `tables`, `labels` | what events refer to by id: threads, stacks, labels |
//! | `order` | merges the events of many threads by time |
//! | `visitor` | what a reader delivers |
//! | `reader` | a whole file, from its first byte to a summary |
//! | `encode` | writes a trace of any origin, in either container |
//! | `clr` | the payloads of the runtime's own events |
//! | `fields` | decodes a payload by the fields that the file declares |
//! | `shown` | formats an event as a line of text or JSON |
//! | `functions` | the names of the addresses in stacks, from the rundown at the end of a trace |
//! | `names` | the names of the runtime's native events, which the file does not contain |
//! | `damage` | the kinds of damage |
//! | `bytes` | numbers and strings from untrusted bytes |

pub mod block;
mod bytes;
pub mod clr;
mod container;
mod damage;
pub mod encode;
pub mod fields;
pub mod functions;
mod header;
mod labels;
mod metadata;
pub mod names;
mod order;
mod reader;
pub mod shown;
mod tables;
mod visitor;

pub use damage::{Damage, DamageKind};
pub use labels::{Label, Labels, LabelsIter};
pub use metadata::{EventType, FieldType, TraceInfo, Type, Utc};
pub use reader::Reader;
pub use visitor::{Aside, InFile, Interest, NetEvent, Stack, Summary, ThreadInfo, Visitor};

/// The container of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Container {
    /// Objects with tags: .NET Core 3.0 and later.
    V4,
    /// Blocks with kinds: traces of whole machines.
    V6,
}

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
