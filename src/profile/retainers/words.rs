//! What is known of each object while its retainers are looked for: a word for each cell of the heap.
//!
//! ```text
//!   block's mark bytes | cell 0 | cell 1 | …                                1 byte each
//!   block's words      | cell 0 | cell 1 | …        | 1023: the block's     4 bytes each
//!                        └ whether it was looked at, number of the set
//! ```
//!
//! A word stands where the mark byte stands in its own table: so the address map, which finds the one, has found the other, and
//! words of neighbours are neighbours, however large the objects are. There are more places than the smallest
//! cells take; the last is the block's own.
//!
//! All of it is zeros before a census. What the heap is to need of it is mapped before the world is stopped, so that
//! nothing is zeroed or faulted in while it stands, and given back when it runs again: between two censuses of a profile it
//! takes no memory.

use std::io;

use crate::collector::living::Cells;
use crate::heap::blocks::{AddressMap, BlockIndex};
use crate::heap::layout::{BLOCK_BYTES, CHUNK_BYTES, MARKS_PER_BLOCK, cells_per_block};
use crate::os::memory::Reservation;
use crate::sync::prefetch;

/// The object's set has grown since it was looked at.
pub(super) const PENDING: u32 = 1 << 31;
/// What the object has, it has passed on. In the block's own word: one of its objects passes on what it has.
pub(super) const LOOKED_AT: u32 = 1 << 30;
/// The number of its set.
pub(super) const SET: u32 = LOOKED_AT - 1;

/// Bytes for a block.
const BYTES_PER_BLOCK: usize = MARKS_PER_BLOCK * size_of::<u32>();
/// Where in it the block's own word is.
const OF_THE_BLOCK: usize = MARKS_PER_BLOCK - 1;
const _: () = assert!(cells_per_block(crate::heap::layout::CELL_BYTES[0]) <= OF_THE_BLOCK);

/// The words, by value: a loop that has a copy has it in a register. By the number of a cell or of a block.
#[derive(Clone, Copy)]
pub(super) struct Words(*mut u32);

impl Words {
    #[inline(always)]
    pub(super) fn get(self, cell: usize) -> u32 {
        // SAFETY: there is a word for each cell of the heap, and one census has them all to itself.
        unsafe { self.0.add(cell).read() }
    }

    /// Those of a block.
    #[inline(always)]
    pub(super) fn of_block<'a>(self, cells: &Cells) -> &'a [u32; MARKS_PER_BLOCK] {
        // SAFETY: as in `get`; who counts by them writes none.
        unsafe { &*self.0.add(cells.cell(0).number()).cast() }
    }

    #[inline(always)]
    pub(super) fn put(self, cell: usize, word: u32) {
        // SAFETY: as in `get`.
        unsafe { self.0.add(cell).write(word) }
    }

    #[inline(always)]
    pub(super) fn prefetch(self, cell: usize) {
        prefetch(self.0.wrapping_add(cell) as usize);
    }

    /// One of these passes on what it has.
    pub(super) fn note_passing(self, cells: &Cells) {
        self.put(cells.cell(OF_THE_BLOCK).number(), LOOKED_AT);
    }

    /// Whether one of these does.
    pub(super) fn has_passing(self, cells: &Cells) -> bool {
        self.get(cells.cell(OF_THE_BLOCK).number()) != 0
    }
}

/// Where the words are.
pub(super) struct Table {
    memory: Reservation,
    /// How many bytes of it may not be as they were mapped.
    used: usize,
}

impl Table {
    /// # Errors
    /// The system gives no memory.
    pub(super) fn new(heap_bytes: usize) -> io::Result<Table> {
        let memory = Reservation::new(heap_bytes / BLOCK_BYTES * BYTES_PER_BLOCK, CHUNK_BYTES)?;
        memory.commit(0, memory.len())?;
        memory.huge_pages(0, memory.len());
        Ok(Table { memory, used: 0 })
    }

    pub(super) fn words(&self) -> Words {
        Words(self.memory.base().cast())
    }

    /// The words of so many blocks will be written.
    pub(super) fn note_use(&mut self, blocks: BlockIndex) {
        self.used = self.used.max(blocks as usize * BYTES_PER_BLOCK);
    }

    /// Maps what the objects of the first so many blocks need, when all has been given back. Nobody makes blocks meanwhile.
    pub(super) fn prepare(&mut self, map: AddressMap, blocks: BlockIndex) {
        let mut first = 0;
        while first < blocks {
            let is_used = |block: &BlockIndex| map.cells_in(*block) > 0;
            let end = (first..blocks).find(|block| !is_used(block)).unwrap_or(blocks);
            if end > first {
                self.memory.populate(first as usize * BYTES_PER_BLOCK, (end - first) as usize * BYTES_PER_BLOCK);
            }
            first = end + 1;
        }
        self.note_use(blocks);
    }

    /// Gives all of it back; then it is zeros again.
    pub(super) fn give_back(&mut self) {
        // SAFETY: the mapping is ours alone, and borrowed exclusively.
        if self.used > 0 && unsafe { self.memory.release(0, self.used) }.is_err() {
            // SAFETY: within the mapping, which is ours alone.
            unsafe { self.memory.base().write_bytes(0, self.used) };
        }
        self.used = 0;
    }
}
