//! Where a reader outside the process finds the parts of a heap: a debugger, or a reader of core files.
//!
//! Nothing here is used by the process itself. The layout of structures is constant; the addresses belong to one heap.

use std::mem::offset_of;

use super::Heap;
use super::arena_thread::ArenaThread;
use super::blocks::{BlockHead, BlockTail};
use super::cache::{AllocationCache, OwnedBlock, Run};
use super::compact::KindBytes;
use super::layout::{BINS, BLOCK_BYTES, CLASSES, FIRST_CELL, HEADER_BYTES, MARKS_PER_BLOCK};
use super::references::ObjectPointers;

/// Offsets in a thread's allocation cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CacheOffsets {
    /// Size of the structure in bytes.
    pub size: usize,
    /// The number of bins: for each space that has classes, the number of classes.
    pub bins: usize,
    /// The cursor of the first bin, 64 bits: the header address of the cell that is allocated next, or 0.
    pub cursor: usize,
    /// The distance between cursors in bytes.
    pub cursor_stride: usize,
    /// The index of the first bin's block, 64 bits, of which the low 32 count; all ones if there is none.
    pub block: usize,
    /// The end of the first bin's free cells, 64 bits.
    pub end: usize,
    /// The distance between the blocks of bins, and between their ends, in bytes.
    pub block_stride: usize,
    /// One more than the index of the block that the thread is sweeping, or 0. 32 bits.
    pub sweeping: usize,
    /// 1 if the thread has an arena, so that its stack has no roots. 8 bits.
    pub has_arena: usize,
}

/// The offsets of an allocation cache.
pub(crate) const CACHE_OFFSETS: CacheOffsets = CacheOffsets {
    size: size_of::<AllocationCache>(),
    bins: BINS,
    cursor: offset_of!(AllocationCache, runs) + offset_of!(Run, cursor),
    cursor_stride: size_of::<Run>(),
    block: offset_of!(AllocationCache, blocks) + offset_of!(OwnedBlock, block),
    end: offset_of!(AllocationCache, blocks) + offset_of!(OwnedBlock, end),
    block_stride: size_of::<OwnedBlock>(),
    sweeping: offset_of!(AllocationCache, sweeping),
    has_arena: offset_of!(AllocationCache, arena) + offset_of!(ArenaThread, has_arena),
};

/// The sizes of blocks and cells, and the layout of the tables with an entry for each block. Sizes and offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct BlockOffsets {
    /// Size of a block.
    pub block_bytes: usize,
    /// The offset of the first cell in its block.
    pub first_cell: usize,
    /// Size of the header of a cell.
    pub header_bytes: usize,
    /// The number of mark bytes for each block.
    pub marks_per_block: usize,
    /// The number of size classes.
    pub classes: usize,
    /// Size of an entry in the table of heads.
    pub head_bytes: usize,
    /// The state of the block, 8 bits: 0 free, 1 owned by a thread, 2 full, 3 not swept, 4 first of a large object, 5 another of a large
    /// object, 6 reserved by a thread.
    pub head_state: usize,
    /// The space of the block, 8 bits: 0 small, 1 pinned, 2 large.
    pub head_space: usize,
    /// Size of an entry in the table of tails.
    pub tail_bytes: usize,
    /// The index of the first cell of the first free run that the block's owner has not used yet, 32 bits; all ones if there is none.
    pub tail_first_run: usize,
    /// The number of blocks of a large object, 32 bits.
    pub tail_large_blocks: usize,
    /// The size of a large object in bytes, 64 bits.
    pub tail_large_bytes: usize,
}

/// The layout of blocks.
pub(crate) const BLOCK_OFFSETS: BlockOffsets = BlockOffsets {
    block_bytes: BLOCK_BYTES,
    first_cell: FIRST_CELL,
    header_bytes: HEADER_BYTES,
    marks_per_block: MARKS_PER_BLOCK,
    classes: CLASSES,
    head_bytes: size_of::<BlockHead>(),
    head_state: offset_of!(BlockHead, state),
    head_space: offset_of!(BlockHead, space),
    tail_bytes: size_of::<BlockTail>(),
    tail_first_run: offset_of!(BlockTail, first_run),
    tail_large_blocks: offset_of!(BlockTail, large_blocks),
    tail_large_bytes: offset_of!(BlockTail, large_bytes),
};

/// The addresses of a heap's parts. The heap must stay where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeapPlaces {
    pub(crate) low: usize,
    pub(crate) reserved_bytes: usize,
    pub(crate) committed_bytes: usize,
    pub(crate) epoch: usize,
    pub(crate) swept_epoch: usize,
    pub(crate) words: usize,
    pub(crate) heads: usize,
    pub(crate) tails: usize,
    pub(crate) marks: usize,
    pub(crate) kinds: usize,
    pub(crate) kind_types: usize,
    pub(crate) pointers: usize,
    pub(crate) displacements: usize,
}

impl Heap {
    /// Returns where the parts of this heap are.
    pub(crate) fn places(&self) -> HeapPlaces {
        let blocks = &self.blocks;
        let address = |table: &crate::os::memory::Reservation| table.base() as usize;
        HeapPlaces {
            low: blocks.base(),
            reserved_bytes: blocks.reserved_bytes(),
            committed_bytes: std::ptr::from_ref(&self.committed_bytes) as usize,
            epoch: std::ptr::from_ref(&self.epoch) as usize,
            swept_epoch: std::ptr::from_ref(&self.swept_epoch) as usize,
            words: address(&blocks.words),
            heads: address(&blocks.heads),
            tails: address(&blocks.tails),
            marks: address(&blocks.marks),
            kinds: blocks.kinds().address(0),
            kind_types: KindBytes::types(),
            pointers: match self.untyped {
                None => 0,
                Some(ObjectPointers::Interior) => 1,
                Some(ObjectPointers::Bases) => 2,
            },
            displacements: self.displacements.address(),
        }
    }
}
