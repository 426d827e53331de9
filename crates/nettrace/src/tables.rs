//! The tables that events refer to by id: threads, stacks, labels.
//!
//! Stacks and labels are valid until the next sequence point, threads until they are removed (version 6) or to the end
//! (version 4, which does not record the end of a thread). All tables are bounded, since a file may have any number of entries
//! (`.format.hostile`): stacks over the limit count as missing. When there are too many threads, those whose last lookups are oldest are
//! removed; their events are still delivered, but a loss of events may remain undetected.

use std::collections::HashMap;

/// The limit for the memory of rows, in bytes.
const MOST_ROW_BYTES: usize = 24 << 20;
const MOST_ROWS: usize = 1 << 18;
/// The limit for threads in memory.
const MOST_THREADS: usize = 1 << 16;
/// Ids of types below this are looked up in an array.
const LOW_IDS: usize = 1 << 12;

/// The types by id; ids are small numbers in every file that a runtime writes.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// The index of a type plus one, 0 for none.
    low: Vec<u32>,
    high: HashMap<u32, u32>,
}

impl Ids {
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<u32> {
        match self.low.get(id as usize) {
            Some(place) => place.checked_sub(1),
            None => self.high.get(&id).copied(),
        }
    }

    /// Returns the index that this id had before.
    pub(super) fn insert(&mut self, id: u32, place: u32) -> Option<u32> {
        if id as usize >= LOW_IDS {
            return self.high.insert(id, place);
        }
        if self.low.is_empty() {
            self.low = vec![0; LOW_IDS];
        }
        std::mem::replace(&mut self.low[id as usize], place + 1).checked_sub(1)
    }

    pub(super) fn clear(&mut self) {
        *self = Ids::default();
    }
}

/// Rows of bytes by id.
#[derive(Debug, Default)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    places: HashMap<u32, (u32, u32)>,
}

impl Rows {
    /// Adds a row. Returns false if there is no room for it.
    pub(super) fn add(&mut self, id: u32, row: &[u8]) -> bool {
        if self.bytes.len() + row.len() > MOST_ROW_BYTES || self.places.len() == MOST_ROWS {
            return false;
        }
        self.places.insert(id, (self.bytes.len() as u32, row.len() as u32));
        self.bytes.extend_from_slice(row);
        true
    }

    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        let &(start, length) = self.places.get(&id)?;
        self.bytes.get(start as usize..)?.get(..length as usize)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }
}

/// A thread that writes events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thread {
    /// The operating system's id.
    pub(super) thread: u64,
    pub(super) process: u64,
    /// The last sequence number.
    pub(super) sequence: u32,
    /// The id by which its events refer to it.
    id: u64,
    /// The value of [`Threads::now`] at the last lookup; `None` for a free entry.
    used: Option<u64>,
}

/// The threads of a trace, each with an index for side tables.
#[derive(Debug, Default)]
pub(super) struct Threads {
    places: Vec<Thread>,
    by_id: HashMap<u64, u32>,
    free: Vec<u32>,
    /// Removed threads whose indexes may still be in side tables.
    leaving: Vec<u32>,
    /// The number of lookups so far, which serves as a clock.
    now: u64,
    /// The last thread found.
    last: Option<(u64, u32)>,
}

impl Threads {
    #[inline]
    pub(super) fn find(&mut self, id: u64) -> Option<u32> {
        if let Some((last, place)) = self.last
            && last == id
        {
            return Some(place);
        }
        self.search(id)
    }

    fn search(&mut self, id: u64) -> Option<u32> {
        let place = *self.by_id.get(&id)?;
        self.now += 1;
        self.places[place as usize].used = Some(self.now);
        self.last = Some((id, place));
        Some(place)
    }

    #[inline]
    pub(super) fn at(&mut self, place: u32) -> &mut Thread {
        &mut self.places[place as usize]
    }

    pub(super) fn is_full(&self) -> bool {
        self.by_id.len() >= MOST_THREADS
    }

    /// Adds a thread, or replaces the one with this id. There must be room.
    pub(super) fn add(&mut self, id: u64, thread: u64, process: u64, sequence: u32) -> u32 {
        self.remove(id);
        self.now += 1;
        let thread = Thread { thread, process, sequence, id, used: Some(self.now) };
        let place = self.free.pop().unwrap_or(self.places.len() as u32);
        match self.places.get_mut(place as usize) {
            Some(free) => *free = thread,
            None => self.places.push(thread),
        }
        self.by_id.insert(id, place);
        self.last = Some((id, place));
        place
    }

    /// Removes a thread to which no later event of the file refers. Its index is not reused before [`settle`](Self::settle).
    pub(super) fn remove(&mut self, id: u64) {
        self.last = None;
        if let Some(place) = self.by_id.remove(&id) {
            self.leaving.push(place);
        }
    }

    /// Frees the indexes of removed threads. The caller ensures that no queued event and no side table uses these indexes.
    pub(super) fn settle(&mut self) {
        for &place in &self.leaving {
            self.places[place as usize].used = None;
        }
        self.free.append(&mut self.leaving);
    }

    /// Removes the half of the threads whose last lookups are oldest, and frees the indexes of all removed threads. The caller must have
    /// released all queued events, because they contain such indexes.
    pub(super) fn forget_half(&mut self) {
        let mut ages: Vec<u64> = self.places.iter().filter_map(|thread| thread.used).collect();
        let middle = ages.len() / 2;
        let (_, &mut median, _) = ages.select_nth_unstable(middle);
        let old: Vec<u64> =
            self.places.iter().filter(|thread| thread.used.is_some_and(|used| used < median)).map(|t| t.id).collect();
        old.into_iter().for_each(|id| self.remove(id));
        self.settle();
    }

    pub(super) fn clear(&mut self) {
        *self = Threads::default();
    }
}
