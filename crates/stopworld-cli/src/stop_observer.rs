//! `--stops`: what each thread does in each stop.
//!
//! A [`StopObserver`] is a vtable around the one that stops the threads. After each stop it reads the records of the threads, in the
//! stopped world, where nothing may be allocated and no lock be taken. So it writes what it reads to a [`Queue`] of a fixed size. The
//! [`StopLog`] empties the queue after each collection, when the world runs again.
//!
//! ```text
//!   collecting thread, in the stop              any thread, after a collection
//!   stop_world ─> read the records ─> Queue ─────────────> StopLog ─> Stops, the report
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use stopworld::{
    AtFork, AtInstall, AtPhase, AtSwap, ByHandshake, DebuggerClient, RevocableStop, Slot, StopError, StopRequest,
    ThreadName, ThreadStopInfo, ThreadVtable, Tid,
};
use stopworld_analysis::report::stops::{Activity, StopReport, Stops, ThreadStop};
use stopworld_platform::sync::{AtomicU64, AtomicUsize, Ordering};

/// The number of observations that the queue holds. A stop makes one for each thread of the world.
const ROOM: usize = 16 << 10;
/// The words of an observation: the stop, the activity, the time, and the bytes of the name.
const WORDS: usize = 3 + NAME_WORDS;
/// A name has at most 31 bytes, and the bytes after its end are 0.
const NAME_WORDS: usize = 4;

/// A vtable that passes every call on to another one, and observes the stops.
pub(super) struct StopObserver {
    inner: Arc<dyn ThreadVtable>,
    log: Arc<StopLog>,
}

impl StopObserver {
    /// Makes the observer of the stops of this vtable.
    pub(super) fn around(inner: Arc<dyn ThreadVtable>, log: Arc<StopLog>) -> Arc<StopObserver> {
        Arc::new(StopObserver { inner, log })
    }
}

// SAFETY: `inner`, which keeps the contract, does everything. The observer reads records of threads, which are atomics, and writes to
// the queue, which neither allocates nor waits.
unsafe impl ThreadVtable for StopObserver {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        self.inner.stop_world(stop)?;
        let queue = &self.log.queue;
        for thread in stop.threads() {
            let (activity, ns) = observe(thread, stop.requested_at());
            queue.push(&ThreadStop { stop: stop.epoch(), name: thread.name(), activity, ns });
        }
        if let Some(thread) = stop.collecting() {
            queue.push(&ThreadStop { stop: stop.epoch(), name: thread.name(), activity: Activity::Collecting, ns: 0 });
        }
        Ok(())
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        self.inner.start_world(stop);
    }

    fn thread_created(&self, tid: Tid, slot: Slot) {
        self.inner.thread_created(tid, slot);
    }

    fn thread_exited(&self, tid: Tid, slot: Slot) {
        self.inner.thread_exited(tid, slot);
    }

    fn revocable_stop(&self) -> Option<&dyn RevocableStop> {
        self.inner.revocable_stop()
    }

    fn by_handshake(&self) -> Option<&dyn ByHandshake> {
        self.inner.by_handshake()
    }

    fn at_install(&self) -> Option<&dyn AtInstall> {
        self.inner.at_install()
    }

    fn at_swap(&self) -> Option<&dyn AtSwap> {
        self.inner.at_swap()
    }

    fn at_phase(&self) -> Option<&dyn AtPhase> {
        self.inner.at_phase()
    }

    fn debugger_client(&self) -> Option<&dyn DebuggerClient> {
        self.inner.debugger_client()
    }

    fn at_fork(&self) -> Option<&dyn AtFork> {
        self.inner.at_fork()
    }
}

/// Returns what a stopped thread was doing at the request of the stop, and how long it took to stop.
fn observe(thread: &ThreadStopInfo, requested: u64) -> (Activity, u64) {
    // A thread notes the time when it stops for a request. If it was stopped already, the time is that of an earlier stop.
    let stopped = thread.stopped_at().checked_sub(requested);
    match (stopped, thread.is_blocking()) {
        (Some(ns), false) => (Activity::Running, ns),
        (Some(ns), true) => (Activity::Entering, ns),
        (None, true) => (Activity::InRegion, 0),
        (None, false) => (Activity::Suspended, 0),
    }
}

/// The observations of a run.
pub(super) struct StopLog {
    queue: Queue,
    stops: Mutex<Stops>,
}

impl StopLog {
    /// Makes an empty log.
    pub(super) fn new() -> Arc<StopLog> {
        Arc::new(StopLog { queue: Queue::new(), stops: Mutex::default() })
    }

    /// Takes the observations from the queue. Not for the stopped world.
    pub(super) fn take(&self) {
        self.update(|_| ());
    }

    /// Returns the report of all stops so far.
    pub(super) fn report(&self) -> StopReport {
        self.update(Stops::report)
    }

    fn update<R>(&self, then: impl FnOnce(&mut Stops) -> R) -> R {
        // A panic under the lock leaves a log that at worst omits one observation.
        let mut stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(thread) = self.queue.pop() {
            stops.add(&thread);
        }
        stops.add_omitted(self.queue.omitted.swap(0, Ordering::Relaxed));
        then(&mut stops)
    }
}

/// A queue of a fixed size. One thread at a time pushes: the one that collects. One thread at a time pops: the one that holds the lock of
/// the log. Neither waits for the other: if there is no room, observations are counted instead.
struct Queue {
    slots: Box<[[AtomicU64; WORDS]]>,
    /// The number of observations ever pushed.
    pushed: AtomicUsize,
    /// The number of observations ever popped.
    popped: AtomicUsize,
    omitted: AtomicU64,
}

impl Queue {
    fn new() -> Queue {
        Queue {
            slots: (0..ROOM).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect(),
            pushed: AtomicUsize::new(0),
            popped: AtomicUsize::new(0),
            omitted: AtomicU64::new(0),
        }
    }

    /// Adds an observation. Allocates nothing, takes no lock, never waits.
    fn push(&self, thread: &ThreadStop) {
        let pushed = self.pushed.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `pop`: the slot has been read.
        if pushed.wrapping_sub(self.popped.load(Ordering::Acquire)) >= ROOM {
            self.omitted.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut name = [0; NAME_WORDS * 8];
        let text = thread.name.as_str().as_bytes();
        name[..text.len()].copy_from_slice(text);
        let (name, _) = name.as_chunks::<8>();
        let words = [thread.stop, thread.activity as u64, thread.ns]
            .into_iter()
            .chain(name.iter().map(|word| u64::from_le_bytes(*word)));
        for (slot, word) in self.slots[pushed % ROOM].iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `pop`: the slot is written.
        self.pushed.store(pushed.wrapping_add(1), Ordering::Release);
    }

    /// Takes the oldest observation.
    fn pop(&self) -> Option<ThreadStop> {
        let popped = self.popped.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `push`: the slot is written.
        if self.pushed.load(Ordering::Acquire) == popped {
            return None;
        }
        let words = self.slots[popped % ROOM].each_ref().map(|word| word.load(Ordering::Relaxed));
        // Release: pairs with the Acquire in `push`: the slot has been read.
        self.popped.store(popped.wrapping_add(1), Ordering::Release);
        let [stop, activity, ns, name @ ..] = words;
        let name: Vec<u8> = name.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
        let name = ThreadName::new(&String::from_utf8_lossy(&name));
        let activity = Activity::ALL[activity as usize % Activity::ALL.len()];
        Some(ThreadStop { stop, name, activity, ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(stop: u64) -> ThreadStop {
        let activity = Activity::ALL[stop as usize % Activity::ALL.len()];
        ThreadStop { stop, name: ThreadName::new("a name of exactly 31 bytes, yes"), activity, ns: stop * 7 }
    }

    #[test]
    fn a_queue_gives_what_it_got_in_order() {
        let queue = Queue::new();
        let mut next = 0;
        for round in 1..=5 {
            (0..ROOM as u64 / 2 + round).for_each(|n| queue.push(&observation(next + n)));
            for n in 0..ROOM as u64 / 2 + round {
                assert_eq!(queue.pop(), Some(observation(next + n)));
            }
            assert_eq!(queue.pop(), None);
            next += ROOM as u64 / 2 + round;
        }
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let log = StopLog::new();
        (0..ROOM as u64 + 3).for_each(|n| log.queue.push(&observation(n)));
        let report = log.report();
        assert_eq!((report.count, report.omitted), (ROOM as u64, 3));
        log.queue.push(&observation(1 << 40));
        let report = log.report();
        assert_eq!((report.count, report.omitted), (ROOM as u64 + 1, 3));
    }
}
