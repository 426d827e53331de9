//! Charges: a number for each object, which shows what its thread was doing when it allocated the object.
//!
//! A world that charges its allocations has one more side table, with a number for each cell, as the mark table has a byte. The
//! table's user defines what the numbers mean (`profile/` stores cost centre stacks). The heap stores what a word of the
//! allocating thread contains at the time of the allocation.
//!
//! **The fast path does nothing for charges.** A thread allocates by bumping cursors, so the cells that it has allocated since a given
//! moment are those between the old and the present positions of its cursors. It is enough to charge them all at once, before the
//! word changes:
//!
//! ```text
//!   run      | charged earlier | not charged yet | free …            |
//!                              ^charged          ^cursor    ^limit   ^end
//! ```
//!
//! A change of the word need not check every cursor either. A bin is *open* if its thread may allocate in it without a check. A bin
//! in which nothing was allocated for a while is *closed*: the limit that the fast path compares with is lowered to the cursor. So
//! the next allocation in that bin takes the slow path, which opens the bin again. A change of the word checks only the few
//! bins that are in use, and an allocation costs the same as without charging.
//!
//! **Most blocks need no entries.** Adjacent objects of a thread are mostly charged to the same number. So a block has a word
//! of its own: as long as everything in it is charged to one number, the word contains that number, and the entries of its
//! cells are not even touched. The first charge to another number writes all entries.
//!
//! ```text
//!   block's word | BLANK | 7 | 7 | MIXED |              an empty block becomes blank again when it is taken
//!   entries      |       |   |   | 7 7 7 9 9 … |
//! ```
//!
//! **In the stopped world** the collector charges what the stopped threads have not charged, to the numbers in their words.
//! This includes the cell that a thread is building, if it is an object already (`.stop.mid-alloc`). The collector changes no
//! word and closes no bin. A thread that was stopped in the middle of charging continues with the same numbers for the same
//! cells.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::blocks::{BlockIndex, Blocks};
use super::layout::{
    BLOCK_BYTES, BLOCK_SHIFT, CELL_BYTES, CLASSES, FIRST_CELL, MARKS_PER_BLOCK, cells_per_block, divide, reciprocal,
};
use crate::os::memory::{Reservation, page_size};
use crate::sync::{AtomicU32, CurrentId, Ordering};

/// Whether a world charges allocations: records for each object the cost centre stack under which it was allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charging {
    /// Allocations are not charged.
    #[default]
    Off,
    /// Allocations are charged. This costs a page of memory for each block of the heap that is charged to more than one number, and some
    /// time at each change of scope.
    On,
}

/// Value of a block's word: its cells have entries.
const MIXED: u32 = u32::MAX;
/// Value of a block's word: no cell of the block is charged yet.
const BLANK: u32 = u32::MAX - 1;

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
    /// For each block, the number to which all its cells are charged, if there is only one.
    words: Reservation,
    /// For each cell, the number that it is charged to, if its block is mixed.
    entries: Reservation,
    /// The lowest address of the heap.
    base: usize,
}

impl Charges {
    /// Creates a table for these blocks. The kernel provides its memory on first access.
    pub(crate) fn new(blocks: &Blocks) -> io::Result<Self> {
        let count = blocks.reserved_bytes() / BLOCK_BYTES;
        let table = |words: usize| -> io::Result<Reservation> {
            let table = Reservation::new(words * size_of::<u32>(), page_size())?;
            table.commit(0, table.len())?;
            Ok(table)
        };
        Ok(Self { words: table(count)?, entries: table(count * MARKS_PER_BLOCK)?, base: blocks.base() })
    }

    #[inline(always)]
    fn word(&self, block: BlockIndex) -> &AtomicU32 {
        debug_assert!((block as usize + 1) * size_of::<u32>() <= self.words.len());
        // SAFETY: the table has a word for each block of the heap; callers name one of its blocks.
        unsafe { &*self.words.base().cast::<AtomicU32>().add(block as usize) }
    }

    #[inline(always)]
    fn entries(&self, block: BlockIndex) -> &[AtomicU32; MARKS_PER_BLOCK] {
        let at = block as usize * MARKS_PER_BLOCK;
        debug_assert!((at + MARKS_PER_BLOCK) * size_of::<u32>() <= self.entries.len());
        // SAFETY: the table has `MARKS_PER_BLOCK` entries for each block of the heap; callers name one of its blocks.
        unsafe { &*self.entries.base().cast::<AtomicU32>().add(at).cast() }
    }

    /// Returns the number that a cell is charged to. Called in the stopped world, or by the thread that the cell belongs to.
    #[inline]
    pub(crate) fn get(&self, block: BlockIndex, index: u32) -> u32 {
        // Acquire: pairs with the Release in `fill_entries`, of a thread that leaves its scope in a blocking region: no stop
        // orders its writes before the reads here.
        match self.word(block).load(Ordering::Acquire) {
            MIXED => self.entries(block)[index as usize].load(Ordering::Relaxed),
            BLANK => 0,
            charge => charge,
        }
    }

    /// Called when a thread takes a block in which nothing lives: nothing in it is charged.
    pub(crate) fn blank(&self, block: BlockIndex) {
        self.word(block).store(BLANK, Ordering::Relaxed);
    }

    /// Charges a whole block, for the one large object that will be in it.
    pub(crate) fn set(&self, block: BlockIndex, charge: u32) {
        self.word(block).store(charge, Ordering::Relaxed);
    }

    /// Charges adjacent cells of a class in one block, given by their headers' addresses. Called by the thread that owns them,
    /// and in the stopped world by the collector: both write the same.
    #[inline(always)]
    pub(crate) fn fill(&self, cells: Range<usize>, class: usize, charge: u32) {
        let offset = cells.start - self.base;
        let block = (offset >> BLOCK_SHIFT) as BlockIndex;
        let word = self.word(block);
        match word.load(Ordering::Relaxed) {
            present if present == charge => {}
            BLANK => word.store(charge, Ordering::Relaxed),
            present => {
                let first = divide((offset & (BLOCK_BYTES - 1)) - FIRST_CELL, RECIPROCALS[class]);
                let count = divide(cells.len(), RECIPROCALS[class]);
                self.fill_entries(block, present, first..first + count, class, charge);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn fill_entries(&self, block: BlockIndex, present: u32, cells: Range<usize>, class: usize, charge: u32) {
        let entries = self.entries(block);
        let fill = |range: Range<usize>, charge| {
            entries[range].iter().for_each(|entry| entry.store(charge, Ordering::Relaxed));
        };
        if present != MIXED {
            // The entries of `cells` themselves are not written here: a collection that stopped this thread here may have charged them.
            fill(0..cells.start, present);
            fill(cells.end..cells_per_block(CELL_BYTES[class]), present);
        }
        fill(cells, charge);
        // Release: pairs with the Acquire in `get`: once the word is MIXED, the entries are written.
        self.word(block).store(MIXED, Ordering::Release);
    }
}

/// What a thread needs to charge its allocations: the world's table of charges, and the thread's word with the number to charge to.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) charges: Arc<Charges>,
    pub(crate) word: &'static CurrentId,
}

impl Account {
    /// The number that allocations are charged to now.
    #[inline(always)]
    pub(crate) fn charge(&self) -> u32 {
        self.word.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The oracle is an array of numbers.
        #[test]
        fn a_cell_has_the_number_that_it_was_charged_to_last(
            class in 0_usize..CLASSES,
            fills in proptest::collection::vec((0_usize..1100, 0_usize..1100, 0_u32..4), 1..40),
        ) {
            let blocks = Blocks::reserve(4).unwrap();
            let charges = Charges::new(&blocks).unwrap();
            let cell_bytes = CELL_BYTES[class];
            let count = cells_per_block(cell_bytes);
            charges.blank(3);
            let mut oracle = vec![0; count];
            // Cells are charged as by a thread: first each cell of an empty block, in order, then any cells.
            for (index, oracle) in oracle.iter_mut().enumerate() {
                let header = blocks.cell(3, cell_bytes, index as u32).header;
                let charge = fills[index * fills.len() / count].2;
                charges.fill(header..header + cell_bytes, class, charge);
                *oracle = charge;
            }
            for (from, to, charge) in fills {
                let (from, to) = (from.min(to) % count, from.max(to) % count);
                if from < to {
                    let header = |index: usize| blocks.cell(3, cell_bytes, index as u32).header;
                    charges.fill(header(from)..header(to), class, charge);
                    oracle[from..to].fill(charge);
                }
                let found: Vec<u32> = (0..count as u32).map(|index| charges.get(3, index)).collect();
                prop_assert_eq!(&found, &oracle);
            }
            charges.blank(3);
            prop_assert_eq!(charges.get(3, 0), 0);
            prop_assert_eq!(charges.entries(2)[MARKS_PER_BLOCK - 1].load(Ordering::Relaxed), 0);
        }
    }
}
