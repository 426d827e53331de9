//! The merge: what is in the rings, as one flow in the order of time.
//!
//! It is that of sorted runs: a heap of the rings by the time of their first record, and beside it the ring whose turn it is. That one's
//! records are taken as long as none in the heap is earlier. One thread that fires alone is one run; two that fire at
//! once change places at every other record, with one look at the heap's top.
//!
//! The flow stands at a record, which has left its ring, until somebody advances it. Whose the record is, is known by then. So those
//! that follow each other and are for one consumer alone, nearly all of them as a rule, can be his to take one by one, as a
//! [`Run`]: a call through a table of functions for each costs more than the merge.

use std::fmt;
use std::ptr::NonNull;

use super::head::Head;
use super::recorded::{Recorded, RecordingThread, WorldNumber};
use super::ring::{self, Draining, Ring};
use super::waiting::ROOM;
use super::worlds::{Book, Consumers, MAX_WORLDS};
use crate::events::table::{EventId, PAYLOAD_WORDS};
use crate::os::memory::{map_anonymous, unmap};

/// A ring that has something, in the merge.
#[derive(Clone, Copy)]
pub(super) struct Source {
    /// The time of its first record.
    pub(super) ticks: u64,
    pub(super) head: Head,
    pub(super) ring: &'static Ring,
    pub(super) thread: RecordingThread,
    pub(super) published: u64,
    /// A fire in flight holds up what is later than its last record.
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

    /// Room for so many sources. If there is none, the drain sees only some rings, and their records are late.
    pub(super) fn make_room(&mut self, sources: usize) {
        if sources <= self.capacity {
            return;
        }
        let capacity = sources.next_power_of_two().max(64);
        let Ok(memory) = map_anonymous(capacity * size_of::<Source>()) else { return };
        if self.capacity > 0 {
            // SAFETY: mapped here with this size; there are no sources in it between drains.
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

    /// There is one. Returns it.
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

/// The record at the head of a ring, by a clock that does not go backwards within it.
#[inline(always)]
pub(super) fn next_of(draining: &mut Draining, ring: &'static Ring, published: u64) -> Option<(u64, Head)> {
    let drained = ring.drained(draining);
    let recycle = |chunk: NonNull<ring::Chunk>| {
        // SAFETY: the drain to itself, by the proof; the chunk is this ring's.
        unsafe { ring.recycle(chunk) };
        if drained.gets_back_a_chunk() {
            ROOM.turn();
        }
    };
    // SAFETY: the drain to itself, by the proof.
    let next = unsafe { ring.stream.next(published, recycle) }?;
    Some((next.ticks.max(drained.last), Head(next.head)))
}

/// Up to when a ring with a fire in flight holds up nobody.
pub(super) fn limit_of(draining: &mut Draining, ring: &Ring) -> u64 {
    let drained = ring.drained(draining);
    drained.last.max(drained.quiet_at)
}

/// At what a flow stands.
#[derive(Clone, Copy)]
pub(super) enum At {
    /// A record, and who gets it: somebody.
    Record(Consumers),
    /// A ring has lost so many in all.
    Losses { ring: &'static Ring, thread: RecordingThread, ticks: u64, total: u64 },
    /// Nothing more up to the horizon.
    End,
}

/// How many records have gone through flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    pub(super) drained: u64,
    /// Of these, what nobody wanted any more.
    pub(super) unclaimed: u64,
}

/// The merge at work.
pub(super) struct Flow<'a> {
    draining: &'a mut Draining,
    merge: &'a mut Merge,
    books: &'a mut [Book; MAX_WORLDS],
    /// Whose turn it is, if it is anybody's: not in the heap meanwhile, and not later than `until`.
    turn: Option<Source>,
    until: u64,
    horizon: u64,
    at: At,
    record: Recorded,
    passed: &'a mut Passed,
}

impl<'a> Flow<'a> {
    /// Stands at the first record up to the horizon.
    pub(super) fn new(
        draining: &'a mut Draining,
        merge: &'a mut Merge,
        books: &'a mut [Book; MAX_WORLDS],
        passed: &'a mut Passed,
        horizon: u64,
    ) -> Flow<'a> {
        let record = Recorded::empty();
        let mut flow = Flow { draining, merge, books, turn: None, until: 0, horizon, at: At::End, record, passed };
        flow.next_turn();
        flow.advance();
        flow
    }

    #[inline(always)]
    pub(super) fn at(&self) -> At {
        self.at
    }

    /// The proof that it drains by.
    pub(super) fn draining(&mut self) -> &mut Draining {
        self.draining
    }

    /// The record at which it stands.
    #[inline(always)]
    pub(super) fn record(&self) -> &Recorded {
        &self.record
    }

    /// Goes on to the next record that somebody gets.
    #[inline(always)]
    pub(super) fn advance(&mut self) {
        self.at = loop {
            let Some(source) = &mut self.turn else { break At::End };
            let (ring, thread, head, ticks) = (source.ring, source.thread, source.head, source.ticks);
            let payload = &mut self.record.words[..head.payload_words().min(PAYLOAD_WORDS)];
            // SAFETY: the drain to itself, by the proof; this record was seen at the head of the stream.
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
            if head.tells_of_losses() {
                break At::Losses { ring, thread, ticks, total: self.record.words[0] };
            }
            self.passed.drained += 1;
            let (world, id) = ((head.0 >> 16) as u16, (head.0 & 0xff) as usize);
            let (Some(event), Some(book)) = (EventId::from_index(id), self.books.get_mut(usize::from(world))) else {
                continue;
            };
            let takers = book.takers(id, ticks);
            if takers == 0 {
                self.passed.unclaimed += 1;
                continue;
            }
            let record = &mut self.record;
            (record.ticks, record.id, record.thread, record.world) = (ticks, event, thread, WorldNumber(world));
            break At::Record(takers);
        };
    }

    /// Another one is earlier than whose turn it was, or all are beyond the horizon.
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

    /// Whose turn it was has nothing more.
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

    /// Up to when everything has gone through, once it stands at the end.
    pub(super) fn horizon(&self) -> u64 {
        self.horizon
    }
}

/// What is beyond the horizon stays in the rings; also if a consumer panics, whose record is lost then.
impl Drop for Flow<'_> {
    fn drop(&mut self) {
        self.merge.len = 0;
    }
}

/// Records that follow each other and are for one consumer alone, and which he takes one by one: what
/// [`Consumer::records`](super::Consumer::records) gets.
pub struct Run<'a, 'flow> {
    flow: &'a mut Flow<'flow>,
    whose: Consumers,
    /// Counts what is taken.
    taken: &'a mut u64,
    /// The flow stands at what was taken last.
    stands: bool,
}

impl<'a, 'flow> Run<'a, 'flow> {
    /// Begins with the record at which the flow stands.
    pub(super) fn new(flow: &'a mut Flow<'flow>, whose: Consumers, taken: &'a mut u64) -> Run<'a, 'flow> {
        Run { flow, whose, taken, stands: false }
    }

    /// Takes the next record. `None` when somebody else gets the next one, or there is none now: then it stays so.
    #[inline(always)]
    #[allow(clippy::should_implement_trait, reason = "what it lends is overwritten by the next call")]
    pub fn next(&mut self) -> Option<&Recorded> {
        if self.stands {
            self.flow.advance();
        }
        match self.flow.at {
            At::Record(takers) if takers == self.whose => {
                *self.taken += 1;
                self.stands = true;
                Some(&self.flow.record)
            }
            _ => {
                self.stands = false;
                None
            }
        }
    }

    /// The flow then stands behind what was taken.
    pub(super) fn end(self) {
        if self.stands {
            self.flow.advance();
        }
    }
}

impl fmt::Debug for Run<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("taken", &self.taken).finish_non_exhaustive()
    }
}
