//! Who is told what a log has, and what it is told.

use super::damage::Damage;
use super::event::Event;
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
