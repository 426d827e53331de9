//! The shipped protocol files of `events/record/`, with `sync/wakeup.rs`, and their models (not in `models`, because the files are private to their
//! parent module).

#![allow(dead_code, reason = "the models do not use everything that the library does")]

#[path = "../../src/events/record/enabled.rs"]
mod enabled;
#[path = "../../crates/stopworld-platform/src/sync/notify.rs"]
mod notify;
#[path = "../../src/events/record/stream.rs"]
mod stream;

use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use self::enabled::{EnabledEvents, Flight};
use self::notify::{EventCount, Notify};
use self::stream::{Chunk, Stream};
use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::kernel::{self, Kernel};
use crate::sabotage::Guard;
use crate::sync::{AtomicU32, Ordering, UnsafeCell, heavy_barrier};

// ---- A stream of chunks --------------------------------------------------------------------------------------------

/// The size of a chunk: room for one record with one word of payload, and one more word.
const WORDS: usize = 4;

struct Pipe {
    stream: Stream<WORDS>,
    chunks: [NonNull<Chunk<WORDS>>; 2],
    got: UnsafeCell<Vec<u64>>,
}

// SAFETY: all data that is not Sync is in loom cells, and loom reports unordered accesses to them.
unsafe impl Sync for Pipe {}
// SAFETY: as above.
unsafe impl Send for Pipe {}

impl Drop for Pipe {
    fn drop(&mut self) {
        for chunk in self.chunks {
            // SAFETY: leaked in `boxed`; the execution is over.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}

/// Drains all published records and appends their numbers to `got`. Each word of a record holds its number.
fn drained(pipe: &Pipe, got: &mut Vec<u64>) {
    let published = pipe.stream.published();
    // SAFETY: only one thread drains at a time.
    let give = |chunk| unsafe { pipe.stream.give_back(chunk) };
    // SAFETY: as above.
    while let Some(next) = unsafe { pipe.stream.next(published, give) } {
        let mut payload = [0];
        // SAFETY: as above; every record has one word.
        unsafe { pipe.stream.take(&mut payload) };
        assert_eq!((next.head, next.ticks), (payload[0], payload[0]), "torn");
        got.push(payload[0]);
    }
}

/// Two chunks are reused: the producer must not write to a returned chunk while the drain still reads it.
#[test]
fn what_is_drained_is_whole_in_order_and_complete() {
    explore("stream, 3 records through 2 chunks", AtMost(3), || {
        let kernel = Kernel::boot(2);
        let pipe = Arc::new(Pipe {
            stream: Stream::new(),
            chunks: [Chunk::boxed(), Chunk::boxed()],
            got: UnsafeCell::new(Vec::new()),
        });
        let mut fresh = pipe.chunks.into_iter();
        // SAFETY: this thread is the producer.
        unsafe { pipe.stream.extend(fresh.next().expect("there are two")) };
        let same = Arc::clone(&pipe);
        let draining = kernel.spawn(2, move || {
            let mut got = Vec::new();
            drained(&same, &mut got);
            drained(&same, &mut got);
            same.got.with_mut(|all| {
                // SAFETY: loom reports every concurrent access.
                unsafe { *all = got }
            });
        });
        let mut fired = 0;
        for number in 1..=3 {
            // SAFETY: this thread is the producer.
            unsafe {
                if !pipe.stream.write(number, number, &[number]) {
                    // The real producer waits for room here, or drops the record: see the model of the event count below.
                    let Some(chunk) = fresh.next().or_else(|| pipe.stream.take_back()) else { break };
                    pipe.stream.extend(chunk);
                    assert!(pipe.stream.write(number, number, &[number]));
                }
            }
            fired = number;
        }
        draining.join().expect("loom reports what fails");
        // SAFETY: as above.
        let mut got = pipe.got.with_mut(|got| unsafe { std::mem::take(&mut *got) });
        drained(&pipe, &mut got);
        assert_eq!(got, (1..=fired).collect::<Vec<_>>());
    });
}

#[test]
fn a_position_that_is_published_without_a_release_is_caught() {
    must_fail_without(Guard::EventPublish, "recording::what_is_drained_is_whole_in_order_and_complete", Fault::Race);
}

// ---- Which events are enabled, and which fires are in flight -------------------------------------------------------

const EVENT: u32 = 1;

/// A thread that fires, with a ring for one record. The ring holds the record's time plus one, and 0 before.
struct Firing {
    enabled: EnabledEvents<1>,
    flight: Flight,
    clock: AtomicU32,
    record: AtomicU32,
}

impl Firing {
    fn new() -> Arc<Firing> {
        Arc::new(Firing {
            enabled: EnabledEvents::new([AtomicU32::new(EVENT)]),
            flight: Flight::new(),
            clock: AtomicU32::new(0),
            record: AtomicU32::new(0),
        })
    }

    fn now(&self) -> u64 {
        u64::from(self.clock.load(Ordering::Acquire))
    }

    /// Sets the clock.
    fn at(&self, now: u32) {
        self.clock.store(now, Ordering::Release);
    }

    fn fire(&self) {
        assert!(self.flight.begin());
        let is_first = Cell::new(true);
        let clock = || {
            // A clock that has not advanced is read again until it does. There is no yield before the first read, because loom
            // runs all other threads to their end before a thread that has yielded.
            if !is_first.replace(false) {
                loom::thread::yield_now();
            }
            self.now()
        };
        if let Some(ticks) = self.enabled.decide(0, EVENT, clock) {
            self.record.store(ticks as u32 + 1, Ordering::Release);
        }
        self.flight.end();
    }

    fn record(&self) -> Option<u32> {
        self.record.load(Ordering::Acquire).checked_sub(1)
    }

    fn set(&self, enabled: u32, now: u32) {
        self.enabled.change([enabled], u64::from(now));
        heavy_barrier();
    }
}

/// The event is enabled until time 1, and again from time 3: a record may have any time except 2, wherever threads are delayed.
#[test]
fn a_record_has_a_time_at_which_its_event_was_enabled() {
    explore("wanted, off and on again", AtMost(4), || {
        let kernel = Kernel::boot(2);
        let firing = Firing::new();
        let same = Arc::clone(&firing);
        let fire = kernel.spawn(2, move || same.fire());
        firing.at(1);
        firing.set(0, 1);
        firing.at(2);
        firing.at(3);
        firing.set(EVENT, 3);
        fire.join().expect("loom reports what fails");
        let time = firing.record();
        assert!(matches!(time, None | Some(0 | 1 | 3)), "a record from a time at which its event was disabled");
    });
}

#[test]
fn a_fire_without_a_check_after_its_clock_is_caught() {
    let claim = Fault::Claim("a record from a time at which its event was disabled");
    must_fail_without(Guard::EventRecheck, "recording::a_record_has_a_time_at_which_its_event_was_enabled", claim);
}

#[test]
fn a_fire_that_keeps_its_early_time_is_caught() {
    let claim = Fault::Claim("a record from a time at which its event was disabled");
    must_fail_without(Guard::EventExact, "recording::a_record_has_a_time_at_which_its_event_was_enabled", claim);
}

/// When a drain has passed time T, no later record may have a time before T.
#[test]
fn a_drain_that_sees_no_fire_in_flight_has_every_record_from_before() {
    explore("drain, 1 fire", AtMost(4), || {
        let kernel = Kernel::boot(2);
        let firing = Firing::new();
        let same = Arc::clone(&firing);
        let fire = kernel.spawn(2, move || same.fire());
        firing.at(1);
        let t = firing.now() as u32;
        heavy_barrier();
        let is_quiet = !firing.flight.look().is_under_way();
        let seen = firing.record();
        fire.join().expect("loom reports what fails");
        if is_quiet && seen.is_none() {
            let late = firing.record();
            assert!(late.is_none_or(|time| time >= t), "a record came late");
        }
    });
}

#[test]
fn a_fire_that_leaves_its_flight_in_the_store_buffer_is_caught() {
    let claim = Fault::Claim("a record came late");
    let name = "recording::a_drain_that_sees_no_fire_in_flight_has_every_record_from_before";
    must_fail_without(Guard::EventBarrier, name, claim);
}

/// A handler that fires while its thread fires detects that, at each step, and the interrupted fire stays intact.
#[test]
fn a_handler_knows_whether_it_has_interrupted_a_fire() {
    explore("flight, a handler that fires", AtMost(3), || {
        let kernel = Kernel::boot(2);
        let firing = Firing::new();
        let same = Arc::clone(&firing);
        let fire = kernel.spawn(2, move || {
            let inside = Rc::new(UnsafeCell::new(0_u32));
            let in_flight = move |inside: &UnsafeCell<u32>, flight: &Flight| {
                if flight.begin() {
                    // SAFETY: loom reports every concurrent access.
                    inside.with_mut(|inside| unsafe { *inside += 1 });
                    kernel::interrupt_point();
                    // SAFETY: as above.
                    inside.with_mut(|inside| unsafe { *inside -= 1 });
                    flight.end();
                    return true;
                }
                false
            };
            let (handlers, ours) = (Arc::clone(&same), Rc::clone(&inside));
            let its_inside = Rc::clone(&inside);
            kernel::on_signal(move || {
                let fired = in_flight(&its_inside, &handlers.flight);
                // SAFETY: as above.
                assert!(!fired || ours.with(|inside| unsafe { *inside } == 0), "the handler fired inside a fire");
            });
            assert!(in_flight(&inside, &same.flight));
            assert!(!same.flight.look().is_under_way());
        });
        kernel.signal(2);
        fire.join().expect("loom reports what fails");
    });
}

// ---- Waking --------------------------------------------------------------------------------------------------------

struct Woken {
    wakeup: Notify,
    room: EventCount,
    word: AtomicU32,
    brought: UnsafeCell<u32>,
}

// SAFETY: as for `Pipe`.
unsafe impl Sync for Woken {}
// SAFETY: as above.
unsafe impl Send for Woken {}

impl Woken {
    fn new() -> Arc<Woken> {
        let (wakeup, room) = (Notify::new(), EventCount::new());
        Arc::new(Woken { wakeup, room, word: AtomicU32::new(0), brought: UnsafeCell::new(0) })
    }
}

/// No wait times out in this model, so a lost notification is a deadlock.
#[test]
fn the_writer_hears_every_ring() {
    explore("notify, 2 notifications", AtMost(4), || {
        let kernel = Kernel::boot(3);
        let woken = Woken::new();
        let ringing: Vec<_> = (2..=3)
            .map(|tid| {
                let woken = Arc::clone(&woken);
                kernel.spawn(tid, move || {
                    woken.word.fetch_add(1, Ordering::Relaxed);
                    woken.wakeup.notify();
                })
            })
            .collect();
        while woken.word.load(Ordering::Relaxed) < 2 {
            woken.wakeup.wait(None);
        }
        ringing.into_iter().for_each(|thread| thread.join().expect("loom reports what fails"));
    });
}

#[test]
fn a_writer_that_checks_and_then_sleeps_is_caught() {
    must_fail_without(Guard::EventNotify, "recording::the_writer_hears_every_ring", Fault::Deadlock);
}

#[test]
fn every_waiter_for_room_is_woken_and_sees_it() {
    explore("event count, 2 waiters", AtMost(3), || {
        let kernel = Kernel::boot(3);
        let woken = Woken::new();
        let waiting: Vec<_> = (2..=3)
            .map(|tid| {
                let woken = Arc::clone(&woken);
                kernel.spawn(tid, move || {
                    loop {
                        let ticket = woken.room.ticket();
                        if woken.word.load(Ordering::Acquire) != 0 {
                            break;
                        }
                        woken.room.wait(ticket, None);
                    }
                    // SAFETY: loom reports every concurrent write.
                    assert_eq!(woken.brought.with(|brought| unsafe { *brought }), 7);
                })
            })
            .collect();
        // SAFETY: as above.
        woken.brought.with_mut(|brought| unsafe { *brought = 7 });
        woken.word.store(1, Ordering::Release);
        woken.room.notify_all();
        waiting.into_iter().for_each(|thread| thread.join().expect("loom reports what fails"));
    });
}
