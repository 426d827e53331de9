//! The drain: delivers all records that are in the rings, in order of time, to the consumers that want them.
//!
//! ```text
//!   T = now ── heavy barrier ── per ring: a fire in flight?  how far published? ── merge up to T
//! ```
//!
//! After the barrier every record from before T is published, except those of fires in flight (see `enabled`). A fire on a
//! running processor is over in a moment, and the drain checks several times. If a thread was preempted by the scheduler, or
//! stopped, in the middle of a fire, the fire stays in flight: its record will have a time after the thread's last record, and after the
//! last drain that found no fire in flight. The merge goes only up to that time, and the rest is left for the next drain, unless the
//! fire has been in flight for longer than the drain's patience, as under a debugger or in a long pause. Then the
//! other threads' records are not held up any more, and that one record is delivered late. (The drain waits much longer for a runnable
//! thread than for one that sleeps, because the latter is stopped.)
//!
//! A drain runs under the recorder's lock, allocates nothing, and waits only for its consumers. It may run in
//! the stopped world, on any thread (`.event.no-block-in-handler`).

use std::io;

use super::consumer::{Consumer, ConsumerTotals, Policy};
use super::merge::{At, Merge, MergeCursor, Passed, Run, Source, limit_of, next_of};
use super::recorded::{Lost, Recorded, RecordingThread};
use super::ring::{self, Draining, Ring, ThreadRings};
use super::waiting::ROOM;
use super::worlds::{Consumers, MAX_CONSUMERS, MAX_WORLDS, SelectionHistory};
use crate::events::clock::{self, Clock, Relation};
use crate::events::table::PAYLOAD_WORDS;
use crate::os::clock::now_ns;
use crate::os::{Tid, thread, tracer};
use crate::sync::{Ordering, heavy_barrier};

/// How often a drain checks a fire in flight before it considers the fire stuck. A fire takes 20 ns.
const GLANCES: usize = 100;

/// How long a stuck fire holds up later records, in nanoseconds.
pub(super) const PATIENCE_NS: u64 = 50_000_000;

/// The factor by which the patience is longer for a thread that is runnable and only waits for a processor. (A thread never sleeps in a
/// fire; one that does is stopped.)
const PATIENCE_WITH_THE_SCHEDULER: u64 = 60;

/// A consumer in its slot.
pub(super) struct ConsumerSlot {
    pub(super) consumer: Box<dyn Consumer>,
    pub(super) serial: u64,
    pub(super) totals: ConsumerTotals,
    pub(super) error: Option<io::Error>,
    /// Whether a flush has returned the error.
    pub(super) error_reported: bool,
    /// Whether the consumer received something since it was flushed.
    unflushed: bool,
}

impl ConsumerSlot {
    pub(super) fn new(consumer: Box<dyn Consumer>, serial: u64) -> ConsumerSlot {
        let totals = ConsumerTotals::default();
        ConsumerSlot { consumer, serial, totals, error: None, error_reported: false, unflushed: true }
    }

    /// Calls `what` for the consumer, unless it has failed, and keeps its first error (`.event.full-disk`).
    pub(super) fn attempt(&mut self, what: impl FnOnce(&mut dyn Consumer) -> io::Result<()>) {
        if self.error.is_some() {
            return;
        }
        if let Err(error) = what(&mut *self.consumer) {
            self.error = Some(error);
            // The consumer may have lost records that it had taken and not written yet.
            let unwritten = self.consumer.unwritten().min(self.totals.written);
            self.totals.written -= unwritten;
            self.totals.lost += unwritten;
        }
    }

    /// Passes the consumer the record that the cursor is at, and the following records that are for this consumer alone.
    fn records(&mut self, cursor: &mut MergeCursor<'_>, it: Consumers) {
        self.unflushed = true;
        let before = self.totals.written;
        let mut run = Run::new(cursor, it, &mut self.totals.written);
        let result = self.consumer.records(&mut run);
        run.end();
        let has_taken = self.totals.written > before;
        match result {
            Ok(()) if has_taken => {}
            // The consumer took no record.
            Ok(()) => {
                self.record(cursor.record());
                cursor.advance();
            }
            Err(error) => {
                // The consumer failed at the last record that it took.
                self.totals.written -= u64::from(has_taken);
                self.attempt(|_| Err(error));
                self.totals.lost += u64::from(has_taken);
            }
        }
    }

    fn record(&mut self, record: &Recorded) {
        self.unflushed = true;
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

    /// Returns whether firing threads wait for the consumer.
    pub(super) fn is_lossless(&self) -> bool {
        self.error.is_none() && self.consumer.policy() == Policy::Lossless
    }
}

/// The consumers and their selections.
pub(super) struct Routes {
    pub(super) consumers: [Option<ConsumerSlot>; MAX_CONSUMERS],
    pub(super) histories: [SelectionHistory; MAX_WORLDS],
    pub(super) passed: Passed,
}

/// The state of draining: the routes, and the merge. The process's drain is accessible only under the recorder's lock.
pub(super) struct Drain {
    draining: Draining,
    pub(super) routes: Routes,
    merge: Merge,
    pub(super) next_serial: u64,
    /// The time up to which the last drain has delivered everything.
    pub(super) done_up_to: u64,
}

/// Whether a drain has delivered everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The drain has delivered everything that was fired before it.
    All,
    /// A fire in flight held up the rest.
    HeldUp,
}

impl Drain {
    /// # Safety
    /// No ring is drained by two drains at the same time.
    pub(super) const unsafe fn new() -> Drain {
        Drain {
            // SAFETY: the caller's promise.
            draining: unsafe { Draining::assume() },
            routes: Routes {
                consumers: [const { None }; MAX_CONSUMERS],
                histories: [const { SelectionHistory::new() }; MAX_WORLDS],
                passed: Passed { drained: 0, unclaimed: 0 },
            },
            merge: Merge::new(),
            next_serial: 1,
            done_up_to: 0,
        }
    }

    /// Drains. A fire that has been in flight for `patience` nanoseconds does not hold up other records.
    pub(super) fn drain(&mut self, patience: u64) -> Outcome {
        let t = clock::ticks();
        // Pairs with the light barrier of `Flight::begin` (`.event.barrier`).
        heavy_barrier();
        self.merge.make_room(ring::count());
        let mut horizon = t;
        let mut outcome = Outcome::All;
        for rings in ring::all().filter(|rings| rings.are_in_use()) {
            for ring in rings.both() {
                let holds_up = is_held_up(&mut self.draining, ring, rings.tid(), t, patience);
                if holds_up {
                    outcome = Outcome::HeldUp;
                }
                ring.drained(&mut self.draining).chunks = 0;
                // `published` is read after the check for a fire in flight: a fire that is over has published its record.
                let published = ring.stream.published();
                match next_of(&mut self.draining, ring, published) {
                    Some((ticks, head)) => {
                        let thread = rings.thread();
                        self.merge.push(Source { ticks, head, ring, thread, published, holds_up });
                    }
                    None if holds_up => horizon = horizon.min(limit_of(&mut self.draining, ring)),
                    None => {}
                }
            }
        }
        self.done_up_to = self.merge_up_to(horizon);
        self.free_what_was_left(t);
        ROOM.notify_all();
        outcome
    }

    /// Drains until everything that was fired before is delivered, except the records of fires that are in flight for too long.
    pub(super) fn settle(&mut self, patience: u64) {
        let begin = clock::ticks();
        while self.drain(patience) == Outcome::HeldUp && self.done_up_to < begin {
            thread::sleep_ns(200_000);
        }
    }

    /// Notifies the consumers of the time reached. Called after drains.
    pub(super) fn report_time(&mut self) {
        let now = self.reached();
        for slot in self.routes.consumers.iter_mut().flatten() {
            slot.attempt(|consumer| consumer.drained(&now));
        }
    }

    /// Returns the moment that the last drain has reached. Records that were fired since then, or were held up, are later.
    pub(super) fn reached(&self) -> Relation {
        let now = Clock::of_process().relation();
        let ticks = self.done_up_to.min(now.ticks);
        Relation { ticks, ns: now.ns_of(ticks), ..now }
    }

    pub(super) fn flush(&mut self) {
        self.routes.consumers.iter_mut().flatten().for_each(ConsumerSlot::flush);
    }

    /// Delivers everything up to the horizon, or up to where a fire in flight holds it up. Returns the time reached.
    fn merge_up_to(&mut self, horizon: u64) -> u64 {
        let Drain { draining, routes, merge, .. } = self;
        let Routes { consumers, histories, passed } = routes;
        let mut cursor = MergeCursor::new(draining, merge, histories, passed, horizon);
        loop {
            match cursor.at() {
                At::Record(takers) => hand_on(consumers, &mut cursor, takers),
                At::Losses { ring, thread, ticks, total } => {
                    report_loss_total(cursor.draining(), consumers, ring, thread, ticks, total);
                    cursor.advance();
                }
                At::End => return cursor.horizon(),
            }
        }
    }

    /// Frees the empty rings of ended threads for other threads.
    fn free_what_was_left(&mut self, t: u64) {
        for rings in ring::all().filter(|rings| rings.are_left()) {
            let mut is_empty = |ring: &'static Ring| {
                let published = ring.stream.published();
                next_of(&mut self.draining, ring, published).is_none()
            };
            if rings.both().into_iter().all(&mut is_empty) {
                self.routes.report_losses(&mut self.draining, rings, t);
                rings.free();
            }
        }
    }

    /// Discards what is in the rings.
    pub(super) fn discard(&mut self) {
        for ring in ring::all().filter(|rings| rings.are_in_use()).flat_map(ThreadRings::both) {
            let published = ring.stream.published();
            while let Some((_, head)) = next_of(&mut self.draining, ring, published) {
                let mut words = [0; PAYLOAD_WORDS];
                // SAFETY: no other drain, by the proof; this record was just seen.
                unsafe { ring.stream.take(&mut words[..head.payload_words().min(PAYLOAD_WORDS)]) };
                self.routes.passed.drained += u64::from(!head.is_loss_report());
            }
        }
    }

    /// Reports to the consumers the losses that the rings had no room to report.
    pub(super) fn report_losses(&mut self) {
        let t = clock::ticks();
        for rings in ring::all().filter(|rings| rings.are_in_use()) {
            self.routes.report_losses(&mut self.draining, rings, t);
        }
    }
}

/// Whether a fire in flight holds up the drain, which has read the clock at `t`, before its barrier.
fn is_held_up(draining: &mut Draining, ring: &Ring, tid: u32, t: u64, patience: u64) -> bool {
    let flight = ring.flight.look();
    let is_stuck = flight.is_under_way()
        && (0..GLANCES).all(|_| {
            std::hint::spin_loop();
            ring.flight.look() == flight
        });
    let drained = ring.drained(draining);
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
    stuck_for < patience || (stuck_for < patience * PATIENCE_WITH_THE_SCHEDULER && tracer::is_runnable(Tid(tid as i32)))
}

/// Passes the record that the cursor is at to its consumers. If there is only one, it also gets the following records that are for it alone.
#[inline]
fn hand_on(consumers: &mut [Option<ConsumerSlot>; MAX_CONSUMERS], cursor: &mut MergeCursor<'_>, mut takers: Consumers) {
    if takers.is_power_of_two()
        && let Some(Some(slot)) = consumers.get_mut(takers.trailing_zeros() as usize)
        && slot.error.is_none()
    {
        return slot.records(cursor, takers);
    }
    while takers != 0 {
        let slot = takers.trailing_zeros() as usize;
        takers &= takers - 1;
        if let Some(Some(slot)) = consumers.get_mut(slot) {
            slot.record(cursor.record());
        }
    }
    cursor.advance();
}

/// Reports the losses of a ring, which has lost `total` records since its creation.
#[cold]
fn report_loss_total(
    draining: &mut Draining,
    consumers: &mut [Option<ConsumerSlot>; MAX_CONSUMERS],
    ring: &Ring,
    thread: RecordingThread,
    ticks: u64,
    total: u64,
) {
    let drained = ring.drained(draining);
    let count = total.saturating_sub(drained.lost_told);
    if count == 0 {
        return;
    }
    drained.lost_told = total;
    for slot in consumers.iter_mut().flatten() {
        slot.unflushed = true;
        slot.attempt(|consumer| consumer.lost(&Lost { ticks, thread, count }));
    }
}

impl Routes {
    fn report_losses(&mut self, draining: &mut Draining, rings: &ThreadRings, ticks: u64) {
        for ring in rings.both() {
            let total = ring.dropped.load(Ordering::Relaxed);
            report_loss_total(draining, &mut self.consumers, ring, rings.thread(), ticks, total);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::UnsafeCell;
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;

    use super::super::recorded::WorldNumber;
    use super::super::worlds;
    use super::*;
    use crate::events::state::Selection;
    use crate::events::table::{EventId, GROUPS};
    use crate::os::barrier;
    use crate::sync::AtomicU64;

    /// How a consumer takes a run.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum TakeMode {
        /// Takes all records, as most consumers do.
        All,
        /// Takes one record and returns.
        One,
        /// Takes no record, so each record is passed to `record`.
        None,
    }

    #[derive(Debug)]
    struct Keep {
        kept: Arc<Mutex<Vec<(u64, u64)>>>,
        losses: Arc<AtomicU64>,
        mode: TakeMode,
        /// The number of records that the consumer takes before it fails.
        fails_after: usize,
    }

    impl Consumer for Keep {
        fn record(&mut self, record: &Recorded) -> io::Result<()> {
            self.fails_after = self.fails_after.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
            self.kept.lock().unwrap().push((record.ticks, record.field::<0>()));
            Ok(())
        }

        fn records(&mut self, run: &mut Run<'_, '_>) -> io::Result<()> {
            while self.mode != TakeMode::None
                && let Some(record) = run.next()
            {
                self.record(record)?;
                if self.mode == TakeMode::One {
                    break;
                }
            }
            Ok(())
        }

        fn lost(&mut self, lost: &Lost) -> io::Result<()> {
            self.losses.fetch_add(lost.count, Ordering::Relaxed);
            Ok(())
        }
    }

    struct Own(UnsafeCell<Drain>, Mutex<()>);
    // SAFETY: only used under the mutex.
    unsafe impl Sync for Own {}
    /// A drain of the tests, too large for a stack. Its world is the last one.
    static OWN: Own = Own(
        // SAFETY: it drains only rings of the tests.
        UnsafeCell::new(unsafe { Drain::new() }),
        Mutex::new(()),
    );
    const WORLD: u16 = MAX_WORLDS as u16 - 1;

    /// The events of the records: for the first consumer, for both, for the second, for none.
    const IDS: [EventId; 4] = [EventId::GcEnd, EventId::GcStart, EventId::MarkBegin, EventId::MarkEnd];
    const FOR: [[bool; 2]; 4] = [[true, false], [true, true], [false, true], [false, false]];
    /// Used instead of an index of `IDS` for a record that reports losses.
    const LOSSES: usize = IDS.len();

    /// Creates a ring with these records: each has a time, a kind (an index of `IDS`, or `LOSSES`), and a unique number.
    fn ring_of(records: &[(u64, usize)], number: &mut u64) -> &'static Ring {
        let ring: &'static Ring = Box::leak(Box::new(Ring::new(u32::MAX)));
        for (ticks, kind) in records {
            let event = IDS.get(*kind).map(|id| u64::from(WORLD) << 16 | *id as u64);
            let head = 1 << 63 | 1 << 8 | event.unwrap_or(1 << 62);
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

    fn mode() -> impl Strategy<Value = (TakeMode, usize)> {
        let manners = prop_oneof![3 => Just(TakeMode::All), 1 => Just(TakeMode::One), 1 => Just(TakeMode::None)];
        (manners, prop_oneof![3 => Just(usize::MAX), 1 => 0..200_usize])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// The oracle: all records up to the horizon that a consumer wants, sorted. Each of them must be counted as written or
        /// lost.
        #[test]
        fn the_merge_is_the_sorted_whole(
            rings in prop::collection::vec(
                (prop::collection::vec((0_u64..500, 0..=LOSSES), 0..60), prop::option::weighted(0.2, 0_u64..600)),
                0..12,
            ),
            horizon in 0_u64..600,
            manners in [mode(), mode()],
        ) {
            let _alone = OWN.1.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // SAFETY: under the mutex.
            let drain = unsafe { &mut *OWN.0.get() };
            barrier::register().unwrap();
            Clock::of_process();
            let world = WorldNumber(WORLD);
            let kept = manners.map(|_| Arc::new(Mutex::new(Vec::new())));
            let losses = manners.map(|_| Arc::new(AtomicU64::new(0)));
            for (index, (mode, fails_after)) in manners.into_iter().enumerate() {
                let (kept, losses) = (Arc::clone(&kept[index]), Arc::clone(&losses[index]));
                let keep = Keep { kept, losses, mode, fails_after };
                drain.routes.consumers[index] = Some(ConsumerSlot::new(Box::new(keep), 1));
                let wants = IDS.into_iter().zip(FOR).filter(|(_, whom)| whom[index]).map(|(id, _)| id);
                let wants = Selection::of(wants.collect());
                drain.routes.histories[usize::from(WORLD)].change(world, index, Some(wants));
            }

            let (mut number, mut all, mut held, mut lost) = (1, Vec::new(), Vec::new(), Vec::new());
            drain.merge.make_room(rings.len());
            let before = drain.routes.passed;
            for (mut records, held_since) in rings {
                records.sort_unstable();
                let numbered = records.iter().zip(number..).map(|((ticks, kind), number)| (*ticks, *kind, number));
                lost.push(numbered.clone().filter(|(_, kind, _)| *kind == LOSSES).collect::<Vec<_>>());
                all.extend(numbered.filter(|(_, kind, _)| *kind != LOSSES));
                let ring = ring_of(&records, &mut number);
                if let (Some((last, _)), Some(quiet_at)) = (records.last(), held_since) {
                    held.push((*last, quiet_at));
                    ring.drained(&mut drain.draining).quiet_at = quiet_at;
                }
                let published = ring.stream.published();
                let thread = RecordingThread { tid: 1, index: 1 };
                if let Some((ticks, head)) = next_of(&mut drain.draining, ring, published) {
                    let holds_up = held_since.is_some();
                    drain.merge.push(Source { ticks, head, ring, thread, published, holds_up });
                }
            }
            // The selections are made now, but the records' times are long ago: the older segments of the history must not apply.
            drain.routes.histories[usize::from(WORLD)].forget_the_past();
            let up_to = drain.merge_up_to(horizon);
            let totals: [_; 2] = std::array::from_fn(|index| drain.routes.consumers[index].take().unwrap().totals);
            drain.routes.histories[usize::from(WORLD)] = SelectionHistory::new();
            worlds::of(world).enabled.change([0; GROUPS], 0);

            // A ring with a fire in flight and no more records holds up all records that are later than its own last record, and than
            // the last drain that found no fire in flight.
            held.sort_unstable();
            let horizon = held.into_iter().fold(horizon, |horizon, (last, quiet_at)| {
                if last <= horizon { horizon.min(last.max(quiet_at)) } else { horizon }
            });
            prop_assert_eq!(up_to, horizon);
            all.retain(|(ticks, ..)| *ticks <= horizon);
            let lost: u64 =
                lost.iter().filter_map(|ring| Some(ring.iter().rfind(|(ticks, ..)| *ticks <= horizon)?.2)).sum();
            let passed = drain.routes.passed;
            prop_assert_eq!(passed.drained - before.drained, all.len() as u64);
            let unclaimed = all.iter().filter(|(_, kind, _)| FOR[*kind] == [false, false]).count();
            prop_assert_eq!(passed.unclaimed - before.unclaimed, unclaimed as u64);
            for index in 0..2 {
                let mut got = kept[index].lock().unwrap().clone();
                let enabled = all.iter().filter(|(_, kind, _)| FOR[*kind][index]);
                let mut expected: Vec<_> = enabled.map(|(ticks, _, number)| (*ticks, *number)).collect();
                prop_assert!(got.is_sorted_by_key(|(ticks, _)| *ticks), "not in order of time");
                prop_assert_eq!(totals[index].written, got.len() as u64);
                prop_assert_eq!(totals[index].written + totals[index].lost, expected.len() as u64);
                prop_assert_eq!(got.len(), expected.len().min(manners[index].1));
                if totals[index].lost == 0 {
                    prop_assert_eq!(losses[index].load(Ordering::Relaxed), lost);
                }
                // Records of different rings with equal times may be in any order.
                expected.sort_unstable();
                let ends = expected.get(got.len()).map_or(u64::MAX, |(ticks, _)| *ticks);
                got.sort_unstable();
                for records in [&mut got, &mut expected] {
                    records.retain(|(ticks, _)| *ticks < ends);
                }
                prop_assert_eq!(got, expected);
            }
        }
    }

    #[derive(Debug)]
    struct Panics(Arc<Mutex<Vec<u64>>>);

    impl Consumer for Panics {
        fn record(&mut self, record: &Recorded) -> io::Result<()> {
            assert_ne!(record.field::<0>(), 1, "this consumer panics as intended");
            self.0.lock().unwrap().push(record.field::<0>());
            Ok(())
        }
    }

    /// One record is lost with it, and the next drain continues after that record.
    #[test]
    fn after_a_panic_of_a_consumer_no_record_comes_twice() {
        let _alone = OWN.1.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: under the mutex.
        let drain = unsafe { &mut *OWN.0.get() };
        barrier::register().unwrap();
        Clock::of_process();
        let kept = Arc::new(Mutex::new(Vec::new()));
        drain.routes.consumers[0] = Some(ConsumerSlot::new(Box::new(Panics(Arc::clone(&kept))), 1));
        let world = WorldNumber(WORLD);
        drain.routes.histories[usize::from(WORLD)].change(world, 0, Some(Selection::everything()));
        drain.routes.histories[usize::from(WORLD)].forget_the_past();
        let rings = [&[(1, 0), (3, 0), (5, 0)], &[(2, 0), (4, 0), (6, 0)]];
        let mut number = 1;
        let rings = rings.map(|records| ring_of(records, &mut number));
        let mut outcomes = Vec::new();
        for _ in 0..2 {
            drain.merge.make_room(rings.len());
            for ring in rings {
                let published = ring.stream.published();
                let thread = RecordingThread { tid: 1, index: 1 };
                if let Some((ticks, head)) = next_of(&mut drain.draining, ring, published) {
                    drain.merge.push(Source { ticks, head, ring, thread, published, holds_up: false });
                }
            }
            let merged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drain.merge_up_to(10)));
            outcomes.push(merged.ok());
        }
        drain.routes.histories[usize::from(WORLD)] = SelectionHistory::new();
        worlds::of(world).enabled.change([0; GROUPS], 0);
        let slot = drain.routes.consumers[0].take().unwrap();
        assert_eq!(outcomes, [None, Some(10)]);
        assert_eq!(*kept.lock().unwrap(), [4, 2, 5, 3, 6]);
        assert!(slot.totals.written >= 5);
    }

    /// A drain of three megabytes, to a slow file.
    #[test]
    fn waiting_threads_are_woken_for_the_first_chunk_and_then_for_every_eighth() {
        let ring = Ring::new(u32::MAX);
        // SAFETY: no other drain has the ring.
        let mut draining = unsafe { Draining::assume() };
        let drained = ring.drained(&mut draining);
        let turns: Vec<_> = (0..48).filter(|_| drained.gets_back_a_chunk()).collect();
        assert_eq!(turns, [0, 8, 16, 24, 32, 40]);
    }

    #[test]
    fn a_ring_with_a_fire_in_flight_holds_up_what_is_later_than_its_last_record() {
        let ring: &'static Ring = Box::leak(Box::new(Ring::new(4)));
        // SAFETY: no other drain has the ring.
        let draining = &mut unsafe { Draining::assume() };
        assert!(!is_held_up(draining, ring, 0, 10, PATIENCE_NS));
        assert!(ring.flight.begin());
        assert!(is_held_up(draining, ring, 0, 20, PATIENCE_NS));
        assert_eq!(limit_of(draining, ring), 10, "the fire began after the drain that found none in flight");
        assert!(!is_held_up(draining, ring, 0, 30, 0), "the patience is exceeded");
        ring.flight.end();
        assert!(!is_held_up(draining, ring, 0, 40, PATIENCE_NS));
        assert_eq!(limit_of(draining, ring), 40);
    }
}
