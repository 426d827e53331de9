//! Decodes the events of a log.

use super::event::Event;
use crate::events::Record;

impl<'a> Record<'a> {
    /// Decodes an event. Returns `None` if the event is of an unknown type, or too short for its fields.
    #[inline]
    pub fn of(event: &Event<'a>) -> Option<Record<'a>> {
        Record::decode(event.kind.layout?, event.payload)
    }
}
