//! The side table of the retainer search: one word for each cell of the heap.
//!
//! ```text
//!   block's mark bytes | cell 0 | cell 1 | …                                1 byte each
//!   block's words      | cell 0 | cell 1 | …        | 1023: the block's     4 bytes each
//!                        └ whether it was processed, and the number of its set
//! ```
//!
//! A cell's word has the same index in this table as the cell's mark byte has in the mark table. So the address map finds both at
//! once, and the words of neighbouring cells are adjacent, whatever the size of the objects. A block has more indices than even the
//! smallest cells need; the last word belongs to the block itself.
//!
//! The table is all zeros before a census. The part that the heap needs is mapped before the world is stopped, so that nothing is
//! zeroed or faulted in during the stop, and released after the restart. So it takes no memory between two censuses of a profile.

use std::io;

use crate::collector::live_heap::Cells;
use crate::heap::blocks::{AddressMap, BlockIndex};
use crate::heap::layout::{BLOCK_BYTES, CHUNK_BYTES, MARKS_PER_BLOCK, cells_per_block};
use crate::os::memory::Reservation;
use crate::sync::prefetch;

/// The object's set has grown since it was processed.
pub(super) const PENDING: u32 = 1 << 31;
/// In an object's word: the object has been processed, that is, its set was passed on to the objects that it refers to. In a block's
/// word: some object of the block has passed on its set.
pub(super) const LOOKED_AT: u32 = 1 << 30;
/// The number of the object's set.
pub(super) const SET: u32 = LOOKED_AT - 1;

/// The size of the words of a block, in bytes.
const BYTES_PER_BLOCK: usize = MARKS_PER_BLOCK * size_of::<u32>();
/// The index of the block's own word.
const OF_THE_BLOCK: usize = MARKS_PER_BLOCK - 1;
const _: () = assert!(cells_per_block(crate::heap::layout::CELL_BYTES[0]) <= OF_THE_BLOCK);

/// The table's words, passed by value so that a loop keeps the pointer in a register. Indexed by the number of a cell or block.
#[derive(Clone, Copy)]
pub(super) struct Words(*mut u32);

impl Words {
    #[inline(always)]
    pub(super) fn get(self, cell: usize) -> u32 {
        // SAFETY: there is a word for each cell of the heap, and one census has exclusive use of all of them.
        unsafe { self.0.add(cell).read() }
    }

    /// The words of a block.
    #[inline(always)]
    pub(super) fn of_block<'a>(self, cells: &Cells) -> &'a [u32; MARKS_PER_BLOCK] {
        // SAFETY: as in `get`; a caller that counts with these words writes none.
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

    /// Notes that an object of this block passes on its set.
    pub(super) fn note_passing(self, cells: &Cells) {
        self.put(cells.cell(OF_THE_BLOCK).number(), LOOKED_AT);
    }

    /// Whether an object of this block passes on its set.
    pub(super) fn has_passing(self, cells: &Cells) -> bool {
        self.get(cells.cell(OF_THE_BLOCK).number()) != 0
    }
}

/// The memory of the words.
pub(super) struct Table {
    memory: Reservation,
    /// The number of bytes, from the start, that may have been written.
    used: usize,
}

impl Table {
    /// # Errors
    /// The system provides no memory.
    pub(super) fn new(heap_bytes: usize) -> io::Result<Table> {
        let memory = Reservation::new(heap_bytes / BLOCK_BYTES * BYTES_PER_BLOCK, CHUNK_BYTES)?;
        memory.commit(0, memory.len())?;
        memory.huge_pages(0, memory.len());
        Ok(Table { memory, used: 0 })
    }

    pub(super) fn words(&self) -> Words {
        Words(self.memory.base().cast())
    }

    /// Notes that the words of this many blocks will be written.
    pub(super) fn note_use(&mut self, blocks: BlockIndex) {
        self.used = self.used.max(blocks as usize * BYTES_PER_BLOCK);
    }

    /// Maps the words that the objects of the first `blocks` blocks need, after the memory was released. No thread may create blocks
    /// meanwhile.
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

    /// Releases the memory; afterwards all words are zero again.
    pub(super) fn give_back(&mut self) {
        // SAFETY: the mapping belongs to this table alone, and is borrowed exclusively.
        if self.used > 0 && unsafe { self.memory.release(0, self.used) }.is_err() {
            // SAFETY: within the mapping, which belongs to this table alone.
            unsafe { self.memory.base().write_bytes(0, self.used) };
        }
        self.used = 0;
    }
}
