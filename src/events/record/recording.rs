//! A consumer that worlds join one by one, and that outlives them: the common part of a trace in a file and a client's session.

use std::sync::Mutex;

use super::{Consumer, ConsumerId, ConsumerTotals, Ended, RecordError, Recorder, WorldNumber, locked};
use crate::events::{Events, Selection};

/// A consumer that worlds join one by one, and that outlives them. `T` is the state that its owners share, under a lock.
///
/// The lock is held in a blocking region: a stop does not wait for it. So the functions that run under it are `Send`, which keeps
/// every `Gc` out of them.
#[derive(Debug)]
pub struct Recording<T> {
    /// A source that fires no events. It keeps the consumer alive when the last world is gone.
    anchor: Events,
    consumer: ConsumerId,
    shared: Mutex<T>,
}

impl<T: Send> Recording<T> {
    /// Starts a recording with no world yet.
    ///
    /// # Errors
    /// There are too many consumers, or the system refused memory or a thread.
    pub fn start(consumer: Box<dyn Consumer>, shared: T) -> Result<Recording<T>, RecordError> {
        let anchor = Events::new();
        let consumer = anchor.record_to(consumer, Selection::nothing())?;
        Ok(Recording { anchor, consumer, shared: Mutex::new(shared) })
    }

    /// Returns the consumer's id, with which [`Events::select_recorded`] selects events of a world.
    pub fn consumer(&self) -> ConsumerId {
        self.consumer
    }

    /// Runs `f` with the shared state, under its lock: see [`locked`].
    ///
    /// # Deadlock
    /// `f` must not call this recording's `with` or `join`.
    pub fn with<R: Send>(&self, f: impl FnOnce(&mut T) -> R + Send) -> R {
        locked(&self.shared, f)
    }

    /// Adds a world, given by its events. No event of the world is selected until `meet` selects events; `meet` runs under the lock of the
    /// shared state. Does nothing if the world has joined before.
    ///
    /// # Errors
    /// The recording has ended, too many worlds are recorded, or `meet` failed.
    ///
    /// # Deadlock
    /// `meet` must not call this recording's `with` or `join`.
    pub fn join(
        &self,
        events: &Events,
        meet: impl FnOnce(&mut T, WorldNumber) -> Result<(), RecordError> + Send,
    ) -> Result<(), RecordError> {
        self.with(|shared| {
            if events.recorded_selection(self.consumer).is_ok() {
                return Ok(());
            }
            events.record_also_to(self.consumer, Selection::nothing())?;
            meet(shared, events.world_number().ok_or(RecordError::Ended)?)
        })
    }

    /// Returns the event counts so far.
    ///
    /// # Errors
    /// The recording has ended.
    pub fn totals(&self) -> Result<ConsumerTotals, RecordError> {
        Recorder::of_process().totals_of(self.consumer)
    }

    /// Ends the recording: the consumer gets everything that was fired before, and is closed.
    ///
    /// # Errors
    /// The recording has ended already.
    pub fn end(&self) -> Result<Ended, RecordError> {
        self.anchor.end_recording(self.consumer)
    }
}
