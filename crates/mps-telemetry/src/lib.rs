//! The telemetry stream of the Memory Pool System.
//!
//! A stream is a bare concatenation of records, without a magic number, a byte order mark or a file header. All numbers
//! are little-endian here, since a stream is read on the kind of machine that wrote it.
//!
//! ```text
//!   0        2        4            8                 16
//!   ├─ code ─┼─ size ─┼─ (padding) ┼─ clock ─────────┼─ parameters, each at its C alignment … ─┤ to a multiple of 8
//!      u16      u16      not zero!    u64, rdtsc
//! ```
//!
//! The size covers the whole record. What parameters a code has is not in the stream: one must know, and what one must
//! know has changed over the years without the stream saying so. Two dialects are known here ([`Version`]): 2.0.0, which
//! begins with an `EventInit` record that names the version, and 1.0.0 of October 2012, which doesn't. The same code
//! means different events in the two.
//!
//! Records come in batches. Within a batch each category is written by itself, newest record first; so who wants to
//! read a story sorts by clock.
//!
//! | file | part |
//! |---|---|
//! | `layout` | kinds of parameters, their offsets, sizes of records |
//! | `format` | versions: which tables of layouts they have |
//! | `layouts_v2`, `layouts_v1` | the events of the two dialects, declared once |
//! | `category` | the categories of events |
//! | `reader`, `record`, `detect` | from bytes to records; which version they are of |
//! | `line`, `double` | numbers and strings as C prints them, into a fixed buffer |
//! | `hex`, `named`, `manual` | the three printers: `mpseventcnv`'s line, `mpseventtxt`'s, and those of the old manual |
//! | `labels`, `sort` | which name an address has; sorting in bounded memory |
//! | `encode` | records of any kind, put together from their layouts |
//! | `notice`, `decode` | what to tell about a stream; a whole stream from end to end |

mod category;
pub mod decode;
pub mod detect;
mod double;
pub mod encode;
pub mod format;
mod hex;
pub mod labels;
mod layout;
mod layouts_v1;
mod layouts_v2;
mod line;
mod manual;
mod named;
pub mod notice;
pub mod reader;
mod record;
pub mod sort;

pub use category::Category;
pub use format::{Layout, Param, Sort, Version};

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
