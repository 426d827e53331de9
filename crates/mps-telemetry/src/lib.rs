//! The telemetry stream of the Memory Pool System.
//!
//! A stream is a sequence of records without a magic number, a byte order mark or a file header. All numbers
//! are little-endian here, since a stream is read on the kind of machine that wrote it.
//!
//! ```text
//!   0        2        4            8                 16
//!   ├─ code ─┼─ size ─┼─ (padding) ┼─ clock ─────────┼─ parameters, each at its C alignment … ─┤ to a multiple of 8
//!      u16      u16      not zero!    u64, rdtsc
//! ```
//!
//! The size covers the whole record. The stream does not describe the parameters of a code: a reader must know them, and
//! they have changed over the years without a mark in the stream. This crate knows two versions ([`Version`]): 2.0.0, which begins with an
//! `EventInit` record that states the version, and 1.0.0 of October 2012, which has no such record. The same code denotes different events
//! in the two.
//!
//! Records come in batches. Within a batch the records of a category are together, newest first; sort by clock to get
//! the order of events.
//!
//! | file | part |
//! |---|---|
//! | `v2`, `v1` | the events of the two versions, each declared once |
//! | `typed`, `values` | what follows from a declaration: a struct for each event; numbers that have names |
//! | `layout` | what also follows from a declaration: sorts of parameters, their offsets, sizes of records |
//! | `format` | versions: which tables of layouts they have |
//! | `category` | the categories of events |
//! | `reader`, `record`, `detect` | reads records from bytes; detects their version |
//! | `line`, `double` | numbers and strings formatted as C does, into a fixed buffer |
//! | `hex`, `named`, `manual` | the three printers: the lines of `mpseventcnv`, of `mpseventtxt`, and of the old manual |
//! | `labels`, `sort` | the label of an address; sorting in bounded memory |
//! | `encode` | writes records |
//! | `notice`, `decode` | notices about a stream; decoding a whole stream |

mod category;
pub mod decode;
pub mod detect;
mod double;
pub mod encode;
pub mod format;
mod hex;
pub mod labels;
mod layout;
mod line;
mod manual;
mod named;
pub mod notice;
pub mod reader;
mod record;
pub mod sort;
mod typed;
pub mod v1;
pub mod v2;
mod values;

pub use category::Category;
pub use format::{Layout, Param, Sort, Unit, Version};
pub use typed::TypedRecord;
pub use values::{Rank, Res, TraceStartWhy};

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
