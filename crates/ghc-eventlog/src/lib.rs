//! The eventlog of GHC's runtime: threads, collections, heap and time profiles in one file.
//!
//! ```text
//!   "hdrb" "hetb"   a type: "etb\0" id size description "ete\0"   …   "hete" "hdre"      the header
//!   "datb"          an event: id time [length] payload            …   ffff               the data
//! ```
//!
//! All numbers are big-endian. An event's payload is as long as its type says; a type of variable length has events that
//! say themselves. A *block marker* is an event that says to which capability (GHC's word for what runs Haskell code, a
//! thread of ours) the events in the so many bytes from it on belong. Each capability fills a buffer of its own, so blocks
//! follow each other as buffers became full, and a file as a whole is not in the order of time.
//!
//! | module | part |
//! |---|---|
//! | [`format`](mod@format) | the layout as data: marks, types of events with their sizes |
//! | [`read`] | from a log to events, in the order of the file or by time |
//! | [`hp`] | heap profiles as text: `.hp` files |

pub mod format;
pub mod hp;
pub mod read;

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
