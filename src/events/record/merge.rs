//! The merge: the records of all rings as one sequence in order of time.
//!
//! It is a merge of sorted runs: a heap of the rings by the time of their first record, and in addition the current ring. Records are
//! taken from the current ring as long as no ring in the heap has an earlier record. If only one thread fires, its records are one run. If
//! two threads fire at the same time, the current ring changes at about every other record, at the cost of one comparison with the
//! top of the heap.
//!
//! The cursor ([`MergeCursor`]) stays at a record, which has left its ring and whose consumers are known, until it is advanced. A consumer
//! can itself take consecutive records that are for it alone, one by one, as a [`Run`]. Usually these are nearly all records, and a
//! virtual call for each of them would cost more than the merge.

use std::fmt;
use std::ptr::NonNull;

use super::head::Head;
use super::recorded::{Recorded, RecordingThread, WorldNumber};
use super::ring::{self, Draining, Ring};
use super::waiting::ROOM;
use super::worlds::{Consumers, MAX_WORLDS, SelectionHistory};
use crate::events::table::{EventId, PAYLOAD_WORDS};
use crate::os::memory::{map_anonymous, unmap};

/// An entry of the merge: a ring that has records.
#[derive(Clone, Copy)]
pub(super) struct Source {
    /// The time of the ring's first record.
    pub(super) ticks: u64,
    pub(super) head: Head,
    pub(super) ring: &'static Ring,
    pub(super) thread: RecordingThread,
    pub(super) published: u64,
    /// Whether a fire is in flight in this ring: then records of other rings that are later than this ring's last record must wait.
    pub(super) holds_up: bool,
}

/// A heap of sources in mapped memory.
pub(super) struct Merge {
    sources: *mut Source,
    capacity: usize,
    len: usize,
}

// SAFETY: the memory is the merge's own, and the rings of its sources are 'static and Sync.
unsafe impl Send for Merge {}

impl Merge {
    pub(super) const fn new() -> Merge {
        Merge { sources: std::ptr::null_mut(), capacity: 0, len: 0 }
    }

    /// Makes room for `sources` sources. If there is no memory, the drain sees only some rings, and the records of the others are late.
    pub(super) fn make_room(&mut self, sources: usize) {
        if sources <= self.capacity {
            return;
        }
        let capacity = sources.next_power_of_two().max(64);
        let Ok(memory) = map_anonymous(capacity * size_of::<Source>()) else { return };
        if self.capacity > 0 {
            // SAFETY: it was mapped here with this size; between drains it contains no sources.
            unsafe { unmap(self.sources.cast(), self.capacity * size_of::<Source>()) };
        }
        (self.sources, self.capacity, self.len) = (memory.cast(), capacity, 0);
    }

    #[inline(always)]
    fn sources(&self) -> &[Source] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the first `len` sources are written; the memory is the merge's.
        unsafe { std::slice::from_raw_parts(self.sources, self.len) }
    }

    #[inline(always)]
    fn sources_mut(&mut self) -> &mut [Source] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: the first `len` sources are written; the memory is the merge's.
        unsafe { std::slice::from_raw_parts_mut(self.sources, self.len) }
    }

    pub(super) fn push(&mut self, source: Source) {
        if self.len == self.capacity {
            return;
        }
        // SAFETY: inside the memory, which is aligned to a page.
        unsafe { self.sources.add(self.len).write(source) };
        self.len += 1;
        let mut child = self.len - 1;
        let sources = self.sources_mut();
        while child > 0 {
            let parent = (child - 1) / 2;
            if sources[parent].ticks <= sources[child].ticks {
                break;
            }
            sources.swap(parent, child);
            child = parent;
        }
    }

    #[inline(always)]
    fn first(&self) -> Option<&Source> {
        self.sources().first()
    }

    /// Replaces the first source, which must exist, and returns it.
    #[inline(always)]
    fn replace_first(&mut self, source: Source) -> Source {
        let first = std::mem::replace(&mut self.sources_mut()[0], source);
        if self.len > 1 {
            self.sift_down();
        }
        first
    }

    fn remove_first(&mut self) {
        let last = self.len - 1;
        self.sources_mut().swap(0, last);
        self.len = last;
        self.sift_down();
    }

    fn sift_down(&mut self) {
        let sources = self.sources_mut();
        let mut parent = 0;
        loop {
            let earlier = |a: usize, b: usize| if sources[b].ticks < sources[a].ticks { b } else { a };
            let (left, right) = (2 * parent + 1, 2 * parent + 2);
            let child = if right < sources.len() { earlier(left, right) } else { left };
            if child >= sources.len() || sources[parent].ticks <= sources[child].ticks {
                return;
            }
            sources.swap(parent, child);
            parent = child;
        }
    }
}

/// Returns the time and the head of a ring's first record. Within a ring, the times never decrease.
#[inline(always)]
pub(super) fn next_of(draining: &mut Draining, ring: &'static Ring, published: u64) -> Option<(u64, Head)> {
    let drained = ring.drained(draining);
    let recycle = |chunk: NonNull<ring::Chunk>| {
        // SAFETY: no other drain, by the proof; the chunk is from this ring.
        unsafe { ring.recycle(chunk) };
        if drained.gets_back_a_chunk() {
            ROOM.notify_all();
        }
    };
    // SAFETY: no other drain, by the proof.
    let next = unsafe { ring.stream.next(published, recycle) }?;
    Some((next.ticks.max(drained.last), Head(next.head)))
}

/// Returns the time up to which a ring with a fire in flight does not hold up the other rings.
pub(super) fn limit_of(draining: &mut Draining, ring: &Ring) -> u64 {
    let drained = ring.drained(draining);
    drained.last.max(drained.quiet_at)
}

/// The position of a cursor.
#[derive(Clone, Copy)]
pub(super) enum At {
    /// A record, and its consumers, of which there is at least one.
    Record(Consumers),
    /// A ring has lost `total` records since its creation.
    Losses { ring: &'static Ring, thread: RecordingThread, ticks: u64, total: u64 },
    /// The end: there are no more records up to the horizon.
    End,
}

/// The number of records that have passed through cursors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    pub(super) drained: u64,
    /// The number of drained records that no consumer wanted any more.
    pub(super) unclaimed: u64,
}

/// The cursor of the merge.
pub(super) struct MergeCursor<'a> {
    draining: &'a mut Draining,
    merge: &'a mut Merge,
    histories: &'a mut [SelectionHistory; MAX_WORLDS],
    /// The current ring, if there is one. It is not in the heap, and its first record is not later than `until`.
    turn: Option<Source>,
    until: u64,
    horizon: u64,
    at: At,
    record: Recorded,
    passed: &'a mut Passed,
}

impl<'a> MergeCursor<'a> {
    /// Creates a cursor, which is at the first record in order of time. `horizon` is the time up to which records are delivered.
    pub(super) fn new(
        draining: &'a mut Draining,
        merge: &'a mut Merge,
        histories: &'a mut [SelectionHistory; MAX_WORLDS],
        passed: &'a mut Passed,
        horizon: u64,
    ) -> MergeCursor<'a> {
        let record = Recorded::empty();
        let mut cursor =
            MergeCursor { draining, merge, histories, turn: None, until: 0, horizon, at: At::End, record, passed };
        cursor.next_turn();
        cursor.advance();
        cursor
    }

    #[inline(always)]
    pub(super) fn at(&self) -> At {
        self.at
    }

    /// Returns the proof that there is no other drain.
    pub(super) fn draining(&mut self) -> &mut Draining {
        self.draining
    }

    /// Returns the record that the cursor is at.
    #[inline(always)]
    pub(super) fn record(&self) -> &Recorded {
        &self.record
    }

    /// Advances to the next record that has a consumer.
    #[inline(always)]
    pub(super) fn advance(&mut self) {
        self.at = loop {
            let Some(source) = &mut self.turn else { break At::End };
            let (ring, thread, head, ticks) = (source.ring, source.thread, source.head, source.ticks);
            let payload = &mut self.record.words[..head.payload_words().min(PAYLOAD_WORDS)];
            // SAFETY: no other drain, by the proof; this record was seen at the head of the stream.
            unsafe { ring.stream.take(payload) };
            ring.drained(self.draining).last = ticks;
            match next_of(self.draining, ring, source.published) {
                Some((next, head)) => {
                    (source.ticks, source.head) = (next, head);
                    if next > self.until {
                        self.give_way();
                    }
                }
                None => self.run_dry(),
            }
            if head.is_loss_report() {
                break At::Losses { ring, thread, ticks, total: self.record.words[0] };
            }
            self.passed.drained += 1;
            let (world, id) = ((head.0 >> 16) as u16, (head.0 & 0xff) as usize);
            let (Some(event), Some(history)) = (EventId::from_index(id), self.histories.get_mut(usize::from(world)))
            else {
                continue;
            };
            let takers = history.takers(id, ticks);
            if takers == 0 {
                self.passed.unclaimed += 1;
                continue;
            }
            let record = &mut self.record;
            (record.ticks, record.id, record.thread, record.world) = (ticks, event, thread, WorldNumber(world));
            break At::Record(takers);
        };
    }

    /// Changes the current ring. Called when another ring has an earlier record, or when all records are beyond the horizon.
    #[inline(always)]
    fn give_way(&mut self) {
        let horizon = self.horizon;
        match (self.merge.first(), &mut self.turn) {
            (Some(first), Some(source)) if first.ticks <= horizon => {
                *source = self.merge.replace_first(*source);
                self.until = self.merge.first().map_or(horizon, |first| first.ticks.min(horizon));
            }
            _ => self.turn = None,
        }
    }

    /// Changes the current ring because it has no more records.
    #[cold]
    fn run_dry(&mut self) {
        if let Some(source) = self.turn.take()
            && source.holds_up
        {
            self.horizon = self.horizon.min(limit_of(self.draining, source.ring));
        }
        self.next_turn();
    }

    fn next_turn(&mut self) {
        let horizon = self.horizon;
        self.turn = self.merge.first().filter(|first| first.ticks <= horizon).copied();
        if self.turn.is_some() {
            self.merge.remove_first();
        }
        self.until = self.merge.first().map_or(horizon, |first| first.ticks.min(horizon));
    }

    /// Returns the time up to which all records have passed, once the cursor is at the end.
    pub(super) fn horizon(&self) -> u64 {
        self.horizon
    }
}

/// Records beyond the horizon stay in the rings, even if a consumer panics; then the record that was passed to the consumer is lost.
impl Drop for MergeCursor<'_> {
    fn drop(&mut self) {
        self.merge.len = 0;
    }
}

/// Consecutive records for a single consumer, which it takes one by one: the argument of
/// [`Consumer::records`](super::Consumer::records).
pub struct Run<'a, 'cursor> {
    cursor: &'a mut MergeCursor<'cursor>,
    whose: Consumers,
    /// Counts the records taken.
    taken: &'a mut u64,
    /// Whether the cursor is at the record that was taken last.
    at_record: bool,
}

impl<'a, 'cursor> Run<'a, 'cursor> {
    /// Creates a run that begins with the record that the cursor is at.
    pub(super) fn new(cursor: &'a mut MergeCursor<'cursor>, whose: Consumers, taken: &'a mut u64) -> Run<'a, 'cursor> {
        Run { cursor, whose, taken, at_record: false }
    }

    /// Takes the next record. Returns `None` at the end of the run: the next record is for other consumers too, or there is no further record
    /// now. Further calls then return `None` too.
    #[inline(always)]
    #[allow(clippy::should_implement_trait, reason = "the returned record is overwritten by the next call")]
    pub fn next(&mut self) -> Option<&Recorded> {
        if self.at_record {
            self.cursor.advance();
        }
        match self.cursor.at {
            At::Record(takers) if takers == self.whose => {
                *self.taken += 1;
                self.at_record = true;
                Some(&self.cursor.record)
            }
            _ => {
                self.at_record = false;
                None
            }
        }
    }

    /// Ends the run. The cursor is then at the record after the last one taken.
    pub(super) fn end(self) {
        if self.at_record {
            self.cursor.advance();
        }
    }
}

impl fmt::Debug for Run<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("taken", &self.taken).finish_non_exhaustive()
    }
}
