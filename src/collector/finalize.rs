//! Finalizers: code that runs after an object was found dead.
//!
//! Two kinds are registered in one table: a *call* (`set_finalizer`: a closure that gets the object back and may
//! resurrect it) and a *drop* (an object whose type has drop glue; such types hold no references). A collection
//! sorts the table out after marking and clearing weak references:
//!
//! 1. Objects with a call that are not marked are put into the ready queue, in the order of registration. They are marked
//!    with everything that they reach: their finalizers see whole objects.
//! 2. Then objects with a drop that are *still* not marked are put into the queue. Nothing refers to them, not even an object that
//!    waits for its call, so no code can reach a dropped value (`.final.order`).
//!
//! One thread of the world, named `finalizer`, works off the queue. It is a mutator like any other: its finalizers may
//! allocate, block, and be stopped. A panic in one is caught, counted and reported; the next one runs (`.final.thread`). A
//! finalizer runs at most once for each registration.
//!
//! The tables are mapped memory, changed under their lock. The collecting thread takes that lock before the stop. A debugger's
//! query reads the ready queue while a thread may be stopped in the middle of a change. So the queue's bounds are atomic, and
//! each change is ordered such that a query finds every entry of the queue, perhaps twice.

use std::io;
use std::ops::Range;
use std::time::Duration;

use crate::heap::ranges::InRanges;
use crate::heap::trace::TypeInfo;
use crate::heap::window::window;
use crate::os::clock::now_ns;
use crate::os::memory::Reservation;
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Guarded, Lock, LockGuard, Ordering, Ordering::Relaxed,
    compiler_fence,
};

/// The action for a dead object.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    /// Runs the type's drop glue.
    Drop(unsafe fn(*mut u8)),
    /// Calls the typed function at the given address, through a trampoline that was compiled for the function's type.
    Call {
        trampoline: Trampoline,
        /// The closure that was registered, boxed.
        closure: *mut (),
    },
}

/// Takes a closure out of its box, and calls it with a mutator and the payload of an object, or just drops it.
pub(crate) type Trampoline = unsafe fn(closure: *mut (), call: Option<(*const (), usize)>);

impl Action {
    /// Drops the closure of a call without calling it.
    ///
    /// # Safety
    /// The action is in no table any more, and is not used again.
    pub(crate) unsafe fn discard(self) {
        if let Self::Call { trampoline, closure } = self {
            // SAFETY: the trampoline was made for this closure, which is used once, by the caller's promise.
            unsafe { trampoline(closure, None) };
        }
    }
}

/// A registration.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The payload address of the object.
    pub(crate) object: usize,
    pub(crate) action: Action,
}

/// The range of the table that contains every registration of an unmarked object. Valid until the table changes otherwise than by the
/// functions that queue such objects.
pub(crate) struct UnmarkedRange {
    among: Range<usize>,
}

/// How many registrations a thread looks at before it takes others: for some 10 µs.
const ENTRIES_AT_ONCE: usize = 2048;

/// A queue of entries in mapped memory. Only the thread that has the lock changes it.
struct Queue {
    memory: Reservation,
    capacity: usize,
    first: AtomicUsize,
    end: AtomicUsize,
}

impl Queue {
    fn new(capacity: usize) -> io::Result<Self> {
        let memory = Reservation::new(capacity * size_of::<Entry>(), 4096)?;
        memory.commit(0, memory.len())?;
        Ok(Self { memory, capacity, first: AtomicUsize::new(0), end: AtomicUsize::new(0) })
    }

    fn first(&self) -> usize {
        self.first.load(Relaxed)
    }

    fn end(&self) -> usize {
        self.end.load(Relaxed)
    }

    fn len(&self) -> usize {
        self.end() - self.first()
    }

    fn at(&self, index: usize) -> *mut Entry {
        assert!(index < self.capacity);
        // SAFETY: in bounds of the committed mapping.
        unsafe { self.memory.base().cast::<Entry>().add(index) }
    }

    fn push(&self, entry: Entry) -> bool {
        if self.end() == self.capacity {
            if self.first() == 0 {
                return false;
            }
            self.move_to_the_front();
        }
        let end = self.end();
        // SAFETY: `end < capacity`.
        unsafe { self.at(end).write(entry) };
        compiler_fence(Ordering::SeqCst);
        window();
        self.end.store(end + 1, Relaxed);
        true
    }

    /// Moves the entries to the front of the queue, one after the other, from the first on. So at any moment each entry is at its old
    /// place or at its new place.
    fn move_to_the_front(&self) {
        let (first, end) = (self.first(), self.end());
        self.first.store(0, Relaxed);
        for index in first..end {
            compiler_fence(Ordering::SeqCst);
            window();
            // SAFETY: in the mapping, written by `push`. Volatile: otherwise the compiler could make it one copy of all, in any
            // order.
            unsafe { self.at(index - first).write_volatile(self.at(index).read_volatile()) };
        }
        compiler_fence(Ordering::SeqCst);
        window();
        self.end.store(end - first, Relaxed);
        window();
    }

    fn pop(&self) -> Option<Entry> {
        let (first, end) = (self.first(), self.end());
        if first == end {
            // The queue is also empty after the first of these two stores.
            self.end.store(0, Relaxed);
            compiler_fence(Ordering::SeqCst);
            self.first.store(0, Relaxed);
            return None;
        }
        // SAFETY: written by `push`.
        let entry = unsafe { self.at(first).read() };
        self.first.store(first + 1, Relaxed);
        compiler_fence(Ordering::SeqCst);
        window();
        // `move_to_the_front` exposes this entry again for a moment; with object 0 it is ignored.
        // SAFETY: as above.
        unsafe { (&raw mut (*self.at(first)).object).write_volatile(0) };
        Some(entry)
    }

    /// Returns the object of the entry at this index, which lies between `first` and `end`.
    #[inline]
    fn object(&self, index: usize) -> usize {
        // SAFETY: in the mapping, and written by `push`.
        unsafe { (*self.at(index)).object }
    }

    fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        // SAFETY: entries from `first` to `end` were written by `push`.
        (self.first()..self.end()).map(|index| unsafe { self.at(index).read() })
    }

    /// Removes those entries among `within` for which `take` returns true, and keeps the order of the others. Returns the number of removed ones.
    fn extract(&self, within: Range<usize>, mut take: impl FnMut(Entry) -> bool) -> usize {
        let end = self.end();
        assert!(self.first() <= within.start && within.end <= end);
        let mut kept = within.start;
        for index in within.clone() {
            // SAFETY: as in `iter`; `kept <= index`.
            unsafe {
                let entry = self.at(index).read();
                if !take(entry) {
                    if kept != index {
                        self.at(kept).write(entry);
                    }
                    kept += 1;
                }
            }
        }
        let removed = within.end - kept;
        if removed > 0 {
            // SAFETY: both places are in the mapping, with the entries from `within.end` to `end`.
            unsafe { self.at(kept).copy_from(self.memory.base().cast::<Entry>().add(within.end), end - within.end) };
            self.end.store(end - removed, Relaxed);
        }
        removed
    }
}

/// The two queues. Only shared references to them exist, so that a debugger's query may have one too.
struct Tables {
    registered: Queue,
    ready: Queue,
}

/// One world's finalizers.
pub(crate) struct Finalizers {
    pub(crate) lock: Lock,
    /// The size of each queue.
    capacity: usize,
    /// Guarded by `lock`.
    tables: Guarded<Tables>,
    /// Incremented when a finalizer becomes ready or the world closes; the finalizer thread sleeps on it.
    pub(crate) news: AtomicU32,
    pub(crate) closing: AtomicBool,
    /// The number of finalizers that have run.
    pub(crate) run: AtomicU64,
    /// The number of finalizers that panicked.
    pub(crate) panicked: AtomicU64,
    /// 1 when the finalizer thread has ended or was never started.
    pub(crate) ended: AtomicU32,
    /// Whether the finalizer thread was started.
    pub(crate) started: AtomicBool,
    /// The kernel's id of the finalizer thread.
    pub(crate) thread: AtomicU32,
    /// The type of the object that is being finalized, and since when; null between finalizers.
    running_type: AtomicPtr<TypeInfo>,
    running_since: AtomicU64,
}

/// The finalizer that is running.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    /// The type of the object that is being finalized.
    pub(crate) type_name: &'static str,
    /// How long it has been running.
    pub(crate) since: Duration,
}

impl Finalizers {
    /// Creates tables for up to `capacity` registrations.
    pub(crate) fn new(capacity: usize) -> io::Result<Self> {
        Ok(Self {
            lock: Lock::new(),
            capacity,
            tables: Guarded::new(Tables { registered: Queue::new(capacity)?, ready: Queue::new(capacity)? }),
            news: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            run: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
            ended: AtomicU32::new(1),
            started: AtomicBool::new(false),
            thread: AtomicU32::new(0),
            running_type: AtomicPtr::new(std::ptr::null_mut()),
            running_since: AtomicU64::new(0),
        })
    }

    /// The tables. `held` is the guard of their lock.
    fn tables<'a>(&'a self, held: &'a LockGuard<'_>) -> &'a Tables {
        // SAFETY: always this lock.
        unsafe { self.tables.get(&self.lock, held) }
    }

    /// Records that a finalizer for an object of this type is running, until the result is dropped. Called on the finalizer
    /// thread.
    pub(crate) fn begin(&self, info: &'static TypeInfo) -> impl Drop + '_ {
        struct End<'a>(&'a Finalizers);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.running_type.store(std::ptr::null_mut(), Ordering::Relaxed);
            }
        }
        self.running_since.store(now_ns(), Ordering::Relaxed);
        // Release: pairs with the Acquire of `running`: a reader of this type sees this time or a later one.
        self.running_type.store(std::ptr::from_ref(info).cast_mut(), Ordering::Release);
        End(self)
    }

    /// The finalizer that is running now, if any.
    pub(crate) fn running(&self) -> Option<Running> {
        // Acquire: pairs with the Release of `begin`.
        let info = self.running_type.load(Ordering::Acquire);
        let since = Duration::from_nanos(now_ns().saturating_sub(self.running_since.load(Ordering::Relaxed)));
        // SAFETY: null, or from a reference that lives as long as the process.
        unsafe { info.as_ref() }.map(|info| Running { type_name: info.name(), since })
    }

    /// Returns whether the calling thread is the finalizer thread.
    #[cfg(feature = "check")]
    pub(super) fn is_own_thread(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == crate::os::thread::gettid().0 as u32
    }

    /// Called in the child of a fork, which has no finalizer thread.
    pub(crate) fn forget_thread(&self) {
        self.started.store(false, Ordering::Relaxed);
        self.thread.store(0, Ordering::Relaxed);
        self.running_type.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.ended.store(1, Ordering::Relaxed);
    }

    /// Returns the maximum number of registered finalizers.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Registers an entry. False if the table is full. `lock` takes the lock in the way that the caller needs.
    pub(crate) fn register<'a>(&'a self, entry: Entry, lock: impl FnOnce() -> LockGuard<'a>) -> bool {
        self.tables(&lock()).registered.push(entry)
    }

    /// Takes the next finalizer to run. The caller must keep the entry on its stack until the finalizer has run.
    pub(crate) fn next<'a>(&'a self, lock: impl FnOnce() -> LockGuard<'a>) -> Option<Entry> {
        self.tables(&lock()).ready.pop()
    }

    /// The number of finalizers that wait for their turn.
    pub(crate) fn due<'a>(&'a self, lock: impl FnOnce() -> LockGuard<'a>) -> u64 {
        self.tables(&lock()).ready.len() as u64
    }

    /// Visits the objects that wait for their finalizers: roots.
    pub(crate) fn for_each_ready(&self, held: &LockGuard<'_>, mut visit: impl FnMut(usize)) {
        self.tables(held).ready.iter().for_each(|entry| visit(entry.object));
    }

    /// [`for_each_ready`](Self::for_each_ready) for a debugger's query, with the addresses of the entries. The other threads
    /// may be stopped at any point; then an entry may be visited twice. It never reads beyond the table, even if the queue's
    /// bounds are damaged.
    ///
    /// # Safety
    /// Every thread of the process except the calling one is stopped.
    pub(crate) unsafe fn for_each_ready_anytime(&self, mut visit: impl FnMut(usize, usize)) {
        // SAFETY: no exclusive reference to the tables exists; what changes in them is atomic, or reached through raw pointers.
        let queue = unsafe { &self.tables.peek().ready };
        for index in queue.first()..queue.end().min(queue.capacity) {
            // SAFETY: in the mapping; every other thread is stopped, and any bytes are a valid `usize`.
            let (slot, object) = unsafe {
                let slot = &raw const (*queue.at(index)).object;
                (slot as usize, slot.read_volatile())
            };
            if object != 0 {
                visit(slot, object);
            }
        }
    }

    /// Returns where the ready queue is: the addresses of its memory, of the index of its first entry and of the index past its last, and
    /// its capacity.
    pub(crate) fn ready_addresses(&self, held: &LockGuard<'_>) -> [usize; 4] {
        let queue = &self.tables(held).ready;
        let count = |count: &AtomicUsize| std::ptr::from_ref(count) as usize;
        [queue.memory.base() as usize, count(&queue.first), count(&queue.end), queue.capacity]
    }

    /// Finds the registrations whose objects are not marked. Called after marking.
    pub(crate) fn find_unmarked(
        &self,
        held: &LockGuard<'_>,
        is_marked: impl Fn(usize) -> bool + Sync,
        in_ranges: &impl InRanges,
    ) -> UnmarkedRange {
        let registered = &self.tables(held).registered;
        let (first, end) = (AtomicUsize::new(registered.end()), AtomicUsize::new(registered.first()));
        let offset = registered.first();
        in_ranges.for_each(registered.len(), ENTRIES_AT_ONCE, &|numbers| {
            let is_unmarked = |&index: &usize| !is_marked(registered.object(index));
            let mut unmarked = (offset + numbers.start..offset + numbers.end).filter(is_unmarked);
            if let Some(lowest) = unmarked.next() {
                first.fetch_min(lowest, Relaxed);
                end.fetch_max(unmarked.last().unwrap_or(lowest) + 1, Relaxed);
            }
        });
        UnmarkedRange { among: first.into_inner()..end.into_inner() }
    }

    /// Moves unmarked objects with a call to the ready queue; `resurrect` marks each. Returns their number. Called after
    /// marking.
    pub(crate) fn queue_calls(
        &self,
        held: &LockGuard<'_>,
        unmarked: &mut UnmarkedRange,
        is_marked: impl Fn(usize) -> bool,
        resurrect: impl FnMut(usize),
    ) -> u32 {
        let is_due = |entry: Entry| matches!(entry.action, Action::Call { .. }) && !is_marked(entry.object);
        self.tables(held).queue_if(unmarked, is_due, resurrect)
    }

    /// Moves unmarked objects with a drop to the ready queue, like [`queue_calls`](Self::queue_calls). Called after all objects that are
    /// reachable from the queued calls have been marked.
    pub(crate) fn queue_drops(
        &self,
        held: &LockGuard<'_>,
        unmarked: &mut UnmarkedRange,
        is_marked: impl Fn(usize) -> bool,
        resurrect: impl FnMut(usize),
    ) -> u32 {
        let is_due = |entry: Entry| matches!(entry.action, Action::Drop(_)) && !is_marked(entry.object);
        self.tables(held).queue_if(unmarked, is_due, resurrect)
    }

    /// Takes the calls of objects that still live out of the table, when the world closes: they will never run.
    pub(crate) fn take_calls<'a>(&'a self, lock: impl FnOnce() -> LockGuard<'a>) -> Vec<Entry> {
        let mut calls = Vec::new();
        let held = lock();
        let registered = &self.tables(&held).registered;
        registered.extract(registered.first()..registered.end(), |entry| {
            let is_call = matches!(entry.action, Action::Call { .. });
            if is_call {
                calls.push(entry);
            }
            is_call
        });
        calls
    }

    /// Notifies the finalizer thread that it has work to do.
    pub(crate) fn announce(&self) {
        // Release: pairs with the Acquire with which the finalizer thread reads `news`.
        self.news.fetch_add(1, Ordering::Release);
        crate::os::futex::wake(&self.news, 1);
    }
}

impl Drop for Finalizers {
    fn drop(&mut self) {
        let Tables { registered, ready } = self.tables.own();
        for entry in registered.iter().chain(ready.iter()) {
            // SAFETY: the tables are dropped, and nothing else has their entries.
            unsafe { entry.action.discard() };
        }
    }
}

impl Tables {
    fn queue_if(
        &self,
        unmarked: &mut UnmarkedRange,
        is_due: impl Fn(Entry) -> bool,
        mut resurrect: impl FnMut(usize),
    ) -> u32 {
        let Self { registered, ready } = self;
        let mut due = 0;
        let mut left_waiting = false;
        if unmarked.among.is_empty() {
            return 0;
        }
        unmarked.among.end -= registered.extract(unmarked.among.clone(), |entry| {
            if !is_due(entry) {
                return false;
            }
            // If the ready queue is full, the entry waits for a later collection, and its object stays alive.
            let take = ready.push(entry);
            due += usize::from(take);
            left_waiting |= !take;
            take
        });
        if left_waiting {
            // The objects of these entries are resurrected too; otherwise the entries would outlive their objects.
            registered.iter().filter(|&entry| is_due(entry)).for_each(|entry| resurrect(entry.object));
        }
        for index in ready.end() - due..ready.end() {
            // SAFETY: just pushed.
            resurrect(unsafe { ready.at(index).read() }.object);
        }
        due as u32
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::heap::ranges::Alone;
    use crate::heap::windows;
    use crate::sync::SharedLock;

    unsafe fn nothing(_: *mut u8) {}

    fn entry(object: usize) -> Entry {
        Entry { object, action: Action::Drop(nothing) }
    }

    /// `.debug.inspect`: the queue is full, two of its entries have been taken, and two new ones make it move to its front.
    #[test]
    fn a_query_in_the_middle_of_a_change_finds_every_waiting_object() {
        let mut asked_in = 0;
        for window in 0.. {
            let finalizers = Arc::new(Finalizers::new(8).unwrap());
            let held = finalizers.lock.lock();
            let ready = &finalizers.tables(&held).ready;
            (1..=8).for_each(|object| assert!(ready.push(entry(object))));
            (1..=2).for_each(|object| assert_eq!(ready.pop().map(|entry| entry.object), Some(object)));
            let answer = Arc::new(Mutex::new(Vec::new()));
            let (asked, answered) = (Arc::clone(&finalizers), Arc::clone(&answer));
            windows::plan(window, SharedLock::alone(), move || {
                let mut answer = answered.lock().unwrap();
                // SAFETY: no other thread uses these.
                unsafe { asked.for_each_ready_anytime(|_, object| answer.push(object)) };
            });
            assert!(ready.push(entry(9)) && ready.push(entry(10)));
            assert_eq!(ready.pop().map(|entry| entry.object), Some(3));
            if !windows::has_happened() {
                break;
            }
            let answer = answer.lock().unwrap();
            assert!((4..=8).all(|object| answer.contains(&object)), "{answer:?} in window {window}");
            assert!(answer.iter().all(|object| (3..=10).contains(object)), "{answer:?} in window {window}");
            asked_in += 1;
        }
        assert_eq!(asked_in, 6 + 2 + 2 + 1, "each move, its end, each push, and the pop");
    }

    /// The finalizer thread is busy for a long time, and more objects die than its queue holds.
    #[test]
    fn an_object_whose_finalizer_finds_the_queue_full_is_kept_for_the_next_collection() {
        let finalizers = Finalizers::new(4).unwrap();
        let lock = || finalizers.lock.lock();
        let collect = |objects: &[usize]| {
            for &object in objects {
                assert!(finalizers.register(entry(object), lock));
            }
            let mut kept = Vec::new();
            let held = lock();
            let mut unmarked = finalizers.find_unmarked(&held, |_| false, &Alone);
            let queued = finalizers.queue_drops(&held, &mut unmarked, |_| false, |object| kept.push(object));
            kept.sort_unstable();
            (queued, kept)
        };
        assert_eq!(collect(&[1, 2, 3]), (3, vec![1, 2, 3]));
        assert_eq!(collect(&[4, 5, 6]), (1, vec![4, 5, 6]), "5 and 6 have entries, so their memory must stay");
        assert_eq!(finalizers.next(lock).map(|entry| entry.object), Some(1));
        assert_eq!(collect(&[]), (1, vec![5, 6]));
    }
}
