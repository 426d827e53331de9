//! The flight recorder: keeps the last records in memory, for the analysis of a failure.
//!
//! It is a consumer that needs no disk. It keeps the records that it receives in a ring of mapped memory, overwrites the oldest, and passes
//! them to a file's consumer on request ([`Recorder::replay`](super::Recorder::replay)): on demand, on a signal, on a
//! panic, or on a failed stop.
//!
//! Each record takes only the words that it needs: time, thread and world, event, payload.
//!
//! The start and the key of a profile are reported only once, perhaps long before a replay; without them, samples and ticks
//! have no meaning. So when such a record is overwritten, it is kept separately as long as its profile runs, and is replayed first.

use std::fmt;
use std::io;
use std::ptr::NonNull;

use super::consumer::{Consumer, Policy};
use super::recorded::{Recorded, RecordingThread, WorldNumber};
use crate::events::table::{EventId, PAYLOAD_WORDS};
use crate::os::memory::{map_anonymous, unmap};

const HEAD_WORDS: usize = 3;
/// The maximum number of profile starts that are kept: a heap profile with all of its filters, and ticks, of two worlds.
const MOST_BEGINNINGS: usize = 18;

/// The kept records about the starts of running profiles, which were overwritten in the ring: see the module documentation.
#[derive(Debug)]
struct Beginnings {
    kept: [Recorded; MOST_BEGINNINGS],
    count: usize,
}

impl Beginnings {
    fn all(&self) -> &[Recorded] {
        &self.kept[..self.count]
    }

    /// Removes the records of these events of a world.
    fn remove(&mut self, world: WorldNumber, which: &[EventId]) {
        let mut kept = 0;
        for at in 0..self.count {
            let record = self.kept[at];
            if record.world != world || !which.contains(&record.id) {
                self.kept[kept] = record;
                kept += 1;
            }
        }
        self.count = kept;
    }

    /// Keeps an overwritten record, if it is about the start of a profile. The records of a new profile replace those of the previous one;
    /// the records of its filters come before the record of its start.
    fn take(&mut self, record: &Recorded) {
        const CENSUS: [EventId; 2] = [EventId::CensusFilter, EventId::CensusProfileBegin];
        const TICKS: [EventId; 1] = [EventId::TickerBegin];
        match record.id {
            EventId::WorldClosed => {
                self.remove(record.world, &CENSUS);
                return self.remove(record.world, &TICKS);
            }
            EventId::TickerBegin => self.remove(record.world, &TICKS),
            EventId::CensusFilter | EventId::CensusProfileBegin => {
                let has_begun = |kept: &Recorded| kept.world == record.world && kept.id == EventId::CensusProfileBegin;
                if self.all().iter().any(has_begun) {
                    self.remove(record.world, &CENSUS);
                }
            }
            _ => return,
        }
        if let Some(place) = self.kept.get_mut(self.count) {
            *place = *record;
            self.count += 1;
        }
    }
}

/// The consumer that keeps the last records.
pub struct FlightRecorder {
    words: NonNull<u64>,
    capacity: usize,
    /// The position of the oldest record. Positions count all words ever written; the index of a word in `words` is its position modulo the
    /// capacity.
    oldest: u64,
    newest: u64,
    records: u64,
    forgotten: u64,
    beginnings: Beginnings,
}

// SAFETY: the memory belongs to the recorder alone.
unsafe impl Send for FlightRecorder {}

impl FlightRecorder {
    /// Creates a flight recorder that keeps up to `bytes` bytes of records. A record with two fields takes 40 bytes.
    ///
    /// # Errors
    /// The system refuses the memory.
    pub fn with_capacity(bytes: usize) -> io::Result<FlightRecorder> {
        let capacity = (bytes / 8).max(HEAD_WORDS + PAYLOAD_WORDS);
        let words = NonNull::new(map_anonymous(capacity * 8)?).ok_or(io::ErrorKind::AddrNotAvailable)?.cast();
        let beginnings = Beginnings { kept: [Recorded::empty(); MOST_BEGINNINGS], count: 0 };
        Ok(FlightRecorder { words, capacity, oldest: 0, newest: 0, records: 0, forgotten: 0, beginnings })
    }

    /// Returns the number of records that are kept.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the number of overwritten records, including the starts of profiles.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn get(&self, position: u64) -> u64 {
        // SAFETY: the remainder is inside the mapping.
        unsafe { self.words.add((position % self.capacity as u64) as usize).read() }
    }

    fn put(&mut self, word: u64) {
        // SAFETY: as above.
        unsafe { self.words.add((self.newest % self.capacity as u64) as usize).write(word) };
        self.newest += 1;
    }

    /// Reads the record at a position. Returns the position of the next one, and the event, or `None` if the number is not that of an event.
    fn read(&self, position: u64, record: &mut Recorded) -> (u64, Option<EventId>) {
        let (threads, what) = (self.get(position + 1), self.get(position + 2));
        record.ticks = self.get(position);
        record.thread = RecordingThread { tid: (threads >> 32) as u32, index: threads as u32 };
        record.world = WorldNumber((what >> 8) as u16);
        let fields = (what >> 32) as usize;
        for (index, word) in record.words.iter_mut().take(fields).enumerate() {
            *word = self.get(position + (HEAD_WORDS + index) as u64);
        }
        let id = EventId::from_index((what & 0xff) as usize);
        record.id = id.unwrap_or(record.id);
        (position + (HEAD_WORDS + fields) as u64, id)
    }
}

impl Consumer for FlightRecorder {
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        let fields = record.fields();
        let length = (HEAD_WORDS + fields.len()) as u64;
        while self.newest + length - self.oldest > self.capacity as u64 {
            let mut oldest = Recorded::empty();
            (self.oldest, _) = self.read(self.oldest, &mut oldest);
            self.beginnings.take(&oldest);
            self.records -= 1;
            self.forgotten += 1;
        }
        self.put(record.ticks);
        self.put(u64::from(record.thread.tid) << 32 | u64::from(record.thread.index));
        self.put((fields.len() as u64) << 32 | u64::from(record.world.0) << 8 | record.id as u64);
        fields.iter().for_each(|field| self.put(*field));
        self.records += 1;
        Ok(())
    }

    /// Threads need not wait for the flight recorder, because it is never slow itself.
    fn policy(&self) -> Policy {
        Policy::Dropping
    }

    fn replay(&self, to: &mut dyn Consumer) -> io::Result<u64> {
        self.beginnings.all().iter().try_for_each(|record| to.record(record))?;
        let (mut position, mut record) = (self.oldest, Recorded::empty());
        while position < self.newest {
            let (next, id) = self.read(position, &mut record);
            position = next;
            if id.is_some() {
                to.record(&record)?;
            }
        }
        Ok(self.records + self.beginnings.count as u64)
    }
}

impl fmt::Debug for FlightRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightRecorder")
            .field("bytes", &(self.capacity * 8))
            .field("records", &self.records)
            .field("forgotten", &self.forgotten)
            .finish_non_exhaustive()
    }
}

impl Drop for FlightRecorder {
    fn drop(&mut self) {
        // SAFETY: mapped in `with_capacity` with this size.
        unsafe { unmap(self.words.as_ptr().cast(), self.capacity * 8) };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Default)]
    struct Keep(Vec<(u64, EventId, Vec<u64>)>);

    impl Consumer for Keep {
        fn record(&mut self, record: &Recorded) -> io::Result<()> {
            self.0.push((record.ticks, record.id, record.fields().to_vec()));
            Ok(())
        }
    }

    /// A model of the recorder: the records of profile starts that it must keep although they are overwritten.
    #[derive(Default)]
    struct Kept(Vec<(u64, EventId, Vec<u64>)>);

    impl Kept {
        fn take(&mut self, (ticks, id, fields): (u64, EventId, Vec<u64>)) {
            let census = |id| id == EventId::CensusFilter || id == EventId::CensusProfileBegin;
            if id == EventId::WorldClosed {
                self.0.clear();
            } else if id == EventId::TickerBegin {
                self.0.retain(|kept| kept.1 != id);
                self.0.push((ticks, id, fields));
            } else if census(id) {
                if self.0.iter().any(|kept| kept.1 == EventId::CensusProfileBegin) {
                    self.0.retain(|kept| !census(kept.1));
                }
                self.0.push((ticks, id, fields));
            }
        }
    }

    proptest! {
        #[test]
        fn it_keeps_the_last_records_that_fit_and_the_starts_of_their_profiles(
            capacity in 9_usize..200,
            events in prop::collection::vec((any::<u64>(), 0..EventId::COUNT, any::<[u64; PAYLOAD_WORDS]>()), 0..300),
        ) {
            let mut flight = FlightRecorder::with_capacity(capacity * 8).unwrap();
            let (mut expected, mut beginnings) = (VecDeque::new(), Kept::default());
            let mut taken = 0;
            let thread = RecordingThread { tid: 7, index: 3 };
            for (ticks, index, words) in events {
                let id = EventId::from_index(index).unwrap();
                let fields = &words[..id.descriptor().fields.len()];
                flight.record(&Recorded::new(id, ticks, thread, WorldNumber(63), fields)).unwrap();
                expected.push_back((ticks, id, fields.to_vec()));
                taken += HEAD_WORDS + fields.len();
                while taken > capacity {
                    let gone: (u64, EventId, Vec<u64>) = expected.pop_front().unwrap();
                    taken -= HEAD_WORDS + gone.2.len();
                    beginnings.take(gone);
                }
            }
            let mut kept = Keep::default();
            let expected: Vec<_> = beginnings.0.into_iter().chain(expected).collect();
            prop_assert_eq!(flight.replay(&mut kept).unwrap(), expected.len() as u64);
            prop_assert_eq!(kept.0, expected);
        }
    }
}
