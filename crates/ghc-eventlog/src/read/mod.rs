//! From a log to events, in the order of the file or of time, in memory that does not grow.
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
//! [`in_file_order`] goes through any input once. [`by_time`] delivers the same events as a stable sort of the whole file by
//! time would have them, which is what `ghc-events show` prints; it needs an input that can be read at any place, goes through
//! it twice and holds some ten mebibytes of it at once (the file `order` tells how). A pipe becomes such an input by
//! [`seekable`], which puts it into a file without a name.
//!
//! An event is a view of the reader's memory, valid during the call; nothing is allocated for it. What is wrong with a file is in the
//! [`Summary`]: the first [`Damage`], with its byte and the last good event before it, and how many there were. Where the
//! next event can be found in spite of it, reading goes on there:
//!
//! | damage | what follows |
//! |---|---|
//! | an event of a type that the header lacks | has the length that GHC gives it, if an event of a known type follows; else see the next row |
//! | nothing tells where the next event begins | the rest of the block is left out; if no block begins after it, the rest of the file |
//! | an event that reaches over the end of its block | is left out if a block begins there, is as good as any other if not |
//! | bytes behind the mark of the end | are read as events, as the real tools do |
//! | the file ends inside an event, or without the mark | all before is there |
//!
//! | file | part |
//! |---|---|
//! | `source` | bytes of a file, as far as they are in memory |
//! | `header`, `types` | the types of events; how long an event is |
//! | `block` | whose event it is |
//! | `scan` | all events in the order of the file, and over what is damaged |
//! | `index`, `order` | all events in the order of time |
//! | `visitor`, `event`, `damage` | what a reader delivers, and what can be wrong |
//! | `layout` | the events that are known, and what they say as text |
//! | `show`, `haskell` | the text of a whole log, as `ghc-events` prints it |
//! | `record` | the events of profiles and of the heap, decoded |

mod block;
mod damage;
mod event;
mod haskell;
mod header;
mod index;
mod layout;
mod order;
pub mod record;
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

/// Reads a log to its end, or to where it can't be read on, and delivers events as they stand in it.
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

/// Reads a log to its end, or to where it can't be read on, and delivers events by time; those of one time in the
/// order of the file.
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

/// The last event that begins before this byte of a log: the last that is good, if something is wrong there with what an event says.
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

/// The input itself if it can be read at any place from its beginning; else a file without a name that has all of it.
///
/// # Errors
///
/// The input can't be read, or there is no room in `TMPDIR`.
pub fn seekable(mut input: File) -> io::Result<File> {
    if input.seek(SeekFrom::Start(0)).is_ok() {
        return Ok(input);
    }
    let mut spooled = tempfile::tempfile()?;
    io::copy(&mut input, &mut spooled)?;
    Ok(spooled)
}
