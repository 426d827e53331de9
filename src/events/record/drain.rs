//! The drain: everything that is in the rings up to now, in order of time, to those who want it.
//!
//! ```text
//!   T = now ── heavy barrier ── per ring: a fire in flight?  how far published? ── merge up to T
//! ```
//!
//! After the barrier every record from before T is published, but for those of fires in flight (see `wanted`). A fire on a
//! running processor is over in a moment, and the drain looks a few times. A thread that was set aside by the scheduler, or
//! stopped, in the middle of a fire stays in flight: its record will have a time after its last one, and after the
//! last drain that found it quiet. The merge goes no further than that, and the rest stays for the next drain; unless the
//! fire has been in flight for longer than the drain's patience, as under a debugger or in a long pause. Then the
//! others are not held up any more, and that one record comes late. (A thread that only waits for a processor is waited for
//! much longer than one that sleeps: that one is stopped.)
//!
//! The merge is that of sorted runs: a heap of the rings by the time of their first record; the first ring's records are
//! taken as long as they are not later than the second ring's first one. One thread that fires alone is one run.
//!
//! A drain runs under the recorder's lock, allocates nothing, and waits for nobody but its consumers. It may run in
//! the stopped world, on any thread (`.event.no-block-in-handler`).

use std::io;
use std::ptr::NonNull;

use super::consumer::{Consumer, ConsumerTotals, Lost, Policy, Recorded, RecordingThread, WorldNumber};
use super::fire::{Head, ROOM};
use super::ring::{self, Ring, ThreadRings};
use super::worlds::Book;
use super::{MAX_CONSUMERS, MAX_WORLDS};
use crate::events::clock::{self, Clock, Relation};
use crate::events::table::{EventId, PAYLOAD_WORDS};
use crate::os::clock::now_ns;
use crate::os::memory::{map_anonymous, unmap};
use crate::os::{Tid, thread};
use crate::sync::{Ordering, heavy_barrier};

/// How often a drain looks at a fire in flight before it takes it for stuck. A fire takes 20 ns.
const GLANCES: usize = 100;

/// For how long a stuck fire holds up the drain of what is later, in nanoseconds.
pub(super) const PATIENCE_NS: u64 = 50_000_000;

/// As many times longer does one whose thread would go on if it had a processor. (A fire in flight never sleeps; one that
/// does is stopped.)
const PATIENCE_WITH_THE_SCHEDULER: u64 = 60;

/// A consumer in its place.
pub(super) struct Place {
    pub(super) consumer: Box<dyn Consumer>,
    pub(super) serial: u64,
    pub(super) totals: ConsumerTotals,
    pub(super) error: Option<io::Error>,
    /// A flush has returned the error.
    pub(super) error_told: bool,
    /// Something came since it was flushed.
    unflushed: bool,
}

impl Place {
    pub(super) fn new(consumer: Box<dyn Consumer>, serial: u64) -> Place {
        let totals = ConsumerTotals::default();
        Place { consumer, serial, totals, error: None, error_told: false, unflushed: true }
    }

    /// Does something with a consumer that has not failed, and keeps its first error (`.event.full-disk`).
    pub(super) fn attempt(&mut self, what: impl FnOnce(&mut dyn Consumer) -> io::Result<()>) {
        if self.error.is_some() {
            return;
        }
        if let Err(error) = what(&mut *self.consumer) {
            self.error = Some(error);
            // It may have lost what it had taken and not written yet.
            let unwritten = self.consumer.unwritten().min(self.totals.written);
            self.totals.written -= unwritten;
            self.totals.lost += unwritten;
        }
    }

    #[inline(always)]
    fn record(&mut self, record: &Recorded) {
        if self.error.is_none() {
            match self.consumer.record(record) {
                Ok(()) => {
                    self.totals.written += 1;
                    return;
                }
                Err(error) => self.attempt(|_| Err(error)),
            }
        }
        self.totals.lost += 1;
    }

    pub(super) fn flush(&mut self) {
        if std::mem::take(&mut self.unflushed) {
            self.attempt(|consumer| consumer.flush());
        }
    }

    /// Whether threads wait for it.
    pub(super) fn is_lossless(&self) -> bool {
        self.error.is_none() && self.consumer.policy() == Policy::Lossless
    }
}

/// A ring that has something, in the merge.
#[derive(Clone, Copy)]
struct Source {
    /// The time of its first record.
    ticks: u64,
    head: Head,
    ring: &'static Ring,
    thread: RecordingThread,
    published: u64,
    /// A fire in flight holds up what is later than its last record.
    holds_up: bool,
}

/// A heap of sources in mapped memory.
struct Merge {
    sources: *mut Source,
    capacity: usize,
    len: usize,
}

/// Who gets what.
pub(super) struct Routes {
    pub(super) consumers: [Option<Place>; MAX_CONSUMERS],
    pub(super) books: [Book; MAX_WORLDS],
    /// Records that had left the rings when nobody wanted them any more.
    pub(super) unclaimed: u64,
    pub(super) drained: u64,
}

/// What belongs to who holds the recorder's lock.
pub(super) struct Drain {
    pub(super) routes: Routes,
    merge: Merge,
    pub(super) next_serial: u64,
    /// Up to when everything was handed on by the last drain.
    pub(super) done_up_to: u64,
}

// SAFETY: the merge's memory belongs to the drain, which is used by one thread at a time, under the lock; between drains
// there are no sources in it.
unsafe impl Send for Drain {}

/// Whether a drain has seen everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Everything that was fired before it.
    All,
    /// A fire in flight held up the rest.
    HeldUp,
}

impl Drain {
    pub(super) const fn new() -> Drain {
        let merge = Merge { sources: std::ptr::null_mut(), capacity: 0, len: 0 };
        Drain {
            routes: Routes {
                consumers: [const { None }; MAX_CONSUMERS],
                books: [const { Book::new() }; MAX_WORLDS],
                unclaimed: 0,
                drained: 0,
            },
            merge,
            next_serial: 1,
            done_up_to: 0,
        }
    }

    /// Drains. A fire that has been in flight for `patience` nanoseconds is not waited for.
    pub(super) fn drain(&mut self, patience: u64) -> Outcome {
        let t = clock::ticks();
        // Pairs with the light barrier of `Flight::begin` (`.event.barrier`).
        heavy_barrier();
        self.merge.make_room(ring::count());
        let mut horizon = t;
        let mut outcome = Outcome::All;
        for rings in ring::all().filter(|rings| rings.are_in_use()) {
            for ring in rings.both() {
                let holds_up = is_held_up(ring, rings.tid(), t, patience);
                if holds_up {
                    outcome = Outcome::HeldUp;
                }
                // SAFETY: the drain's own, and who drains holds the recorder's lock.
                unsafe { &mut *ring.drained.get() }.chunks = 0;
                // After the look at its flight: a flight that is over has published.
                let published = ring.stream.published();
                match next_of(ring, published) {
                    Some((ticks, head)) => {
                        let thread = rings.thread();
                        self.merge.push(Source { ticks, head, ring, thread, published, holds_up });
                    }
                    None if holds_up => horizon = horizon.min(limit_of(ring)),
                    None => {}
                }
            }
        }
        self.done_up_to = self.merge_up_to(horizon);
        self.free_what_was_left(t);
        ROOM.turn();
        outcome
    }

    /// Drains until everything that was fired before is out, but for fires in flight that have been so for too long.
    pub(super) fn settle(&mut self, patience: u64) {
        let begin = clock::ticks();
        while self.drain(patience) == Outcome::HeldUp && self.done_up_to < begin {
            thread::sleep_ns(200_000);
        }
    }

    /// After drains: marks of time, and no more.
    pub(super) fn tell_the_time(&mut self) {
        let now = self.reached();
        for place in self.routes.consumers.iter_mut().flatten() {
            place.attempt(|consumer| consumer.drained(&now));
        }
    }

    /// The moment up to which the last drain came. What was fired since then, or was held up, is later.
    pub(super) fn reached(&self) -> Relation {
        let now = Clock::of_process().relation();
        let ticks = self.done_up_to.min(now.ticks);
        Relation { ticks, ns: now.ns_of(ticks), ..now }
    }

    pub(super) fn flush(&mut self) {
        self.routes.consumers.iter_mut().flatten().for_each(Place::flush);
    }

    /// Hands on everything up to the horizon, or to where a fire in flight holds it up: says how far it came.
    fn merge_up_to(&mut self, mut horizon: u64) -> u64 {
        let Drain { routes, merge, .. } = self;
        let mut record = Recorded::empty();
        while let Some(first) = merge.first().filter(|first| first.ticks <= horizon) {
            let mut source = *first;
            record.thread = source.thread;
            let until = merge.second().min(horizon);
            let rest = loop {
                routes.hand_on(&mut record, &source);
                // SAFETY: the drain's own, and who drains holds the recorder's lock.
                unsafe { &mut *source.ring.drained.get() }.last = source.ticks;
                match next_of(source.ring, source.published) {
                    Some((ticks, head)) => {
                        (source.ticks, source.head) = (ticks, head);
                        if ticks > until {
                            break Some(source);
                        }
                    }
                    None => break None,
                }
            };
            match rest {
                Some(rest) => merge.replace_first(rest),
                None => {
                    if source.holds_up {
                        horizon = horizon.min(limit_of(source.ring));
                    }
                    merge.remove_first();
                }
            }
        }
        merge.len = 0;
        horizon
    }

    /// Rings whose thread has ended, and which are empty, are free for another thread.
    fn free_what_was_left(&mut self, t: u64) {
        for rings in ring::all().filter(|rings| rings.are_left()) {
            if rings.both().into_iter().all(|ring| next_of(ring, ring.stream.published()).is_none()) {
                self.routes.tell_of_losses(rings, t);
                rings.free();
            }
        }
    }

    /// Throws away what is in the rings.
    pub(super) fn discard(&mut self) {
        for ring in ring::all().filter(|rings| rings.are_in_use()).flat_map(ThreadRings::both) {
            let published = ring.stream.published();
            while let Some((_, head)) = next_of(ring, published) {
                let mut words = [0; PAYLOAD_WORDS];
                // SAFETY: the caller has the drain to itself, and has just seen this record.
                unsafe { ring.stream.take(&mut words[..head.payload_words().min(PAYLOAD_WORDS)]) };
                self.routes.drained += u64::from(!head.tells_of_losses());
            }
        }
    }

    /// Tells consumers of losses that no ring has had the room to tell of.
    pub(super) fn tell_of_losses(&mut self) {
        let t = clock::ticks();
        for rings in ring::all().filter(|rings| rings.are_in_use()) {
            self.routes.tell_of_losses(rings, t);
        }
    }
}

/// The record at the head of a ring, by a clock that does not go backwards within it.
#[inline(always)]
fn next_of(ring: &'static Ring, published: u64) -> Option<(u64, Head)> {
    // SAFETY: the caller has the drain to itself.
    let recycle = |chunk: NonNull<ring::Chunk>| {
        // SAFETY: as above; the chunk is this ring's.
        unsafe { ring.recycle(chunk) };
        // SAFETY: the drain's own, and who drains holds the recorder's lock.
        if unsafe { &mut *ring.drained.get() }.gets_back_a_chunk() {
            ROOM.turn();
        }
    };
    // SAFETY: as above.
    let next = unsafe { ring.stream.next(published, recycle) }?;
    // SAFETY: the drain's own, and who drains holds the recorder's lock.
    let last = unsafe { &*ring.drained.get() }.last;
    Some((next.ticks.max(last), Head(next.head)))
}

/// Up to when a ring with a fire in flight holds up nobody.
fn limit_of(ring: &Ring) -> u64 {
    // SAFETY: the drain's own, and who drains holds the recorder's lock.
    let drained = unsafe { &*ring.drained.get() };
    drained.last.max(drained.quiet_at)
}

/// Whether a fire in flight holds up the drain that has read the clock at `t`, before its barrier.
fn is_held_up(ring: &Ring, tid: u32, t: u64, patience: u64) -> bool {
    let flight = ring.flight.look();
    let is_stuck = flight.is_under_way()
        && (0..GLANCES).all(|_| {
            std::hint::spin_loop();
            ring.flight.look() == flight
        });
    // SAFETY: the drain's own, and who drains holds the recorder's lock.
    let drained = unsafe { &mut *ring.drained.get() };
    if !is_stuck {
        drained.stuck = None;
        drained.quiet_at = t;
        return false;
    }
    let now = now_ns();
    let since = match drained.stuck {
        Some((stuck, since)) if stuck == flight => since,
        _ => now,
    };
    drained.stuck = Some((flight, since));
    let stuck_for = now.saturating_sub(since);
    stuck_for < patience || (stuck_for < patience * PATIENCE_WITH_THE_SCHEDULER && thread::is_runnable(Tid(tid as i32)))
}

impl Routes {
    #[inline(always)]
    fn hand_on(&mut self, record: &mut Recorded, source: &Source) {
        let Head(head) = source.head;
        let payload = &mut record.words[..source.head.payload_words().min(PAYLOAD_WORDS)];
        // SAFETY: the caller has the drain to itself, and has just seen this record at the head of the stream.
        unsafe { source.ring.stream.take(payload) };
        if source.head.tells_of_losses() {
            self.tell_of_loss_total(source.ring, source.thread, source.ticks, record.words[0]);
            return;
        }
        self.drained += 1;
        // SAFETY: the drain's own, and who drains holds the recorder's lock.
        unsafe { &mut *source.ring.drained.get() }.records += 1;
        let (world, id) = ((head >> 16) as u16, (head & 0xff) as usize);
        let Some(event) = EventId::from_index(id) else { return };
        let Some(book) = self.books.get_mut(usize::from(world)) else { return };
        let mut takers = book.takers(id, source.ticks);
        if takers == 0 {
            self.unclaimed += 1;
            return;
        }
        (record.ticks, record.id, record.world) = (source.ticks, event, WorldNumber(world));
        while takers != 0 {
            let place = takers.trailing_zeros() as usize;
            takers &= takers - 1;
            if let Some(Some(place)) = self.consumers.get_mut(place) {
                place.unflushed = true;
                place.record(record);
            }
        }
    }

    fn tell_of_losses(&mut self, rings: &ThreadRings, ticks: u64) {
        for ring in rings.both() {
            self.tell_of_loss_total(ring, rings.thread(), ticks, ring.dropped.load(Ordering::Relaxed));
        }
    }

    /// A ring has lost so many in all.
    #[cold]
    fn tell_of_loss_total(&mut self, ring: &Ring, thread: RecordingThread, ticks: u64, total: u64) {
        // SAFETY: the drain's own, and who drains holds the recorder's lock.
        let drained = unsafe { &mut *ring.drained.get() };
        let count = total.saturating_sub(drained.lost_told);
        if count == 0 {
            return;
        }
        drained.lost_told = total;
        for place in self.consumers.iter_mut().flatten() {
            place.unflushed = true;
            place.attempt(|consumer| consumer.lost(&Lost { ticks, thread, count }));
        }
    }
}

impl Merge {
    /// Room for so many sources. If there is none, the drain sees only some rings, and their records are late.
    fn make_room(&mut self, sources: usize) {
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

    fn sources(&mut self) -> &mut [Source] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: the first `len` sources are written; the memory is the merge's.
        unsafe { std::slice::from_raw_parts_mut(self.sources, self.len) }
    }

    fn push(&mut self, source: Source) {
        if self.len == self.capacity {
            return;
        }
        // SAFETY: inside the memory, which is aligned to a page.
        unsafe { self.sources.add(self.len).write(source) };
        self.len += 1;
        let mut child = self.len - 1;
        let sources = self.sources();
        while child > 0 {
            let parent = (child - 1) / 2;
            if sources[parent].ticks <= sources[child].ticks {
                break;
            }
            sources.swap(parent, child);
            child = parent;
        }
    }

    fn first(&mut self) -> Option<&Source> {
        self.sources().first()
    }

    /// The time of the second one.
    fn second(&mut self) -> u64 {
        self.sources().iter().skip(1).take(2).map(|source| source.ticks).min().unwrap_or(u64::MAX)
    }

    fn replace_first(&mut self, source: Source) {
        self.sources()[0] = source;
        self.sift_down();
    }

    fn remove_first(&mut self) {
        let last = self.len - 1;
        self.sources().swap(0, last);
        self.len = last;
        self.sift_down();
    }

    fn sift_down(&mut self) {
        let sources = self.sources();
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

#[cfg(test)]
mod tests {
    use std::cell::UnsafeCell;
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;

    use super::*;
    use crate::events::state::Selection;
    use crate::os::barrier;

    #[derive(Debug)]
    struct Keep(Arc<Mutex<Vec<(u64, u64)>>>);

    impl Consumer for Keep {
        fn record(&mut self, record: &Recorded) -> io::Result<()> {
            self.0.lock().unwrap().push((record.ticks, record.fields()[0]));
            Ok(())
        }
    }

    struct Own(UnsafeCell<Drain>, Mutex<()>);
    // SAFETY: only used under the mutex.
    unsafe impl Sync for Own {}
    /// Of the tests' own, too large for a stack. Its world is the last one.
    static OWN: Own = Own(UnsafeCell::new(Drain::new()), Mutex::new(()));
    const WORLD: u16 = MAX_WORLDS as u16 - 1;

    /// A ring with these records: their times, and a number that tells them apart.
    fn ring_of(times: &[u64], number: &mut u64) -> &'static Ring {
        let ring: &'static Ring = Box::leak(Box::new(Ring::new(u32::MAX)));
        for ticks in times {
            let head = Head(1 << 63 | u64::from(WORLD) << 16 | 1 << 8 | EventId::GcEnd as u64).0;
            // SAFETY: this thread is the producer.
            unsafe {
                if !ring.stream.write(head, *ticks, &[*number]) {
                    ring.stream.extend(ring.chunk(ring::Growth::Quota).unwrap());
                    assert!(ring.stream.write(head, *ticks, &[*number]));
                }
            }
            *number += 1;
        }
        ring
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The oracle: everything up to the horizon, sorted.
        #[test]
        fn the_merge_is_the_sorted_whole(
            rings in prop::collection::vec(prop::collection::vec(0_u64..500, 0..60), 0..12),
            horizon in 0_u64..600,
        ) {
            let _alone = OWN.1.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // SAFETY: under the mutex.
            let drain = unsafe { &mut *OWN.0.get() };
            barrier::register().unwrap();
            Clock::of_process();
            let kept = Arc::new(Mutex::new(Vec::new()));
            drain.routes.consumers[0] = Some(Place::new(Box::new(Keep(Arc::clone(&kept))), 1));
            let book = &mut drain.routes.books[usize::from(WORLD)];
            book.change(WorldNumber(WORLD), 0, Some(Selection::everything()));

            let (mut number, mut expected) = (0, Vec::new());
            drain.merge.make_room(rings.len());
            for mut times in rings {
                times.sort_unstable();
                expected.extend(times.iter().zip(number..).map(|(ticks, number)| (*ticks, number)));
                let ring = ring_of(&times, &mut number);
                let published = ring.stream.published();
                let thread = RecordingThread { tid: 1, index: 1 };
                if let Some((ticks, head)) = next_of(ring, published) {
                    drain.merge.push(Source { ticks, head, ring, thread, published, holds_up: false });
                }
            }
            prop_assert_eq!(drain.merge_up_to(horizon), horizon);
            drain.routes.books[usize::from(WORLD)] = Book::new();
            drain.routes.consumers[0] = None;

            expected.retain(|(ticks, _)| *ticks <= horizon);
            let mut got = kept.lock().unwrap().clone();
            prop_assert!(got.is_sorted_by_key(|(ticks, _)| *ticks), "by time");
            // Of those of one time, any order will do, but within a ring.
            got.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(got, expected);
        }
    }

    /// Three megabytes, to a file that takes the first of them at its leisure.
    #[test]
    fn who_waits_for_room_hears_of_the_first_chunk_and_then_now_and_then() {
        let ring = Ring::new(u32::MAX);
        // SAFETY: nobody else has the ring.
        let drained = unsafe { &mut *ring.drained.get() };
        let turns: Vec<_> = (0..48).filter(|_| drained.gets_back_a_chunk()).collect();
        assert_eq!(turns, [0, 8, 16, 24, 32, 40]);
    }

    #[test]
    fn a_ring_with_a_fire_in_flight_holds_up_what_is_later_than_its_last_record() {
        let ring: &'static Ring = Box::leak(Box::new(Ring::new(4)));
        assert!(!is_held_up(ring, 0, 10, PATIENCE_NS));
        assert!(ring.flight.begin());
        assert!(is_held_up(ring, 0, 20, PATIENCE_NS));
        assert_eq!(limit_of(ring), 10, "the fire began after the drain that found it quiet");
        assert!(!is_held_up(ring, 0, 30, 0), "patience is at its end");
        ring.flight.end();
        assert!(!is_held_up(ring, 0, 40, PATIENCE_NS));
        assert_eq!(limit_of(ring), 40);
    }
}
