//! The trait that receives the contents of a log, and a summary of them.

use super::damage::Damage;
use super::event::Event;
use super::types::EventType;

/// Receives the contents of a log.
pub trait Visitor {
    /// A type of event, in the order of the header.
    fn event_type(&mut self, _kind: &EventType) {}

    /// All types have been delivered; events follow.
    fn begin_events(&mut self) {}

    /// An event.
    fn event(&mut self, event: &Event<'_>);

    /// Returns whether the reader may stop here.
    fn is_done(&self) -> bool {
        false
    }
}

/// A summary of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of events, including block markers.
    pub events: u64,
    /// The number of block markers.
    pub blocks: u64,
    /// The number of types that the header declares.
    pub types: u64,
    /// Bytes read.
    pub bytes: u64,
    /// The first damage.
    pub damage: Option<Damage>,
    /// The number of damaged places.
    pub damages: u64,
    /// Whether the end marker was found.
    pub ended_orderly: bool,
}
