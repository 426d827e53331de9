//! The queue between the drain and the thread that calls a host: a single-producer, single-consumer queue.
//!
//! It is a ring of words in mapped memory, like the flight recorder, but its oldest entries are not overwritten: if it is full, the
//! producer waits for a limited time, or drops the event and counts it. The producer allocates nothing and takes no lock.
//!
//! ```text
//!   ticks │ tid, index │ length, world, event │ fields …        an event
//!   ticks │ tid, index │ length, 0, LOST      │ count           `count` events are missing here
//! ```

use std::cell::Cell;
use std::io;
use std::ptr::NonNull;

use super::options::{HostOptions, HostTotals};
use crate::events::record::{Recorded, RecordingThread, WorldNumber};
use crate::events::table::{EventId, PAYLOAD_WORDS};
use crate::os::clock::now_ns;
use crate::os::memory::{map_anonymous, unmap};
use crate::os::thread::sleep_ns;
use crate::sabotage::{Guard, removed};
use crate::sync::notify::Notify;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

const HEAD_WORDS: usize = 3;
/// Replaces the event's number in an entry that reports lost events.
const LOST: u64 = 0xff;

const _: () = assert!(EventId::COUNT <= LOST as usize);

/// The serving thread is woken at the latest when this many words have been added.
const WAKE_WORDS: u64 = 8 << 10;
/// The serving thread wakes at the latest after this time.
const SLEEP_NS: u64 = 100_000_000;
/// The interval at which the producer checks for room while it waits.
const LOOK_NS: u64 = 50_000;

/// An entry of the queue.
pub(super) enum Entry {
    Event(Recorded),
    Lost(u64),
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    /// Events may still be added.
    Open,
    /// No more events will be added.
    Closed,
    /// The host panicked.
    Failed,
    /// The thread has delivered everything.
    Over,
}

/// The state that only the producer accesses.
#[derive(Debug, Default)]
struct Filling {
    /// The end of the queue when the thread was last woken.
    woken: Cell<u64>,
    /// The number of events that were dropped and not yet reported to the host.
    untold: Cell<u64>,
    /// The read position at which the producer last gave up waiting for the host.
    stuck_at: Cell<Option<u64>>,
}

/// The queue, as the module documentation describes it.
#[derive(Debug)]
pub(super) struct Queue {
    words: NonNull<u64>,
    capacity: u64,
    patience_ns: u64,
    written: AtomicU64,
    read: AtomicU64,
    taken: AtomicU64,
    delivered: AtomicU64,
    lost: AtomicU64,
    state: AtomicU32,
    wakeup: Notify,
    /// The thread that calls the host, 0 before it runs.
    pub(super) server: AtomicU32,
    filling: Filling,
}

// SAFETY: words below `written` belong to the consumer, the others to the producer. There is one of each (the contract of `put` and
// `first`). `filling` belongs to the producer. Everything else is atomic.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    pub(super) fn new(options: HostOptions) -> io::Result<Queue> {
        let capacity = (options.queue_bytes / 8).max(64 * (HEAD_WORDS + PAYLOAD_WORDS)).next_power_of_two();
        let words = NonNull::new(map_anonymous(capacity * 8)?).ok_or(io::ErrorKind::AddrNotAvailable)?.cast();
        Ok(Queue {
            words,
            capacity: capacity as u64,
            patience_ns: options.patience.as_nanos().min(u128::from(u64::MAX)) as u64,
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            state: AtomicU32::new(State::Open as u32),
            wakeup: Notify::new(),
            server: AtomicU32::new(0),
            filling: Filling::default(),
        })
    }

    fn slot(&self, position: u64) -> *mut u64 {
        // SAFETY: the capacity is a power of two, so the remainder is inside the mapping.
        unsafe { self.words.as_ptr().add((position & (self.capacity - 1)) as usize) }
    }

    /// Adds an entry, or drops and counts it.
    ///
    /// # Safety
    /// No other thread is the producer at the same time.
    #[inline]
    pub(super) unsafe fn put(
        &self,
        ticks: u64,
        thread: RecordingThread,
        world: WorldNumber,
        id: Option<EventId>,
        fields: &[u64],
    ) {
        if id.is_some() {
            add(&self.taken, 1);
        }
        if self.filling.untold.get() > 0 {
            // SAFETY: the caller's promise.
            unsafe { self.report_loss() };
        }
        if self.filling.untold.get() > 0 || !self.has_room(HEAD_WORDS + fields.len()) {
            return match id {
                Some(_) => self.drop_events(1, 1),
                // These events were lost before they reached the queue, and are not counted as taken.
                None => self.drop_events(0, fields[0]),
            };
        }
        self.write(ticks, thread, u64::from(world.0) << 8 | id.map_or(LOST, |id| id as u64), fields);
    }

    fn drop_events(&self, of_taken: u64, untold: u64) {
        add(&self.lost, of_taken);
        self.filling.untold.set(self.filling.untold.get() + untold);
    }

    /// Adds an entry with the number of dropped events, if there are any and there is room.
    ///
    /// # Safety
    /// No other thread is the producer at the same time.
    pub(super) unsafe fn report_loss(&self) {
        let count = self.filling.untold.get();
        if count > 0 && self.free() >= (HEAD_WORDS + 1) as u64 {
            self.filling.untold.set(0);
            self.write(0, RecordingThread { tid: 0, index: 0 }, LOST, &[count]);
        }
    }

    #[inline]
    fn write(&self, ticks: u64, thread: RecordingThread, what: u64, fields: &[u64]) {
        let position = self.written.load(Ordering::Relaxed);
        let head = [ticks, u64::from(thread.tid) << 32 | u64::from(thread.index), (fields.len() as u64) << 32 | what];
        for (offset, word) in (0..).zip(head.iter().chain(fields)) {
            // SAFETY: there is room, so the slot belongs to the producer.
            unsafe { self.slot(position + offset).write(*word) };
        }
        let end = position + (HEAD_WORDS + fields.len()) as u64;
        // Release: pairs with the acquire of `first`.
        self.written.store(end, Ordering::Release);
        if end - self.filling.woken.get() >= WAKE_WORDS {
            self.wake();
        }
    }

    fn free(&self) -> u64 {
        // Acquire: pairs with the release of `advance`: the free words have been read.
        self.capacity - (self.written.load(Ordering::Relaxed) - self.read.load(Ordering::Acquire))
    }

    #[inline]
    fn has_room(&self, words: usize) -> bool {
        self.free() >= words as u64 || self.wait_for_room(words as u64)
    }

    /// Waits for room: without a limit as long as the host takes entries, and otherwise for the configured patience (`.host.bounded`).
    #[cold]
    #[inline(never)]
    fn wait_for_room(&self, words: u64) -> bool {
        let mut seen = self.read();
        if self.state() != State::Open || self.filling.stuck_at.get() == Some(seen) {
            return false;
        }
        self.filling.stuck_at.set(None);
        self.wake();
        let mut since = now_ns();
        while self.state() == State::Open {
            if self.free() >= words {
                return true;
            }
            let (now, read) = (now_ns(), self.read());
            if read != seen {
                (seen, since) = (read, now);
            } else if now - since >= self.patience_ns && !removed(Guard::HostBounded) {
                self.filling.stuck_at.set(Some(seen));
                return false;
            }
            sleep_ns(LOOK_NS);
        }
        false
    }

    /// Returns the oldest entry, and the position to pass to [`advance`](Self::advance) after the entry was delivered.
    ///
    /// # Safety
    /// No other thread is the consumer at the same time.
    pub(super) unsafe fn first(&self) -> Option<(Entry, u64)> {
        let position = self.read.load(Ordering::Relaxed);
        // Acquire: pairs with the release of `write`.
        if position == self.written.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the entry is written, and is not overwritten before `read` has moved past it.
        let get = |offset: usize| unsafe { self.slot(position + offset as u64).read() };
        let (threads, what) = (get(1), get(2));
        let length = (what >> 32) as usize;
        let mut fields = [0; PAYLOAD_WORDS];
        fields.iter_mut().take(length).enumerate().for_each(|(index, word)| *word = get(HEAD_WORDS + index));
        let entry = match EventId::from_index((what & 0xff) as usize) {
            None => Entry::Lost(fields[0]),
            Some(id) => {
                let thread = RecordingThread { tid: (threads >> 32) as u32, index: threads as u32 };
                Entry::Event(Recorded::new(id, get(0), thread, WorldNumber((what >> 8) as u16), &fields[..length]))
            }
        };
        Some((entry, position + (HEAD_WORDS + length) as u64))
    }

    /// Marks everything before this position as delivered. It is called after the host has returned, so a thread that waits for `read` also
    /// waits for that return.
    pub(super) fn advance(&self, next: u64) {
        // Release: pairs with the acquire of `free`.
        self.read.store(next, Ordering::Release);
    }

    pub(super) fn count_delivered(&self) {
        add(&self.delivered, 1);
    }

    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Wakes the thread that calls the host.
    pub(super) fn wake(&self) {
        self.filling.woken.set(self.written());
        self.wakeup.notify();
    }

    /// Sleeps until there may be an entry. Called by the thread that calls the host.
    pub(super) fn sleep(&self) {
        self.wakeup.wait(Some(SLEEP_NS));
    }

    pub(super) fn state(&self) -> State {
        // Acquire: pairs with the release of `enter`: entries that were added before the end are visible.
        match self.state.load(Ordering::Acquire) {
            0 => State::Open,
            1 => State::Closed,
            2 => State::Failed,
            _ => State::Over,
        }
    }

    fn enter(&self, state: State) {
        // Release: pairs with the acquire of `state`.
        self.state.store(state as u32, Ordering::Release);
    }

    /// Marks the end: no more events will be added.
    pub(super) fn close(&self) {
        let (open, closed) = (State::Open as u32, State::Closed as u32);
        // Release: pairs with the acquire of `state`.
        if self.state.compare_exchange(open, closed, Ordering::Release, Ordering::Relaxed).is_ok() {
            self.wakeup.notify();
        }
    }

    /// Marks that the host has panicked: events that were not delivered are lost.
    pub(super) fn fail(&self) {
        self.enter(State::Failed);
    }

    /// Marks that the thread that calls the host is about to end.
    pub(super) fn over(&self) {
        if self.state() == State::Closed {
            self.enter(State::Over);
        }
    }

    pub(super) fn totals(&self) -> HostTotals {
        let taken = self.taken.load(Ordering::Relaxed);
        let delivered = self.delivered.load(Ordering::Relaxed);
        let lost = if self.state() == State::Failed { taken - delivered } else { self.lost.load(Ordering::Relaxed) };
        HostTotals { taken, delivered, lost }
    }
}

/// Adds to a number that only one thread changes.
fn add(number: &AtomicU64, count: u64) {
    number.store(number.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size.
        unsafe { unmap(self.words.as_ptr().cast(), self.capacity as usize * 8) };
    }
}
