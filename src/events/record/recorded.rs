//! What consumers receive: a record, its thread and its world, and reports of losses.

use crate::events::table::{Event, EventId, PAYLOAD_WORDS};

/// A thread, as records identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordingThread {
    /// The kernel's id. The kernel may reuse it for another thread when this one has ended.
    pub tid: u32,
    /// The thread's number among all threads of the process that ever recorded, from 0. No two threads have the same number, and a
    /// thread keeps its number until it ends.
    pub index: u32,
}

/// A world, as records identify it: its number among the worlds of the process that currently record, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorldNumber(pub u16);

/// One event that happened, as consumers receive it.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// The time, in ticks of [`Clock::of_process`](crate::events::clock::Clock::of_process).
    pub ticks: u64,
    /// The event.
    pub id: EventId,
    /// The thread that fired it.
    pub thread: RecordingThread,
    /// The world that it belongs to.
    pub world: WorldNumber,
    pub(super) words: [u64; PAYLOAD_WORDS],
}

impl Recorded {
    /// Creates a record that was not fired, for tests of consumers.
    ///
    /// # Panics
    /// If the event has a different number of fields.
    pub fn new(id: EventId, ticks: u64, thread: RecordingThread, world: WorldNumber, fields: &[u64]) -> Recorded {
        assert_eq!(fields.len(), id.descriptor().fields.len(), "the fields of {id:?}");
        let mut words = [0; PAYLOAD_WORDS];
        words[..fields.len()].copy_from_slice(fields);
        Recorded { ticks, id, thread, world, words }
    }

    /// Creates a record to be overwritten.
    pub(super) fn empty() -> Recorded {
        let thread = RecordingThread { tid: 0, index: 0 };
        Recorded { ticks: 0, id: EventId::WorldCreated, thread, world: WorldNumber(0), words: [0; PAYLOAD_WORDS] }
    }

    /// Returns the event's fields in order, each as a number.
    #[inline]
    pub fn fields(&self) -> &[u64] {
        &self.words[..self.id.descriptor().fields.len()]
    }

    /// Returns the field at this index, as a number. The result is meaningless for an index past the event's last field.
    #[inline(always)]
    pub fn field<const INDEX: usize>(&self) -> u64 {
        const { assert!(INDEX < PAYLOAD_WORDS) };
        self.words[INDEX]
    }

    /// Returns the event with its payload.
    #[inline(always)]
    pub fn event(&self) -> Event {
        Event::from_words(self.id, &self.words)
    }
}

/// A report of records that were lost because a ring was full and its thread could not wait. The thread fired them after its last
/// record before this moment, and before its first record after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The time at which the thread continued to record, in ticks.
    pub ticks: u64,
    /// The thread.
    pub thread: RecordingThread,
    /// The number of lost records of all events, including those that this consumer did not select.
    pub count: u64,
}
