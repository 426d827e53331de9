//! Sweeping: turns the cells that are not marked into free runs.
//!
//! In the stopped world, [`Heap::set_up_sweep`] only *counts* each block's marked cells (a scan of bytes, more than a hundred
//! megabytes of heap per millisecond): blocks without any become free, blocks with some go to their bin's list. Several threads can count.
//! The real sweep of a block happens when a thread takes it to allocate from ([`Heap::sweep_block`]), outside the
//! pause and outside the allocation lock.
//!
//! Until it is swept, the dead cells of a block still have headers. Code that examines a cell of an unswept block must therefore
//! check the mark as well ([`Heap::is_alive`]). Blocks that a thread owns at the stop keep their runs; the set-up removes the headers
//! of their dead cells, so that in these blocks too a header means a live object.
//!
//! If an event reports the end of each object, the set-up itself walks over the dead objects: it reports each and removes its
//! header. The thread that takes the block later only links the runs.

use std::ops::Range;

use super::blocks::{BlockIndex, BlockState, Cell, NO_BLOCK, NO_CELL};
use super::cache::{AllocationCache, RunLink};
use super::layout::{
    BINS, BLOCK_BYTES, CELL_BYTES, CLASSES, FIRST_CELL, HEADER_BYTES, MARKS_PER_BLOCK, Space, bin, cells_per_block,
    is_compact, payload_bytes,
};
use super::ranges::InRanges;
use super::stopped::{NoMutatorRuns, WorldStopped};
use super::{Heap, HeapState};
use crate::events::{EventId, Events};
use crate::sync::{AtomicU8, AtomicUsize, Ordering::Relaxed};

/// The content of freed payload words in paranoid mode: odd, so never an object's address.
pub(crate) const POISON: usize = 0xdead_10cc_dead_10cd;

/// How many blocks before a block's turn its mark bytes are prefetched. They begin a KiB after those of the previous block, so the processor
/// does not prefetch them itself: without this, the set-up takes two and a half times as long.
const AHEAD: BlockIndex = 4;

/// How many blocks a thread counts before it takes others: for some 10 µs.
const BLOCKS_AT_ONCE: usize = 128;

/// The bytes that a collection left alive, by space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceBytes {
    /// Bytes in cells of size classes, headers included.
    pub small: u64,
    /// Bytes of large objects, in whole blocks.
    pub large: u64,
    /// Bytes in cells of the pinned space, headers included.
    pub pinned: u64,
}

impl SpaceBytes {
    /// The sum of all spaces.
    pub fn total(&self) -> u64 {
        self.small + self.large + self.pinned
    }

    pub(crate) fn add(&mut self, space: Space, bytes: u64) {
        match space {
            Space::Small => self.small += bytes,
            Space::Pinned => self.pinned += bytes,
            Space::Large => self.large += bytes,
        }
    }
}

/// The result of [`Heap::set_up_sweep`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveCount {
    pub(crate) bytes: SpaceBytes,
    pub(crate) objects: u64,
    /// The number of live objects in the pinned space.
    pub(crate) pinned_objects: u64,
}

impl Heap {
    /// Classifies every block by its mark bytes: free, full, or to be swept. Called after marking. `in_ranges` counts the marks.
    pub(crate) fn set_up_sweep<'a>(
        &self,
        stopped: WorldStopped<'_>,
        caches: impl Iterator<Item = &'a AllocationCache> + Clone,
        events: &Events,
        in_ranges: &impl InRanges,
    ) -> LiveCount {
        let epoch = self.epoch();
        let tells = if events.is_enabled(EventId::ObjectFreed) { Some(events) } else { None };
        let state: &mut HeapState = &mut self.state(stopped.allocation());
        state.lists = [NO_BLOCK; BINS];
        for cache in caches.clone() {
            let taken_back = self.take_back_reserve(state, cache);
            state.returned_bytes += taken_back;
            for block in cache.blocks() {
                // The thread may have been stopped before it could set this state.
                self.blocks.info(block).set_state(BlockState::Owned);
                self.blocks.info(block).tail.cached.store(1, Relaxed);
            }
        }
        let shared = stopped.for_helpers();
        in_ranges.for_each(state.committed_blocks, BLOCKS_AT_ONCE, &|blocks| self.count_marked(shared, blocks, epoch));
        let mut live = LiveCount::default();
        // From the last block to the first, so that each list, which grows at its head, is in address order.
        let mut block = state.committed_blocks as BlockIndex;
        while block > 0 {
            block -= 1;
            let info = self.blocks.info(block);
            let kind = info.state();
            match kind {
                BlockState::Free | BlockState::Reserved | BlockState::LargeTail => {}
                BlockState::LargeHead => {
                    let (start, bytes) = (self.blocks.start(block), self.large_footprint(block));
                    let is_alive = self.blocks.mark(block, 0).load(Relaxed) == epoch;
                    let live_bytes = if is_alive { bytes } else { 0 };
                    events.fire_block_reclaimed(start, Space::Large as u32, live_bytes as usize);
                    if is_alive {
                        live.objects += 1;
                        live.bytes.large += bytes;
                    } else {
                        events.fire_object_freed(start + FIRST_CELL + HEADER_BYTES, bytes as usize);
                        events.fire_block_released(start, bytes as usize, Space::Large as u32);
                        self.free_large(state, block);
                    }
                }
                BlockState::Owned | BlockState::Full | BlockState::Unswept => {
                    let class = usize::from(info.head.class.load(Relaxed));
                    let space =
                        if info.head.space.load(Relaxed) == Space::Pinned as u8 { Space::Pinned } else { Space::Small };
                    let cells = cells_per_block(CELL_BYTES[class]);
                    let marked = info.live() as usize;
                    live.objects += marked as u64;
                    if space == Space::Pinned {
                        live.pinned_objects += marked as u64;
                        if marked > 0 && events.is_enabled(EventId::ObjectPinned) {
                            self.report_pinned(block, CELL_BYTES[class], epoch, events);
                        }
                    }
                    live.bytes.add(space, (marked * CELL_BYTES[class]) as u64);
                    events.fire_block_reclaimed(self.blocks.start(block), space as u32, marked * CELL_BYTES[class]);
                    if info.tail.cached.swap(0, Relaxed) == 1 {
                        continue;
                    }
                    if let Some(events) = tells {
                        self.report_dead(stopped, block, epoch, events);
                    }
                    if marked == 0 {
                        events.fire_block_released(self.blocks.start(block), BLOCK_BYTES, space as u32);
                        self.blocks.set_none(block);
                        info.set_state(BlockState::Free);
                        state.free.insert(block);
                    } else if marked == cells {
                        info.set_state(BlockState::Full);
                        self.blocks.set_cells(block, class);
                    } else {
                        info.set_state(BlockState::Unswept);
                        if tells.is_some() {
                            self.blocks.set_cells(block, class);
                        } else {
                            self.blocks.set_unswept(block);
                        }
                        let list = &mut state.lists[bin(space, class)];
                        info.tail.next.store(*list, Relaxed);
                        *list = block;
                    }
                }
            }
        }
        for (listed, head) in self.listed.iter().zip(state.lists) {
            listed.store(head != NO_BLOCK, Relaxed);
        }
        for cache in caches {
            self.clear_dead_in_owned_blocks(stopped, cache, epoch, tells);
        }
        live
    }

    /// Counts the marked cells of these blocks, and stores the numbers in the blocks.
    fn count_marked(&self, stopped: NoMutatorRuns<'_>, blocks: Range<usize>, epoch: u8) {
        let committed = self.committed_blocks();
        for block in blocks.start as BlockIndex..blocks.end as BlockIndex {
            let info = self.blocks.info(block);
            if !matches!(info.state(), BlockState::Owned | BlockState::Full | BlockState::Unswept) {
                continue;
            }
            let cells = cells_per_block(CELL_BYTES[usize::from(info.head.class.load(Relaxed))]);
            if block + AHEAD < committed {
                self.blocks.prefetch_marks(block + AHEAD, cells);
            }
            info.set_live(count_equal(stopped, self.blocks.marks(block, cells), epoch) as u32);
        }
    }

    /// Reports each object in a block that this collection found dead, and removes its header. Leaves out objects that an earlier
    /// collection found dead and that were not reported then, because the event was disabled.
    fn report_dead(&self, _stopped: WorldStopped<'_>, block: BlockIndex, epoch: u8, events: &Events) {
        let cell_bytes = CELL_BYTES[usize::from(self.blocks.info(block).head.class.load(Relaxed))];
        let is_unswept = self.blocks.word(block).is_unswept();
        for (index, mark) in self.blocks.marks(block, cells_per_block(cell_bytes)).iter().enumerate() {
            let mark = mark.load(Relaxed);
            let cell = self.blocks.cell(block, cell_bytes, index as u32);
            if mark != epoch && self.blocks.header_word(cell) != 0 {
                if !is_unswept || mark == self.swept_epoch() {
                    events.fire_object_freed(cell.payload(), cell_bytes);
                }
                // SAFETY: the cell is not marked in the stopped world, so its object is dead.
                unsafe { self.bury(cell) };
            }
        }
    }

    /// Reports each live object in a block of the pinned space.
    fn report_pinned(&self, block: BlockIndex, cell_bytes: usize, epoch: u8, events: &Events) {
        for (index, mark) in self.blocks.marks(block, cells_per_block(cell_bytes)).iter().enumerate() {
            if mark.load(Relaxed) == epoch {
                let cell = self.blocks.cell(block, cell_bytes, index as u32);
                events.fire_object_pinned(cell.payload(), cell_bytes, self.blocks.header_word(cell));
            }
        }
    }

    /// Fires an event for each block in which something is marked. Called after marking.
    pub(crate) fn report_scanned(&self, stopped: WorldStopped<'_>, events: &Events) {
        self.check(stopped);
        let epoch = self.epoch();
        for block in 0..self.committed_blocks() {
            let info = self.blocks.info(block);
            let (space, cells) = match info.state() {
                BlockState::Free | BlockState::Reserved | BlockState::LargeTail => continue,
                BlockState::LargeHead => (Space::Large as u32, 1),
                _ => {
                    let cell_bytes = CELL_BYTES[usize::from(info.head.class.load(Relaxed))];
                    (u32::from(info.head.space.load(Relaxed)), cells_per_block(cell_bytes))
                }
            };
            let marked = count_equal(stopped.for_helpers(), self.blocks.marks(block, cells), epoch);
            if marked > 0 {
                events.fire_block_scanned(self.blocks.start(block), space, marked);
            }
        }
    }

    /// Settles the objects that a stopped thread has allocated and not settled itself. If allocation events are enabled, reports them
    /// for the thread, which was stopped before it could. Otherwise their allocation is never reported: a listener that starts
    /// later begins with the objects that this collection found alive. Called after marking.
    pub(crate) fn settle_new_objects(&self, stopped: WorldStopped<'_>, cache: &AllocationCache, events: &Events) {
        self.check(stopped);
        let listens = events.is_enabled(EventId::ObjectAllocated);
        if let Some(payload) = cache.take_large()
            && listens
            && let Some(cell) = self.blocks.cell_of_payload(payload)
        {
            events.fire_object_allocated(payload, self.large_footprint(cell.block) as usize);
        }
        for bin in cache.filled_bins() {
            let cell_bytes = CELL_BYTES[bin % CLASSES];
            let unsettled = cache.unsettled(bin);
            if unsettled.end == 0 {
                // The bin has no run, or the thread was stopped between two runs.
                continue;
            }
            if listens {
                for header in unsettled.clone().step_by(cell_bytes) {
                    events.fire_object_allocated(header + HEADER_BYTES, cell_bytes);
                }
            }
            // The cell that is being built may be an object already, whose address the allocator has not returned yet: it is reported if
            // it is marked, by the first collection that finds it so. The thread may be stopped there again before it has executed an
            // instruction.
            let building = cache.building(bin);
            let was_settled = building != 0 && cache.is_settled(bin, building);
            let is_new = building != 0 && !was_settled && self.is_marked(building + HEADER_BYTES);
            if is_new {
                events.fire_object_allocated(building + HEADER_BYTES, cell_bytes);
            }
            cache.settle(bin, unsettled.end + if is_new || was_settled { cell_bytes } else { 0 });
        }
    }

    /// Removes the headers of the dead cells in the blocks that a stopped thread owns. Its runs stay as they are.
    fn clear_dead_in_owned_blocks(
        &self,
        _stopped: WorldStopped<'_>,
        cache: &AllocationCache,
        epoch: u8,
        tells: Option<&Events>,
    ) {
        for bin in cache.filled_bins() {
            let Some(block) = cache.block(bin) else { continue };
            let cell_bytes = CELL_BYTES[bin % CLASSES];
            let building = cache.building(bin);
            let marks = self.blocks.marks(block, cells_per_block(cell_bytes));
            for (index, mark) in marks.iter().enumerate() {
                let cell = self.blocks.cell(block, cell_bytes, index as u32);
                if mark.load(Relaxed) != epoch && cell.header != building && self.blocks.header_word(cell) != 0 {
                    if let Some(events) = tells {
                        events.fire_object_freed(cell.payload(), cell_bytes);
                    }
                    // SAFETY: the cell is neither marked nor being built in the stopped world, so its object is dead.
                    unsafe { self.bury(cell) };
                }
            }
        }
    }

    /// Makes free runs of a block's dead cells. Returns the number of bytes in the runs.
    ///
    /// # Safety
    /// Only the caller uses the block: it has just taken it from its list and is in the sweep gate with it, so that no stop
    /// comes between; or it has stopped the world; or the thread that was sweeping the block does not exist any more. Its cells
    /// are of this class.
    pub(crate) unsafe fn sweep_block(&self, block: BlockIndex, class: usize) -> usize {
        let (epoch, cell_bytes) = (self.epoch(), CELL_BYTES[class]);
        let info = self.blocks.info(block);
        let marks = self.blocks.marks(block, cells_per_block(cell_bytes));
        let mut free_cells = 0;
        let mut next = NO_CELL;
        // The runs are made from the last to the first, so that the link of each can name the run after it.
        let mut end = marks.len();
        while end > 0 {
            if marks[end - 1].load(Relaxed) == epoch {
                end -= 1;
                continue;
            }
            let mut first = end;
            while first > 0 && marks[first - 1].load(Relaxed) != epoch {
                first -= 1;
                // SAFETY: the cell is dead, and the block belongs to the caller.
                unsafe { self.bury_in(class, self.blocks.cell(block, cell_bytes, first as u32)) };
            }
            let link = RunLink { next, cells: (end - first) as u32 };
            // SAFETY: the cell is dead and the block is this thread's.
            unsafe { link.write(self.blocks.cell(block, cell_bytes, first as u32).header) };
            next = first as u32;
            free_cells += end - first;
            end = first;
        }
        info.tail.first_run.store(next, Relaxed);
        self.blocks.set_cells(block, class);
        free_cells * cell_bytes
    }

    /// Like [`sweep_block`](Self::sweep_block), for a block without live objects: makes one run of it. A `fresh` block is all zeros.
    ///
    /// # Safety
    /// Only the caller uses the block, and nothing lives in it.
    pub(crate) unsafe fn sweep_empty_block(&self, block: BlockIndex, class: usize, fresh: bool) -> usize {
        let cell_bytes = CELL_BYTES[class];
        let cells = cells_per_block(cell_bytes);
        if is_compact(class) {
            self.blocks.kinds().clear_block(self.blocks.start(block));
        }
        if self.paranoid {
            for index in 0..cells {
                // SAFETY: the cell is dead, and the block belongs to the caller.
                unsafe { self.bury_in(class, self.blocks.cell(block, cell_bytes, index as u32)) };
            }
        } else if !fresh && !is_compact(class) {
            let mut header = self.blocks.cell(block, cell_bytes, 0).header;
            for _ in 0..cells {
                // SAFETY: the block is this thread's, and no cell in it is alive.
                unsafe { (*(header as *const AtomicUsize)).store(0, Relaxed) };
                header += cell_bytes;
            }
        }
        // If the rest of the block after the last cell has room for a header, the address map finds one more cell there. A word that
        // is no reference may point to that cell, so it must be free whatever the block held before.
        let behind = self.blocks.cell(block, cell_bytes, cells as u32).header;
        if behind < self.blocks.start(block) + BLOCK_BYTES && !is_compact(class) {
            // SAFETY: in the block, which is this thread's.
            unsafe { (*(behind as *const AtomicUsize)).store(0, Relaxed) };
        }
        // SAFETY: as above.
        unsafe { RunLink { next: NO_CELL, cells: cells as u32 }.write(self.blocks.cell(block, cell_bytes, 0).header) };
        self.blocks.info(block).tail.first_run.store(0, Relaxed);
        self.blocks.set_cells(block, class);
        cells * cell_bytes
    }

    /// Removes a dead cell's header; in paranoid mode also poisons its payload.
    ///
    /// # Safety
    /// The cell is dead, and the caller owns its block or has stopped the world.
    unsafe fn bury(&self, cell: Cell) {
        let class = usize::from(self.blocks.info(cell.block).head.class.load(Relaxed));
        // SAFETY: the caller's promise; the block has this class.
        unsafe { self.bury_in(class, cell) };
    }

    /// [`bury`](Self::bury) for a caller that knows the class of the cell's block.
    ///
    /// # Safety
    /// As for [`bury`](Self::bury), and the cell is of this class.
    #[inline(always)]
    unsafe fn bury_in(&self, class: usize, cell: Cell) {
        if is_compact(class) {
            self.blocks.kinds().clear(cell.payload());
        } else {
            // SAFETY: by the caller: no other thread reads or writes the cell.
            unsafe { (*(cell.header as *const AtomicUsize)).store(0, Relaxed) };
        }
        if self.paranoid {
            // SAFETY: as above.
            unsafe { poison(cell, payload_bytes(class)) };
        }
    }

    /// Returns whether a cell holds a live object: one that the last finished collection found alive, or that was allocated since. During
    /// marking, the present collection does not count.
    #[inline]
    pub(crate) fn is_alive(&self, cell: Cell) -> bool {
        if self.blocks.header_word(cell) == 0 {
            return false;
        }
        if !self.blocks.word(cell.block).is_unswept() {
            return true;
        }
        let mark = self.blocks.mark(cell.block, cell.index).load(Relaxed);
        mark == self.swept_epoch() || mark == self.epoch()
    }

    /// Called before the epoch wraps to 1: finishes all sweeping and clears all marks, including marks in blocks that have
    /// become free. Otherwise an old mark could equal a later epoch with the same number.
    pub(crate) fn forget_old_marks(&self, stopped: WorldStopped<'_>) {
        let mut state = self.state(stopped.allocation());
        for block in 0..state.committed_blocks as BlockIndex {
            let info = self.blocks.info(block);
            if info.state() == BlockState::Unswept {
                // SAFETY: the world is stopped, and no thread is sweeping.
                unsafe { self.sweep_block(block, usize::from(info.head.class.load(Relaxed))) };
                // The block must not be swept again: its marks are about to be cleared, and if this collection is discarded, a sweep with
                // cleared marks would remove live objects.
                info.set_state(BlockState::Full);
            }
            for mark in self.blocks.marks(block, MARKS_PER_BLOCK) {
                mark.store(0, Relaxed);
            }
        }
        state.lists = [NO_BLOCK; BINS];
    }
}

/// Poisons a payload of `bytes` bytes.
///
/// # Safety
/// The cell has such a payload, and belongs to the caller.
pub(super) unsafe fn poison(cell: Cell, bytes: usize) {
    for address in (cell.payload()..cell.payload() + bytes).step_by(8) {
        // SAFETY: the caller's promise.
        unsafe { (address as *mut usize).write(POISON) };
    }
}

/// Returns the number of bytes that equal `value`. The loop is simple enough for the compiler to use vector instructions.
fn count_equal(_stopped: NoMutatorRuns<'_>, marks: &[AtomicU8], value: u8) -> usize {
    let mut total = 0;
    for chunk in marks.chunks(255) {
        // SAFETY: the world is stopped, and neither the collecting thread nor its helpers mark while they count: no thread writes these
        // bytes, so plain reads are sound.
        let bytes = unsafe { std::slice::from_raw_parts(chunk.as_ptr().cast::<u8>(), chunk.len()) };
        total += usize::from(bytes.iter().fold(0_u8, |count, &byte| count + u8::from(byte == value)));
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Categories, Category, MemorySink, Selection};
    use crate::heap::charges::Charging;
    use crate::heap::ranges::Alone;
    use crate::heap::{Paranoid, Refill};
    use crate::sync::{CurrentId, Lock, SharedLock};
    use proptest::prelude::*;

    static WORD: CurrentId = CurrentId::new();

    /// A heap, and its allocation lock.
    fn heap(bytes: usize) -> (Heap, SharedLock) {
        let lock = SharedLock::alone();
        let mut heap = Heap::new(bytes, Paranoid::On, Charging::Off, None, lock.clone()).unwrap();
        heap.set_first_budget(bytes as u64);
        (heap, lock)
    }

    /// Begins a mark phase, marks nothing, and sets up the sweep.
    fn collect<'a>(heap: &Heap, lock: &Lock, caches: impl Iterator<Item = &'a AllocationCache> + Clone) {
        let held = lock.lock();
        // SAFETY: no other thread uses this heap.
        let stopped = unsafe { WorldStopped::assume(&held) };
        heap.begin_marking(stopped);
        heap.set_up_sweep(stopped, caches, &Events::new(), &Alone);
    }

    proptest! {
        #[test]
        fn counting_marks_in_chunks_equals_counting_one_by_one(
            bytes in proptest::collection::vec(0_u8..4, 0..1100), value in 0_u8..4,
        ) {
            let marks: Vec<AtomicU8> = bytes.iter().map(|&byte| AtomicU8::new(byte)).collect();
            let lock = Lock::new();
            let held = lock.lock();
            // SAFETY: the lock belongs to no world, and no other thread uses these marks.
            let stopped = unsafe { WorldStopped::assume(&held) };
            prop_assert_eq!(count_equal(stopped.for_helpers(), &marks, value), bytes.iter().filter(|&&byte| byte == value).count());
        }
    }

    /// `.event.objects`: a thread is stopped twice at the same instruction, after it has stored an object's header and before it has
    /// advanced its cursor. Whether the second stop follows the switching-on or both do, the object is reported at most once.
    #[rstest::rstest]
    fn an_object_whose_allocation_is_not_complete_is_reported_once(
        #[values(false, true)] listens_from_the_first: bool,
    ) {
        let (heap, lock) = heap(1 << 20);
        let (bin, cache) = (2, heap.new_cache(&WORD));
        assert_eq!(heap.refill(&cache, bin, || lock.lock()), Refill::Ready);
        let header = cache.building(bin);
        let of_type = <u64 as crate::heap::trace::Described>::INFO;
        // SAFETY: the first free cell of the cache; no other thread uses this heap.
        unsafe { *(header as *mut usize) = std::ptr::from_ref(of_type) as usize };
        let (events, sink) = (Events::new(), std::sync::Arc::new(MemorySink::with_capacity(16).unwrap()));
        let collect = || {
            let held = lock.lock();
            // SAFETY: as above.
            let stopped = unsafe { WorldStopped::assume(&held) };
            let epoch = heap.begin_marking(stopped);
            let cell = heap.blocks.cell_of_payload(header + HEADER_BYTES).unwrap();
            heap.blocks.mark(cell.block, cell.index).store(epoch, Relaxed);
            heap.settle_new_objects(stopped, &cache, &events);
        };
        let listen =
            || events.listen(sink.clone(), Selection::categories(Categories::of(&[Category::Object]))).map(drop);
        if listens_from_the_first {
            listen().unwrap();
            collect();
        } else {
            collect();
            listen().unwrap();
        }
        collect();
        assert_eq!(sink.drain().count(), usize::from(listens_from_the_first));
        assert!(cache.is_settled(bin, header), "the thread would report the object itself");
    }

    /// `.stop.fork`: when the process forks, a thread may be in the middle of a sweep: after its first store, or before its last. The
    /// thread does not exist in the child.
    #[rstest::rstest]
    fn the_block_that_a_lost_thread_was_sweeping_is_free_again_after_the_next_collection(
        #[values(1, 3)] live: usize,
        #[values(false, true)] nearly_done: bool,
    ) {
        let (heap, lock) = heap(1 << 20);
        let (class, cache) = (2, heap.new_cache(&WORD));
        let block = heap.take_free_blocks(&mut heap.state(&lock.lock()), 1).unwrap();
        let info = heap.blocks.info(block);
        info.head.class.store(class as u8, Relaxed);
        info.head.live.store(live as u32, Relaxed);
        info.set_state(BlockState::Owned);
        heap.blocks.marks(block, live).iter().for_each(|mark| mark.store(heap.epoch(), Relaxed));
        cache.while_sweeping(block, || {
            if nearly_done {
                // SAFETY: the block is in no list.
                unsafe { heap.sweep_block(block, class) };
            }
            // SAFETY: the cache is the calling thread's.
            unsafe { heap.finish_sweep_of(&lock.lock(), &cache) };
        });
        assert_eq!(info.state(), BlockState::Full, "no thread owns it any more");
        assert_eq!(info.tail.first_run.load(Relaxed), live as u32, "the first run follows the live cells");
        collect(&heap, &lock, std::iter::empty());
        assert_eq!(info.state(), BlockState::Free);
    }

    /// A thread may be stopped when a block is in its cache and the block's state is not `Owned` yet.
    #[test]
    fn a_block_that_a_thread_was_about_to_own_is_owned_after_the_next_collection() {
        let (heap, lock) = heap(1 << 20);
        let (bin, cache) = (2, heap.new_cache(&WORD));
        assert!(matches!(heap.refill(&cache, bin, || lock.lock()), Refill::Ready));
        let info = heap.blocks.info(cache.block(bin).unwrap());
        assert_eq!(info.state(), BlockState::Owned);
        // The state that the block had one store earlier.
        info.set_state(BlockState::Reserved);
        collect(&heap, &lock, std::iter::once(&cache));
        assert_eq!(info.state(), BlockState::Owned);
        assert_eq!(info.tail.cached.load(Relaxed), 0, "otherwise the next collection takes the block for a cached one");
    }

    /// After a collection, any thread can take the rest of a thread's reserve, and the blocks that a thread has used up have no
    /// owner.
    #[test]
    fn a_collection_takes_back_what_a_thread_has_reserved_and_what_it_has_used_up() {
        let (heap, lock) = heap(16 << 20);
        let (bin, cache) = (2, heap.new_cache(&WORD));
        let mut used_up = Vec::new();
        while used_up.len() < 2 || cache.reserve().count == 0 {
            used_up.extend(cache.block(bin));
            assert!(matches!(heap.refill(&cache, bin, || lock.lock()), Refill::Ready));
        }
        let reserved = cache.reserve().first;
        collect(&heap, &lock, std::iter::once(&cache));
        assert_eq!(cache.reserve().count, 0);
        for block in used_up.into_iter().chain([reserved]).filter(|block| cache.block(bin) != Some(*block)) {
            assert_eq!(heap.blocks.info(block).state(), BlockState::Free);
            assert!(heap.state(&lock.lock()).free.contains(block as usize));
        }
    }

    /// Marks are not cleared when a block becomes free; but none may be left when the same epoch comes again.
    #[test]
    fn no_mark_of_a_free_block_is_left_when_the_epochs_start_again() {
        let (heap, lock) = heap(1 << 20);
        let block = heap.take_free_blocks(&mut heap.state(&lock.lock()), 1).unwrap();
        heap.blocks.info(block).set_state(BlockState::Full);
        let marks = heap.blocks.marks(block, MARKS_PER_BLOCK);
        marks.iter().for_each(|mark| mark.store(heap.epoch(), Relaxed));
        let first = heap.epoch();
        collect(&heap, &lock, std::iter::empty());
        assert_eq!((heap.blocks.info(block).state(), marks[0].load(Relaxed)), (BlockState::Free, first));
        let held = lock.lock();
        // SAFETY: no other thread uses this heap.
        while heap.begin_marking(unsafe { WorldStopped::assume(&held) }) != first {}
        assert!(marks.iter().all(|mark| mark.load(Relaxed) == 0));
    }
}
