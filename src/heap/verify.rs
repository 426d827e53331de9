//! The verifier: every invariant of the heap, checked against the memory itself.
//!
//! Tests and the paranoid mode run it after each collection, with the world still stopped; so it allocates nothing,
//! and its findings are plain data. What it checks:
//!
//! 1. Every block's state, dense word and free bit agree.
//! 2. Every live object has a sound header, and its size fits its cell.
//! 3. Every reference in a live object is null, outside the heap, odd, or exactly the payload of a live object.
//! 4. Free runs are inside their block, do not overlap live objects, and their cells have no headers.
//! 5. The count of live bytes equals what the collection reported (checked by the caller).

use super::array::ARRAY_HEAD_BYTES;
use super::blocks::{BlockIndex, BlockState, Cell, NO_BLOCK, NO_CELL};
use super::cache::RunLink;
use super::layout::{
    BLOCK_BYTES, CELL_BYTES, CLASSES, FIRST_CELL, HEADER_BYTES, Space, cells_per_block, is_compact, payload_bytes,
};
use super::stopped::WorldStopped;
use super::sweep::SpaceBytes;
use super::trace::{Shape, TypeInfo};
use super::{Heap, HeapState};
use crate::sync::{AtomicUsize, Ordering::Relaxed};

/// The counts of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Bytes of live objects.
    pub live: SpaceBytes,
    /// The number of live objects.
    pub live_objects: u64,
    /// The number of references in live objects that were followed to a live object.
    pub references: u64,
    /// The number of free cells in runs that threads allocate from.
    pub free_cells: u64,
}

/// An invariant that does not hold: a bug in the collector, or a mutator that broke the promise of `attach`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// A block's state contradicts its dense word or its free bit.
    #[error("block {block} is {state} in one table and not in another")]
    Block {
        /// The block's index.
        block: u32,
        /// The state of the block.
        state: &'static str,
    },
    /// A live object's header is not a type.
    #[error("the object at {object:#x} has the header {header:#x}, which is not a type")]
    Header {
        /// The object's address.
        object: usize,
        /// The content of its header.
        header: usize,
    },
    /// A live object is larger than its cell.
    #[error("the object at {object:#x} of type {type_name} is larger than its cell of {cell_bytes} bytes")]
    Size {
        /// The object's address.
        object: usize,
        /// The type's name.
        type_name: &'static str,
        /// The size of the cell.
        cell_bytes: usize,
    },
    /// A live object refers into the heap, but not to a live object.
    #[error(
        "the object at {object:#x} of type {type_name} refers to {target:#x} at offset {offset}, which is not a live \
         object: a reference was kept where the collector does not look"
    )]
    Dangling {
        /// The object's address.
        object: usize,
        /// The name of the object's type.
        type_name: &'static str,
        /// The offset of the reference in the object.
        offset: usize,
        /// The reference.
        target: usize,
    },
    /// A free cell has a header, or a run leaves its block.
    #[error("the free run at cell {cell} of block {block} is not free memory")]
    Run {
        /// The block's index.
        block: u32,
        /// The cell's index in the block.
        cell: u32,
    },
    /// The count of live bytes differs from what the collection reported.
    #[error("{counted} bytes are alive, but the collection reported {reported}")]
    Count {
        /// The number of live bytes that the verifier counted.
        counted: u64,
        /// The number of live bytes that the collection reported.
        reported: u64,
    },
}

impl Heap {
    /// Checks all invariants. Called outside a mark phase.
    pub(crate) fn verify(&self, stopped: WorldStopped<'_>) -> Result<Verified, VerifyError> {
        let mut found = Verified::default();
        let mut state = self.state(stopped.allocation());
        for block in 0..state.committed_blocks as BlockIndex {
            self.verify_block(&mut state, block, &mut found)?;
        }
        self.verify_lists(&state)?;
        Ok(found)
    }

    fn verify_block(&self, held: &mut HeapState, block: BlockIndex, found: &mut Verified) -> Result<(), VerifyError> {
        let info = self.blocks.info(block);
        let state = info.state();
        let word = self.blocks.word(block);
        let free = held.free.contains(block as usize);
        let broken = |state| Err(VerifyError::Block { block, state });
        match state {
            BlockState::Free if !free || word.has_objects() => return broken("free"),
            BlockState::Free => return Ok(()),
            BlockState::Reserved if free => return broken("reserved"),
            BlockState::Reserved => return Ok(()),
            BlockState::LargeTail if free || word.has_objects() => return broken("in a large object"),
            BlockState::LargeTail => return Ok(()),
            BlockState::LargeHead if free || !word.is_large_head() => return broken("a large object"),
            BlockState::LargeHead => {
                let cell = Cell { header: self.blocks.start(block) + FIRST_CELL, block, index: 0 };
                found.live.large += self.large_footprint(block);
                let room = info.tail.large_bytes.load(Relaxed);
                return self.verify_object(cell, room + HEADER_BYTES, room, found);
            }
            BlockState::Owned | BlockState::Full | BlockState::Unswept => {}
        }
        let class = usize::from(info.head.class.load(Relaxed));
        let cell_bytes = CELL_BYTES[class];
        if free || word.cell_bytes() != cell_bytes || word.is_compact() != is_compact(class) {
            return broken("cut into cells");
        }
        let space = if info.head.space.load(Relaxed) == Space::Pinned as u8 { Space::Pinned } else { Space::Small };
        for index in 0..cells_per_block(cell_bytes) as u32 {
            let cell = self.blocks.cell(block, cell_bytes, index);
            if self.is_alive(cell) {
                found.live.add(space, cell_bytes as u64);
                self.verify_object(cell, cell_bytes, payload_bytes(class), found)?;
            }
        }
        if state == BlockState::Owned { self.verify_runs(block, cell_bytes, found) } else { Ok(()) }
    }

    fn verify_object(
        &self,
        cell: Cell,
        cell_bytes: usize,
        room: usize,
        found: &mut Verified,
    ) -> Result<(), VerifyError> {
        let (object, header) = (cell.payload(), self.blocks.header_word(cell));
        let Some(info) = type_of(header) else { return Err(VerifyError::Header { object, header }) };
        found.live_objects += 1;
        // SAFETY: an array's first payload word is its length; for other types it is not read.
        let length = || unsafe { (*(object as *const AtomicUsize)).load(Relaxed) };
        let bytes = match info.shape {
            Shape::Array { stride, .. } => length().saturating_mul(stride as usize).saturating_add(ARRAY_HEAD_BYTES),
            _ => info.size(),
        };
        if bytes > room {
            return Err(VerifyError::Size { object, type_name: info.name(), cell_bytes });
        }
        let mut check = |offset: usize, bits: u64| self.verify_words(object, info, offset, bits, found);
        match info.shape {
            // Words of untyped objects may be anything, so none of them is wrong.
            Shape::Leaf | Shape::Weak | Shape::Untyped | Shape::Bound => Ok(()),
            Shape::Words(bits) => check(0, bits),
            Shape::Wide(bitmaps) => bitmaps.iter().enumerate().try_for_each(|(i, &bits)| check(i * 512, bits)),
            Shape::Array { stride, element, ephemerons } => (0..length()).try_for_each(|index| {
                let at = ARRAY_HEAD_BYTES + index * stride as usize;
                // A key is no reference, but it is not the address of a dead object either.
                let keys = |bitmap| u64::from(ephemerons && bitmap == 0);
                element.iter().enumerate().try_for_each(|(i, &bits)| check(at + i * 512, bits | keys(i)))
            }),
        }
    }

    fn verify_words(
        &self,
        object: usize,
        info: &TypeInfo,
        base: usize,
        mut bits: u64,
        found: &mut Verified,
    ) -> Result<(), VerifyError> {
        while bits != 0 {
            let offset = base + bits.trailing_zeros() as usize * 8;
            bits &= bits - 1;
            // SAFETY: within the object's payload: its type says so, and its size was checked.
            let target = unsafe { (*((object + offset) as *const AtomicUsize)).load(Relaxed) };
            if target % 2 == 1 || target.wrapping_sub(self.blocks.base()) >= self.blocks.reserved_bytes() {
                continue;
            }
            match self.blocks.cell_of_payload(target) {
                Some(cell) if self.is_alive(cell) => found.references += 1,
                // Words that a description calls references may be interior pointers there, or numbers.
                _ if self.untyped.is_some() => {}
                _ => return Err(VerifyError::Dangling { object, type_name: info.name(), offset, target }),
            }
        }
        Ok(())
    }

    /// Checks the runs of a block that a thread owns, except the run from which the thread is allocating.
    fn verify_runs(&self, block: BlockIndex, cell_bytes: usize, found: &mut Verified) -> Result<(), VerifyError> {
        let cells = cells_per_block(cell_bytes) as u32;
        let mut first = self.blocks.info(block).tail.first_run.load(Relaxed);
        while first != NO_CELL {
            let broken = Err(VerifyError::Run { block, cell: first });
            if first >= cells {
                return broken;
            }
            // SAFETY: runs of an owned block are linked by its sweep; only its owner, which is stopped, takes one.
            let link = unsafe { RunLink::read(self.blocks.cell(block, cell_bytes, first).header) };
            let end = first.saturating_add(link.cells);
            if link.cells == 0 || end > cells || (link.next != NO_CELL && link.next < end) {
                return broken;
            }
            if (first..end).any(|index| self.blocks.header_word(self.blocks.cell(block, cell_bytes, index)) != 0) {
                return broken;
            }
            found.free_cells += u64::from(link.cells);
            first = link.next;
        }
        Ok(())
    }

    /// Checks that every bin's list holds unswept blocks of that bin, and ends.
    fn verify_lists(&self, state: &HeapState) -> Result<(), VerifyError> {
        let (lists, committed) = (state.lists, state.committed_blocks);
        for (bin, &first) in lists.iter().enumerate() {
            let mut block = first;
            let mut seen = 0;
            while block != NO_BLOCK {
                let info = self.blocks.info(block);
                let right_bin = usize::from(info.head.class.load(Relaxed)) == bin % CLASSES
                    && usize::from(info.head.space.load(Relaxed)) == bin / CLASSES;
                if info.state() != BlockState::Unswept || !right_bin || seen > committed {
                    return Err(VerifyError::Block { block, state: "listed" });
                }
                seen += 1;
                block = info.tail.next.load(Relaxed);
            }
        }
        Ok(())
    }
}

/// The type to which a header word points, if it points to one.
fn type_of(header: usize) -> Option<&'static TypeInfo> {
    if header == 0 || !header.is_multiple_of(align_of::<TypeInfo>()) || header < BLOCK_BYTES {
        return None;
    }
    // SAFETY: a header is 0 or the address of a `TypeInfo`, unless memory was corrupted; then reading it may fault,
    // which ends the program where the corruption was found.
    let info = unsafe { &*(header as *const TypeInfo) };
    info.is_sound().then_some(info)
}
