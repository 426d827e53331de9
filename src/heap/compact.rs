//! Compact cells: small untyped objects without headers.
//!
//! A cell of an untyped object is a multiple of 16 bytes, because the object is aligned to 16. So with a header of 8 bytes, an object of 16
//! bytes (a pair of an interpreter) takes 32. A header also separates an address just past the end of an object from that of the next one.
//! Where words of objects and of registered ranges count only if they point to the beginning of an object
//! ([`ObjectPointers::Bases`](super::references::ObjectPointers)), this is not needed. So such a world has classes of cells without headers,
//! for objects of 16, 32, 48 and 64 bytes:
//!
//! ```text
//!   block        +0        +16      +32      +48      +64
//!   compact      | unused  | payload | payload | payload | …
//!   with headers | unused  | header, payload | header, payload | …
//!   kind bytes   | 0       | 3       | 3       | 0       | …      one for each 16 bytes of the heap
//! ```
//!
//! What the header says is in a side table: a byte for each 16 bytes of the heap, which is 0 if the cell is free, and otherwise the number
//! of the object's *kind* in one table of the process. As the header, it is stored after the payload and before the cursor, so that one load
//! tells whether a cell is allocated, wherever its thread was stopped (`.stop.mid-alloc`).
//!
//! The addresses of compact cells are computed as if the header were there: a cell's payload is at the same place as in a block of cells
//! with headers of this size, and the cell's *header address* is 8 bytes before, in the last word of the cell before it. Nothing may read
//! a header there: [`Blocks::header_word`](super::blocks::Blocks::header_word) knows where it is.
//!
//! On a stack, the address of a compact object is also the address just past the end of the object before it, and keeps both alive.
//!
//! A register that has only the header address does not keep a compact object alive. The allocator therefore holds the payload's address
//! ([`in_register`]) from before the object exists until it returns it.

use std::arch::asm;
use std::io;

use super::freed::FREED;
use super::layout::{BLOCK_BYTES, MARKS_PER_BLOCK};
use super::trace::TypeInfo;
use crate::os::memory::Reservation;
use crate::sync::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

/// log2 of the bytes of the heap for each of which there is a kind byte.
const GRANULE_SHIFT: u32 = (BLOCK_BYTES / MARKS_PER_BLOCK).trailing_zeros();

/// The number of a kind of objects that may be in compact cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindNumber(u8);

/// The kinds by number. 0 stands for a free cell.
static KINDS: [AtomicPtr<TypeInfo>; 256] = {
    let mut kinds = [const { AtomicPtr::new(std::ptr::null_mut()) }; 256];
    kinds[KindNumber::FREED.0 as usize] = AtomicPtr::new((&raw const FREED).cast_mut());
    kinds
};

/// The number of kinds that were registered, and that of freed cells.
static REGISTERED: AtomicUsize = AtomicUsize::new(1);

impl KindNumber {
    /// Cells that the program has freed.
    pub(super) const FREED: KindNumber = KindNumber(1);

    /// Registers a kind. Returns its number, or `None` if there are too many kinds: objects of such a kind have headers.
    pub(crate) fn register(info: &'static TypeInfo) -> Option<KindNumber> {
        let next = |count: usize| (count + 1 < KINDS.len()).then_some(count + 1);
        // Relaxed: the table's entry is stored before the number is known to anyone.
        let number = REGISTERED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()? + 1;
        KINDS[number].store(std::ptr::from_ref(info).cast_mut(), Ordering::Relaxed);
        Some(KindNumber(number as u8))
    }
}

/// The kind bytes of a heap: the address at which the byte of address 0 would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindBytes(usize);

impl KindBytes {
    /// The value for a heap without compact cells.
    pub(crate) const NONE: Self = Self(0);

    /// Returns whether the heap has compact cells.
    #[inline(always)]
    pub(crate) const fn exist(self) -> bool {
        self.0 != 0
    }

    /// Returns the address of the table of kinds by number, which refers to their types.
    pub(super) fn types() -> usize {
        (&raw const KINDS) as usize
    }

    /// Returns the address of the byte of a payload.
    #[inline(always)]
    pub(crate) const fn address(self, payload: usize) -> usize {
        self.0.wrapping_add(payload >> GRANULE_SHIFT)
    }

    #[inline(always)]
    fn byte<'a>(self, payload: usize) -> &'a AtomicU8 {
        debug_assert!(self.exist());
        // SAFETY: the table has a byte for each 16 bytes of its heap, and is mapped as long as the heap; callers name a payload of the heap.
        unsafe { &*(self.address(payload) as *const AtomicU8) }
    }

    /// Returns the word that the header of a compact cell would have: the address of a `TypeInfo`, or 0 if the cell is free.
    #[inline(always)]
    pub(crate) fn header_word(self, payload: usize) -> usize {
        KINDS[usize::from(self.byte(payload).load(Ordering::Relaxed))].load(Ordering::Relaxed) as usize
    }

    /// Makes an object of a compact cell.
    #[inline(always)]
    pub(super) fn set(self, payload: usize, kind: KindNumber) {
        self.byte(payload).store(kind.0, Ordering::Relaxed);
    }

    /// Makes a compact cell free.
    #[inline(always)]
    pub(super) fn clear(self, payload: usize) {
        self.byte(payload).store(0, Ordering::Relaxed);
    }

    /// Makes all cells of a block free.
    pub(super) fn clear_block(self, start: usize) {
        for granule in 0..MARKS_PER_BLOCK {
            self.clear(start + (granule << GRANULE_SHIFT));
        }
    }
}

/// The number of kind bytes of a block.
pub(super) const KINDS_PER_BLOCK: usize = BLOCK_BYTES >> GRANULE_SHIFT;

/// The memory of a heap's kind bytes.
pub(crate) struct KindTable {
    pub(super) memory: Reservation,
    pub(crate) bytes: KindBytes,
}

impl KindTable {
    /// Creates a table for `blocks` blocks from `base` on. The kernel provides its memory on first access.
    pub(crate) fn reserve(base: usize, blocks: usize) -> io::Result<Self> {
        let memory = Reservation::new(blocks * KINDS_PER_BLOCK, BLOCK_BYTES)?;
        memory.commit_table()?;
        let bytes = KindBytes((memory.base() as usize).wrapping_sub(base >> GRANULE_SHIFT));
        Ok(Self { memory, bytes })
    }
}

/// Returns the address. To the compiler it is a new value, which it cannot compute from another one, and so keeps in a register or on the
/// stack as long as it is used.
#[inline(always)]
pub(super) fn in_register(address: usize) -> usize {
    let mut kept = address;
    // SAFETY: no instruction.
    unsafe { asm!("/* {0} */", inout(reg) kept, options(nomem, nostack, preserves_flags)) };
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::blocks::{Blocks, Cell};
    use crate::heap::layout::{CELL_BYTES, CLASSES, FIRST_CELL, HEADED_CLASSES, HEADER_BYTES, cells_per_block};
    use crate::heap::references::References;
    use proptest::prelude::*;

    fn blocks() -> Blocks {
        let mut blocks = Blocks::reserve(4).unwrap();
        blocks.have_compact_cells().unwrap();
        blocks
    }

    proptest! {
        /// The oracle looks at every cell of the block. The search for exact addresses may also find one free cell after the last one
        /// (`sweep_empty_block`).
        #[test]
        fn each_address_is_in_the_cell_that_a_search_finds(
            class in HEADED_CLASSES..CLASSES, offset in 0..2 * BLOCK_BYTES, displacements in any::<u64>(),
        ) {
            let (blocks, cell_bytes) = (blocks(), CELL_BYTES[class]);
            blocks.set_cells(1, class);
            let address = blocks.start(0) + offset + BLOCK_BYTES / 2;
            let payload = |index: usize| blocks.start(1) + FIRST_CELL + HEADER_BYTES + index * cell_bytes;
            let found = (0..cells_per_block(cell_bytes)).find(|&index| (payload(index)..payload(index) + cell_bytes).contains(&address));
            let cell = found.map(|index| Cell { header: payload(index) - HEADER_BYTES, block: 1, index: index as u32 });
            prop_assert_eq!(blocks.cell_containing(address), cell);
            prop_assert_eq!(blocks.map().cell_pointed_into(address).map(|target| target.payload), found.map(payload));
            let displacements = displacements & !1;
            let refers = |at: usize| at == 0 || displacements >> at & 1 == 1;
            let after = payload(cells_per_block(cell_bytes));
            let is_after = address == after && after < blocks.start(2);
            let target = found.map(payload).filter(|payload| refers(address - payload)).or(is_after.then_some(after));
            let bases = References::Bases { displacements };
            prop_assert_eq!(bases.find(blocks.map(), address).map(|target| target.payload), target);
        }
    }

    #[test]
    fn a_kind_byte_is_that_of_its_cell_alone() {
        let (blocks, class) = (blocks(), HEADED_CLASSES);
        blocks.set_cells(1, class);
        let kinds = blocks.kinds();
        let cells: Vec<Cell> = (0..cells_per_block(CELL_BYTES[class]) as u32)
            .map(|index| blocks.cell(1, CELL_BYTES[class], index))
            .collect();
        let with_objects = |cells: &[Cell]| cells.iter().filter(|cell| blocks.header_word(**cell) != 0).count();
        assert_eq!(with_objects(&cells), 0);
        for (done, cell) in cells.iter().enumerate() {
            kinds.set(cell.payload(), KindNumber::FREED);
            assert_eq!(blocks.header_word(*cell), &raw const FREED as usize);
            assert_eq!(with_objects(&cells), done + 1);
        }
        kinds.clear(cells[5].payload());
        assert_eq!((with_objects(&cells), blocks.header_word(cells[5])), (cells.len() - 1, 0));
        kinds.clear_block(blocks.start(1));
        assert_eq!(with_objects(&cells), 0);
    }
}
