//! Recording: the road of events to those who need not see them at once.
mod consumer;

use std::io;

pub use consumer::{
    Consumer, ConsumerId, ConsumerTotals, Ended, Lost, Policy, RecordError, Recorded, RecorderTotals, RecordingThread,
    WorldNumber,
};

use super::Events;
use super::clock::Clock;
use super::gate::Settled;
use super::state::Selection;

/// How many consumers can record at once.
pub const MAX_CONSUMERS: usize = 8;

/// How many worlds of a process can record at once.
pub const MAX_WORLDS: usize = 64;

/// What all worlds of the process share: the rings of all threads, the writer thread, and the consumers.
#[derive(Debug)]
pub struct Recorder(());

impl Recorder {
    /// The recorder of this process.
    pub fn of_process() -> &'static Recorder {
        static RECORDER: Recorder = Recorder(());
        &RECORDER
    }

    /// The clock of all records. The first call takes some 10 ms.
    pub fn clock(&self) -> Clock {
        Clock::of_process()
    }

    /// The MPS's `telemetry_flush`: when it returns, everything that was fired before is with its consumers, and they are flushed.
    ///
    /// Waits for a drain that is under way, as a blocking region. Not in the stopped world.
    ///
    /// # Errors
    /// The first error of a consumer that has not been returned by this function before.
    pub fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    /// The process's numbers so far.
    pub fn totals(&self) -> RecorderTotals {
        RecorderTotals::default()
    }

    /// Drains, and has a consumer that keeps records (a flight recorder) hand them to another one, which is then flushed.
    /// Says how many records those were.
    ///
    /// # Errors
    /// The consumer has ended or keeps no records, or `to` failed.
    pub fn replay(&self, from: ConsumerId, to: &mut dyn Consumer) -> io::Result<u64> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Recording of one world's events.
impl Events {
    /// From now on, what `selection` selects of this world's events is recorded for `consumer`. The first consumer of the
    /// process starts the writer thread.
    ///
    /// # Errors
    /// There are too many, or the system does not give what recording needs; the consumer is dropped.
    pub fn record_to(&self, consumer: Box<dyn Consumer>, selection: Selection) -> Result<ConsumerId, RecordError> {
        let _ = (consumer, selection);
        Err(RecordError::TooManyConsumers)
    }

    /// A consumer of another world's events gets this world's, too.
    ///
    /// # Errors
    /// The consumer has ended, or too many worlds record.
    pub fn record_also_to(&self, consumer: ConsumerId, selection: Selection) -> Result<(), RecordError> {
        let _ = (consumer, selection);
        Err(RecordError::Ended)
    }

    /// Changes what a consumer records of this world, from what it records now, as one. When this returns, nothing that it
    /// disabled is recorded with a later timestamp, and what was fired before is not lost. `edit` runs under the
    /// recorder's lock: it must not call the recorder.
    ///
    /// # Errors
    /// The consumer has ended, or does not record this world.
    pub fn change_recorded(
        &self,
        consumer: ConsumerId,
        edit: impl FnOnce(&mut Selection),
    ) -> Result<Settled, RecordError> {
        let _ = (consumer, edit);
        Err(RecordError::Ended)
    }

    /// Replaces what a consumer records of this world: as [`change_recorded`](Events::change_recorded).
    ///
    /// # Errors
    /// The consumer has ended, or does not record this world.
    pub fn select_recorded(&self, consumer: ConsumerId, selection: Selection) -> Result<Settled, RecordError> {
        self.change_recorded(consumer, |old| *old = selection)
    }

    /// What a consumer records of this world.
    ///
    /// # Errors
    /// The consumer has ended, or does not record this world.
    pub fn recorded_selection(&self, consumer: ConsumerId) -> Result<Selection, RecordError> {
        let _ = consumer;
        Err(RecordError::Ended)
    }

    /// Ends a consumer, of whichever worlds: takes its selections away, drains, closes it, and returns it with its numbers.
    ///
    /// # Errors
    /// It has ended already.
    pub fn end_recording(&self, consumer: ConsumerId) -> Result<Ended, RecordError> {
        let _ = consumer;
        Err(RecordError::Ended)
    }
}
