//! The rings of a thread, in which its records wait for a drain, and how a thread finds its own rings.
//!
//! A thread has two rings: the main one, and a smaller one for handlers that interrupt a fire into the main one. They are in mapped
//! memory that is never unmapped, on a list that only grows. The rings of a thread that has ended are reused after they
//! are drained. A thread finds its rings by a thread-local word without a destructor: in an executable, reading it is one load. In a
//! library that was loaded late, the first use of the word may allocate, so a thread touches it when it attaches ([`meet`]).
//!
//! The memory of a ring:
//!
//! * up to its quota, a ring maps chunks when it needs them and keeps them: the drain gives them back;
//! * where its thread must not wait (in the stopped world, in a handler that interrupted a fire, while it drains itself) the ring maps
//!   more, until all rings together have [`MOST_BYTES`]. The drain unmaps what is beyond the quota.

use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};

use super::enabled::{Flight, FlightNumber};
use super::recorded::RecordingThread;
use super::stream;
use crate::os::Tid;
use crate::os::memory::{map_anonymous, unmap};
use crate::os::thread;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

const CHUNK_BYTES: usize = 64 << 10;
/// A chunk has one word for its successor; the rest is for records.
pub(super) const CHUNK_WORDS: usize = CHUNK_BYTES / 8 - 1;

pub(super) type Chunk = stream::Chunk<CHUNK_WORDS>;

const _: () = assert!(size_of::<Chunk>() == CHUNK_BYTES);

/// The quota of a ring, in chunks: 1 MiB holds the records that a thread fires at full speed in half a millisecond.
pub(super) const QUOTA: u32 = 16;
const NESTED_QUOTA: u32 = 2;
/// The number of chunks that a ring may have however much memory all rings use: two that its thread fills, two that the drain gives back.
const FEW: u32 = 4;
/// A ring gets more than [`FEW`] chunks only while all rings together have less memory than this.
const PLENTY_BYTES: usize = 96 << 20;

/// The maximum memory of all rings together when they grow beyond their quotas.
pub(super) const MOST_BYTES: usize = 192 << 20;

/// The current memory of all rings.
static BYTES: AtomicUsize = AtomicUsize::new(0);

pub(super) fn bytes() -> usize {
    BYTES.load(Ordering::Relaxed)
}

/// One of a thread's two rings: two cache lines that its thread writes, then two that the drain writes. If a counter of one side were
/// on a cache line of the other side, each fire would take ten nanoseconds longer.
#[repr(C, align(128))]
pub(super) struct Ring {
    pub(super) flight: Flight,
    quota: u32,
    /// The number of chunks that the ring has mapped. The thread increments it, the drain decrements it.
    chunks: AtomicU32,
    /// The number of records that were wanted, and the number of those that were dropped. Only the thread writes them.
    pub(super) fired: AtomicU64,
    pub(super) dropped: AtomicU64,
    /// The number of dropped records that the stream reports.
    pub(super) announced: AtomicU64,
    pub(super) stream: stream::Stream<CHUNK_WORDS>,
    /// The drain's own state for this ring: see [`drained`](Self::drained).
    drained: UnsafeCell<Drained>,
}

/// Proof that no other thread drains at the same time. A [`Drain`](super::drain::Drain) has one, and the process's drain
/// is accessible only under the recorder's lock.
pub(super) struct Draining(());

impl Draining {
    /// # Safety
    /// No ring is used with two proofs at the same time.
    pub(super) const unsafe fn assume() -> Draining {
        Draining(())
    }
}

/// The drain's own state for a ring.
#[derive(Debug, Default)]
pub(super) struct Drained {
    /// The time of the ring's last drained record.
    pub(super) last: u64,
    /// The number of chunks that the current drain has drained.
    pub(super) chunks: u32,
    /// The number of dropped records that were reported to consumers.
    pub(super) lost_told: u64,
    /// A fire that was in flight during a whole drain, and the time since which it has been in flight, by the monotonic clock.
    pub(super) stuck: Option<(FlightNumber, u64)>,
    /// A time at which that fire had not begun yet.
    pub(super) quiet_at: u64,
}

/// Threads that wait for room are woken when a drain gives back a ring's first chunk, after each further `TURN_CHUNKS` chunks, and at the
/// end of the drain. A thread that is woken for every chunk fills it and sleeps again at once. A thread that is woken only for many chunks
/// sleeps as long as a slow file takes.
const TURN_CHUNKS: u32 = QUOTA / 2;

impl Drained {
    /// Counts a drained chunk. Returns whether the threads that wait for room must be woken.
    pub(super) fn gets_back_a_chunk(&mut self) -> bool {
        self.chunks += 1;
        self.chunks % TURN_CHUNKS == 1
    }
}

/// The limit up to which a ring may map memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    Quota,
    BeyondQuota,
}

const _: () = assert!(std::mem::offset_of!(Ring, drained) >= 192 && std::mem::offset_of!(Ring, stream) == 64);

impl Ring {
    pub(super) const fn new(quota: u32) -> Ring {
        Ring {
            flight: Flight::new(),
            quota,
            chunks: AtomicU32::new(0),
            fired: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            announced: AtomicU64::new(0),
            stream: stream::Stream::new(),
            drained: UnsafeCell::new(Drained { last: 0, chunks: 0, lost_told: 0, stuck: None, quiet_at: 0 }),
        }
    }

    /// Returns the drain's own state for this ring.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the proof is borrowed exclusively")]
    pub(super) fn drained<'a>(&'a self, _draining: &'a mut Draining) -> &'a mut Drained {
        // SAFETY: there is one proof, and it is borrowed exclusively as long as the reference lives.
        unsafe { &mut *self.drained.get() }
    }

    /// Increments a counter that only this thread writes.
    #[inline(always)]
    pub(super) fn count(counter: &AtomicU64) {
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Returns a chunk to continue in: one that was given back, or a new one.
    ///
    /// # Safety
    /// For the ring's own thread.
    pub(super) unsafe fn chunk(&self, growth: Growth) -> Option<NonNull<Chunk>> {
        // SAFETY: the ring's own thread is its producer.
        if let Some(chunk) = unsafe { self.stream.take_back() } {
            return Some(chunk);
        }
        let allowed = match growth {
            Growth::Quota => {
                let chunks = self.chunks.load(Ordering::Relaxed);
                chunks < FEW || (chunks < self.quota && bytes() < PLENTY_BYTES)
            }
            Growth::BeyondQuota => bytes() + CHUNK_BYTES <= MOST_BYTES,
        };
        if !allowed {
            return None;
        }
        let chunk = NonNull::new(map_anonymous(CHUNK_BYTES).ok()?)?.cast();
        BYTES.fetch_add(CHUNK_BYTES, Ordering::Relaxed);
        self.chunks.fetch_add(1, Ordering::Relaxed);
        Some(chunk)
    }

    /// Returns whether the ring has grown beyond its quota, because its thread could not wait.
    pub(super) fn is_beyond_quota(&self) -> bool {
        self.chunks.load(Ordering::Relaxed) > self.quota
    }

    /// Returns a drained chunk to the ring's thread, or to the system if the ring has too many chunks.
    ///
    /// # Safety
    /// The caller is the only drain, and the chunk came from this ring.
    pub(super) unsafe fn recycle(&self, chunk: NonNull<Chunk>) {
        let chunks = self.chunks.load(Ordering::Relaxed);
        // The rings of ended threads keep their chunks. Many such rings must not leave the stopped world without room, hence the limits.
        if chunks <= FEW || (chunks <= self.quota && bytes() < PLENTY_BYTES) {
            // SAFETY: by the caller's promise.
            unsafe { self.stream.give_back(chunk) };
            return;
        }
        self.chunks.fetch_sub(1, Ordering::Relaxed);
        BYTES.fetch_sub(CHUNK_BYTES, Ordering::Relaxed);
        // SAFETY: it was mapped in `chunk`, and is not in use any more: the drain is past it, and the thread is in a later chunk.
        unsafe { unmap(chunk.as_ptr().cast(), CHUNK_BYTES) };
    }
}

/// The ownership of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    /// A thread is claiming the rings; or, in the child of a fork, they are retired for ever.
    Between = 0,
    /// The rings belong to a thread.
    Taken = 1,
    /// The rings' thread has released them or has ended, and they are not drained yet.
    Left = 2,
    /// The rings are free for a thread to claim.
    Free = 3,
}

const fn owner(tid: u32, state: State) -> u64 {
    (tid as u64) << 8 | state as u64
}

/// A thread's two rings.
#[repr(C)]
pub(super) struct ThreadRings {
    pub(super) main: Ring,
    pub(super) nested: Ring,
    /// The thread's id and the state, in one word: a drain that finds the thread dead must not take the rings from their next owner.
    owner: AtomicU64,
    index: AtomicU32,
    /// The next rings on the list. Never changes once these are on the list.
    next: AtomicPtr<ThreadRings>,
}

// SAFETY: the contracts of the streams and of `drained` say which thread accesses what; everything else is atomic.
unsafe impl Sync for ThreadRings {}

static LIST: AtomicPtr<ThreadRings> = AtomicPtr::new(ptr::null_mut());
static COUNT: AtomicU32 = AtomicU32::new(0);
static NEXT_INDEX: AtomicU32 = AtomicU32::new(0);

struct Here {
    rings: Cell<*const ThreadRings>,
    /// The thread's index plus one; 0 before it has one.
    number: Cell<u32>,
    /// The nesting depth of no-wait sections: see [`nest_no_wait`].
    no_wait_depth: Cell<u32>,
}

thread_local! {
    static HERE: Here = const { Here { rings: Cell::new(ptr::null()), number: Cell::new(0), no_wait_depth: Cell::new(0) } };
}

/// Returns the calling thread's rings, if it has them.
#[inline(always)]
pub(super) fn own() -> Option<&'static ThreadRings> {
    // SAFETY: null or rings of the list, never unmapped.
    HERE.with(|here| unsafe { here.rings.get().as_ref() })
}

/// Touches the calling thread's thread-local word, so that memory which its first use may need is allocated now.
pub(crate) fn allocate_thread_local() {
    HERE.with(|here| std::hint::black_box(here.rings.get()));
}

/// Whether the calling thread is in a no-wait section.
pub(super) fn is_in_no_wait_section() -> bool {
    HERE.with(|here| here.no_wait_depth.get() > 0)
}

/// Begins (`by` is 1) or ends (-1) a no-wait section of the calling thread.
pub(super) fn nest_no_wait(by: i32) {
    HERE.with(|here| here.no_wait_depth.set(here.no_wait_depth.get().saturating_add_signed(by)));
}

/// Releases the calling thread's rings, because the thread may end now. If it fires again, it gets other rings.
pub(crate) fn leave() {
    let rings = HERE.with(|here| here.rings.replace(ptr::null()));
    // SAFETY: as in `own`.
    if let Some(rings) = unsafe { rings.as_ref() } {
        // Release: pairs with the acquire in `is`, so that the drain sees the last record.
        rings.owner.store(owner(rings.tid(), State::Left), Ordering::Release);
    }
}

/// Returns the calling thread's rings, or new ones if it has none. `None` if there is no memory. Legal everywhere.
pub(super) fn own_or_new() -> Option<&'static ThreadRings> {
    if let Some(rings) = own() {
        return Some(rings);
    }
    let tid = thread::gettid().0 as u32;
    let index = HERE.with(|here| {
        if here.number.get() == 0 {
            here.number.set(NEXT_INDEX.fetch_add(1, Ordering::Relaxed) + 1);
        }
        here.number.get() - 1
    });
    let rings = take_free().or_else(map_new)?;
    // Other rings with this id belong to a thread that has ended without releasing them, and whose id the kernel has reused.
    all().for_each(|others| others.abandon(tid));
    rings.index.store(index, Ordering::Relaxed);
    // Release: pairs with the acquire in `is`.
    rings.owner.store(owner(tid, State::Taken), Ordering::Release);
    HERE.with(|here| here.rings.set(rings));
    Some(rings)
}

fn take_free() -> Option<&'static ThreadRings> {
    all().find(|rings| {
        // Acquire: pairs with the release of `free`.
        let (free, mine) = (owner(0, State::Free), owner(0, State::Between));
        rings.owner.compare_exchange(free, mine, Ordering::Acquire, Ordering::Relaxed).is_ok()
    })
}

fn map_new() -> Option<&'static ThreadRings> {
    let place = NonNull::new(map_anonymous(size_of::<ThreadRings>()).ok()?)?.cast::<ThreadRings>();
    // SAFETY: fresh memory of this size, page-aligned.
    unsafe {
        place.write(ThreadRings {
            main: Ring::new(QUOTA),
            nested: Ring::new(NESTED_QUOTA),
            owner: AtomicU64::new(owner(0, State::Between)),
            index: AtomicU32::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
        });
    }
    // SAFETY: they were written above and are never unmapped.
    let rings: &'static ThreadRings = unsafe { place.as_ref() };
    let mut first = LIST.load(Ordering::Relaxed);
    loop {
        rings.next.store(first, Ordering::Relaxed);
        // Release: pairs with the acquire of `all`.
        match LIST.compare_exchange_weak(first, place.as_ptr(), Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => first = now,
        }
    }
    COUNT.fetch_add(1, Ordering::Relaxed);
    Some(rings)
}

/// Returns the rings of all threads.
pub(super) fn all() -> impl Iterator<Item = &'static ThreadRings> {
    // Acquire: pairs with the release of `map_new`. Nothing is ever removed from the list, so the later links are visible too.
    let mut next = LIST.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: null or rings of the list, never unmapped.
        let rings = unsafe { next.as_ref() }?;
        next = rings.next.load(Ordering::Relaxed);
        Some(rings)
    })
}

/// Returns the maximum number of rings: two for each entry of the list.
pub(super) fn count() -> usize {
    2 * COUNT.load(Ordering::Relaxed) as usize
}

impl ThreadRings {
    pub(super) fn thread(&self) -> RecordingThread {
        RecordingThread { tid: self.tid(), index: self.index.load(Ordering::Relaxed) }
    }

    pub(super) fn tid(&self) -> u32 {
        (self.owner.load(Ordering::Relaxed) >> 8) as u32
    }

    fn is(&self, state: State) -> bool {
        // Acquire: pairs with the release of `own_or_new`, and with that of `leave`, so that the next drain sees the
        // last record.
        self.owner.load(Ordering::Acquire) & 0xff == state as u64
    }

    pub(super) fn both(&self) -> [&Ring; 2] {
        [&self.main, &self.nested]
    }

    /// Returns whether the rings may contain records.
    pub(super) fn are_in_use(&self) -> bool {
        self.is(State::Taken) || self.is(State::Left)
    }

    /// Returns whether the rings' thread has released them or has ended.
    pub(super) fn are_left(&self) -> bool {
        self.is(State::Left)
    }

    /// Frees the rings for another thread. Called when a drain has taken out all records after the rings' thread released them.
    pub(super) fn free(&self) {
        // Release: pairs with the acquire of `take_free`.
        self.owner.store(owner(0, State::Free), Ordering::Release);
    }

    /// Checks whether the rings' thread still exists, if it has not released them. If it has ended, marks the rings as
    /// [`Left`](State::Left).
    pub(super) fn probe(&self) {
        let tid = self.tid();
        if self.is(State::Taken) && !thread::is_alive(Tid(tid as i32)) {
            self.abandon(tid);
        }
    }

    /// Marks the rings as [`Left`](State::Left) if they belong to the thread with this id, which does not exist any more.
    fn abandon(&self, tid: u32) {
        let (taken, left) = (owner(tid, State::Taken), owner(tid, State::Left));
        // Release: as in `leave`; a thread that is gone has published everything.
        let _ = self.owner.compare_exchange(taken, left, Ordering::Release, Ordering::Relaxed);
    }
}

/// In the child of a fork: the calling thread's rings get its new id. The other rings belong to threads that do
/// not exist here; they may be in the middle of a change, and are never used again.
pub(super) fn after_fork_in_child() {
    let own = own().map_or(ptr::null(), ptr::from_ref);
    for rings in all() {
        if ptr::eq(rings, own) {
            rings.owner.store(owner(thread::gettid().0 as u32, State::Taken), Ordering::Relaxed);
        } else {
            rings.owner.store(owner(0, State::Between), Ordering::Relaxed);
            rings.both().into_iter().for_each(|ring| ring.flight.forget());
        }
    }
}
