//! Reads the events of a log, in file order or by time, in bounded memory.
//!
//! ```
//! use ghc_eventlog::read::{Event, Visitor, by_time};
//!
//! #[derive(Default)]
//! struct Count(u64);
//!
//! impl Visitor for Count {
//!     fn event(&mut self, event: &Event<'_>) {
//!         println!("{} {} of capability {:?}", event.time, event.kind.description, event.cap);
//!         self.0 += 1;
//!     }
//! }
//!
//! let mut count = Count::default();
//! let summary = by_time(&b"hdrbhetb"[..], &mut count);
//! assert_eq!(count.0, 0);
//! assert!(summary.damage.unwrap().to_string().starts_with("at byte 8: the file ends here"));
//! ```
//!
//! [`in_file_order`] reads any input once. [`by_time`] delivers the same events sorted by time; events with equal times stay in file
//! order. `ghc-events show` prints them in this order. `by_time` needs an input that can be read at any offset, reads the input twice,
//! and keeps about 10 MiB of it in memory (the file `order` explains how). [`seekable`] copies a pipe into an unnamed
//! file, which can be read at any offset.
//!
//! An event is a view of the reader's memory, valid during the call; nothing is allocated for it. Damage is reported in the
//! [`Summary`]: the first [`Damage`], with its byte offset and the last good event before it, and the number of damaged places. Where the
//! next event can be found nevertheless, reading resumes there:
//!
//! | damage | how reading resumes |
//! |---|---|
//! | an event of a type that the header does not declare | it gets the length that GHC gives it, if an event of a known type follows; otherwise as in the next row |
//! | the beginning of the next event is unknown | at the next block; if no block follows, the rest of the file is skipped |
//! | an event that crosses the end of its block | it is skipped if a block begins there, and delivered otherwise |
//! | bytes after the end marker | they are read as events, as GHC's tools do |
//! | the file ends inside an event, or without the end marker | everything before is delivered |
//!
//! | file | part |
//! |---|---|
//! | `source` | the bytes of a file, as far as they are in memory |
//! | `header`, `types` | the types of events; the length of an event |
//! | `block` | the capability of an event |
//! | `scan` | all events in file order, resuming after damage |
//! | `index`, `order` | all events by time |
//! | `visitor`, `event`, `damage` | what a reader delivers, and the kinds of damage |
//! | `layout` | the layout that a log declares; the pieces of an event's text |
//! | `show`, `haskell` | the text of a whole log, as `ghc-events` prints it |
//! | `record` | decoding events |

mod block;
mod damage;
mod event;
mod haskell;
mod header;
mod index;
mod layout;
mod order;
mod record;
mod scan;
pub mod show;
mod source;
mod types;
mod visitor;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

pub use damage::{Damage, DamageKind, LastGood, Resumed};
pub use event::Event;
pub use source::ReadAt;
pub use types::EventType;
pub use visitor::{Summary, Visitor};

use index::Index;
use order::Rounds;
use scan::Scan;
use source::FromStart;

/// Reads a log to its end, or to where reading fails, and delivers its events in file order.
pub fn in_file_order<R: Read, V: Visitor + ?Sized>(input: R, visitor: &mut V) -> Summary {
    let mut scan = Scan::open(input, &mut |kind| visitor.event_type(kind));
    if scan.has_header() {
        visitor.begin_events();
    }
    scan.events(|types, raw| {
        visitor.event(&raw.event(types));
        !visitor.is_done()
    });
    scan.summary()
}

/// Reads a log to its end, or to where reading fails, and delivers its events by time; those of equal time in file
/// order.
pub fn by_time<S: ReadAt + ?Sized, V: Visitor + ?Sized>(input: &S, visitor: &mut V) -> Summary {
    let mut index = Index::default();
    let mut scan = Scan::open(FromStart::new(input), &mut |kind| visitor.event_type(kind));
    if scan.has_header() {
        visitor.begin_events();
    }
    scan.events(|_, raw| {
        index.add(raw);
        true
    });
    let rounds = Rounds::new(input, scan.types(), index.finish());
    if let Err(damage) = rounds.deliver(visitor) {
        scan.damaged(damage);
    }
    scan.summary()
}

/// Returns the last event of a log that begins before this byte offset: the last good one, if an event at the offset has a damaged payload.
pub fn last_before<S: ReadAt + ?Sized>(input: &S, offset: u64) -> Option<LastGood> {
    let mut last: Option<LastGood> = None;
    Scan::open(FromStart::new(input), &mut |_| {}).events(|types, raw| {
        let event = raw.event(types);
        let is_before = event.offset < offset;
        if is_before {
            last = Some(LastGood::after(last, &event));
        }
        is_before
    });
    last
}

/// Returns the input itself if it can be read at any offset from its beginning; otherwise an unnamed file with a copy of it.
///
/// # Errors
///
/// Reading the input fails, or `TMPDIR` has no room.
pub fn seekable(mut input: File) -> io::Result<File> {
    if input.seek(SeekFrom::Start(0)).is_ok() {
        return Ok(input);
    }
    let mut spooled = tempfile::tempfile()?;
    io::copy(&mut input, &mut spooled)?;
    Ok(spooled)
}
