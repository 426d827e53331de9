//! Who is told what a log has, and what it is told.

use super::damage::Damage;
use super::types::EventType;

/// Who is told what a log has.
pub trait Visitor {
    /// A type of event, in the order of the header.
    fn event_type(&mut self, _kind: &EventType) {}

    /// All types are told; events follow.
    fn begin_events(&mut self) {}

    /// An event.
    fn event(&mut self, event: &Event<'_>);

    /// Whether enough has been seen.
    fn is_done(&self) -> bool {
        false
    }
}

/// An event, as it stands in the file.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// What it is.
    pub kind: &'a EventType,
    /// When it happened, in nanoseconds since the program began.
    pub time: u64,
    /// Whose event it is; none if it is the whole program's.
    pub cap: Option<u16>,
    /// What it says.
    pub payload: &'a [u8],
    /// Where in the file it begins.
    pub offset: u64,
}

/// What there was in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All events, block markers counted.
    pub events: u64,
    /// Block markers.
    pub blocks: u64,
    /// Types that the header declares.
    pub types: u64,
    /// Bytes of the file that were gone through.
    pub bytes: u64,
    /// What is wrong first.
    pub damage: Option<Damage>,
    /// How many things are wrong.
    pub damages: u64,
    /// The mark of the end was there.
    pub ended_orderly: bool,
}
