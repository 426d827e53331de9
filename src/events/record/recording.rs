//! A consumer that worlds join one by one, and that outlives them: the common part of a trace in a file and a client's session.

use std::sync::Mutex;

use super::{Consumer, ConsumerId, ConsumerTotals, Ended, RecordError, Recorder, WorldNumber, locked};
use crate::events::{Events, Selection};

/// See the module documentation. `T` is the data that the threads share.
#[derive(Debug)]
pub(crate) struct Recording<T> {
    /// Events that are never fired. They keep the consumer when the last world is destroyed.
    anchor: Events,
    consumer: ConsumerId,
    shared: Mutex<T>,
}

impl<T> Recording<T> {
    /// Starts recording, without a world.
    pub(crate) fn start(consumer: Box<dyn Consumer>, shared: T) -> Result<Recording<T>, RecordError> {
        let anchor = Events::new();
        let consumer = anchor.record_to(consumer, Selection::nothing())?;
        Ok(Recording { anchor, consumer, shared: Mutex::new(shared) })
    }

    pub(crate) fn consumer(&self) -> ConsumerId {
        self.consumer
    }

    /// Runs `f` with the shared data, by one thread at a time: see [`locked`].
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        locked(&self.shared, f)
    }

    /// Adds a world, given by its events. It selects nothing until `meet` does so. A world that was added before is unchanged.
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

    /// Ends the recording. Everything that was fired before has been delivered.
    pub(crate) fn end(&self) -> Result<Ended, RecordError> {
        self.anchor.end_recording(self.consumer)
    }
}
