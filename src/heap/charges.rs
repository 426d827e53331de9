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
//!                              ^charged          ^cursor    ^limit   ^end
//! ```
//!
//! Nor is it necessary to look at every cursor then. A bin is *open* if its thread may allocate in it without asking. A bin in which
//! nothing was allocated for a while is *closed*: the limit that the fast path looks at comes down to the
//! cursor. So the next allocation in that bin takes the slow path, which opens the bin again. A change of the word looks at the
//! few bins that are in use, and an allocation costs what it costs without.
//!
//! **Most blocks need no entries.** What a thread allocates side by side is mostly charged to the same. So a block has a
//! word of its own: as long as everything in it is charged to one number, that number stands there, and the entries of its cells are not
//! even touched. The first that is charged to another writes them all.
//!
//! ```text
//!   block's word | BLANK | 7 | 7 | MIXED |              an empty block that is taken is blank again
//!   entries      |       |   |   | 7 7 7 9 9 … |
//! ```
//!
//! **In the stopped world** the collector charges what the stopped threads have not, to what their words say, and also the cell
//! that a thread is building, if it is an object already (`.stop.mid-alloc`). It changes no word and closes no bin. A thread that was
//! stopped in the middle of charging goes on with the same numbers for the same cells.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::blocks::{BlockIndex, Blocks};
use super::layout::{
    BLOCK_BYTES, BLOCK_SHIFT, CELL_BYTES, CLASSES, FIRST_CELL, MARKS_PER_BLOCK, cells_per_block, divide, reciprocal,
};
use crate::os::memory::{Reservation, page_size};
use crate::sync::{AtomicU32, Ordering, Present};

/// Whether a world remembers of each object what it was allocated under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charging {
    /// It does not.
    #[default]
    Off,
    /// It does: a page of memory for each block of the heap that needs it, and what a change of scope costs.
    On,
}

/// A block's word: its cells have entries.
const MIXED: u32 = u32::MAX;
/// A block's word: nothing in it is charged yet.
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
    /// For each block, what everything in it is charged to, if it is one number.
    words: Reservation,
    /// For each cell, what it is charged to, if its block is mixed.
    entries: Reservation,
    /// Where the heap begins.
    base: usize,
}

impl Charges {
    /// A table for these blocks. The kernel gives its memory when it is touched.
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

    /// What a cell is charged to. For the stopped world, and for the cell's own thread.
    #[inline]
    pub(crate) fn get(&self, block: BlockIndex, index: u32) -> u32 {
        // Acquire: pairs with the Release in `fill_entries`, of a thread that leaves its scope in a blocking region: no stop
        // orders what it writes before what is read here.
        match self.word(block).load(Ordering::Acquire) {
            MIXED => self.entries(block)[index as usize].load(Ordering::Relaxed),
            BLANK => 0,
            charge => charge,
        }
    }

    /// Somebody takes a block in which nothing lives.
    pub(crate) fn blank(&self, block: BlockIndex) {
        self.word(block).store(BLANK, Ordering::Relaxed);
    }

    /// Charges everything in a block: the one object that is to be there.
    pub(crate) fn set(&self, block: BlockIndex, charge: u32) {
        self.word(block).store(charge, Ordering::Relaxed);
    }

    /// Charges side by side cells of a class in one block, given by their headers' addresses. For the thread whose they are, and in the
    /// stopped world for the collector: both write the same.
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
            // Not over the cells themselves: a collection may have charged them, when it stopped us here.
            fill(0..cells.start, present);
            fill(cells.end..cells_per_block(CELL_BYTES[class]), present);
        }
        fill(cells, charge);
        // Release: pairs with the Acquire in `get`: once the word says so, the entries are written.
        self.word(block).store(MIXED, Ordering::Release);
    }
}

/// Where a thread's allocations are charged, and the word that says to what.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) charges: Arc<Charges>,
    pub(crate) word: &'static Present,
}

impl Account {
    /// What allocations are charged to now.
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
        /// The oracle is a row of numbers.
        #[test]
        fn what_is_charged_is_what_was_charged_last(
            class in 0_usize..CLASSES,
            fills in proptest::collection::vec((0_usize..1100, 0_usize..1100, 0_u32..4), 1..40),
        ) {
            let blocks = Blocks::reserve(4).unwrap();
            let charges = Charges::new(&blocks).unwrap();
            let cell_bytes = CELL_BYTES[class];
            let count = cells_per_block(cell_bytes);
            charges.blank(3);
            let mut oracle = vec![0; count];
            // As a thread does: first each cell of an empty block, in order, then whatever.
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
