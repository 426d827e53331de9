//! What consumers get: a record, its thread and its world, and news of losses.

use crate::events::table::{Event, EventId, PAYLOAD_WORDS};

/// A thread, as records name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordingThread {
    /// The kernel's id. The kernel gives it to another thread when this one has ended.
    pub tid: u32,
    /// Its number among all threads of the process that ever recorded, from 0: no two threads have the same, and a
    /// thread keeps its own until its end.
    pub index: u32,
}

/// A world, as records name it: its number among the worlds of the process that record at present, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorldNumber(pub u16);

/// One event that happened, as consumers get it.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// When, in ticks of [`Clock::of_process`](crate::events::clock::Clock::of_process).
    pub ticks: u64,
    /// What.
    pub id: EventId,
    /// On which thread.
    pub thread: RecordingThread,
    /// In which world.
    pub world: WorldNumber,
    pub(super) words: [u64; PAYLOAD_WORDS],
}

impl Recorded {
    /// A record that was not fired: for the tests of consumers.
    ///
    /// # Panics
    /// If the event has another number of fields.
    pub fn new(id: EventId, ticks: u64, thread: RecordingThread, world: WorldNumber, fields: &[u64]) -> Recorded {
        assert_eq!(fields.len(), id.descriptor().fields.len(), "the fields of {id:?}");
        let mut words = [0; PAYLOAD_WORDS];
        words[..fields.len()].copy_from_slice(fields);
        Recorded { ticks, id, thread, world, words }
    }

    /// To be filled.
    pub(super) fn empty() -> Recorded {
        let thread = RecordingThread { tid: 0, index: 0 };
        Recorded { ticks: 0, id: EventId::WorldCreated, thread, world: WorldNumber(0), words: [0; PAYLOAD_WORDS] }
    }

    /// The fields in order, each as a number, as many as the event has.
    #[inline]
    pub fn fields(&self) -> &[u64] {
        &self.words[..self.id.descriptor().fields.len()]
    }

    /// The field at this place, as a number. What is behind the event's last one means nothing.
    #[inline(always)]
    pub fn field<const INDEX: usize>(&self) -> u64 {
        const { assert!(INDEX < PAYLOAD_WORDS) };
        self.words[INDEX]
    }

    /// The event with its payload.
    pub fn event(&self) -> Event {
        Event::from_words(self.id, &self.words)
    }
}

/// Records that were lost because a ring was full and nobody could wait: some of those that were fired on this thread
/// between its record before and its record after this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// When the thread went on recording, in ticks.
    pub ticks: u64,
    /// Which thread.
    pub thread: RecordingThread,
    /// How many, of all kinds together, also those that this consumer did not select.
    pub count: u64,
}
