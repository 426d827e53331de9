//! What a world shows to debuggers: itself in a list of worlds, and its threads in a list of records.
//!
//! A debugger reads both out of the memory of a process that it may have stopped at any instruction, so each list is
//! right at every instant: an entry is complete before the one store that links it, and one store unlinks it. In this process
//! only the functions walk them that a debugger calls (`debugger/inspect.rs`).
//!
//! ```text
//!   Descriptor.worlds ─> PublishedWorld ─next─> PublishedWorld ─next─> 0
//!                          │ threads
//!                          └──> ThreadStopInfo ─next─> ThreadStopInfo ─next─> 0
//! ```
//!
//! Who reads while the process runs may follow an entry that has just been unlinked. A record leads on to what was
//! behind it at that time, and its memory stays a record (see `stop_info.rs`); a world's memory goes with the world, so that
//! worlds are to be read while the process stands, or to be checked against the list afterwards.

use std::mem::size_of;

use crate::os::Tid;
use crate::sync::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Lock, LockGuard, Ordering};

use super::stop_info::ThreadStopInfo;

/// Where a collection is, as debuggers see it.
///
/// The order of a collection is the order of the numbers; between collections a world is [`Running`](Self::Running).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Phase {
    /// No collection.
    Running = 0,
    /// All locks are taken, the threads are about to be stopped.
    SuspendBegin = 1,
    /// Every thread stands.
    SuspendEnd = 2,
    /// The collection proper begins.
    GcStart = 3,
    /// Stacks, registers, ranges and handles are about to be scanned.
    RootsBegin = 4,
    /// They are scanned.
    RootsEnd = 5,
    /// What they lead to is about to be marked.
    MarkBegin = 6,
    /// It is marked. The last phase at which a collection may still be discarded.
    MarkEnd = 7,
    /// Weak references are cleared, finalizers are queued.
    WeakEnd = 8,
    /// The sweep is about to be set up.
    SweepBegin = 9,
    /// It is set up; the sweeping itself is done later, by the mutators.
    SweepEnd = 10,
    /// The collection proper is over.
    GcEnd = 11,
    /// The threads are about to be let go.
    RestartBegin = 12,
    /// The world runs again.
    RestartEnd = 13,
}

impl Phase {
    /// All of them, in their order.
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

    /// The phase of that number, if there is one.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// What debuggers call it: `mark-begin`.
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

/// The head of a list of worlds.
#[derive(Debug)]
#[repr(transparent)]
pub struct WorldList(AtomicPtr<PublishedWorld>);

/// Guards the links of every list of worlds.
static LINKING: Lock = Lock::new();

/// The next world's number.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

impl WorldList {
    /// No worlds.
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    fn link(&self, world: &PublishedWorld) {
        let _held = LINKING.lock();
        world.next.store(self.0.load(Ordering::Relaxed), Ordering::Relaxed);
        // Release, in all stores of links: whoever reads the memory from outside sees what is linked complete.
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
            // SAFETY: linked under this lock, and unlinked before its memory goes (`withdraw`).
            let found = unsafe { &*entry };
            if std::ptr::eq(found, world) {
                link.store(found.next.load(Ordering::Relaxed), Ordering::Release);
                return;
            }
            link = &found.next;
        }
    }

    /// The first world for which `is_wanted` says so, newest first. No lock: for a debugger's question (`debugger/inspect.rs`).
    pub(crate) fn find(&self, mut is_wanted: impl FnMut(&PublishedWorld) -> bool) -> Option<&PublishedWorld> {
        // Acquire, in all loads of links by who has no lock: pairs with the Release of whoever linked the entry.
        let mut entry = self.0.load(Ordering::Acquire);
        for _ in 0..MOST_ENTRIES {
            // SAFETY: linked as long as it exists; who asks sees to it that no world goes meanwhile.
            let world = unsafe { entry.as_ref() }?;
            if is_wanted(world) {
                return Some(world);
            }
            entry = world.next.load(Ordering::Acquire);
        }
        None
    }

    /// The worlds' numbers, newest first.
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

/// In a fork's child: whoever held the lock does not exist here.
pub(super) fn linking_lock() -> &'static Lock {
    &LINKING
}

/// What a walk without a lock goes over at most: a list that is being changed may lead back.
const MOST_ENTRIES: usize = 1 << 20;

/// Bytes of a stopper's name: one of length, then the name, cut.
const NAME_BYTES: usize = 32;

/// What debuggers see of a world. See the module's text.
#[derive(Debug)]
#[repr(C)]
pub struct PublishedWorld {
    next: AtomicPtr<PublishedWorld>,
    number: u64,
    threads: AtomicPtr<ThreadStopInfo>,
    /// 1: the vtable in force answers to debuggers.
    bridged: AtomicU32,
    phase: AtomicU32,
    /// Who has stopped the world: its thread id; 0 if nobody has.
    collecting: AtomicI32,
    padding: u32,
    epoch: AtomicU64,
    collections: AtomicU64,
    heap_low: AtomicUsize,
    heap_high: AtomicUsize,
    collector: AtomicPtr<()>,
    stopper: [AtomicU8; NAME_BYTES],
    /// The list that it is in; null if it is in none. Not published.
    list: AtomicPtr<WorldList>,
}

/// Where a debugger finds the fields of a world, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct WorldOffsets {
    /// Size of the structure.
    pub size: usize,
    /// The next world, or 0.
    pub next: usize,
    /// Its number in this process, 64 bits; never used twice.
    pub number: usize,
    /// The first thread's record, or 0.
    pub threads: usize,
    /// 1: it is stopped by way of the bridge; 0: by the vtable whose name is in `stopper`. 32 bits.
    pub bridged: usize,
    /// The [`Phase`], 32 bits.
    pub phase: usize,
    /// The thread that has stopped it, or 0. 32 bits.
    pub collecting: usize,
    /// Numbers its stops, 64 bits.
    pub epoch: usize,
    /// Its finished collections, 64 bits.
    pub collections: usize,
    /// The lowest address of its heap.
    pub heap_low: usize,
    /// One past the highest.
    pub heap_high: usize,
    /// What the functions for inferior calls know it by.
    pub collector: usize,
    /// One byte of length, then the name of the vtable in force.
    pub stopper: usize,
}

/// The published offsets.
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
            list: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// The world's number in this process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where its collection is.
    pub fn phase(&self) -> Phase {
        Phase::of(self.phase.load(Ordering::Relaxed)).unwrap_or(Phase::Running)
    }

    /// Numbers its stops.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// From now on the list leads to it. `collector` is not followed here.
    pub(crate) fn publish(&self, list: &'static WorldList, heap: (usize, usize), collector: *const ()) {
        self.heap_low.store(heap.0, Ordering::Relaxed);
        self.heap_high.store(heap.1, Ordering::Relaxed);
        self.collector.store(collector.cast_mut(), Ordering::Relaxed);
        self.list.store(std::ptr::from_ref(list).cast_mut(), Ordering::Relaxed);
        list.link(self);
    }

    /// No list leads to it any more.
    pub(crate) fn withdraw(&self) {
        let list = self.list.swap(std::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: null or what `publish` was given, which is 'static.
        if let Some(list) = unsafe { list.as_ref() } {
            list.unlink(self);
        }
    }

    /// What `publish` was given.
    pub(crate) fn collector(&self) -> *const () {
        self.collector.load(Ordering::Relaxed)
    }

    /// Whether the address lies in its heap, or just past the end.
    pub(crate) fn has_in_its_heap(&self, address: usize) -> bool {
        (self.heap_low.load(Ordering::Relaxed)..=self.heap_high.load(Ordering::Relaxed)).contains(&address)
    }

    /// Calls `visit` with every thread's record as a debugger finds it. No lock.
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
        // Release: a debugger, which reads it from outside, sees the name that has this length.
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

    /// Puts a thread in front of the list that debuggers walk, under the thread list lock.
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

    /// Takes a thread out of that list. The record keeps its own link: a debugger that has just come to it goes on by it.
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

    /// The threads' ids as a debugger finds them, newest first, while none comes or goes.
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
    fn worlds_come_and_go_in_any_order() {
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
