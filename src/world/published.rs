//! The data that a world publishes to debuggers: itself in a list of worlds, and its threads in a list of records.
//!
//! A debugger reads both lists from the memory of a process that it may have stopped at any instruction. So each list is
//! valid at every instant: an entry is complete before the single store that links it, and a single store unlinks it. In this
//! process, only the functions that a debugger calls walk the lists (`debugger/inspect.rs`).
//!
//! ```text
//!   Descriptor.worlds ─> PublishedWorld ─next─> PublishedWorld ─next─> 0
//!                          │ threads
//!                          └──> ThreadStopInfo ─next─> ThreadStopInfo ─next─> 0
//! ```
//!
//! A debugger that reads while the process runs may follow an entry that has just been unlinked. For a thread's record this is
//! harmless: it still has its link, and its memory only ever holds records (see `stop_info.rs`). A world's memory is freed with the
//! world: read worlds while the process is stopped, or check afterwards that they are still in the list.

use std::mem::size_of;

use crate::os::Tid;
use crate::sync::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Lock, LockGuard, Ordering};

use super::stop_info::ThreadStopInfo;

/// The phase of a collection, as vtables and debuggers see it.
///
/// A collection passes through the phases in the order of their numbers. Between collections a world is
/// [`Running`](Self::Running).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Phase {
    /// No collection.
    Running = 0,
    /// All locks are taken, the threads are about to be stopped.
    SuspendBegin = 1,
    /// Every thread is stopped.
    SuspendEnd = 2,
    /// The collection itself begins.
    GcStart = 3,
    /// Stacks, registers, ranges and handles are about to be scanned.
    RootsBegin = 4,
    /// The roots are scanned, except large ones, which are scanned at the beginning of marking.
    RootsEnd = 5,
    /// The objects reachable from the roots are about to be marked.
    MarkBegin = 6,
    /// All reachable objects are marked. This is the last phase in which a collection may be discarded.
    MarkEnd = 7,
    /// Weak references to unreachable objects are cleared, and their finalizers are queued.
    WeakEnd = 8,
    /// The sweep is about to be set up.
    SweepBegin = 9,
    /// The sweep is set up. The mutators do the sweeping itself later.
    SweepEnd = 10,
    /// The collection itself has ended.
    GcEnd = 11,
    /// The threads are about to be resumed.
    RestartBegin = 12,
    /// The world runs again.
    RestartEnd = 13,
}

impl Phase {
    /// All phases, in their order.
    pub const ALL: [Self; 14] = [
        Self::Running,
        Self::SuspendBegin,
        Self::SuspendEnd,
        Self::GcStart,
        Self::RootsBegin,
        Self::RootsEnd,
        Self::MarkBegin,
        Self::MarkEnd,
        Self::WeakEnd,
        Self::SweepBegin,
        Self::SweepEnd,
        Self::GcEnd,
        Self::RestartBegin,
        Self::RestartEnd,
    ];

    /// Returns the phase of this number; `None` if there is none.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Returns the phase's name in debuggers, for example `mark-begin`.
    pub fn name(self) -> &'static str {
        [
            "running",
            "suspend-begin",
            "suspend-end",
            "gc-start",
            "roots-begin",
            "roots-end",
            "mark-begin",
            "mark-end",
            "weak-end",
            "sweep-begin",
            "sweep-end",
            "gc-end",
            "restart-begin",
            "restart-end",
        ][self as usize]
    }
}

/// The head of a linked list of worlds, which debuggers read.
#[derive(Debug)]
#[repr(transparent)]
pub struct WorldList(AtomicPtr<PublishedWorld>);

/// Guards the links of every list of worlds.
static LINKING: Lock = Lock::new();

/// The next world's number.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

impl WorldList {
    /// Creates an empty list.
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    fn link(&self, world: &PublishedWorld) {
        let _held = LINKING.lock();
        world.next.store(self.0.load(Ordering::Relaxed), Ordering::Relaxed);
        // Release, in all stores of links: a reader outside the process then sees the linked entry complete.
        self.0.store(std::ptr::from_ref(world).cast_mut(), Ordering::Release);
    }

    fn unlink(&self, world: &PublishedWorld) {
        let _held = LINKING.lock();
        let mut link = &self.0;
        loop {
            let entry = link.load(Ordering::Relaxed);
            if entry.is_null() {
                return;
            }
            // SAFETY: linked under this lock, and unlinked before its memory is freed (`withdraw`).
            let found = unsafe { &*entry };
            if std::ptr::eq(found, world) {
                link.store(found.next.load(Ordering::Relaxed), Ordering::Release);
                return;
            }
            link = &found.next;
        }
    }

    /// Returns the newest world for which `is_wanted` returns true. Takes no lock: for a debugger's request (`debugger/inspect.rs`).
    pub(crate) fn find(&self, mut is_wanted: impl FnMut(&PublishedWorld) -> bool) -> Option<&PublishedWorld> {
        // Acquire, in all loads of links without the lock: pairs with the Release of the store that linked the entry.
        let mut entry = self.0.load(Ordering::Acquire);
        for _ in 0..MOST_ENTRIES {
            // SAFETY: a world is linked only while it exists, and the caller ensures that no world is dropped meanwhile.
            let world = unsafe { entry.as_ref() }?;
            if is_wanted(world) {
                return Some(world);
            }
            entry = world.next.load(Ordering::Acquire);
        }
        None
    }

    /// Returns the worlds' numbers, newest first.
    #[cfg(test)]
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let _held = LINKING.lock();
        let mut numbers = Vec::new();
        let mut entry = self.0.load(Ordering::Relaxed);
        // SAFETY: as in `unlink`.
        while let Some(world) = unsafe { entry.as_ref() } {
            numbers.push(world.number());
            entry = world.next.load(Ordering::Relaxed);
        }
        numbers
    }
}

/// The lock of the links, which a fork takes before it and resets in the child.
pub(super) fn linking_lock() -> &'static Lock {
    &LINKING
}

/// The maximum number of entries that a walk without a lock visits: a list that is being changed may contain a cycle for a moment.
const MOST_ENTRIES: usize = 1 << 20;

/// Bytes of a stopper's name: one byte of length, then up to 31 bytes of the name.
const NAME_BYTES: usize = 32;

/// The part of a world that debuggers read from the memory of the process. [`WORLD_OFFSETS`] has its layout.
#[derive(Debug)]
#[repr(C)]
pub struct PublishedWorld {
    next: AtomicPtr<PublishedWorld>,
    number: u64,
    threads: AtomicPtr<ThreadStopInfo>,
    /// 1: the installed vtable responds to debuggers.
    bridged: AtomicU32,
    phase: AtomicU32,
    /// The id of the thread that has stopped the world; 0 while it is not stopped.
    collecting: AtomicI32,
    padding: u32,
    epoch: AtomicU64,
    collections: AtomicU64,
    heap_low: AtomicUsize,
    heap_high: AtomicUsize,
    collector: AtomicPtr<()>,
    stopper: [AtomicU8; NAME_BYTES],
    /// The addresses of the heap's tables.
    tables: AtomicPtr<()>,
    /// The list that contains this world; null if none does. Not published.
    list: AtomicPtr<WorldList>,
}

/// The offsets of the fields of a [`PublishedWorld`], in bytes from its start, for debuggers. Fields are 64 bits wide unless noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct WorldOffsets {
    /// Size of the structure in bytes.
    pub size: usize,
    /// Pointer to the next world, or 0.
    pub next: usize,
    /// The world's number in this process, 64 bits; never used twice.
    pub number: usize,
    /// Pointer to the first thread's record, or 0.
    pub threads: usize,
    /// 1: the world is stopped through the debugger bridge; 0: by the vtable whose name is in `stopper`. 32 bits.
    pub bridged: usize,
    /// The [`Phase`], 32 bits.
    pub phase: usize,
    /// The id of the thread that has stopped the world, or 0. 32 bits.
    pub collecting: usize,
    /// The number of the world's latest stop, 64 bits.
    pub epoch: usize,
    /// The number of its finished collections, 64 bits.
    pub collections: usize,
    /// The lowest address of the world's heap.
    pub heap_low: usize,
    /// One past the highest address of the world's heap.
    pub heap_high: usize,
    /// Pointer that identifies the world to the functions for inferior calls.
    pub collector: usize,
    /// The name of the installed vtable: one byte of length, then up to 31 bytes.
    pub stopper: usize,
}

/// The offset of the pointer to the addresses of the heap's tables.
pub(crate) const TABLES: usize = memoffset::offset_of!(PublishedWorld, tables);

/// The offsets of [`PublishedWorld`], as debuggers read them in a process's memory.
pub const WORLD_OFFSETS: WorldOffsets = WorldOffsets {
    size: size_of::<PublishedWorld>(),
    next: memoffset::offset_of!(PublishedWorld, next),
    number: memoffset::offset_of!(PublishedWorld, number),
    threads: memoffset::offset_of!(PublishedWorld, threads),
    bridged: memoffset::offset_of!(PublishedWorld, bridged),
    phase: memoffset::offset_of!(PublishedWorld, phase),
    collecting: memoffset::offset_of!(PublishedWorld, collecting),
    epoch: memoffset::offset_of!(PublishedWorld, epoch),
    collections: memoffset::offset_of!(PublishedWorld, collections),
    heap_low: memoffset::offset_of!(PublishedWorld, heap_low),
    heap_high: memoffset::offset_of!(PublishedWorld, heap_high),
    collector: memoffset::offset_of!(PublishedWorld, collector),
    stopper: memoffset::offset_of!(PublishedWorld, stopper),
};

impl PublishedWorld {
    pub(super) fn new() -> Self {
        Self {
            next: AtomicPtr::new(std::ptr::null_mut()),
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            threads: AtomicPtr::new(std::ptr::null_mut()),
            bridged: AtomicU32::new(0),
            phase: AtomicU32::new(Phase::Running as u32),
            collecting: AtomicI32::new(0),
            padding: 0,
            epoch: AtomicU64::new(0),
            collections: AtomicU64::new(0),
            heap_low: AtomicUsize::new(0),
            heap_high: AtomicUsize::new(0),
            collector: AtomicPtr::new(std::ptr::null_mut()),
            stopper: [const { AtomicU8::new(0) }; NAME_BYTES],
            tables: AtomicPtr::new(std::ptr::null_mut()),
            list: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Returns the world's number in this process; never used twice.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the phase of the world's collection.
    pub fn phase(&self) -> Phase {
        Phase::of(self.phase.load(Ordering::Relaxed)).unwrap_or(Phase::Running)
    }

    /// Returns the number of the world's latest stop; 0 before the first.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Sets the addresses of the heap's tables, before the world is linked. They are only stored here.
    pub(crate) fn set_tables(&self, tables: *const ()) {
        self.tables.store(tables.cast_mut(), Ordering::Relaxed);
    }

    /// Links the world into `list`. `collector` is only stored, not dereferenced, here.
    pub(crate) fn publish(&self, list: &'static WorldList, heap: (usize, usize), collector: *const ()) {
        self.heap_low.store(heap.0, Ordering::Relaxed);
        self.heap_high.store(heap.1, Ordering::Relaxed);
        self.collector.store(collector.cast_mut(), Ordering::Relaxed);
        self.list.store(std::ptr::from_ref(list).cast_mut(), Ordering::Relaxed);
        list.link(self);
    }

    /// Unlinks the world from its list, if it is in one.
    pub(crate) fn withdraw(&self) {
        let list = self.list.swap(std::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: null or the argument of `publish`, which is 'static.
        if let Some(list) = unsafe { list.as_ref() } {
            list.unlink(self);
        }
    }

    /// Returns the collector that was passed to `publish`.
    pub(crate) fn collector(&self) -> *const () {
        self.collector.load(Ordering::Relaxed)
    }

    /// Returns whether the address is in the world's heap, or just past its end.
    pub(crate) fn has_in_its_heap(&self, address: usize) -> bool {
        (self.heap_low.load(Ordering::Relaxed)..=self.heap_high.load(Ordering::Relaxed)).contains(&address)
    }

    /// Calls `visit` with every thread's record in the list that debuggers walk. Takes no lock.
    pub(crate) fn for_each_record(&self, mut visit: impl FnMut(&'static ThreadStopInfo)) {
        let mut entry = self.threads.load(Ordering::Acquire);
        for _ in 0..MOST_ENTRIES {
            // SAFETY: records are never unmapped.
            let Some(record) = (unsafe { entry.as_ref() }) else { return };
            visit(record);
            entry = record.next.load(Ordering::Acquire);
        }
    }

    pub(super) fn set_stopper(&self, name: &str, bridged: bool) {
        let length = name.len().min(NAME_BYTES - 1);
        self.stopper[0].store(0, Ordering::Relaxed);
        for (place, byte) in self.stopper[1..].iter().zip(name.bytes()) {
            place.store(byte, Ordering::Relaxed);
        }
        // Release: a debugger that reads the length from outside the process then sees the name of this length.
        self.stopper[0].store(length as u8, Ordering::Release);
        self.bridged.store(u32::from(bridged), Ordering::Relaxed);
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::Relaxed);
    }

    pub(super) fn set_collecting(&self, tid: Tid, epoch: u64) {
        self.collecting.store(tid.0, Ordering::Relaxed);
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    pub(super) fn stop_is_over(&self) {
        self.collecting.store(0, Ordering::Relaxed);
        self.set_phase(Phase::Running);
    }

    pub(crate) fn set_collections(&self, count: u64) {
        self.collections.store(count, Ordering::Relaxed);
    }

    /// Adds a thread at the front of the list that debuggers walk. The caller holds the thread list lock.
    pub(super) fn link_thread(&self, _list: &mut LockGuard<'_>, record: &'static ThreadStopInfo) {
        let place = std::ptr::from_ref(record).cast_mut();
        let first = self.threads.load(Ordering::Relaxed);
        record.next.store(first, Ordering::Relaxed);
        record.previous.store(std::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: null or a record of the list; records are never unmapped.
        if let Some(first) = unsafe { first.as_ref() } {
            first.previous.store(place, Ordering::Relaxed);
        }
        self.threads.store(place, Ordering::Release);
    }

    /// Removes a thread from the list that debuggers walk. The record keeps its own link, so a debugger that has just reached it can
    /// continue.
    pub(super) fn unlink_thread(&self, _list: &mut LockGuard<'_>, record: &ThreadStopInfo) {
        let next = record.next.load(Ordering::Relaxed);
        let previous = record.previous.load(Ordering::Relaxed);
        // SAFETY: null or records of the list; records are never unmapped.
        let (before, after) = unsafe { (previous.as_ref(), next.as_ref()) };
        before.map_or(&self.threads, |before| &before.next).store(next, Ordering::Release);
        if let Some(after) = after {
            after.previous.store(previous, Ordering::Relaxed);
        }
    }

    /// Returns the threads' ids as a debugger finds them, newest first. No thread may attach or detach meanwhile.
    #[cfg(test)]
    pub(crate) fn thread_ids(&self) -> Vec<i32> {
        let mut ids = Vec::new();
        let mut entry = self.threads.load(Ordering::Relaxed);
        // SAFETY: records are never unmapped.
        while let Some(record) = unsafe { entry.as_ref() } {
            ids.push(record.tid().0);
            entry = record.next.load(Ordering::Relaxed);
        }
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_are_linked_and_unlinked_in_any_order() {
        static LIST: WorldList = WorldList::new();
        let worlds: [PublishedWorld; 4] = std::array::from_fn(|_| PublishedWorld::new());
        let numbers = |which: &[usize]| which.iter().map(|i| worlds[*i].number()).collect::<Vec<_>>();
        for world in &worlds {
            world.publish(&LIST, (0, 0), std::ptr::null());
        }
        assert_eq!(LIST.numbers(), numbers(&[3, 2, 1, 0]));
        worlds[2].withdraw();
        assert_eq!(LIST.numbers(), numbers(&[3, 1, 0]));
        worlds[0].withdraw();
        worlds[0].withdraw();
        worlds[3].withdraw();
        assert_eq!(LIST.numbers(), numbers(&[1]));
        worlds[1].withdraw();
        assert_eq!(LIST.numbers(), numbers(&[]));
    }

    #[test]
    fn phases_have_their_numbers_and_names() {
        for (number, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase as usize, number);
            assert_eq!(Phase::of(number as u32), Some(phase));
        }
        assert_eq!(Phase::MarkBegin.name(), "mark-begin");
        assert_eq!(Phase::RestartEnd.name(), "restart-end");
        assert_eq!(Phase::of(14), None);
    }
}
