//! The roots of marking.
//!
//! | root | how it is read |
//! |---|---|
//! | stacks, from `stack_ptr` to the base, with the registers that the stop left there; not of threads with an [arena](crate::Arena) | conservatively |
//! | registers in the record's save area, alternate signal stacks, registered stacks | conservatively |
//! | cells that a thread was building when it was stopped | conservatively |
//! | ranges that the program registered | conservatively |
//! | [`Root`](crate::Root) handles | each is a reference |
//! | objects that wait for their finalizers | each is a reference |
//!
//! Most large stacks, ranges and tables of handles are only noted here: all markers scan them ([`root_areas`](super::root_areas)). Ranges and
//! stacks that a binding adds are scanned at once.

use std::cell::Cell;
use std::io;

use super::binding::{Binding, RootScanner};
use super::caches::{cache_of, caches};
use super::finalize::Finalizers;
use super::mark::{Marker, Rank};
use super::root_areas::{RootAreas, Words};
use crate::heap::Heap;
use crate::heap::layout::HEADER_BYTES;
use crate::heap::slots::SlotTable;
use crate::heap::window::window;
use crate::os::memory::Reservation;
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicUsize, Lock, LockGuard, Ordering, Ordering::Relaxed, compiler_fence};
use crate::world::stop::StoppedWorld;
use crate::world::stop_info::ThreadStopInfo;

/// The kind of a root, as events report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum RootKind {
    Stack = 0,
    HalfBuilt = 1,
    RegisteredStack = 2,
    Range = 3,
    Handles = 4,
    Finalizers = 5,
}

/// Feeds one collection's roots to its marker, or notes them for all markers if they are large.
pub(crate) struct RootScan<'a, 'm> {
    marker: &'a mut Marker<'m>,
    areas: &'a mut RootAreas<'m>,
    stack_bytes: u64,
    roots: u64,
    /// The number of handles among the roots.
    pub(crate) handles: u64,
}

impl<'a, 'm> RootScan<'a, 'm> {
    pub(crate) fn new(marker: &'a mut Marker<'m>, areas: &'a mut RootAreas<'m>) -> Self {
        Self { marker, areas, stack_bytes: 0, roots: 0, handles: 0 }
    }

    /// Scans every stack of every thread, and the stacks that the program registered. The collecting thread's own stack is scanned from
    /// the place where its registers were pushed.
    pub(crate) fn stacks(&mut self, stopped: &StoppedWorld<'_>) {
        let events = self.marker.events;
        let scanned = Cell::new(0);
        let mut scan = |low, high| {
            // SAFETY: the stop has checked that the range is a stack of a stopped thread, or of the collecting thread above the
            // frame that pushed its registers; or the range was registered as readable. That holds until the world runs again.
            scanned.set(scanned.get() + unsafe { scan_or_note(self.marker, self.areas, Words::Stack, low, high) });
        };
        let has_arena = |record: &ThreadStopInfo| {
            // SAFETY: the stop holds the allocation lock.
            unsafe { cache_of(record) }.is_some_and(|cache| cache.arena.has_arena())
        };
        for &record in stopped.live().iter().filter(|record| !has_arena(record)) {
            stopped.scan_ranges(record, &mut scan);
            let bytes = scanned.take();
            self.stack_bytes += bytes as u64;
            events.fire_root_scanned(std::ptr::from_ref(record) as usize, RootKind::Stack as u32, bytes);
        }
        stopped.scan_registered_stacks(|low, high| {
            scan(low, high);
            let bytes = scanned.take();
            self.stack_bytes += bytes as u64;
            events.fire_root_scanned(low, RootKind::RegisteredStack as u32, bytes);
        });
    }

    /// Scans the cell that each thread may have been building: the references in it may not be in the thread's registers any more
    /// (`.stop.mid-alloc`).
    pub(crate) fn half_built_objects(&mut self, heap: &Heap, stopped: &StoppedWorld<'_>) {
        if removed(Guard::StopMidAlloc) {
            return;
        }
        for cache in caches(stopped).filter(|cache| !cache.arena.has_arena()) {
            for (cell, bytes) in cache.half_built() {
                debug_assert!(heap.blocks.cell_containing(cell + HEADER_BYTES).is_some());
                // SAFETY: the cell belongs to a stopped thread.
                unsafe { self.marker.conservative_range(cell, cell + bytes) };
                self.marker.events.fire_root_scanned(cell, RootKind::HalfBuilt as u32, bytes);
            }
        }
    }

    /// Scans the memory that the program registered.
    pub(crate) fn ranges(&mut self, ranges: &Ranges) {
        ranges.for_each(|low, high| {
            // SAFETY: `register_range` promised that it is readable. It is not removed before the collection releases the table's lock.
            let bytes = unsafe { scan_or_note(self.marker, self.areas, Words::Registered, low, high) };
            self.marker.events.fire_root_scanned(low, RootKind::Range as u32, bytes);
            self.roots += 1;
        });
    }

    /// Scans the root handles.
    pub(crate) fn handles(&mut self, handles: &'m SlotTable) {
        let before = self.roots;
        if !self.areas.add_handles(handles) {
            handles.for_each(|slot, object| self.marker.precise(slot, object, Rank::Exact));
        }
        self.handles = handles.len() as u64;
        self.roots += self.handles;
        self.scanned_table(handles.address(0), RootKind::Handles, before);
    }

    /// Scans the objects in the finalizer thread's queue.
    pub(crate) fn waiting_for_finalizers(&mut self, finalizers: &Finalizers, held: &LockGuard<'_>) {
        let before = self.roots;
        finalizers.for_each_ready(held, |object| {
            self.marker.last_reference(object);
            self.roots += 1;
        });
        self.scanned_table(std::ptr::from_ref(finalizers) as usize, RootKind::Finalizers, before);
    }

    /// Lets the binding of a language runtime add its roots.
    pub(crate) fn binding(&mut self, binding: &dyn Binding) {
        let before = self.roots;
        self.roots += RootScanner::scan(binding, self.marker);
        self.scanned_table(std::ptr::from_ref(binding).addr(), RootKind::Range, before);
    }

    fn scanned_table(&self, address: usize, kind: RootKind, before: u64) {
        let bytes = (self.roots - before) as usize * size_of::<usize>();
        self.marker.events.fire_root_scanned(address, kind as u32, bytes);
    }

    /// Returns the bytes of stacks, and the number of other roots.
    pub(crate) fn finish(self) -> (u64, u64) {
        (self.stack_bytes, self.roots)
    }
}

/// Notes a range of memory if it is large, and scans it otherwise. Returns the number of bytes.
///
/// # Safety
/// As for [`RootAreas::add`].
unsafe fn scan_or_note(
    marker: &mut Marker<'_>,
    areas: &mut RootAreas<'_>,
    words: Words,
    low: usize,
    high: usize,
) -> usize {
    let low = low.next_multiple_of(size_of::<usize>());
    // SAFETY: the caller's promise.
    unsafe {
        if !areas.add(words, low, high) {
            marker.memory(words, low, high);
        }
    }
    high.saturating_sub(low)
}

/// Ranges of ordinary memory that the program has registered as roots.
///
/// A range is two words, written so that the stopped world never sees half of a range: the end is 0 while the slot is free. All
/// words are atomic: a debugger's query reads them while a thread is stopped anywhere in [`add`](Self::add).
pub(crate) struct Ranges {
    memory: Reservation,
    /// The number of slots that were ever used.
    used: AtomicUsize,
    pub(crate) lock: Lock,
}

/// A range's words: its beginning and its end.
type Slot = [AtomicUsize; 2];

/// The maximum number of ranges registered at a time.
const MOST_RANGES: usize = 1 << 16;

impl Ranges {
    pub(crate) fn new() -> io::Result<Self> {
        let memory = Reservation::new(MOST_RANGES * size_of::<Slot>(), 4096)?;
        memory.commit(0, memory.len())?;
        Ok(Self { memory, used: AtomicUsize::new(0), lock: Lock::new() })
    }

    fn slot(&self, index: usize) -> &Slot {
        assert!(index < MOST_RANGES);
        // SAFETY: in bounds of the committed mapping, which lives as long as `self`; zeros are a valid slot.
        unsafe { &*self.memory.base().cast::<Slot>().add(index) }
    }

    /// Returns the address of the first slot, that of the number of slots ever used, and the number of slots.
    pub(crate) fn addresses(&self) -> (usize, usize, usize) {
        (self.memory.base() as usize, std::ptr::from_ref(&self.used) as usize, MOST_RANGES)
    }

    /// Registers a range. Returns its index, or `None` if there are too many. `lock` takes this table's lock in the way that
    /// the caller needs.
    ///
    /// # Panics
    /// If `lock` took another lock.
    pub(crate) fn add<'a>(&'a self, low: usize, high: usize, lock: impl FnOnce() -> LockGuard<'a>) -> Option<usize> {
        let held = lock();
        assert!(held.is_of(&self.lock), "the guard of another lock");
        // Relaxed, here and below: the lock orders this against other threads that register, and against the collector.
        let used = self.used.load(Relaxed);
        let index = (0..used).find(|&index| self.slot(index)[1].load(Relaxed) == 0).unwrap_or(used);
        if index == MOST_RANGES {
            return None;
        }
        // The end is stored last: a query before that finds the slot still free, and a query after it the whole range.
        let [begin, end] = self.slot(index);
        window();
        begin.store(low, Relaxed);
        compiler_fence(Ordering::SeqCst);
        window();
        end.store(high, Relaxed);
        compiler_fence(Ordering::SeqCst);
        window();
        self.used.store(used.max(index + 1), Relaxed);
        Some(index)
    }

    /// Removes a range. The collector holds the lock while it scans, so the memory may be freed when this returns. `lock` as in
    /// [`add`](Self::add).
    pub(crate) fn remove<'a>(&'a self, index: usize, lock: impl FnOnce() -> LockGuard<'a>) {
        let held = lock();
        assert!(held.is_of(&self.lock), "the guard of another lock");
        self.slot(index)[1].store(0, Relaxed);
    }

    /// Visits every range. Takes no lock: for the stopped world, whose collector holds it, and for a debugger's query at any
    /// moment. It never reads beyond the table, even if memory is damaged.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize, usize)) {
        for index in 0..self.used.load(Relaxed).min(MOST_RANGES) {
            let [low, high] = self.slot(index).each_ref().map(|word| word.load(Relaxed));
            if high != 0 {
                visit(low, high);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::heap::windows;
    use crate::sync::SharedLock;

    fn seen(ranges: &Ranges) -> Vec<(usize, usize)> {
        let mut seen = Vec::new();
        ranges.for_each(|low, high| seen.push((low, high)));
        seen
    }

    /// `.debug.inspect`
    #[test]
    fn a_query_in_the_middle_of_add_finds_each_range_whole() {
        let mut answers = Vec::new();
        for window in 0.. {
            let ranges = Arc::new(Ranges::new().unwrap());
            let lock = || ranges.lock.lock();
            assert_eq!((ranges.add(16, 32, lock), ranges.add(48, 64, lock)), (Some(0), Some(1)));
            // The slot is reused.
            ranges.remove(window % 2, lock);
            let other = [(48, 64), (16, 32)][window % 2];
            let answer = Arc::new(Mutex::new(Vec::new()));
            let (asked, answered) = (Arc::clone(&ranges), Arc::clone(&answer));
            windows::plan(window / 2, SharedLock::alone(), move || *answered.lock().unwrap() = seen(&asked));
            ranges.add(80, 96, lock);
            if !windows::has_happened() {
                break;
            }
            let answer = std::mem::take(&mut *answer.lock().unwrap());
            assert!(answer.contains(&other), "{answer:?}");
            assert!(answer.iter().all(|range| [other, (80, 96)].contains(range)), "{answer:?}");
            answers.push(answer.len());
        }
        assert_eq!(answers, [1, 1, 1, 1, 2, 2], "before, with half of it, and with all of it");
    }

    /// `.debug.inspect`
    #[test]
    fn ranges_with_a_damaged_count_end_with_their_table() {
        let ranges = Ranges::new().unwrap();
        assert_eq!(ranges.add(16, 32, || ranges.lock.lock()), Some(0));
        ranges.used.store(usize::MAX / 2, Relaxed);
        assert_eq!(seen(&ranges), [(16, 32)]);
    }
}
