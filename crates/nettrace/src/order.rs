//! Events of many threads, by time.
//!
//! A writer need not sort. What it promises is less, and enough:
//!
//! 1. the events of one capturing thread come in the order of their times;
//! 2. an event that is flagged as sorted is not newer than any event behind it in the file;
//! 3. between two sequence points in the file there is nothing that belongs before the first or after the second.
//!
//! So every thread has a queue, whose first event is its oldest (1). An event without the flag goes to the end of its thread's
//! queue. One with the flag lets go all that is not newer than it, taken from whichever queue has the oldest first (2), and
//! then goes itself: it needs no queue. A sequence point lets go all (3), and so does the end. Events of one time go in the
//! order of the file.
//!
//! ```text
//!   file:    A10* A15 A20   B12* B13 B14   A21* …          * flagged
//!   queues:  A: 15 20  ──B12 lets nothing go──  B: 13 14  ──A21 lets go 13 14 15 20──
//! ```
//!
//! What waits is bounded (`.format.hostile`): a file without flags and sequence points would otherwise be in memory as a
//! whole. Beyond [`MOST_EVENTS`] or [`MOST_BYTES`] the older half goes without a promise. In a file that is nearly sorted that changes
//! nothing; if it does, the reader counts the events that come too late.
//!
//! Events are links in a slab, payloads lie in segments of memory that are used again when their last event has
//! gone: nothing is allocated for an event once as much is there as the file needs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::visitor::InFile;

/// Events that wait at most.
const MOST_EVENTS: usize = 160 << 10;
/// The memory for their payloads.
const MOST_BYTES: usize = 24 << 20;
const SEGMENT: usize = 256 << 10;
const NONE: u32 = u32::MAX;

/// All of an event but its payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    pub(super) time: i64,
    pub(super) offset: u64,
    pub(super) thread: u64,
    pub(super) capture: u64,
    pub(super) process: u64,
    pub(super) kind: u32,
    pub(super) sequence: u32,
    pub(super) processor: u32,
    pub(super) stack: u32,
    pub(super) labels: u32,
    pub(super) activity: [u8; 16],
    pub(super) related: [u8; 16],
    pub(super) in_file: InFile,
}

#[derive(Debug)]
struct Waiting {
    fixed: Fixed,
    segment: u32,
    start: u32,
    length: u32,
    /// The next of its queue, or the next free place.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

#[derive(Debug, Default)]
struct Segment {
    bytes: Vec<u8>,
    /// How many waiting events have their payload here.
    used: u32,
}

/// The events that wait for older ones.
#[derive(Debug, Default)]
pub(super) struct Order {
    slab: Vec<Waiting>,
    /// The first free place of the slab, one more than it.
    free: u32,
    waiting: usize,
    queues: Vec<Queue>,
    /// The first event of each queue that has one: time, place in the file, whose queue.
    firsts: BinaryHeap<Reverse<(i64, u64, u32)>>,
    segments: Vec<Segment>,
    /// The segment that is filled at present.
    open: u32,
    bytes: usize,
}

impl Order {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Whether some must go before another comes.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.waiting >= MOST_EVENTS || self.bytes >= MOST_BYTES
    }

    /// Lets an event wait in the queue of this thread.
    pub(super) fn push(&mut self, thread: u32, fixed: Fixed, payload: &[u8]) {
        let (segment, start) = self.keep(payload);
        let waiting = Waiting { fixed, segment, start, length: payload.len() as u32, next: NONE };
        let place = self.place(waiting);
        let thread_place = thread as usize;
        if thread_place >= self.queues.len() {
            self.queues.resize(thread_place + 1, Queue { first: NONE, last: NONE });
        }
        let queue = &mut self.queues[thread_place];
        if queue.first == NONE {
            queue.first = place;
            self.firsts.push(Reverse((fixed.time, fixed.offset, thread)));
        } else {
            self.slab[queue.last as usize].next = place;
        }
        queue.last = place;
        self.waiting += 1;
    }

    fn place(&mut self, waiting: Waiting) -> u32 {
        match self.free.checked_sub(1) {
            Some(free) => {
                self.free = self.slab[free as usize].next;
                self.slab[free as usize] = waiting;
                free
            }
            None => {
                self.slab.push(waiting);
                self.slab.len() as u32 - 1
            }
        }
    }

    /// Room for a payload, in the open segment or in another one.
    fn keep(&mut self, payload: &[u8]) -> (u32, u32) {
        let fits = |segment: &Segment| segment.bytes.len() + payload.len() <= segment.bytes.capacity();
        if !self.segments.get(self.open as usize).is_some_and(fits) {
            self.open = self.another(payload.len());
        }
        let segment = &mut self.segments[self.open as usize];
        let start = segment.bytes.len() as u32;
        segment.bytes.extend_from_slice(payload);
        segment.used += 1;
        (self.open, start)
    }

    fn another(&mut self, size: usize) -> u32 {
        let empty = self.segments.iter().position(|segment| segment.used == 0);
        let place = empty.unwrap_or(self.segments.len());
        if empty.is_none() {
            self.segments.push(Segment::default());
        }
        let segment = &mut self.segments[place];
        segment.bytes.clear();
        if segment.bytes.capacity() < size.max(SEGMENT) {
            self.bytes -= segment.bytes.capacity();
            segment.bytes = Vec::with_capacity(size.max(SEGMENT));
            self.bytes += segment.bytes.capacity();
        }
        place as u32
    }

    /// Lets go what is not newer than this, oldest first.
    pub(super) fn release(&mut self, until: Option<i64>, mut each: impl FnMut(&Fixed, &[u8])) {
        self.release_some(usize::MAX, until, &mut each);
    }

    /// Lets go the older half, without a promise that nothing older comes.
    pub(super) fn release_half(&mut self, mut each: impl FnMut(&Fixed, &[u8])) {
        let half = self.waiting.div_ceil(2);
        self.release_some(half, None, &mut each);
        // Payloads so large that half of the events was not enough.
        while self.bytes >= MOST_BYTES && self.waiting > 0 {
            self.release_some(self.waiting.div_ceil(2), None, &mut each);
            self.shrink();
        }
    }

    fn release_some(&mut self, most: usize, until: Option<i64>, each: &mut impl FnMut(&Fixed, &[u8])) {
        let mut left = most;
        while let Some(&Reverse((time, _, thread))) = self.firsts.peek()
            && until.is_none_or(|until| time <= until)
            && left > 0
        {
            self.firsts.pop();
            // Up to here this queue has the oldest.
            let others = self.firsts.peek().map(|&Reverse((time, offset, _))| (time, offset));
            let mut place = self.queues[thread as usize].first;
            while place != NONE && left > 0 {
                let waiting = &self.slab[place as usize];
                let fixed = &waiting.fixed;
                let is_oldest = others.is_none_or(|others| (fixed.time, fixed.offset) < others);
                if !is_oldest || until.is_some_and(|until| fixed.time > until) {
                    break;
                }
                let segment = &mut self.segments[waiting.segment as usize];
                let start = waiting.start as usize;
                each(fixed, &segment.bytes[start..start + waiting.length as usize]);
                segment.used -= 1;
                if segment.used == 0 {
                    segment.bytes.clear();
                }
                let next = waiting.next;
                self.slab[place as usize].next = self.free;
                self.free = place + 1;
                self.waiting -= 1;
                left -= 1;
                place = next;
            }
            self.queues[thread as usize].first = place;
            if place != NONE {
                let fixed = &self.slab[place as usize].fixed;
                self.firsts.push(Reverse((fixed.time, fixed.offset, thread)));
            }
        }
        if self.waiting == 0 {
            self.shrink();
        }
    }

    /// Gives back what only large payloads needed.
    fn shrink(&mut self) {
        for segment in self.segments.iter_mut().filter(|segment| segment.used == 0) {
            if segment.bytes.capacity() > 2 * SEGMENT || self.bytes >= MOST_BYTES {
                self.bytes -= segment.bytes.capacity();
                *segment = Segment::default();
            }
        }
    }
}
