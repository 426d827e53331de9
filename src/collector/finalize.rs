//! Finalizers: what runs after an object was found dead.
//!
//! Two kinds are registered in one table: a *call* (`set_finalizer`: a function that gets the object back and may
//! resurrect it) and a *drop* (an object whose type has drop glue; such types hold no references). A collection
//! sorts the table out after marking and clearing weak references:
//!
//! 1. Objects with a call that are not marked go to the ready queue, in the order of registration, and are marked
//!    with everything that they reach: their finalizers see whole objects.
//! 2. Then objects with a drop that are *still* not marked go there. Nothing refers to them, not even an object
//!    that waits for its call, so nobody can meet a dropped value (`.final.order`).
//!
//! The queue is worked off by one thread of the world, named `finalizer`, which is a mutator like any other: its
//! finalizers may allocate, block, and be stopped. A panic in one is caught, counted and reported; the next one
//! runs (`.final.thread`). A finalizer runs at most once for each registration.
//!
//! The tables are mapped memory, changed under their lock. The collecting thread takes that lock before the stop.

use std::cell::UnsafeCell;
use std::io;
use std::time::Duration;

use crate::heap::trace::TypeInfo;
use crate::os::clock::now_ns;
use crate::os::memory::Reservation;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Lock, LockGuard, Ordering};

/// What runs for a dead object.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    /// Runs the type's drop glue.
    Drop(unsafe fn(*mut u8)),
    /// Calls the typed function whose address is given, by way of one that knows its type.
    Call {
        /// Restores the type of the function and of the object, and calls it.
        trampoline: unsafe fn(function: *const (), mutator: *const (), payload: usize),
        /// The `fn(&Mutator, Gc<T>)` that was registered.
        function: *const (),
    },
}

/// A registration.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The payload address of the object.
    pub(crate) object: usize,
    pub(crate) action: Action,
}

/// Registrations at most, of whichever world; each takes 32 bytes when used.
const CAPACITY: usize = 1 << 22;

/// A queue of entries in mapped memory.
struct Queue {
    memory: Reservation,
    capacity: usize,
    first: usize,
    end: usize,
}

impl Queue {
    fn new(capacity: usize) -> io::Result<Self> {
        let memory = Reservation::new(capacity * size_of::<Entry>(), 4096)?;
        memory.commit(0, memory.len())?;
        Ok(Self { memory, capacity, first: 0, end: 0 })
    }

    fn at(&self, index: usize) -> *mut Entry {
        assert!(index < self.capacity);
        // SAFETY: in bounds of the committed mapping.
        unsafe { self.memory.base().cast::<Entry>().add(index) }
    }

    fn push(&mut self, entry: Entry) -> bool {
        if self.end == self.capacity {
            if self.first == 0 {
                return false;
            }
            // SAFETY: both ranges lie in the mapping.
            unsafe { std::ptr::copy(self.at(self.first), self.at(0), self.end - self.first) };
            self.end -= self.first;
            self.first = 0;
        }
        // SAFETY: `end < capacity`.
        unsafe { self.at(self.end).write(entry) };
        self.end += 1;
        true
    }

    fn pop(&mut self) -> Option<Entry> {
        if self.first == self.end {
            (self.first, self.end) = (0, 0);
            return None;
        }
        // SAFETY: written by `push`.
        let entry = unsafe { self.at(self.first).read() };
        self.first += 1;
        Some(entry)
    }

    fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        // SAFETY: entries from `first` to `end` were written by `push`.
        (self.first..self.end).map(|index| unsafe { self.at(index).read() })
    }

    /// Takes out the entries for which `take` says so, keeping the order of the others.
    fn extract(&mut self, mut take: impl FnMut(Entry) -> bool) {
        let mut kept = 0;
        for index in self.first..self.end {
            // SAFETY: as in `iter`; `kept <= index`.
            unsafe {
                let entry = self.at(index).read();
                if !take(entry) {
                    self.at(kept).write(entry);
                    kept += 1;
                }
            }
        }
        (self.first, self.end) = (0, kept);
    }
}

/// One world's finalizers.
pub(crate) struct Finalizers {
    pub(crate) lock: Lock,
    registered: UnsafeCell<Queue>,
    ready: UnsafeCell<Queue>,
    /// Grows when something became ready or the world closes: what the finalizer thread sleeps on.
    pub(crate) news: AtomicU32,
    pub(crate) closing: AtomicBool,
    /// Finalizers that have run.
    pub(crate) run: AtomicU64,
    /// Finalizers that panicked.
    pub(crate) panicked: AtomicU64,
    /// 1 when the finalizer thread has ended or was never started.
    pub(crate) ended: AtomicU32,
    /// The finalizer thread was started.
    pub(crate) started: AtomicBool,
    /// The kernel's number for it.
    pub(crate) thread: AtomicU32,
    /// The description of the type whose object is being finalized, and since when; null between finalizers.
    running_type: AtomicPtr<TypeInfo>,
    running_since: AtomicU64,
}

/// The finalizer that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    /// The type of its object.
    pub(crate) type_name: &'static str,
    /// For how long it has run.
    pub(crate) since: Duration,
}

// SAFETY: the queues are only touched under the lock, or in the stopped world by the collector, which holds it.
unsafe impl Sync for Finalizers {}
// SAFETY: the addresses in the queues belong to no thread.
unsafe impl Send for Finalizers {}

impl Finalizers {
    /// Tables for up to `capacity` registrations.
    pub(crate) fn new(capacity: usize) -> io::Result<Self> {
        let capacity = capacity.min(CAPACITY);
        Ok(Self {
            lock: Lock::new(),
            registered: UnsafeCell::new(Queue::new(capacity)?),
            ready: UnsafeCell::new(Queue::new(capacity)?),
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

    /// A finalizer of an object of this type begins, until the result is dropped. On the finalizer thread.
    pub(crate) fn begin(&self, info: &'static TypeInfo) -> impl Drop + '_ {
        struct End<'a>(&'a Finalizers);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.running_type.store(std::ptr::null_mut(), Ordering::Relaxed);
            }
        }
        self.running_since.store(now_ns(), Ordering::Relaxed);
        // Release: pairs with the Acquire of `running`: the time is this one's or a later one's.
        self.running_type.store(std::ptr::from_ref(info).cast_mut(), Ordering::Release);
        End(self)
    }

    /// The finalizer that runs at this moment.
    pub(crate) fn running(&self) -> Option<Running> {
        // Acquire: pairs with the Release of `begin`.
        let info = self.running_type.load(Ordering::Acquire);
        let since = Duration::from_nanos(now_ns().saturating_sub(self.running_since.load(Ordering::Relaxed)));
        // SAFETY: null, or from a reference that lives as long as the process.
        unsafe { info.as_ref() }.map(|info| Running { type_name: info.name(), since })
    }

    /// In the child of a fork, which has no finalizer thread.
    pub(crate) fn forget_thread(&self) {
        self.started.store(false, Ordering::Relaxed);
        self.thread.store(0, Ordering::Relaxed);
        self.running_type.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.ended.store(1, Ordering::Relaxed);
    }

    /// Registers an entry. False if the table is full. `lock` takes the lock in the way that suits the caller.
    pub(crate) fn register<'a>(&'a self, entry: Entry, lock: impl FnOnce() -> LockGuard<'a>) -> bool {
        let _guard = lock();
        // SAFETY: under the lock.
        unsafe { &mut *self.registered.get() }.push(entry)
    }

    /// The next finalizer to run. What it returns must be on the caller's stack until it has run.
    pub(crate) fn next<'a>(&'a self, lock: impl FnOnce() -> LockGuard<'a>) -> Option<Entry> {
        let _guard = lock();
        // SAFETY: under the lock.
        unsafe { &mut *self.ready.get() }.pop()
    }

    /// Finalizers that wait for their turn.
    pub(crate) fn due<'a>(&'a self, lock: impl FnOnce() -> LockGuard<'a>) -> u64 {
        let _guard = lock();
        // SAFETY: under the lock.
        let ready = unsafe { &*self.ready.get() };
        (ready.end - ready.first) as u64
    }

    /// Objects that wait for their finalizers: roots. World stopped, lock held.
    pub(crate) fn for_each_ready(&self, mut visit: impl FnMut(usize)) {
        // SAFETY: the collector holds the lock.
        unsafe { &*self.ready.get() }.iter().for_each(|entry| visit(entry.object));
    }

    /// [`for_each_ready`](Self::for_each_ready) for a debugger's question, on a thread that it has stopped, whatever the others
    /// were doing: an entry may be there twice, or not yet.
    pub(crate) fn for_each_ready_anytime(&self, mut visit: impl FnMut(usize, usize)) {
        let queue = self.ready.get();
        // SAFETY: the queue lives as long as `self`; its bounds are read as they are, one by one.
        let (first, end) =
            unsafe { ((&raw const (*queue).first).read_volatile(), (&raw const (*queue).end).read_volatile()) };
        for index in first..end.min(CAPACITY) {
            // SAFETY: the capacity never changes, and is at most `CAPACITY`; the mapping has room for that many, and any bytes
            // of it are an address.
            let slot = unsafe {
                if index >= (*queue).capacity {
                    return;
                }
                &raw const (*(*queue).at(index)).object
            };
            // SAFETY: as above.
            visit(slot as usize, unsafe { slot.read_volatile() });
        }
    }

    /// Moves unmarked objects with a call to the ready queue; `resurrect` marks each. Returns how many.
    /// World stopped, lock held.
    pub(crate) fn queue_calls(&self, is_marked: impl Fn(usize) -> bool, resurrect: impl FnMut(usize)) -> u32 {
        self.queue_if(|entry| matches!(entry.action, Action::Call { .. }) && !is_marked(entry.object), resurrect)
    }

    /// The same for objects with a drop, after everything that calls reach is marked.
    pub(crate) fn queue_drops(&self, is_marked: impl Fn(usize) -> bool, resurrect: impl FnMut(usize)) -> u32 {
        self.queue_if(|entry| matches!(entry.action, Action::Drop(_)) && !is_marked(entry.object), resurrect)
    }

    fn queue_if(&self, is_due: impl Fn(Entry) -> bool, mut resurrect: impl FnMut(usize)) -> u32 {
        // SAFETY: the collector holds the lock; the two queues are distinct.
        let (registered, ready) = unsafe { (&mut *self.registered.get(), &mut *self.ready.get()) };
        let mut due = 0;
        let mut left_waiting = false;
        registered.extract(|entry| {
            if !is_due(entry) {
                return false;
            }
            // With the ready queue full the entry waits for a later collection, and its object with it.
            let take = ready.push(entry);
            due += usize::from(take);
            left_waiting |= !take;
            take
        });
        if left_waiting {
            // Or the entry would outlive its object.
            registered.iter().filter(|&entry| is_due(entry)).for_each(|entry| resurrect(entry.object));
        }
        let first_new = ready.end - due;
        for index in first_new..ready.end {
            // SAFETY: just pushed.
            resurrect(unsafe { ready.at(index).read() }.object);
        }
        due as u32
    }

    /// Tells the finalizer thread that there is something to do.
    pub(crate) fn announce(&self) {
        // Release pairs with the Acquire of the finalizer thread's look at `news`.
        self.news.fetch_add(1, Ordering::Release);
        crate::os::futex::wake(&self.news, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The finalizer thread is busy for long, and more dies than its queue holds.
    #[test]
    fn an_object_whose_finalizer_finds_the_queue_full_is_kept_for_the_next_collection() {
        unsafe fn nothing(_: *mut u8) {}
        let finalizers = Finalizers::new(4).unwrap();
        let lock = || finalizers.lock.lock();
        let collect = |objects: &[usize]| {
            for &object in objects {
                assert!(finalizers.register(Entry { object, action: Action::Drop(nothing) }, lock));
            }
            let mut kept = Vec::new();
            let queued = finalizers.queue_drops(|_| false, |object| kept.push(object));
            kept.sort_unstable();
            (queued, kept)
        };
        assert_eq!(collect(&[1, 2, 3]), (3, vec![1, 2, 3]));
        assert_eq!(collect(&[4, 5, 6]), (1, vec![4, 5, 6]), "5 and 6 have entries, so their memory must stay");
        assert_eq!(finalizers.next(lock).map(|entry| entry.object), Some(1));
        assert_eq!(collect(&[]), (1, vec![5, 6]));
    }
}
