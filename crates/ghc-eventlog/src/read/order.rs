//! Delivers the events of a whole file by time, in memory of fixed size.
//!
//! GHC has a buffer for each capability and writes it as a block when it is full. So blocks with the same times lie megabytes apart, the
//! samples of a profile may follow everything else, times inside a block may step back a little, and a block with an event of the
//! first second may come last. An event can be delivered only when it is known that no event with an earlier time follows in the file. The
//! [index](super::index) contains this information; a first pass over the file builds it.
//!
//! The second pass works in *rounds*. A round takes all events of a range of time:
//!
//! ```text
//!   time ──►        after        cutoff
//!   segment 0   ──────┤ │            │
//!   segment 1        ───┼────────────┼──        read, from after to cutoff
//!   segment 2           │  ───────── │          read, whole
//!   segment 3           │       ─────┼────      read, up to cutoff
//!   segment 4           │            │  ─────
//! ```
//!
//! The cutoff is chosen so that the events before it take about [`ROUND`] bytes, on the assumption that each segment's events are spread evenly over its time.
//! The segments that overlap the round are read in file order and the events of the round are copied. Then a stable sort by time puts them
//! into the order of the whole file; it is fast, because they are nearly sorted already. If there are more events than estimated, the later
//! half is dropped and the cutoff moves to where that half began.
//!
//! So the order is exact whatever the file's order is, and one round and one segment are in memory. A disordered file costs
//! time: a segment is read once for each round that it overlaps. If blocks follow each other in the order in which buffers became full, it
//! is read once or twice. If each segment has events of all times, it is read in every round. (Sorting 1 GiB of random times takes about
//! 100 rounds, each of which skims 1 GiB.)

use std::mem;

use super::damage::{Damage, DamageKind};
use super::event::Event;
use super::index::{Key, Segment};
use super::layout::bytes_at;
use super::source::ReadAt;
use super::types::{Row, Step, Types};
use super::visitor::Visitor;
use crate::format::{FIXED_HEAD, VARIABLE_HEAD};

/// The intended size of a round in bytes: the events and the bytes that are kept with each.
const ROUND: usize = 12 << 20;
/// The largest size of a round.
const MOST: usize = 20 << 20;
/// The size in bytes of an event's file offset, which is stored before the event in the arena.
const OFFSET: usize = 8;
/// The maximum number of entries over which a new event is moved to its place when it is added.
const NEAR: usize = 32;

/// An event of the round.
#[derive(Clone, Copy, Debug)]
struct Entry {
    time: u64,
    /// The place in the arena of the event's file offset, which the event itself follows.
    at: u32,
    length: u32,
    row: Row,
    cap: u16,
    has_cap: bool,
    /// The number of bytes before the payload.
    head: u8,
}

/// The number of bytes that are kept with each event.
const BESIDE: usize = OFFSET + mem::size_of::<Entry>();

/// The second pass over a file.
#[derive(Debug)]
pub(super) struct Rounds<'a, S: ?Sized> {
    input: &'a S,
    types: &'a Types,
    segments: Vec<Segment>,
    /// The indices of the segments, in the order of their first events.
    by_first: Vec<u32>,
    /// The position in `by_first` of the first segment that no round has reached.
    next: usize,
    /// Segments that a round has reached, and that have events left.
    open: Vec<u32>,
    /// All events before this place in the order have been delivered.
    after: Key,
    buffer: Vec<u8>,
    arena: Vec<u8>,
    entries: Vec<Entry>,
    round: usize,
    most: usize,
}

impl<'a, S: ReadAt + ?Sized> Rounds<'a, S> {
    pub(super) fn new(input: &'a S, types: &'a Types, segments: Vec<Segment>) -> Rounds<'a, S> {
        let mut by_first: Vec<u32> = (0..segments.len() as u32).collect();
        by_first.sort_unstable_by_key(|&index| segments[index as usize].first);
        Rounds {
            input,
            types,
            segments,
            by_first,
            next: 0,
            open: Vec::new(),
            after: Key::FIRST,
            buffer: Vec::new(),
            arena: Vec::new(),
            entries: Vec::new(),
            round: ROUND,
            most: MOST,
        }
    }

    /// Delivers all events, or those before the offset at which reading fails.
    pub(super) fn deliver<V: Visitor + ?Sized>(mut self, visitor: &mut V) -> Result<(), Damage> {
        while self.next < self.segments.len() || !self.open.is_empty() {
            let gathered = self.gather();
            self.entries.sort_by_key(|entry| entry.time);
            for entry in &self.entries {
                visitor.event(&self.event(*entry));
                if visitor.is_done() {
                    return Ok(());
                }
            }
            gathered?;
            self.entries.clear();
            self.arena.clear();
        }
        Ok(())
    }

    #[inline]
    fn event(&self, entry: Entry) -> Event<'_> {
        let at = entry.at as usize;
        let offset = u64::from_ne_bytes(bytes_at(&self.arena, at));
        let bytes = &self.arena[at + OFFSET..][..entry.length as usize];
        Event {
            kind: self.types.kind(entry.row),
            time: entry.time,
            cap: entry.has_cap.then_some(entry.cap),
            payload: &bytes[entry.head.into()..],
            offset,
        }
    }

    /// Collects the events of the next round, in file order.
    fn gather(&mut self) -> Result<(), Damage> {
        let mut cutoff = self.cutoff();
        while let Some(&index) = self.by_first.get(self.next)
            && self.segments[index as usize].first < cutoff
        {
            self.open.push(index);
            self.next += 1;
        }
        self.open.sort_unstable();
        for place in 0..self.open.len() {
            let segment = self.segments[self.open[place] as usize];
            if segment.first < cutoff {
                self.read(&segment, &mut cutoff)?;
            }
        }
        self.after = cutoff;
        let (segments, after) = (&self.segments, self.after);
        self.open.retain(|&index| segments[index as usize].last >= after);
        Ok(())
    }

    /// Returns the end of the next round.
    fn cutoff(&self) -> Key {
        if self.expected_before(None) <= self.round as f64 {
            return Key::END;
        }
        let (mut low, mut high) = (self.after.time, u64::MAX);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.expected_before(Some(middle)) <= self.round as f64 { low = middle } else { high = middle }
        }
        // A round covers at least one time, even if more events have that time than fit a round.
        match low.max(self.after.time.saturating_add(1)) {
            u64::MAX => Key::END,
            time => Key { time, offset: 0 },
        }
    }

    /// Estimates the bytes of the events from the last cutoff to this time (to the end if `None`), on the assumption that each segment's
    /// events are spread evenly. Stops adding when the sum exceeds a round.
    fn expected_before(&self, time: Option<u64>) -> f64 {
        let mut sum = 0.0;
        let open = self.open.iter();
        // The segments that have not begun are in the order of their first events.
        let has_begun = |index: &&u32| time.is_none_or(|time| self.segments[**index as usize].first.time < time);
        let waiting = self.by_first[self.next..].iter().take_while(has_begun);
        for &index in open.chain(waiting) {
            sum += self.segments[index as usize].expected(self.after.time, time);
            if sum > self.round as f64 {
                break;
            }
        }
        sum
    }

    /// Copies the events of a segment that belong to the round.
    fn read(&mut self, segment: &Segment, cutoff: &mut Key) -> Result<(), Damage> {
        let length = (segment.end - segment.start) as usize;
        self.buffer.resize(self.buffer.len().max(length), 0);
        let damage = |kind| Damage { offset: segment.start, kind, last_good: None };
        let read = self.input.read_at(&mut self.buffer[..length], segment.start);
        if read.map_err(|error| damage(DamageKind::Input(error.kind())))? < length {
            return Err(damage(DamageKind::Changed));
        }
        if segment.is_mended
            && let (Some(said), Ok(found)) =
                (self.buffer.get_mut(FIXED_HEAD..VARIABLE_HEAD), u16::try_from(length - VARIABLE_HEAD))
        {
            said.copy_from_slice(&found.to_be_bytes());
        }
        let (mut at, mut block) = (0, segment.block);
        let mut sorted_from = self.entries.len();
        while at < length {
            let bytes = &self.buffer[at..length];
            let (length, head, row) = match self.types.step(bytes) {
                Step::Event { length, head, row } => (length, head, row),
                Step::End => {
                    at += 2;
                    continue;
                }
                Step::More(_) | Step::Unknown(_) => return Err(damage(DamageKind::Changed)),
            };
            let bytes = &bytes[..length];
            let cap = block.pass(length, row.is_marker.then(|| &bytes[head..]));
            let key = Key { time: u64::from_be_bytes(bytes_at(bytes, 2)), offset: segment.start + at as u64 };
            at += length;
            if key < self.after || key >= *cutoff {
                continue;
            }
            let entry = Entry {
                time: key.time,
                at: self.arena.len() as u32,
                length: length as u32,
                row,
                cap: cap.unwrap_or(0),
                has_cap: cap.is_some(),
                head: head as u8,
            };
            self.arena.extend_from_slice(&key.offset.to_ne_bytes());
            self.arena.extend_from_slice(bytes);
            add(&mut self.entries, entry, sorted_from);
            if self.arena.len() + self.entries.len() * mem::size_of::<Entry>() > self.most {
                *cutoff = self.drop_later_half();
                sorted_from = self.entries.len();
            }
        }
        Ok(())
    }

    /// Keeps the earlier half of the round, in file order; returns where the later half begins.
    #[cold]
    fn drop_later_half(&mut self) -> Key {
        self.entries.sort_unstable_by_key(|entry| (entry.time, entry.at));
        let kept = self.entries.len() / 2;
        let dropped = self.entries[kept];
        let offset = u64::from_ne_bytes(bytes_at(&self.arena, dropped.at as usize));
        self.entries.truncate(kept);
        self.entries.sort_unstable_by_key(|entry| entry.at);
        let mut end = 0;
        for index in 0..kept {
            let at = self.entries[index].at as usize;
            let length = OFFSET + self.entries[index].length as usize;
            self.arena.copy_within(at..at + length, end);
            self.entries[index].at = end as u32;
            end += length;
        }
        self.arena.truncate(end);
        Key { time: dropped.time, offset }
    }
}

/// Appends an event, or inserts it near the end where it belongs: events whose times step back a little are sorted at once.
#[inline]
fn add(entries: &mut Vec<Entry>, entry: Entry, sorted_from: usize) {
    let mut place = entries.len();
    entries.push(entry);
    let nearest = sorted_from.max(place.saturating_sub(NEAR));
    while place > nearest && entries[place - 1].time > entry.time {
        entries[place] = entries[place - 1];
        place -= 1;
    }
    entries[place] = entry;
}

impl Segment {
    /// Estimates the bytes of the segment's events between two times (to the end if `None`), on the assumption that they are spread evenly.
    fn expected(&self, from: u64, to: Option<u64>) -> f64 {
        let whole = (self.end - self.start) as f64 + self.events as f64 * BESIDE as f64;
        let (first, last) = (self.first.time, self.last.time);
        let from = from.max(first);
        let to = to.map_or(last, |to| to.saturating_sub(1).min(last));
        if from > to {
            return 0.0;
        }
        whole * ((to - from) as f64 + 1.0) / ((last - first) as f64 + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::index::Index;
    use crate::read::scan::Scan;
    use proptest::prelude::*;

    /// A log with two types: block markers, and events with their numbers as payload.
    fn log(blocks: &[(u16, Vec<u64>)], has_markers: bool) -> Vec<u8> {
        let mut log = b"hdrbhetb".to_vec();
        for (id, size) in [(18u16, 14u16), (3, 4)] {
            log.extend([b"etb\0", &id.to_be_bytes()[..], &size.to_be_bytes(), &[0; 8], b"ete\0"].concat());
        }
        log.extend(b"hetehdredatb");
        let mut number = 0u32;
        for (cap, times) in blocks {
            if has_markers {
                let size = 24 + 14 * times.len() as u32;
                let time = times.first().copied().unwrap_or(0);
                log.extend(
                    [&18u16.to_be_bytes()[..], &time.to_be_bytes(), &size.to_be_bytes(), &[0; 8], &cap.to_be_bytes()]
                        .concat(),
                );
            }
            for time in times {
                log.extend([&3u16.to_be_bytes()[..], &time.to_be_bytes(), &number.to_be_bytes()].concat());
                number += 1;
            }
        }
        log.extend([0xff; 2]);
        log
    }

    #[derive(Default)]
    struct SeenEvents(Vec<(u64, u64, Option<u16>, Vec<u8>)>);

    impl Visitor for SeenEvents {
        fn event(&mut self, event: &Event<'_>) {
            self.0.push((event.time, event.offset, event.cap, event.payload.to_vec()));
        }
    }

    fn times() -> impl Strategy<Value = Vec<u64>> {
        prop_oneof![
            // Times as GHC writes them: increasing, with occasional steps back.
            (0..1000u64, prop::collection::vec(0..20u64, 0..200)).prop_map(|(begin, steps)| {
                let mut time = begin;
                steps
                    .into_iter()
                    .map(|step| {
                        time += step;
                        if step == 7 { time - 7 } else { time }
                    })
                    .collect()
            }),
            prop::collection::vec(0..50u64, 0..200),
            prop::collection::vec(any::<u64>(), 0..50),
            prop::collection::vec(Just(u64::MAX), 0..50),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        /// For any file order and any limit of memory, the order is that of a stable sort of the whole file.
        #[test]
        fn the_order_is_that_of_a_stable_sort(
            blocks in prop::collection::vec((0..4u16, times()), 0..12),
            has_markers in any::<bool>(),
            target in 30..3000u64,
            most_segments in 2..40usize,
            (round, most) in prop_oneof![Just((300usize, 600usize)), Just((2000, 4000)), Just((3000, 800)), Just((ROUND, MOST))],
        ) {
            let log = log(&blocks, has_markers);
            let mut expected = SeenEvents::default();
            crate::read::in_file_order(&log[..], &mut expected);
            expected.0.sort_by_key(|event| event.0);
            let mut index = Index::of_size(target, most_segments);
            let mut scan = Scan::open(&log[..], &mut |_| {});
            scan.events(|_, raw| { index.add(raw); true });
            let mut rounds = Rounds::new(&log[..], scan.types(), index.finish());
            (rounds.round, rounds.most) = (round, most);
            let mut seen = SeenEvents::default();
            prop_assert_eq!(rounds.deliver(&mut seen), Ok(()));
            prop_assert_eq!(seen.0, expected.0);
        }
    }
}
