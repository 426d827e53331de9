//! Sweeping: what the mark bytes say becomes free runs.
//!
//! In the stopped world, [`Heap::set_up_sweep`] only *counts* each block's marked cells (a scan of bytes, thousands
//! of megabytes of heap per millisecond): blocks without any become free, blocks with some go to their bin's list.
//! The real sweep of a block happens when a thread takes it to allocate from ([`Heap::sweep_block`]), outside the
//! pause and outside the allocation lock.
//!
//! Until then its dead cells still have headers. Who looks at a cell of an unswept block must therefore ask for
//! the mark as well ([`Heap::is_alive`]). Blocks that a thread owns at the stop keep their runs; their dead cells
//! lose their headers in the set-up, so that in them too a header means a live object.

use super::Heap;
use super::blocks::{BlockIndex, BlockState, Cell, NO_BLOCK, NO_CELL};
use super::cache::{AllocationCache, RunLink};
use super::layout::{BINS, BLOCK_BYTES, CELL_BYTES, CLASSES, HEADER_BYTES, Space, bin, cells_per_block};
use crate::sync::{AtomicU8, AtomicUsize, Ordering::Relaxed};

/// What freed payload words hold in paranoid mode: odd, so never an object's address.
pub(crate) const POISON: usize = 0xdead_10cc_dead_10cd;

/// What a collection left alive, by space.
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
    /// All spaces together.
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

/// What [`Heap::set_up_sweep`] counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveCount {
    pub(crate) bytes: SpaceBytes,
    pub(crate) objects: u64,
}

impl Heap {
    /// Sorts every block by what the marks say. World stopped, allocation lock held, marking finished.
    pub(crate) fn set_up_sweep<'a>(&self, caches: impl Iterator<Item = &'a AllocationCache>) -> LiveCount {
        let epoch = self.epoch();
        // SAFETY: the collector holds the allocation lock.
        let state = unsafe { self.state() };
        state.lists = [NO_BLOCK; BINS];
        let mut live = LiveCount::default();
        // From the last block to the first, so that each list, which grows at its head, is in address order.
        let mut block = state.committed_blocks as BlockIndex;
        while block > 0 {
            block -= 1;
            let info = self.blocks.info(block);
            let kind = info.state();
            match kind {
                BlockState::Free | BlockState::LargeTail => {}
                BlockState::LargeHead => {
                    if self.blocks.mark(block, 0).load(Relaxed) == epoch {
                        live.objects += 1;
                        live.bytes.large += self.large_footprint(block);
                    } else {
                        self.free_large(state, block);
                    }
                }
                BlockState::Owned | BlockState::Full | BlockState::Unswept => {
                    let class = usize::from(info.class.load(Relaxed));
                    let space =
                        if info.space.load(Relaxed) == Space::Pinned as u8 { Space::Pinned } else { Space::Small };
                    let cells = cells_per_block(CELL_BYTES[class]);
                    let marked = count_equal(self.blocks.marks(block, cells), epoch);
                    info.live.store(marked as u32, Relaxed);
                    live.objects += marked as u64;
                    live.bytes.add(space, (marked * CELL_BYTES[class]) as u64);
                    if kind == BlockState::Owned {
                        continue;
                    }
                    if marked == 0 {
                        self.blocks.set_none(block);
                        info.set_state(BlockState::Free);
                        state.free.insert(block);
                    } else if marked == cells {
                        info.set_state(BlockState::Full);
                        self.blocks.set_cells(block, CELL_BYTES[class]);
                    } else {
                        info.set_state(BlockState::Unswept);
                        self.blocks.set_unswept(block);
                        let list = &mut state.lists[bin(space, class)];
                        info.next.store(*list, Relaxed);
                        *list = block;
                    }
                }
            }
        }
        for cache in caches {
            self.clear_dead_in_owned_blocks(cache, epoch);
        }
        live
    }

    /// Takes the headers from the dead cells of the blocks that a stopped thread owns. Its runs stay as they are.
    fn clear_dead_in_owned_blocks(&self, cache: &AllocationCache, epoch: u8) {
        for bin in 0..BINS {
            let Some(block) = cache.block(bin) else { continue };
            let cell_bytes = CELL_BYTES[bin % CLASSES];
            let building = cache.building(bin);
            let marks = self.blocks.marks(block, cells_per_block(cell_bytes));
            for (index, mark) in marks.iter().enumerate() {
                let cell = self.blocks.cell(block, cell_bytes, index as u32);
                if mark.load(Relaxed) != epoch && cell.header != building && cell.header_word() != 0 {
                    self.bury(cell, cell_bytes);
                }
            }
        }
    }

    /// Makes free runs of a block's dead cells, and returns the bytes in them. The caller has just taken the block
    /// from its list (or from the free blocks) and holds a place in the sweep gate, so that no stop comes between.
    pub(crate) fn sweep_block(&self, block: BlockIndex, cell_bytes: usize) -> usize {
        let epoch = self.epoch();
        let info = self.blocks.info(block);
        let marks = self.blocks.marks(block, cells_per_block(cell_bytes));
        let mut free_cells = 0;
        let mut next = NO_CELL;
        // Backwards, so that each run's link can name the run after it.
        let mut end = marks.len();
        while end > 0 {
            if marks[end - 1].load(Relaxed) == epoch {
                end -= 1;
                continue;
            }
            let mut first = end;
            while first > 0 && marks[first - 1].load(Relaxed) != epoch {
                first -= 1;
                self.bury(self.blocks.cell(block, cell_bytes, first as u32), cell_bytes);
            }
            let link = RunLink { next, cells: (end - first) as u32 };
            // SAFETY: the cell is dead and the block is this thread's.
            unsafe { link.write(self.blocks.cell(block, cell_bytes, first as u32).header) };
            next = first as u32;
            free_cells += end - first;
            end = first;
        }
        info.first_run.store(next, Relaxed);
        self.blocks.set_cells(block, cell_bytes);
        free_cells * cell_bytes
    }

    /// [`sweep_block`](Self::sweep_block) for a block in which nothing is alive: one run. A `fresh` one is all zeros.
    pub(crate) fn sweep_empty_block(&self, block: BlockIndex, cell_bytes: usize, fresh: bool) -> usize {
        let cells = cells_per_block(cell_bytes);
        if self.paranoid {
            for index in 0..cells {
                self.bury(self.blocks.cell(block, cell_bytes, index as u32), cell_bytes);
            }
        } else if !fresh {
            let mut header = self.blocks.cell(block, cell_bytes, 0).header;
            for _ in 0..cells {
                // SAFETY: the block is this thread's, and no cell in it is alive.
                unsafe { (*(header as *const AtomicUsize)).store(0, Relaxed) };
                header += cell_bytes;
            }
        }
        // Behind the last cell the address map sees one more, if a header has room there: a word that is no reference may
        // lead to it, and must find it free whatever the block held before.
        let behind = self.blocks.cell(block, cell_bytes, cells as u32).header;
        if behind < self.blocks.start(block) + BLOCK_BYTES {
            // SAFETY: in the block, which is this thread's.
            unsafe { (*(behind as *const AtomicUsize)).store(0, Relaxed) };
        }
        // SAFETY: as above.
        unsafe { RunLink { next: NO_CELL, cells: cells as u32 }.write(self.blocks.cell(block, cell_bytes, 0).header) };
        self.blocks.info(block).first_run.store(0, Relaxed);
        self.blocks.set_cells(block, cell_bytes);
        cells * cell_bytes
    }

    /// Takes a dead cell's header; in paranoid mode also poisons its payload.
    #[inline(always)]
    fn bury(&self, cell: Cell, cell_bytes: usize) {
        // SAFETY: the cell is dead, so nobody but the caller, who owns the block or has stopped the world, reads or
        // writes it.
        unsafe {
            (*(cell.header as *const AtomicUsize)).store(0, Relaxed);
            if self.paranoid {
                for offset in (HEADER_BYTES..cell_bytes).step_by(8) {
                    ((cell.header + offset) as *mut usize).write(POISON);
                }
            }
        }
    }

    /// Whether a cell holds a live object, as far as is known since the last collection (or, while marking, since
    /// the one before).
    #[inline]
    pub(crate) fn is_alive(&self, cell: Cell) -> bool {
        if cell.header_word() == 0 {
            return false;
        }
        if !self.blocks.word(cell.block).is_unswept() {
            return true;
        }
        let mark = self.blocks.mark(cell.block, cell.index).load(Relaxed);
        mark == self.swept_epoch() || mark == self.epoch()
    }

    /// Before the epoch wraps to 1: finishes all sweeping and clears all marks. World stopped, lock held.
    pub(crate) fn forget_old_marks(&self) {
        // SAFETY: the collector holds the allocation lock.
        let state = unsafe { self.state() };
        for block in 0..state.committed_blocks as BlockIndex {
            let info = self.blocks.info(block);
            let cells = match info.state() {
                BlockState::Free | BlockState::LargeTail => 0,
                BlockState::LargeHead => 1,
                BlockState::Owned | BlockState::Full => {
                    cells_per_block(CELL_BYTES[usize::from(info.class.load(Relaxed))])
                }
                BlockState::Unswept => {
                    let cell_bytes = CELL_BYTES[usize::from(info.class.load(Relaxed))];
                    self.sweep_block(block, cell_bytes);
                    // Swept once: its marks are about to be cleared, and if this collection is discarded, a second
                    // sweep by them would bury what is alive.
                    info.set_state(BlockState::Full);
                    cells_per_block(cell_bytes)
                }
            };
            for mark in self.blocks.marks(block, cells) {
                mark.store(0, Relaxed);
            }
        }
        state.lists = [NO_BLOCK; BINS];
    }
}

/// How many of these bytes equal `value`. Plain enough for the compiler to use vector instructions.
fn count_equal(marks: &[AtomicU8], value: u8) -> usize {
    let mut total = 0;
    for chunk in marks.chunks(255) {
        // SAFETY: marking is over and the world is stopped: nobody writes these bytes, so plain reads are sound.
        let bytes = unsafe { std::slice::from_raw_parts(chunk.as_ptr().cast::<u8>(), chunk.len()) };
        total += usize::from(bytes.iter().fold(0_u8, |count, &byte| count + u8::from(byte == value)));
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Paranoid;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counting_marks_in_chunks_counts_what_counting_one_by_one_does(
            bytes in proptest::collection::vec(0_u8..4, 0..1100), value in 0_u8..4,
        ) {
            let marks: Vec<AtomicU8> = bytes.iter().map(|&byte| AtomicU8::new(byte)).collect();
            prop_assert_eq!(count_equal(&marks, value), bytes.iter().filter(|&&byte| byte == value).count());
        }
    }

    /// `.stop.fork`: a fork may leave a thread behind in the middle of a sweep: after the first word of it, or before the last.
    #[rstest::rstest]
    fn the_block_that_a_lost_thread_was_sweeping_is_free_again_after_the_next_collection(
        #[values(0, 3)] live: usize,
        #[values(false, true)] nearly_done: bool,
    ) {
        let heap = Heap::new(1 << 20, Paranoid::On).unwrap();
        let (class, cache) = (2, AllocationCache::new());
        // SAFETY: nobody else knows this heap.
        let block = heap.take_free_blocks(unsafe { heap.state() }, 1).unwrap();
        let info = heap.blocks.info(block);
        info.class.store(class as u8, Relaxed);
        info.live.store(live as u32, Relaxed);
        info.set_state(BlockState::Owned);
        heap.blocks.marks(block, live).iter().for_each(|mark| mark.store(heap.epoch(), Relaxed));
        cache.while_sweeping(block, || {
            if nearly_done {
                heap.sweep_block(block, CELL_BYTES[class]);
            }
            heap.finish_sweep_of(&cache);
        });
        assert_eq!(info.state(), BlockState::Full, "nobody's any more");
        assert_eq!(info.first_run.load(Relaxed), live as u32, "the first run lies behind what is alive");
        heap.begin_marking();
        heap.set_up_sweep(std::iter::empty());
        assert_eq!(info.state(), BlockState::Free);
    }
}
