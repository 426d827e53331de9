//! The block table: from any address to its block in constant time.
//!
//! ```text
//!   reservation   | block 0 | block 1 | block 2 | …                one mapping, 16 KiB a block
//!   dense words   |  8 B    |  8 B    |  8 B    | …                what the mark loop needs of a block
//!   BlockHead     |  8 B    |  8 B    |  8 B    | …                what the sweep set-up needs
//!   BlockTail     |  24 B   |  24 B   |  24 B   | …                what some blocks need besides
//!   mark bytes    | 1024 B  | 1024 B  | 1024 B  | …                one byte for each cell
//!   kind bytes    | 1024 B  | 1024 B  | 1024 B  | …                for compact cells only: see `compact.rs`
//! ```
//!
//! The dense word holds the cell size and its reciprocal, so that address → cell is a subtraction, a shift, a load
//! that stays in the cache (50 KiB for 100 MB of heap) and a multiplication.
//!
//! A cell is marked when its byte equals the collection's *epoch*, a number from 1 to 255. So marks need not be
//! cleared, and bytes instead of bits let parallel markers mark without an atomic read-modify-write: two markers
//! that race write the same value, and the cell is unmarked once for each if it is free. Once in 255 collections the epoch wraps, and all bytes
//! are cleared.

use std::io;
use std::ops::Range;

use super::compact::{KINDS_PER_BLOCK, KindBytes, KindTable};
use super::huge_pages::bytes_to_copy;
use super::layout::{
    BLOCK_BYTES, BLOCK_SHIFT, CACHE_LINE_BYTES, CELL_BYTES, CHUNK_BYTES, FIRST_CELL, HEADER_BYTES, MARKS_PER_BLOCK,
    cells_per_block, divide, is_compact, reciprocal,
};
use crate::os::memory::{Reservation, page_size};
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, prefetch};

/// Index of a block in its heap.
pub(crate) type BlockIndex = u32;
/// No block.
pub(crate) const NO_BLOCK: BlockIndex = u32::MAX;
/// No cell.
pub(crate) const NO_CELL: u32 = u32::MAX;

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum BlockState {
    /// Not in use, or not yet committed.
    Free = 0,
    /// A thread allocates from it; only that thread, or the collector while the world is stopped, accesses it.
    Owned = 1,
    /// In use; no thread allocates from it before the next collection.
    Full = 2,
    /// In its bin's list: the last collection found free cells in it, which are not yet swept.
    Unswept = 3,
    /// The first block of a large object.
    LargeHead = 4,
    /// A further block of a large object.
    LargeTail = 5,
    /// Free, but in some thread's reserve, or being moved from there into the thread's cache.
    Reserved = 6,
}

/// The part of a block's state that the sweep set-up reads for every block. Fields here and in [`BlockTail`] are atomic only so
/// that reading them from anywhere is defined; each is written by the block's owner, under the allocation lock, or in the
/// stopped world.
///
/// It is small, and apart from the rest of the state: the collecting thread writes it for blocks that other processors wrote last, and
/// both sides wait for each of its cache lines.
#[repr(C)]
pub(crate) struct BlockHead {
    pub(super) state: AtomicU8,
    pub(crate) space: AtomicU8,
    pub(crate) class: AtomicU8,
    /// 1: its memory was never touched, or was returned to the kernel, and reads as zero.
    pub(crate) fresh: AtomicU8,
    /// The number of cells that the last collection found marked.
    pub(crate) live: AtomicU32,
}

/// The part of a block's state that only some blocks need.
#[repr(C)]
pub(crate) struct BlockTail {
    /// The next block in the bin's list.
    pub(crate) next: AtomicU32,
    /// The first free run that its owner has not yet used, by cell index.
    pub(crate) first_run: AtomicU32,
    /// 1: the sweep set-up has found the block in some thread's cache.
    pub(crate) cached: AtomicU32,
    /// The number of blocks of the large object that begins here.
    pub(crate) large_blocks: AtomicU32,
    /// Payload bytes of the large object that begins here.
    pub(crate) large_bytes: AtomicUsize,
}

/// The state of a block, for allocation and sweep.
#[derive(Clone, Copy)]
pub(crate) struct BlockInfo<'a> {
    pub(crate) head: &'a BlockHead,
    pub(crate) tail: &'a BlockTail,
}

impl BlockInfo<'_> {
    pub(crate) fn state(self) -> BlockState {
        match self.head.state.load(Relaxed) {
            1 => BlockState::Owned,
            2 => BlockState::Full,
            3 => BlockState::Unswept,
            4 => BlockState::LargeHead,
            5 => BlockState::LargeTail,
            6 => BlockState::Reserved,
            _ => BlockState::Free,
        }
    }

    pub(crate) fn set_state(self, state: BlockState) {
        self.head.state.store(state as u8, Relaxed);
    }

    /// Stores the number of marked cells; writes only if it has changed.
    pub(crate) fn set_live(self, cells: u32) {
        if self.head.live.load(Relaxed) != cells {
            self.head.live.store(cells, Relaxed);
        }
    }

    /// The number of marked cells, as it was counted last.
    pub(crate) fn live(self) -> u32 {
        self.head.live.load(Relaxed)
    }
}

/// The dense word of a block: how the block is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockWord(u64);

/// Bit of blocks in which an object may begin: blocks cut into cells, and first blocks of large objects.
const KIND_CELLS: u64 = 1 << 48;
const KIND_LARGE_HEAD: u64 = 2 << 48;
const KIND_LARGE_TAIL: u64 = 4 << 48;
const KINDS_WITH_OBJECTS: u64 = KIND_CELLS | KIND_LARGE_HEAD;
/// Bit of blocks in which the last collection found dead cells, whose headers are still there.
const UNSWEPT: u64 = 1 << 56;
/// Bit of blocks whose cells have no headers.
const COMPACT: u64 = 1 << COMPACT_SHIFT;
const COMPACT_SHIFT: u32 = 57;

impl BlockWord {
    const NONE: Self = Self(0);

    const fn cells(class: usize) -> Self {
        let cell_bytes = CELL_BYTES[class];
        let compact = if is_compact(class) { COMPACT } else { 0 };
        Self(KIND_CELLS | compact | (cell_bytes as u64) << 32 | reciprocal(cell_bytes) as u64)
    }

    /// The word of a large object's first block. It counts as one cell: with a reciprocal of 0, every offset is in cell 0.
    const LARGE_HEAD: Self = Self(KIND_LARGE_HEAD);

    const fn large_tail(blocks_to_head: u32) -> Self {
        Self(KIND_LARGE_TAIL | blocks_to_head as u64)
    }

    #[inline(always)]
    pub(crate) const fn has_objects(self) -> bool {
        self.0 & KINDS_WITH_OBJECTS != 0
    }

    pub(crate) const fn is_large_head(self) -> bool {
        self.0 & KIND_LARGE_HEAD != 0
    }

    /// Returns whether a cell of the block that has a header may be dead. In such a block, an object is alive only if it is marked.
    #[inline(always)]
    pub(crate) const fn is_unswept(self) -> bool {
        self.0 & UNSWEPT != 0
    }

    const fn is_large_tail(self) -> bool {
        self.0 & KIND_LARGE_TAIL != 0
    }

    /// Returns whether the cells have no headers.
    #[inline(always)]
    pub(crate) const fn is_compact(self) -> bool {
        self.0 & COMPACT != 0
    }

    /// Size of a cell; 0 in a large object's block.
    #[inline(always)]
    pub(crate) const fn cell_bytes(self) -> usize {
        (self.0 >> 32) as u16 as usize
    }

    /// Size of the payload in a cell. The block is none of a large object.
    #[inline(always)]
    pub(crate) const fn payload_bytes(self) -> usize {
        let is_compact = (self.0 >> COMPACT_SHIFT & 1) as usize;
        self.cell_bytes().wrapping_sub(HEADER_BYTES * (1 - is_compact))
    }

    /// Whether an address at this distance from a payload is still in its object, or just past the end of one with a header.
    #[inline(always)]
    pub(super) const fn reaches(self, distance: usize) -> bool {
        let is_compact = (self.0 >> COMPACT_SHIFT & 1) as usize;
        // The size of a large object's payload wraps, and so is larger than any distance.
        distance + is_compact <= self.payload_bytes()
    }

    #[inline(always)]
    const fn reciprocal(self) -> u32 {
        self.0 as u32
    }
}

/// A cell, found from an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Address of the header word; that of the payload less the size of a header, if the cell has none.
    pub(crate) header: usize,
    /// The block that contains the cell.
    pub(crate) block: BlockIndex,
    /// The cell's index in the block.
    pub(crate) index: u32,
}

impl Cell {
    /// Address of the payload: what a `Gc` holds.
    pub(crate) fn payload(self) -> usize {
        self.header + HEADER_BYTES
    }

    /// Returns the cell's number among all cells of the heap: the index of its byte in the mark table, and of its entry in other tables
    /// with an entry for each cell.
    #[inline(always)]
    pub(crate) fn number(self) -> usize {
        self.block as usize * MARKS_PER_BLOCK + self.index as usize
    }
}

/// A cell that a word refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Address of the cell's payload.
    pub(crate) payload: usize,
    /// The cell's [number](Cell::number).
    pub(crate) number: usize,
}

/// Copies of the values that are needed to find a cell from an address: a loop that keeps them in a local variable has them in
/// registers, and does not load them again after each store through a pointer.
#[derive(Clone, Copy)]
pub(crate) struct AddressMap {
    base: usize,
    bytes: usize,
    words: *const AtomicU64,
    marks: *const AtomicU8,
    pub(crate) kinds: KindBytes,
}

impl AddressMap {
    /// Returns the header word of the cell with this payload: the address of a `TypeInfo`, or 0 if the cell is free. `has_compact`: there
    /// may be cells without headers.
    ///
    /// # Safety
    /// The payload is that of a cell in a committed block.
    #[inline(always)]
    pub(crate) unsafe fn header_word(self, payload: usize, has_compact: bool) -> usize {
        if has_compact && self.word_at(payload).is_compact() {
            return self.kinds.header_word(payload);
        }
        // SAFETY: the caller's promise; the cell has a header before its payload.
        unsafe { (*((payload - HEADER_BYTES) as *const AtomicUsize)).load(Relaxed) }
    }

    /// Returns whether an address is one of the heap.
    #[inline(always)]
    pub(crate) fn contains(self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.bytes
    }

    /// Returns the dense word of the block that contains an address of the heap.
    #[inline(always)]
    pub(crate) fn word_at(self, address: usize) -> BlockWord {
        debug_assert!(address.wrapping_sub(self.base) < self.bytes);
        // SAFETY: the table has a word for each block of the heap, and is mapped as long as the heap.
        BlockWord(unsafe { &*self.words.add((address - self.base) >> BLOCK_SHIFT) }.load(Relaxed))
    }

    /// Returns the [number](Cell::number) of the cell whose *payload* begins exactly at `payload`, whether it is allocated or not.
    #[inline(always)]
    pub(crate) fn number_of_payload(self, payload: usize) -> Option<usize> {
        let offset = payload.wrapping_sub(self.base);
        if offset >= self.bytes {
            return None;
        }
        let word = self.word_at(payload);
        let within = (offset & (BLOCK_BYTES - 1)).wrapping_sub(FIRST_CELL + HEADER_BYTES);
        let index = divide(within & (u32::MAX as usize), word.reciprocal());
        if !word.has_objects() || index * word.cell_bytes() != within {
            return None;
        }
        Some((offset >> BLOCK_SHIFT) * MARKS_PER_BLOCK + index)
    }

    /// Returns the cell that contains the byte before `word`, header included, whether it is allocated or not: the cell that `word`
    /// points into, or just past whose end it points. All addresses in the blocks of a large object count as in the object. A
    /// compact cell is found by addresses in it, from its first byte to its last.
    #[inline(always)]
    pub(crate) fn cell_pointed_into(self, word: usize) -> Option<Target> {
        let offset = word.wrapping_sub(1).wrapping_sub(self.base);
        if offset >= self.bytes {
            return None;
        }
        let dense = self.word_at(self.base + offset);
        let cell_bytes = dense.cell_bytes();
        // Before the first cell this wraps, so the index is too high for every block.
        let within = (offset & (BLOCK_BYTES - 1)).wrapping_sub(FIRST_CELL) & (u32::MAX as usize);
        let index = divide(within, dense.reciprocal());
        let begin = index * cell_bytes;
        if !dense.has_objects() {
            return self.large_pointed_into(offset >> BLOCK_SHIFT, dense);
        }
        if dense.is_compact() {
            return self.compact_pointed_into(word, offset >> BLOCK_SHIFT, dense);
        }
        // The space after the last cell belongs to no cell; that before the header of a large object does not count.
        if begin + cell_bytes > BLOCK_BYTES - FIRST_CELL || within > BLOCK_BYTES {
            return None;
        }
        let block = offset >> BLOCK_SHIFT;
        let payload = self.base + (block << BLOCK_SHIFT) + FIRST_CELL + HEADER_BYTES + begin;
        Some(Target { payload, number: block * MARKS_PER_BLOCK + index })
    }

    /// Returns the cell whose payload begins exactly at `payload`. In the space after the last cell none does.
    #[inline(always)]
    pub(super) fn cell_beginning_at(self, payload: usize) -> Option<Target> {
        let number = self.number_of_payload(payload)?;
        let end = (payload - self.base) % BLOCK_BYTES + self.word_at(payload).cell_bytes();
        (end <= BLOCK_BYTES + HEADER_BYTES).then_some(Target { payload, number })
    }

    /// [`cell_pointed_into`](Self::cell_pointed_into) for a loop in which this is rare.
    #[inline(always)]
    pub(super) fn other_cell_pointed_into(self, word: usize) -> Option<Target> {
        Self::cell_pointed_into_of(self.base, self.bytes, self.words, word)
    }

    /// The parts of the map in registers: a map as an argument would be stored to memory before each call, and also where there is none.
    #[cold]
    #[inline(never)]
    fn cell_pointed_into_of(base: usize, bytes: usize, words: *const AtomicU64, word: usize) -> Option<Target> {
        Self { base, bytes, words, marks: std::ptr::null(), kinds: KindBytes::NONE }.cell_pointed_into(word)
    }

    /// [`cell_pointed_into`](Self::cell_pointed_into) for a block of compact cells.
    #[inline(never)]
    fn compact_pointed_into(self, word: usize, block: usize, dense: BlockWord) -> Option<Target> {
        let start = self.base + (block << BLOCK_SHIFT);
        let within = (word - start).checked_sub(FIRST_CELL + HEADER_BYTES)?;
        let index = divide(within, dense.reciprocal());
        if index >= cells_per_block(dense.cell_bytes()) {
            return None;
        }
        let payload = start + FIRST_CELL + HEADER_BYTES + index * dense.cell_bytes();
        Some(Target { payload, number: block * MARKS_PER_BLOCK + index })
    }

    /// [`cell_pointed_into`](Self::cell_pointed_into) for a block in which no object begins.
    #[inline(never)]
    fn large_pointed_into(self, block: usize, dense: BlockWord) -> Option<Target> {
        if !dense.is_large_tail() {
            return None;
        }
        let head = block.checked_sub(dense.reciprocal() as usize)?;
        let payload = self.base + (head << BLOCK_SHIFT) + FIRST_CELL + HEADER_BYTES;
        Some(Target { payload, number: head * MARKS_PER_BLOCK })
    }

    /// Returns the mark byte of the cell with this number.
    #[inline(always)]
    pub(crate) fn mark_of_number(self, number: usize) -> *const AtomicU8 {
        // SAFETY: the table has a byte for each number, and only methods of this type make numbers.
        unsafe { self.marks.add(number) }
    }

    /// Returns the payload address of the cell with this number, which is in a block where objects may be.
    #[inline(always)]
    pub(crate) fn payload_of_number(self, number: usize) -> usize {
        let (block, index) = (number / MARKS_PER_BLOCK, number % MARKS_PER_BLOCK);
        let start = self.base + (block << BLOCK_SHIFT);
        start + FIRST_CELL + HEADER_BYTES + index * self.word_at(start).cell_bytes()
    }

    /// Returns the number of cells in this block; 0 if no object may begin there.
    pub(crate) fn cells_in(self, block: BlockIndex) -> usize {
        match self.word_at(self.base + ((block as usize) << BLOCK_SHIFT)) {
            word if word.is_large_head() => 1,
            word if word.has_objects() => cells_per_block(word.cell_bytes()),
            _ => 0,
        }
    }
}

/// The heap's reservation, and the four tables that have an entry for each of its blocks.
pub(crate) struct Blocks {
    memory: Reservation,
    pub(super) words: Reservation,
    pub(super) heads: Reservation,
    pub(super) tails: Reservation,
    pub(super) marks: Reservation,
    /// The kinds of objects in compact cells; `None` if there are no such cells.
    kinds: Option<KindTable>,
    count: usize,
}

impl Blocks {
    /// Reserves address space for `count` blocks and their tables. Only the tables are committed, whose pages the kernel provides on
    /// first access.
    pub(crate) fn reserve(count: usize) -> io::Result<Self> {
        let table = |bytes: usize| -> io::Result<Reservation> {
            let reservation = Reservation::new(bytes, BLOCK_BYTES)?;
            reservation.commit_table()?;
            Ok(reservation)
        };
        Ok(Self {
            memory: Reservation::new(count * BLOCK_BYTES, CHUNK_BYTES)?,
            words: table((count + 1) * size_of::<AtomicU64>())?,
            heads: table(count * size_of::<BlockHead>())?,
            tails: table(count * size_of::<BlockTail>())?,
            marks: Reservation::new(count * MARKS_PER_BLOCK, CHUNK_BYTES)
                .and_then(|marks| marks.commit_table().map(|()| marks))?,
            kinds: None,
            count,
        })
    }

    /// Makes the blocks from `from` to `to` usable: those before are. Core files have them from now on, and their parts of the tables.
    pub(super) fn commit(&self, from: usize, to: usize) -> io::Result<()> {
        self.memory.commit(from * BLOCK_BYTES, (to - from) * BLOCK_BYTES)?;
        let kinds = self.kinds.as_ref().map(|kinds| (&kinds.memory, KINDS_PER_BLOCK));
        let tables = [
            (&self.words, size_of::<AtomicU64>()),
            (&self.heads, size_of::<BlockHead>()),
            (&self.tails, size_of::<BlockTail>()),
            (&self.marks, MARKS_PER_BLOCK),
        ];
        for (table, bytes) in tables.into_iter().chain(kinds) {
            // The table of words has one more, and the length of each is a multiple of a page.
            table.include_in_cores(0, ((to + 1) * bytes).next_multiple_of(page_size()).min(table.len()));
        }
        Ok(())
    }

    /// Reserves the table that compact cells need.
    pub(crate) fn have_compact_cells(&mut self) -> io::Result<()> {
        self.kinds = Some(KindTable::reserve(self.base(), self.count)?);
        Ok(())
    }

    /// Returns the kinds of the objects in compact cells.
    #[inline(always)]
    pub(crate) fn kinds(&self) -> KindBytes {
        self.kinds.as_ref().map_or(KindBytes::NONE, |table| table.bytes)
    }

    /// Returns the header word of a cell: the address of a `TypeInfo`, or 0. In a compact cell, the word that the header would have.
    #[inline]
    pub(crate) fn header_word(&self, cell: Cell) -> usize {
        if self.word(cell.block).is_compact() {
            return self.kinds().header_word(cell.payload());
        }
        // SAFETY: a `Cell` is only made of a header address within a committed block, and this one has a header.
        unsafe { (*(cell.header as *const AtomicUsize)).load(Relaxed) }
    }

    /// Asks for huge pages for what is after the first `committed` bytes of the heap, and for the mark bytes, which are copied. Returns how many of
    /// the heap's first bytes are to be [copied](Self::copy_to_huge_pages).
    pub(crate) fn use_huge_pages(&self, committed: usize) -> usize {
        let marks_of_it = committed / BLOCK_BYTES * MARKS_PER_BLOCK;
        let [heap, marks] = [(&self.memory, committed), (&self.marks, marks_of_it)].map(|(table, low)| {
            let low = bytes_to_copy(low, table.len());
            table.huge_pages(low, table.len() - low);
            low
        });
        self.marks.collapse(0, marks);
        heap
    }

    /// Makes huge pages of a part of the heap.
    pub(crate) fn copy_to_huge_pages(&self, part: Range<usize>) {
        self.memory.collapse(part.start, part.len());
    }

    /// Returns a copy of the address map. It is valid as long as the heap exists.
    pub(crate) fn map(&self) -> AddressMap {
        AddressMap {
            base: self.base(),
            bytes: self.reserved_bytes(),
            words: self.words.base().cast(),
            marks: self.marks.base().cast(),
            kinds: self.kinds(),
        }
    }

    /// The heap's own memory.
    pub(crate) fn memory(&self) -> &Reservation {
        &self.memory
    }

    /// Lowest address of the heap.
    #[inline(always)]
    pub(crate) fn base(&self) -> usize {
        self.memory.base() as usize
    }

    /// Returns the size of the heap's reservation in bytes, committed or not.
    #[inline(always)]
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.count * BLOCK_BYTES
    }

    /// First address of a block.
    #[inline(always)]
    pub(crate) fn start(&self, block: BlockIndex) -> usize {
        self.base() + ((block as usize) << BLOCK_SHIFT)
    }

    /// The state of a block.
    #[inline]
    pub(crate) fn info(&self, block: BlockIndex) -> BlockInfo<'_> {
        let block = block as usize;
        assert!(block < self.count, "block index beyond the heap");
        // SAFETY: in bounds of the mapped tables, whose zero bytes are valid; mapped as long as `self`.
        unsafe {
            BlockInfo {
                head: &*self.heads.base().cast::<BlockHead>().add(block),
                tail: &*self.tails.base().cast::<BlockTail>().add(block),
            }
        }
    }

    #[inline(always)]
    fn word_cell(&self, block: usize) -> &AtomicU64 {
        debug_assert!(block <= self.count);
        // SAFETY: the table has `count + 1` words; callers pass an index of a block or of the end.
        unsafe { &*self.words.base().cast::<AtomicU64>().add(block) }
    }

    /// The dense word of a block.
    #[inline(always)]
    pub(crate) fn word(&self, block: BlockIndex) -> BlockWord {
        BlockWord(self.word_cell(block as usize).load(Relaxed))
    }

    /// Records that a block is cut into cells of this class, and that no dead cell has a header.
    pub(crate) fn set_cells(&self, block: BlockIndex, class: usize) {
        self.word_cell(block as usize).store(BlockWord::cells(class).0, Relaxed);
    }

    /// Damages a block's word: lets it have cells of any size.
    #[cfg(test)]
    pub(crate) fn set_cell_bytes(&self, block: BlockIndex, bytes: u16) {
        let word = self.word_cell(block as usize);
        let others = KIND_CELLS | u64::from(reciprocal(usize::from(bytes)));
        word.store(others | u64::from(bytes) << 32, Relaxed);
    }

    /// Records that a block of cells has dead cells with headers.
    pub(crate) fn set_unswept(&self, block: BlockIndex) {
        let word = self.word_cell(block as usize);
        word.store(word.load(Relaxed) | UNSWEPT, Relaxed);
    }

    /// Records that `blocks` blocks from `head` on are one large object.
    pub(crate) fn set_large(&self, head: BlockIndex, blocks: u32) {
        for tail in 1..blocks {
            self.info(head + tail).set_state(BlockState::LargeTail);
            self.word_cell((head + tail) as usize).store(BlockWord::large_tail(tail).0, Relaxed);
        }
        self.word_cell(head as usize).store(BlockWord::LARGE_HEAD.0, Relaxed);
    }

    /// Records that a block contains no objects.
    pub(crate) fn set_none(&self, block: BlockIndex) {
        self.word_cell(block as usize).store(BlockWord::NONE.0, Relaxed);
    }

    /// The mark byte of a cell.
    #[inline(always)]
    pub(crate) fn mark(&self, block: BlockIndex, index: u32) -> &AtomicU8 {
        debug_assert!((block as usize) < self.count && (index as usize) < MARKS_PER_BLOCK);
        // SAFETY: the table has `MARKS_PER_BLOCK` bytes for each block; indices come from the address map.
        unsafe { &*self.marks.base().cast::<AtomicU8>().add(block as usize * MARKS_PER_BLOCK + index as usize) }
    }

    /// The mark bytes of the first `cells` cells of a block.
    #[inline]
    pub(crate) fn marks(&self, block: BlockIndex, cells: usize) -> &[AtomicU8] {
        assert!((block as usize) < self.count && cells <= MARKS_PER_BLOCK);
        // SAFETY: in bounds, as just checked.
        unsafe {
            std::slice::from_raw_parts(
                self.marks.base().cast::<AtomicU8>().add(block as usize * MARKS_PER_BLOCK),
                cells,
            )
        }
    }

    /// Prefetches the mark bytes of a block's first `cells` cells.
    #[inline(always)]
    pub(crate) fn prefetch_marks(&self, block: BlockIndex, cells: usize) {
        for mark in self.marks(block, cells).iter().step_by(CACHE_LINE_BYTES) {
            prefetch(std::ptr::from_ref(mark) as usize);
        }
    }

    /// The precise address map: returns the cell whose *payload* begins exactly at `payload`, whether it is allocated or not.
    #[inline(always)]
    pub(crate) fn cell_of_payload(&self, payload: usize) -> Option<Cell> {
        let offset = payload.wrapping_sub(self.base());
        if offset >= self.reserved_bytes() {
            return None;
        }
        let block = (offset >> BLOCK_SHIFT) as BlockIndex;
        let word = self.word(block);
        let within = (offset & (BLOCK_BYTES - 1)).wrapping_sub(FIRST_CELL + HEADER_BYTES);
        let index = divide(within & (u32::MAX as usize), word.reciprocal());
        if !word.has_objects() || index * word.cell_bytes() != within {
            return None;
        }
        Some(Cell { header: payload - HEADER_BYTES, block, index: index as u32 })
    }

    /// The conservative address map: returns the cell that contains `address`, header included, whether it is allocated or not.
    ///
    /// The address just past the end of a payload is the next cell's header, or offset 0 of the next block. A caller that also accepts
    /// such an address for the object before it queries `address - 1` too.
    #[inline]
    pub(crate) fn cell_containing(&self, address: usize) -> Option<Cell> {
        let offset = address.wrapping_sub(self.base());
        if offset >= self.reserved_bytes() {
            return None;
        }
        let mut block = (offset >> BLOCK_SHIFT) as BlockIndex;
        let mut word = self.word(block);
        if word.is_large_tail() {
            block = block.checked_sub(word.reciprocal())?;
            word = self.word(block);
        }
        let start = self.start(block);
        if word.is_large_head() {
            let header = start + FIRST_CELL;
            let end = (header + HEADER_BYTES).saturating_add(self.info(block).tail.large_bytes.load(Relaxed));
            return (address >= header && address < end.max(header + HEADER_BYTES + 1)).then_some(Cell {
                header,
                block,
                index: 0,
            });
        }
        if !word.has_objects() {
            return None;
        }
        // A compact cell begins with its payload.
        let first = if word.is_compact() { FIRST_CELL + HEADER_BYTES } else { FIRST_CELL };
        let within = (address - start).checked_sub(first)?;
        let index = divide(within, word.reciprocal());
        let begin = first + index * word.cell_bytes();
        let header = start + FIRST_CELL + index * word.cell_bytes();
        // The space after the last cell belongs to no cell.
        (begin + word.cell_bytes() <= BLOCK_BYTES).then_some(Cell { header, block, index: index as u32 })
    }

    /// Returns the cell with this index in a block that is cut into cells of this size.
    #[inline(always)]
    pub(crate) fn cell(&self, block: BlockIndex, cell_bytes: usize, index: u32) -> Cell {
        Cell { header: self.start(block) + FIRST_CELL + index as usize * cell_bytes, block, index }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `.debug.inspect`
    #[test]
    fn damaged_words_of_large_objects_find_no_cell() {
        let blocks = Blocks::reserve(16).unwrap();
        blocks.set_large(2, 3);
        blocks.info(2).tail.large_bytes.store(usize::MAX, Relaxed);
        let inside = blocks.start(4) + 100;
        let head = Cell { header: blocks.start(2) + FIRST_CELL, block: 2, index: 0 };
        assert_eq!(blocks.cell_containing(inside), Some(head));
        blocks.word_cell(4).store(BlockWord::large_tail(5).0, Relaxed);
        assert_eq!(blocks.cell_containing(inside), None);
    }
}
