//! What events refer to by number: threads, stacks, labels.
//!
//! Stacks and labels live until the next sequence point, threads until they are removed (version 6) or for ever
//! (version 4, which has no way to say that one has ended). All of them are bounded here, since a file may have any number
//! (`.format.hostile`): beyond the bound stacks are as if they were not there, and of the threads those are forgotten that
//! were silent longest, which costs no event but the finding of a loss.

use std::collections::HashMap;

/// What rows may take in memory.
const MOST_ROW_BYTES: usize = 24 << 20;
const MOST_ROWS: usize = 1 << 18;
/// Threads that are remembered at once.
const MOST_THREADS: usize = 1 << 16;
/// Ids of types below this have a table.
const LOW_IDS: usize = 1 << 12;

/// The types by their ids, which are small numbers in every file that a runtime writes.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// One more than the place of a type, 0 for none.
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

    /// The place that this id had before.
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

/// Rows of bytes by number.
#[derive(Debug, Default)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    places: HashMap<u32, (u32, u32)>,
}

impl Rows {
    /// False if there is no room for it.
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
    /// What the system calls it.
    pub(super) thread: u64,
    pub(super) process: u64,
    /// The last number it gave to an event.
    pub(super) sequence: u32,
    /// What its events refer to it by.
    id: u64,
    /// When it was last asked for; none for a place that is free.
    used: Option<u64>,
}

/// The threads of a trace, each with a place by which others can keep something about it.
#[derive(Debug, Default)]
pub(super) struct Threads {
    places: Vec<Thread>,
    by_id: HashMap<u64, u32>,
    free: Vec<u32>,
    /// Removed, but others may still have something about them.
    leaving: Vec<u32>,
    /// Counts the asking.
    now: u64,
    /// The last one found.
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

    /// A new thread, or another one under this id. There must be room.
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

    /// No event refers to it any more; its place is not used again before [`settle`](Self::settle).
    pub(super) fn remove(&mut self, id: u64) {
        self.last = None;
        if let Some(place) = self.by_id.remove(&id) {
            self.leaving.push(place);
        }
    }

    /// Nobody keeps anything about threads that were removed.
    pub(super) fn settle(&mut self) {
        for &place in &self.leaving {
            self.places[place as usize].used = None;
        }
        self.free.append(&mut self.leaving);
    }

    /// Forgets the half that was silent longest. Nobody may keep anything about them.
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
