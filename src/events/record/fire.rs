//! The producer's part: a fire writes its record to the thread's ring.
//!
//! A *fire* is one call of an event's fire function. It is *in flight* from its first store to its last one.
//!
//! The fast path has no lock, no fence, no read-modify-write and no system call. It reads the thread-local word, marks the fire as in
//! flight (a plain store), reads the clock, checks whether the event is wanted, writes the words of the record, publishes the record (a
//! plain store), and marks the fire as over (a plain store). Everything else is in [`slowly`].

use std::marker::PhantomData;

use super::head::Head;
use super::lock::{DRAIN, drain_if_nobody_does};
use super::ring::{self, Growth, Ring, ThreadRings};
use super::waiting::{LOSSLESS, ROOM, WRITER_WAKEUP, as_blocking, may_wait};
use super::worlds::RecordedWorld;
use crate::events::clock;
use crate::events::table::EventId;
use crate::os::tsc;
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU64, Ordering};

/// The number of records that were dropped because the thread had no ring.
pub(super) static WITHOUT_RING: AtomicU64 = AtomicU64::new(0);
/// How often a thread waited for room.
pub(super) static WAITS: AtomicU64 = AtomicU64::new(0);

/// The writer is woken each time a thread has filled this many chunks.
const NOTIFY_CHUNKS: u64 = 4;

/// How long a thread waits for room before it wakes the writer again.
const WAIT_NS: u64 = 20_000_000;

/// Records an event of this world, if it is wanted.
///
/// `payload` is a function because an array whose address is passed on would be in memory on every path: two words that are stored
/// separately and loaded together cost more than everything else here.
#[inline(always)]
pub(in crate::events) fn fire<const N: usize>(world: &RecordedWorld, id: EventId, payload: impl Fn() -> [u64; N]) {
    let head = Head::new(id, N, world.number());
    if let Some(rings) = ring::own()
        && clock::is_the_counter()
    {
        let ring = &rings.main;
        if ring.flight.begin() {
            let Some(ticks) = world.enabled.decide(id.group() as usize, id.mask(), tsc::read) else {
                ring.flight.end();
                return;
            };
            // SAFETY: it is the thread's own ring, in which no other fire is in flight.
            if unsafe { ring.stream.write(head.0, ticks, &payload()) } {
                Ring::count(&ring.fired);
                ring.flight.end();
                return;
            }
            ring.flight.end();
        }
    }
    slowly(world, id, head, &payload());
}

/// Returns the timestamp of this thread's latest record if it is of event `id` in `world`. Lets a caller report the same time as the
/// record that it just fired.
pub(in crate::events) fn time_of_last(world: &RecordedWorld, id: EventId) -> Option<u64> {
    let words = id.descriptor().fields.len();
    let rings = ring::own()?;
    // SAFETY: it is the thread's own ring.
    let last = unsafe { rings.main.stream.last_written(words) }?;
    (last.head == Head::new(id, words, world.number()).0).then_some(last.ticks)
}

/// The result of a fire in flight.
enum FireOutcome {
    /// The fire is over: its record was written, dropped and counted, or not wanted.
    Over,
    /// The fire is over, and the writer must be woken.
    WakeWriter,
    /// There is no room, and the thread may wait for it.
    NoRoom,
}

/// Fires on the slow path: for the thread's first record, with a full chunk or a full ring, or in a fire that interrupted another fire.
#[cold]
#[inline(never)]
fn slowly(world: &RecordedWorld, id: EventId, head: Head, payload: &[u64]) {
    let Some(rings) = ring::own_or_new() else {
        WITHOUT_RING.fetch_add(1, Ordering::Relaxed);
        world.count_dropped(id);
        return;
    };
    loop {
        // A handler that has interrupted a fire uses the nested ring (`.event.nested`), and never waits.
        let (ring, may_wait) = if rings.main.flight.begin() {
            (&rings.main, true)
        } else if removed(Guard::EventNested) {
            // This is done only while the chunk has room: two fires that extend the stream at the same time would crash before the test sees a
            // torn record.
            // SAFETY: it is the thread's own ring. Another fire is in flight in it, which is the fault that this guard detects.
            unsafe { rings.main.stream.write(head.0, clock::ticks(), payload) };
            return;
        } else if rings.nested.flight.begin() {
            (&rings.nested, false)
        } else {
            WITHOUT_RING.fetch_add(1, Ordering::Relaxed);
            world.count_dropped(id);
            return;
        };
        let done = in_flight(world, id, head, payload, ring, || may_wait && may_wait_for_room(rings));
        ring.flight.end();
        match done {
            FireOutcome::Over => return,
            // The flight has ended before this call. Otherwise the writer might find the fire in flight while this thread is still in the
            // kernel.
            FireOutcome::WakeWriter => return WRITER_WAKEUP.notify(),
            // The fire is not in flight during the wait, so that it holds up no drain. After the wait it checks again whether the
            // event is wanted.
            FireOutcome::NoRoom => wait_for_room(ring),
        }
    }
}

fn in_flight(
    world: &RecordedWorld,
    id: EventId,
    head: Head,
    payload: &[u64],
    ring: &Ring,
    may_wait: impl FnOnce() -> bool,
) -> FireOutcome {
    let Some(ticks) = world.enabled.decide(id.group() as usize, id.mask(), clock::ticks) else {
        return FireOutcome::Over;
    };
    // SAFETY: it is the thread's own ring, in which no other fire is in flight. This holds for everything below.
    if unsafe { ring.stream.write(head.0, ticks, payload) } {
        Ring::count(&ring.fired);
        return FireOutcome::Over;
    }
    // SAFETY: as above.
    let mut chunk = unsafe { ring.chunk(Growth::Quota) };
    let is_full = chunk.is_none();
    if is_full {
        if may_wait() {
            return FireOutcome::NoRoom;
        }
        if LOSSLESS.load(Ordering::Relaxed) > 0 {
            // SAFETY: as above.
            chunk = unsafe { ring.chunk(Growth::BeyondQuota) };
        }
    }
    Ring::count(&ring.fired);
    let Some(chunk) = chunk else {
        Ring::count(&ring.dropped);
        world.count_dropped(id);
        // The chunk is closed: a shorter record would still fit, but must not be written before the report of this loss.
        // SAFETY: as above.
        unsafe { ring.stream.close_chunk() };
        return FireOutcome::WakeWriter;
    };
    // SAFETY: as above; the chunk belongs to this thread.
    unsafe { ring.stream.extend(chunk) };
    let dropped = ring.dropped.load(Ordering::Relaxed);
    if dropped != ring.announced.load(Ordering::Relaxed) {
        ring.announced.store(dropped, Ordering::Relaxed);
        // SAFETY: as above. A fresh chunk has room for both.
        unsafe { ring.stream.write(Head::of_losses().0, ticks, &[dropped]) };
    }
    // SAFETY: as above.
    unsafe { ring.stream.write(head.0, ticks, payload) };
    let is_time = (ring.stream.published() / ring::CHUNK_WORDS as u64).is_multiple_of(NOTIFY_CHUNKS);
    if is_full || is_time { FireOutcome::WakeWriter } else { FireOutcome::Over }
}

/// Whether the calling thread may wait for room (`.event.no-block-in-handler`): only for a lossless consumer, not in the stopped world, not
/// during a [`NoWaitSection`] (`.event.no-wait`), and not while it drains itself, because it would wait for itself.
fn may_wait_for_room(rings: &ThreadRings) -> bool {
    if removed(Guard::EventNoBlock) {
        return true;
    }
    LOSSLESS.load(Ordering::Relaxed) > 0
        && (!ring::is_in_no_wait_section() || removed(Guard::EventNoWait))
        && DRAIN.lock().holder() != Some(rings.tid())
        && may_wait()
}

/// A no-wait section: while this value exists, its thread does not wait for room, and its ring grows, as in the stopped world. For a thread
/// that holds a lock that others need: a trace whose reader has stopped must not delay the release of that lock (`.event.no-wait`). The
/// thread calls [`catch_up`] when it holds no such lock, before the next section.
#[derive(Debug)]
pub(crate) struct NoWaitSection(PhantomData<*const ()>);

impl NoWaitSection {
    pub(crate) fn begin() -> NoWaitSection {
        ring::nest_no_wait(1);
        NoWaitSection(PhantomData)
    }
}

impl Drop for NoWaitSection {
    fn drop(&mut self) {
        ring::nest_no_wait(-1);
    }
}

/// Waits until the thread's ring is within its quota, if the thread may wait. Called after fires that could not wait.
#[inline]
pub(crate) fn catch_up() {
    if let Some(rings) = ring::own()
        && rings.main.is_beyond_quota()
    {
        wait_for_the_quota(rings);
    }
}

#[cold]
#[inline(never)]
fn wait_for_the_quota(rings: &ThreadRings) {
    while rings.main.is_beyond_quota() && may_wait_for_room(rings) {
        WAITS.fetch_add(1, Ordering::Relaxed);
        as_blocking(|| {
            let ticket = ROOM.ticket();
            if rings.main.is_beyond_quota() {
                WRITER_WAKEUP.notify();
                ROOM.wait(ticket, Some(WAIT_NS));
                if rings.main.is_beyond_quota() {
                    drain_if_nobody_does();
                }
            }
        });
    }
}

/// Waits, for a limited time, until the drain has given back a chunk.
#[cold]
fn wait_for_room(ring: &Ring) {
    WAITS.fetch_add(1, Ordering::Relaxed);
    as_blocking(|| {
        let ticket = ROOM.ticket();
        if !ring.stream.has_spare() {
            WRITER_WAKEUP.notify();
            ROOM.wait(ticket, Some(WAIT_NS));
            if !ring.stream.has_spare() {
                // There may be no writer (as in a forked child), or it may wait for something that this thread, now in a signal handler,
                // holds. Then this thread drains.
                drain_if_nobody_does();
            }
        }
    });
}
