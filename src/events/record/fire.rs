//! The mutator's half: a fire puts its record into the thread's ring.
//!
//! On the way that is taken a hundred million times there is no lock, no fence, no read-modify-write and no system call: the
//! thread-local word, one plain store that says "in flight", the clock, a look at what is wanted, the record's own
//! words, one plain store that publishes it, one that ends the flight. Everything else is in [`slowly`].

use std::marker::PhantomData;

use super::head::Head;
use super::lock::{DRAIN, drain_if_nobody_does};
use super::ring::{self, Growth, Ring, ThreadRings};
use super::waiting::{BELL, LOSSLESS, ROOM, as_blocking, may_wait};
use super::worlds::RecordedWorld;
use crate::events::clock;
use crate::events::table::EventId;
use crate::os::tsc;
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU64, Ordering};

/// Records that were fired and dropped where there was no ring to count them in.
pub(super) static HOMELESS: AtomicU64 = AtomicU64::new(0);
/// How often a thread waited for room.
pub(super) static WAITS: AtomicU64 = AtomicU64::new(0);

/// The writer is woken each time a thread has filled so many chunks.
const BELL_CHUNKS: u64 = 4;

/// How long a thread waits for room before it rings again.
const WAIT_NS: u64 = 20_000_000;

/// Records an event of this world, if it is wanted.
///
/// `payload` is a function because an array whose address somebody gets lies in memory on every way, and a pair of words that
/// is stored as two and loaded as one costs more than all of the rest.
#[inline(always)]
pub(in crate::events) fn fire<const N: usize>(world: &RecordedWorld, id: EventId, payload: impl Fn() -> [u64; N]) {
    let head = Head::new(id, N, world.number());
    if let Some(rings) = ring::own()
        && clock::is_the_counter()
    {
        let ring = &rings.main;
        if ring.flight.begin() {
            let Some(ticks) = world.wanted.decide(id.group() as usize, id.mask(), tsc::read) else {
                ring.flight.end();
                return;
            };
            // SAFETY: our own ring, and no other fire of ours is in flight in it.
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

/// The time of the record that this thread made last, if it is this event's of this world: for who wants to say of what he has
/// just fired what its record says.
pub(in crate::events) fn time_of_last(world: &RecordedWorld, id: EventId) -> Option<u64> {
    let words = id.descriptor().fields.len();
    let rings = ring::own()?;
    // SAFETY: our own ring.
    let last = unsafe { rings.main.stream.last_written(words) }?;
    (last.head == Head::new(id, words, world.number()).0).then_some(last.ticks)
}

/// What became of a fire in flight.
enum Done {
    /// It is over: recorded, dropped and counted, or not wanted.
    Over,
    /// It is over, and it is time that the writer came.
    Ring,
    /// There is no room, and the thread may wait for it.
    NoRoom,
}

/// Everything that is not the usual: the thread's first record, a full chunk, a full ring, a fire in a fire.
#[cold]
#[inline(never)]
fn slowly(world: &RecordedWorld, id: EventId, head: Head, payload: &[u64]) {
    let Some(rings) = ring::own_or_new() else {
        HOMELESS.fetch_add(1, Ordering::Relaxed);
        world.count_dropped(id);
        return;
    };
    loop {
        // A handler that has interrupted a fire uses the nested ring (`.event.nested`), and never waits.
        let (ring, may_wait) = if rings.main.flight.begin() {
            (&rings.main, true)
        } else if removed(Guard::EventNested) {
            // Only while the chunk has room. Two fires that extend the stream at the same time would crash before the test sees a torn record.
            // SAFETY: our own ring. That another fire is in flight in it is what this switch is for.
            unsafe { rings.main.stream.write(head.0, clock::ticks(), payload) };
            return;
        } else if rings.nested.flight.begin() {
            (&rings.nested, false)
        } else {
            HOMELESS.fetch_add(1, Ordering::Relaxed);
            world.count_dropped(id);
            return;
        };
        let done = in_flight(world, id, head, payload, ring, || may_wait && may_wait_for_room(rings));
        ring.flight.end();
        match done {
            Done::Over => return,
            // Not in flight any more: the writer would come and find it so, while we are still in the kernel.
            Done::Ring => return BELL.ring(),
            // Not in flight meanwhile: nobody is held up by who waits. Afterwards it is decided anew.
            Done::NoRoom => wait_for_room(ring),
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
) -> Done {
    let Some(ticks) = world.wanted.decide(id.group() as usize, id.mask(), clock::ticks) else { return Done::Over };
    // SAFETY: our own ring, and no other fire of ours is in flight in it. The same for all below.
    if unsafe { ring.stream.write(head.0, ticks, payload) } {
        Ring::count(&ring.fired);
        return Done::Over;
    }
    // SAFETY: as above.
    let mut chunk = unsafe { ring.chunk(Growth::Quota) };
    let is_full = chunk.is_none();
    if is_full {
        if may_wait() {
            return Done::NoRoom;
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
        // What is short and would still fit must not overtake the news of this loss.
        // SAFETY: as above.
        unsafe { ring.stream.close_chunk() };
        return Done::Ring;
    };
    // SAFETY: as above; the chunk is ours to give.
    unsafe { ring.stream.extend(chunk) };
    let dropped = ring.dropped.load(Ordering::Relaxed);
    if dropped != ring.announced.load(Ordering::Relaxed) {
        ring.announced.store(dropped, Ordering::Relaxed);
        // SAFETY: as above. A fresh chunk has room for both.
        unsafe { ring.stream.write(Head::of_losses().0, ticks, &[dropped]) };
    }
    // SAFETY: as above.
    unsafe { ring.stream.write(head.0, ticks, payload) };
    let is_time = (ring.stream.published() / ring::CHUNK_WORDS as u64).is_multiple_of(BELL_CHUNKS);
    if is_full || is_time { Done::Ring } else { Done::Over }
}

/// `.event.no-block-in-handler`: only for a lossless consumer, not in the stopped world, not in a [`Hurry`] (`.event.hurry`), and not
/// who drains itself: it would wait for its own end.
fn may_wait_for_room(rings: &ThreadRings) -> bool {
    if removed(Guard::EventNoBlock) {
        return true;
    }
    LOSSLESS.load(Ordering::Relaxed) > 0
        && (!ring::is_in_a_hurry() || removed(Guard::EventHurry))
        && DRAIN.lock().holder() != Some(rings.tid())
        && may_wait()
}

/// While it lives, its thread waits for no room: its ring grows, as in the stopped world. For who holds a lock that others want,
/// and whom a trace that nobody reads must not keep from giving it back (`.event.hurry`). It catches up when it holds none, before
/// the next time.
#[derive(Debug)]
pub(crate) struct Hurry(PhantomData<*const ()>);

impl Hurry {
    pub(crate) fn begin() -> Hurry {
        ring::hurry(1);
        Hurry(PhantomData)
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        ring::hurry(-1);
    }
}

/// After a fire that must not wait where it is: waits until the thread's ring is no larger than its quota, if it may.
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
                BELL.ring();
                ROOM.wait(ticket, Some(WAIT_NS));
                if rings.main.is_beyond_quota() {
                    drain_if_nobody_does();
                }
            }
        });
    }
}

/// Waits until the drain has given a chunk back, for a while.
#[cold]
fn wait_for_room(ring: &Ring) {
    WAITS.fetch_add(1, Ordering::Relaxed);
    as_blocking(|| {
        let ticket = ROOM.ticket();
        if !ring.stream.has_spare() {
            BELL.ring();
            ROOM.wait(ticket, Some(WAIT_NS));
            if !ring.stream.has_spare() {
                // The writer may be gone (a forked child has none), or stand still where this thread, in a handler, has
                // interrupted what it waits for. Then we are the writer.
                drain_if_nobody_does();
            }
        }
    });
}
