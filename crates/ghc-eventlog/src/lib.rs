//! GHC eventlogs: threads, collections, heap and time profiles in one file; and the text profiles (`.hp`, `.prof`) that GHC writes beside
//! them.
//!
//! ```text
//!   "hdrb" "hetb"   a type: "etb\0" id size description "ete\0"   …   "hete" "hdre"      the header
//!   "datb"          an event: id time [length] payload            …   ffff               the data
//! ```
//!
//! All numbers are big-endian. The size of a payload comes from the event's type; types of variable size store it in each event. A *block
//! marker* is an event that assigns the following bytes, up to its size, to one capability (GHC's term for an operating system thread
//! that runs Haskell code). Each capability fills a buffer of its own, and blocks are written as buffers become full, so a
//! file as a whole is not sorted by time.
//!
//! | module | part |
//! |---|---|
//! | [`format`](mod@format) | the layout as data: marks, sizes of heads |
//! | [`events`] | the one table of events, and what is derived from it: typed payloads to write and to read |
//! | [`read`] | from a log to events, in the order of the file or by time |
//! | [`write`](mod@write) | from events to a log |
//! | [`hp`] | heap profiles as text, to read and to write: `.hp` files |
//! | [`prof`] | time profiles as text, to write: `.prof` files |
//! | [`date`] | the dates in text profiles |

pub mod date;
pub mod events;
pub mod format;
pub mod hp;
pub mod prof;
pub mod read;
pub mod write;

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
