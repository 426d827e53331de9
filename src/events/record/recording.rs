//! A consumer that worlds join one by one, and that outlives them: what a trace in a file and a client's session have in common.

use std::sync::Mutex;

use super::{Consumer, ConsumerId, ConsumerTotals, Ended, RecordError, Recorder, WorldNumber, locked};
use crate::events::{Events, Selection};

/// See the module's text. `T` is what the threads share that have it.
#[derive(Debug)]
pub(crate) struct Recording<T> {
    /// A source of no events: it keeps the consumer when the last world has gone.
    anchor: Events,
    consumer: ConsumerId,
    shared: Mutex<T>,
}

impl<T> Recording<T> {
    /// Begins, with no world yet.
    pub(crate) fn start(consumer: Box<dyn Consumer>, shared: T) -> Result<Recording<T>, RecordError> {
        let anchor = Events::new();
        let consumer = anchor.record_to(consumer, Selection::nothing())?;
        Ok(Recording { anchor, consumer, shared: Mutex::new(shared) })
    }

    pub(crate) fn consumer(&self) -> ConsumerId {
        self.consumer
    }

    /// Runs `f` with what is shared, by one thread at a time: see [`locked`].
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        locked(&self.shared, f)
    }

    /// A world, by its source of events, joins. It selects nothing before `meet`, which is to do so. One that has joined before stays as it
    /// is.
    pub(crate) fn join(
        &self,
        events: &Events,
        meet: impl FnOnce(&mut T, WorldNumber) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        self.with(|shared| {
            if events.recorded_selection(self.consumer).is_ok() {
                return Ok(());
            }
            events.record_also_to(self.consumer, Selection::nothing())?;
            meet(shared, events.world_number().ok_or(RecordError::Ended)?)
        })
    }

    pub(crate) fn totals(&self) -> Result<ConsumerTotals, RecordError> {
        Recorder::of_process().totals_of(self.consumer)
    }

    /// Ends it: everything that was fired before has come.
    pub(crate) fn end(&self) -> Result<Ended, RecordError> {
        self.anchor.end_recording(self.consumer)
    }
}
