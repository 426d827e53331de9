//! Charges: for each object, what its thread was doing when it allocated it.
//!
//! A world that charges its allocations has one more side table, a number for each cell, where the mark bytes are for marks.
//! What the numbers mean is their user's affair (`profile/` has cost centre stacks in them); the heap puts there whatever stands in
//! a word of the allocating thread's, at the time of the allocation.
//!
//! **The fast path does not know of it.** A thread allocates by bumping cursors, so what it has allocated since a given moment lies
//! between where its cursors were and where they are. It is enough to charge that, all at once, before the word changes:
//!
//! ```text
//!   run      | charged earlier | not charged yet | free …            |
//!                              ^charged          ^cursor = limit     ^end
//! ```
//!
//! Nor is it necessary to look at every cursor then. A bin is *open* if its thread may have allocated in it since the word changed last.
//! When the word changes, the open bins are charged and *closed*: the limit that the fast path looks at comes down to the
//! cursor. So the next allocation in that bin takes the slow path, which opens the bin again. A change of the word
//! between which nothing was allocated costs one test, and an allocation costs what it costs without.
//!
//! **In the stopped world** the collector charges what the stopped threads have not, to what their words say, and also the cell
//! that a thread is building: it may be an object already (`.stop.mid-alloc`). It changes no word and closes no bin, and a thread that was stopped
//! in the middle of charging goes on with the same number for the same cells.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::blocks::{BlockIndex, Blocks};
use super::layout::{BLOCK_BYTES, BLOCK_SHIFT, CELL_BYTES, CLASSES, FIRST_CELL, MARKS_PER_BLOCK, divide, reciprocal};
use crate::os::memory::{Reservation, page_size};
use crate::sync::{AtomicU32, Ordering};

/// Whether a world remembers of each object what it was allocated under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charging {
    /// It does not.
    #[default]
    Off,
    /// It does: a page of memory for each block of the heap, and what a change of scope costs.
    On,
}

static RECIPROCALS: [u32; CLASSES] = {
    let mut all = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        all[class] = reciprocal(CELL_BYTES[class]);
        class += 1;
    }
    all
};

/// The table of a heap's charges.
#[derive(Debug)]
pub(crate) struct Charges {
    entries: Reservation,
    /// Where the heap begins.
    base: usize,
}

impl Charges {
    /// A table for these blocks. The kernel gives its memory when it is touched.
    pub(crate) fn new(blocks: &Blocks) -> io::Result<Self> {
        let cells = blocks.reserved_bytes() / BLOCK_BYTES * MARKS_PER_BLOCK;
        let entries = Reservation::new(cells * size_of::<u32>(), page_size())?;
        entries.commit(0, entries.len())?;
        Ok(Self { entries, base: blocks.base() })
    }

    fn entry(&self, block: BlockIndex, index: usize) -> *mut u32 {
        let at = block as usize * MARKS_PER_BLOCK + index;
        debug_assert!(index < MARKS_PER_BLOCK && (at + 1) * size_of::<u32>() <= self.entries.len());
        // SAFETY: the table has `MARKS_PER_BLOCK` entries for each block of the heap; callers name a cell of it.
        unsafe { self.entries.base().cast::<u32>().add(at) }
    }

    fn atomic(&self, block: BlockIndex, index: usize) -> &AtomicU32 {
        // SAFETY: aligned and mapped as long as `self`. Who writes otherwise is the cell's own thread, while it runs: see `fill`.
        unsafe { AtomicU32::from_ptr(self.entry(block, index)) }
    }

    /// What a cell is charged to. For the stopped world, and for the cell's own thread.
    pub(crate) fn get(&self, block: BlockIndex, index: u32) -> u32 {
        self.atomic(block, index as usize).load(Ordering::Relaxed)
    }

    /// Charges one cell.
    pub(crate) fn set(&self, block: BlockIndex, index: u32, charge: u32) {
        self.atomic(block, index as usize).store(charge, Ordering::Relaxed);
    }

    /// The block, the first index and the count of the cells from one header's address to another's.
    fn cells(&self, cells: Range<usize>, class: usize) -> (BlockIndex, usize, usize) {
        let (offset, reciprocal) = (cells.start - self.base, RECIPROCALS[class]);
        let within = (offset & (BLOCK_BYTES - 1)) - FIRST_CELL;
        ((offset >> BLOCK_SHIFT) as BlockIndex, divide(within, reciprocal), divide(cells.len(), reciprocal))
    }

    /// Charges side by side cells, given by their headers' addresses.
    ///
    /// # Safety
    /// They are cells of this class in one block of the heap, and nobody else reads or writes their charges meanwhile: they are
    /// in the calling thread's own run, and no collector takes it for standing.
    pub(crate) unsafe fn fill(&self, cells: Range<usize>, class: usize, charge: u32) {
        let (block, first, count) = self.cells(cells, class);
        // SAFETY: within the block's entries; ours alone, by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.entry(block, first), count) }.fill(charge);
    }

    /// The same, where the collector may be at it too: it and the cells' thread then write the same.
    pub(crate) fn fill_together(&self, cells: Range<usize>, class: usize, charge: u32) {
        let (block, first, count) = self.cells(cells, class);
        (first..first + count).for_each(|index| self.atomic(block, index).store(charge, Ordering::Relaxed));
    }
}

/// Where a thread's allocations are charged, and the word that says to what.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) charges: Arc<Charges>,
    pub(crate) word: &'static AtomicU32,
}

impl Account {
    /// What allocations are charged to now.
    #[inline(always)]
    pub(crate) fn charge(&self) -> u32 {
        // Acquire: pairs with the Release of a thread that changes its word in a blocking region, while a collector charges
        // for it: what it left behind is charged.
        self.word.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_has_an_entry_of_its_own() {
        let blocks = Blocks::reserve(4).unwrap();
        let charges = Charges::new(&blocks).unwrap();
        for (class, cell_bytes) in CELL_BYTES.into_iter().enumerate() {
            let count = (BLOCK_BYTES - FIRST_CELL) / cell_bytes;
            for index in 0..count {
                let header = blocks.cell(3, cell_bytes, index as u32).header;
                // SAFETY: nobody else knows this table.
                unsafe { charges.fill(header..header + cell_bytes, class, index as u32 + 1) };
            }
            for index in 0..count as u32 {
                assert_eq!(charges.get(3, index), index + 1, "class {class}");
            }
            if count < MARKS_PER_BLOCK {
                charges.set(3, count as u32, 0);
            }
            let (low, high) = (blocks.cell(3, cell_bytes, 1), blocks.cell(3, cell_bytes, count as u32));
            charges.fill_together(low.header..high.header, class, 7);
            let all: Vec<u32> = (0..count as u32).map(|index| charges.get(3, index)).collect();
            assert!(all[0] == 1 && all[1..].iter().all(|charge| *charge == 7), "class {class}");
            assert!(
                count == MARKS_PER_BLOCK || charges.get(3, count as u32) == 0,
                "class {class}: beyond the last cell"
            );
        }
    }
}
