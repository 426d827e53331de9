//! Freeing objects explicitly, and finding the object that contains an address.

use super::Heap;
use super::blocks::{BlockIndex, Cell, Target};
use super::cache::AllocationCache;
use super::compact::{KindNumber, in_register};
use super::freed::freed_header;
use super::layout::{FIRST_CELL, HEADER_BYTES, Space, cells_per_block, is_compact};
use super::sweep::poison;
use super::trace::TypeInfo;
use super::window::window;
use crate::sync::{AtomicUsize, LockGuard, Ordering, Ordering::Relaxed, compiler_fence};

impl Heap {
    /// Returns whether a cell contains an object: a live one that was not freed. For a thread that runs: a collection may come between
    /// the load of the cell's mark and that of the epoch, and then the answer is sought again.
    fn has_object(&self, cell: Cell) -> bool {
        loop {
            let epoch = self.swept_epoch();
            compiler_fence(Ordering::SeqCst);
            let found = self.is_alive(cell) && self.blocks.header_word(cell) != freed_header();
            compiler_fence(Ordering::SeqCst);
            if self.swept_epoch() == epoch {
                return found;
            }
        }
    }

    /// Returns the object whose cell contains this address: its payload address and its type. The result may be outdated at once, unless
    /// the caller knows that the object is alive.
    pub(crate) fn object_containing(&self, address: usize) -> Option<(usize, &'static TypeInfo)> {
        let target = self.cell_around(address)?;
        if address < target.payload { None } else { self.object_at(target.payload) }
    }

    /// Returns the object that begins at this address, as [`object_containing`](Self::object_containing) does. Costs less.
    pub(crate) fn object_at(&self, payload: usize) -> Option<(usize, &'static TypeInfo)> {
        let cell = self.blocks.cell_of_payload(payload).filter(|cell| self.has_object(*cell))?;
        // SAFETY: a header that is not 0 is the address of a `TypeInfo`, which lives for ever.
        unsafe { (self.blocks.header_word(cell) as *const TypeInfo).as_ref() }.map(|info| (payload, info))
    }

    /// Whether this address lies in a cell whose object is not marked, or that has none. Cheaper than
    /// [`object_containing`](Self::object_containing), which reads the object's header.
    pub(crate) fn lies_in_unmarked_cell(&self, address: usize) -> bool {
        self.cell_around(address).is_some_and(|target| {
            // SAFETY: the address map found the cell, so its mark byte is in the table.
            unsafe { (*self.blocks.map().mark_of_number(target.number)).load(Relaxed) != self.epoch() }
        })
    }

    /// Returns the cell that contains this address, or whose header does.
    fn cell_around(&self, address: usize) -> Option<Target> {
        // A compact cell is found by the addresses in it; another one also by that just past its end.
        let map = self.blocks.map();
        let is_compact = map.contains(address) && map.word_at(address).is_compact();
        map.cell_pointed_into(if is_compact { address } else { address.wrapping_add(1) })
    }

    /// Calls `visit` with the payload address and the type of each object, without a lock.
    pub(crate) fn for_each_object(&self, mut visit: impl FnMut(usize, &'static TypeInfo)) {
        self.for_each_cell(|payload| {
            if let Some((payload, info)) = self.object_at(payload) {
                visit(payload, info);
            }
        });
    }

    /// Calls `visit` with the payload address and the type of each object that is not marked and was alive before. In the stopped world,
    /// after marking.
    pub(crate) fn for_each_unmarked(&self, mut visit: impl FnMut(usize, &'static TypeInfo)) {
        self.for_each_cell(|payload| {
            if !self.is_marked(payload)
                && let Some((payload, info)) = self.object_at(payload)
            {
                visit(payload, info);
            }
        });
    }

    /// Calls `visit` with the payload address of each cell in which an object may be.
    fn for_each_cell(&self, mut visit: impl FnMut(usize)) {
        for block in 0..self.committed_blocks() {
            let (word, start) = (self.blocks.word(block), self.blocks.start(block) + FIRST_CELL);
            let (cells, cell_bytes) = match word.cell_bytes() {
                0 if word.is_large_head() => (1, 0),
                0 => continue,
                cell_bytes => (cells_per_block(cell_bytes), cell_bytes),
            };
            for index in 0..cells {
                visit(start + index * cell_bytes + HEADER_BYTES);
            }
        }
    }

    /// Frees an object. The calling thread allocates a small cell again; the blocks of a large object are free at once, and their
    /// bytes count for the budget again. Returns what it was.
    ///
    /// # Errors
    /// No object begins at `payload`, or it was freed.
    ///
    /// # Safety
    /// `cache` is the calling thread's, and the program does not use the object any more.
    pub(crate) unsafe fn free<'a>(
        &'a self,
        cache: &AllocationCache,
        payload: usize,
        lock: impl FnOnce() -> LockGuard<'a>,
    ) -> Result<Freed, NoObject> {
        let cell = self.blocks.cell_of_payload(payload).filter(|cell| self.has_object(*cell)).ok_or(NoObject)?;
        let (info, bytes) = (self.blocks.info(cell.block), self.room_of(payload));
        let type_info = self.blocks.header_word(cell) as *const TypeInfo;
        if self.blocks.word(cell.block).is_large_head() {
            let footprint = Some(self.free_large_object(cell.block, &lock()));
            return Ok(Freed { bytes, type_info, footprint });
        }
        let class = usize::from(info.head.class.load(Relaxed));
        let payload = in_register(payload);
        if is_compact(class) {
            self.blocks.kinds().set(payload, KindNumber::FREED);
        } else {
            // SAFETY: the program has given up the object, so its cell belongs to this thread.
            unsafe { (*(cell.header as *const AtomicUsize)).store(freed_header(), Relaxed) };
        }
        compiler_fence(Ordering::SeqCst);
        if self.paranoid {
            // SAFETY: as above.
            unsafe { poison(cell, bytes) };
        }
        // A cell of the pinned space stays there: the sweep frees it.
        // In a world that samples its allocations the sweep frees all cells: those on the list are allocated without a check for samples.
        if info.head.space.load(Relaxed) == Space::Small as u8 && !cache.is_sampled() {
            window();
            cache.freed.put(class, payload);
        }
        Ok(Freed { bytes, type_info, footprint: None })
    }

    fn free_large_object(&self, head: BlockIndex, held: &LockGuard<'_>) -> usize {
        let mut state = self.state(held);
        let bytes = self.large_footprint(head);
        self.free_large(&mut state, head);
        state.acquired_bytes = state.acquired_bytes.saturating_sub(bytes);
        bytes as usize
    }
}

/// An object that was freed.
pub(crate) struct Freed {
    /// The bytes that the program could use.
    pub(crate) bytes: usize,
    /// What its header was: the address of its description, which lives for ever.
    pub(crate) type_info: *const TypeInfo,
    /// The bytes of a large object's blocks; `None` for a small object.
    pub(crate) footprint: Option<usize>,
}

/// There is no object at an address that was to be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoObject;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Arc, Mutex, OnceLock};

    use super::*;
    use crate::events::Events;
    use crate::heap::charges::Charging;
    use crate::heap::layout::{CELL_BYTES, HEADED_CLASSES};
    use crate::heap::ranges::Alone;
    use crate::heap::references::ObjectPointers;
    use crate::heap::stopped::WorldStopped;
    use crate::heap::trace::Shape;
    use crate::heap::windows::{has_happened, plan};
    use crate::heap::{Paranoid, Refill};
    use crate::sync::{CurrentId, SharedLock};

    static WORD: CurrentId = CurrentId::new();
    static KIND: OnceLock<KindNumber> = OnceLock::new();
    static OTHER: TypeInfo = TypeInfo::of_described("object", 0, 16, Shape::Leaf);

    /// A heap with two threads.
    struct Scene {
        /// The class, and bin, of the cells.
        class: usize,
        kind: KindNumber,
        heap: Heap,
        lock: SharedLock,
        thread: AllocationCache,
        other: AllocationCache,
    }

    impl Scene {
        fn allocate(&self, cache: &AllocationCache) -> usize {
            loop {
                let (class, bytes) = (self.class, CELL_BYTES[self.class]);
                // SAFETY: the simulated threads run here; the bin has cells of this size; nothing is built.
                let cell = unsafe {
                    match is_compact(class) {
                        true => cache.allocate_compact(class, bytes, self.kind, |_| {}),
                        false => cache.allocate(class, bytes, &raw const OTHER as usize, |_| {}),
                    }
                };
                match cell {
                    Some(payload) => return payload as usize,
                    None => assert_eq!(self.heap.refill(cache, class, || self.lock.lock()), Refill::Ready),
                }
            }
        }

        /// Allocates a cell that the first thread has freed.
        fn allocate_freed(&self) -> Option<*mut u8> {
            // SAFETY: as in `allocate`.
            unsafe {
                match is_compact(self.class) {
                    true => self.thread.allocate_freed_compact(self.class, self.kind, |_| {}),
                    false => self.thread.allocate_freed(self.class, &raw const OTHER as usize, |_| {}),
                }
            }
        }

        /// Stops the thread: a collection in which these objects are alive, after which the other thread allocates.
        fn stop(&self, alive: &[usize]) -> Vec<usize> {
            let held = self.lock.lock();
            // SAFETY: no other thread uses this heap.
            let stopped = unsafe { WorldStopped::assume(&held) };
            let epoch = self.heap.begin_marking(stopped);
            self.thread.end_freed_lists(stopped);
            for cell in alive.iter().filter_map(|&payload| self.heap.blocks.cell_of_payload(payload)) {
                self.heap.blocks.mark(cell.block, cell.index).store(epoch, Relaxed);
            }
            let caches = [&self.thread, &self.other];
            self.heap.set_up_sweep(stopped, caches.into_iter(), &Events::new(), &Alone);
            self.heap.end_collection(stopped, u64::MAX);
            drop(held);
            (0..2000).map(|_| self.allocate(&self.other)).collect()
        }
    }

    /// Frees a cell and allocates it again, with a stop in the window of this number. Returns false if there is no such window.
    fn play(window: usize, class: usize) -> bool {
        let lock = SharedLock::alone();
        let pointers = Some(ObjectPointers::Bases);
        let mut heap = Heap::new(4 << 20, Paranoid::Off, Charging::Off, pointers, lock.clone()).unwrap();
        heap.set_first_budget(u64::MAX);
        let (thread, other) = (heap.new_cache(&WORD), heap.new_cache(&WORD));
        let kind = *KIND.get_or_init(|| KindNumber::register(&OTHER).unwrap());
        let scene = Arc::new(Scene { class, kind, heap, lock, thread, other });
        // Fill some blocks, so that the freed cells are in blocks that no thread owns.
        let cells: Vec<usize> = (0..2000).map(|_| scene.allocate(&scene.thread)).collect();
        let others = Arc::new(Mutex::new(Vec::new()));
        // The payload addresses of the cells that the thread uses or works on, which are on its stack or in its registers.
        let alive = Arc::new(Mutex::new(cells[..3].to_vec()));
        let (stage, taken, in_use) = (Arc::clone(&scene), Arc::clone(&others), Arc::clone(&alive));
        plan(window, scene.lock.clone(), move || *taken.lock().unwrap() = stage.stop(&in_use.lock().unwrap()));
        for &cell in &cells[..3] {
            // SAFETY: the simulated thread's own cache and cells.
            unsafe { scene.heap.free(&scene.thread, cell, || scene.lock.lock()) }.ok().unwrap();
            alive.lock().unwrap().retain(|used| *used != cell);
        }
        let mut allocated = HashSet::new();
        for _ in 0..3 {
            alive.lock().unwrap().push(scene.thread.freed.head(class));
            if let Some(payload) = scene.allocate_freed() {
                assert!(allocated.insert(payload as usize), "a cell was taken twice");
            }
        }
        let was_there = has_happened();
        let others = others.lock().unwrap();
        let twice: Vec<_> = others.iter().filter(|cell| allocated.contains(cell)).collect();
        assert!(twice.is_empty(), "{twice:x?} belong to two threads");
        was_there
    }

    /// `.heap.freed`
    #[rstest::rstest]
    fn a_stop_at_any_point_leaves_each_cell_one_owner(#[values(2, HEADED_CLASSES)] class: usize) {
        crate::sabotage::choose();
        let windows = (0..100).take_while(|window| play(*window, class)).count();
        assert!((8..100).contains(&windows), "{windows} windows");
    }
}
