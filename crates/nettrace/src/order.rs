//! Merges the events of many threads by time.
//!
//! A writer need not sort. It guarantees less, which suffices:
//!
//! 1. the events of one capturing thread are in the order of their times;
//! 2. an event that follows an event with the sorted flag in the file is never older than that event;
//! 3. no event between two sequence points in the file belongs before the first or after the second.
//!
//! So every thread has a queue, whose first event is its oldest (1). An event without the flag is appended to its thread's
//! queue. An event with the flag first releases all events that are not newer, always from the queue with the oldest first event (2), and
//! is then delivered without being queued. A sequence point releases all (3), and so does the end. Events of equal time keep the
//! order of the file.
//!
//! ```text
//!   file:    A10* A15 A20   B12* B13 B14   A21* …          * flagged
//!   queues:  A: 15 20  ──B12 releases none──    B: 13 14  ──A21 releases 13 14 15 20──
//! ```
//!
//! The queues are bounded (`.format.hostile`): a file without flags and sequence points would otherwise be in memory as a
//! whole. When they reach [`MOST_EVENTS`] or [`MOST_BYTES`], the older half is released without a guarantee. In a nearly sorted file this
//! does not change the order. Where it does, the reader counts the events that are delivered too late.
//!
//! Events are linked in a slab. Payloads are in segments of memory that are reused when their last event has been
//! released: once the memory suffices for the file, no event allocates.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::visitor::InFile;

/// The limit for queued events.
const MOST_EVENTS: usize = 160 << 10;
/// The limit for the memory of their payloads, in bytes.
const MOST_BYTES: usize = 24 << 20;
const SEGMENT: usize = 256 << 10;
const NONE: u32 = u32::MAX;

/// An event without its payload.
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
    /// The next event of its queue, or the next free entry.
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
    /// The number of queued events with their payload in this segment.
    used: u32,
}

/// The queued events.
#[derive(Debug, Default)]
pub(super) struct Order {
    slab: Vec<Waiting>,
    /// The index of the first free entry of the slab plus one.
    free: u32,
    waiting: usize,
    queues: Vec<Queue>,
    /// The first event of each queue that has one: time, file offset, queue.
    firsts: BinaryHeap<Reverse<(i64, u64, u32)>>,
    segments: Vec<Segment>,
    /// The segment that is being filled.
    open: u32,
    bytes: usize,
}

impl Order {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Returns whether some events must be released before another is queued.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.waiting >= MOST_EVENTS || self.bytes >= MOST_BYTES
    }

    /// Queues an event of this thread.
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

    /// Copies a payload into the open segment or another one.
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

    /// Releases the events that are not newer than this, oldest first.
    pub(super) fn release(&mut self, until: Option<i64>, mut each: impl FnMut(&Fixed, &[u8])) {
        self.release_some(usize::MAX, until, &mut each);
    }

    /// Releases the older half, without a guarantee that no older event follows.
    pub(super) fn release_half(&mut self, mut each: impl FnMut(&Fixed, &[u8])) {
        let half = self.waiting.div_ceil(2);
        self.release_some(half, None, &mut each);
        // If the payloads are very large, releasing half of the events is not enough.
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
            // As long as they come before the first event of every other queue, this queue's events are the oldest.
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

    /// Frees segments that only large payloads needed.
    fn shrink(&mut self) {
        for segment in self.segments.iter_mut().filter(|segment| segment.used == 0) {
            if segment.bytes.capacity() > 2 * SEGMENT || self.bytes >= MOST_BYTES {
                self.bytes -= segment.bytes.capacity();
                *segment = Segment::default();
            }
        }
    }
}
