//! Large objects.
//!
//! An object above the largest size class takes whole, adjacent blocks; its mark is the mark byte of the first cell
//! of its first block. Its payload is zeroed before its header is written: if a thread is stopped while it builds the value, the
//! object can be traced.

use super::blocks::{BlockIndex, BlockState};
use super::cache::AllocationCache;
use super::layout::{BLOCK_BYTES, FIRST_CELL, HEADER_BYTES, Space};
use super::trace::TypeInfo;
use super::{Heap, HeapState, Need};
use crate::sync::{AtomicUsize, LockGuard, Ordering::Relaxed};

impl Heap {
    /// Allocates a large object with a zeroed payload. `lock` takes the allocation lock.
    ///
    /// # Errors
    /// Why a collection is needed first.
    pub(crate) fn allocate_large<'a>(
        &'a self,
        cache: &AllocationCache,
        payload_bytes: usize,
        info: &'static TypeInfo,
        lock: impl FnOnce() -> LockGuard<'a>,
    ) -> Result<*mut u8, Need> {
        let blocks = blocks_of(payload_bytes).ok_or(Need::Room)?;
        if self.is_collection_requested() {
            return Err(Need::Request);
        }
        let guard = lock();
        let mut state = self.state(&guard);
        if state.acquired_bytes >= state.budget_bytes {
            return Err(Need::Budget);
        }
        let head = self.take_free_blocks(&mut state, blocks).ok_or(Need::Room)?;
        let fresh = (head..head + blocks as u32).filter(|&block| self.take_fresh(&mut state, block)).count() == blocks;
        state.acquired_bytes += (blocks * BLOCK_BYTES) as u64;
        drop(state);
        let block = self.blocks.info(head);
        block.head.space.store(Space::Large as u8, Relaxed);
        block.tail.large_blocks.store(blocks as u32, Relaxed);
        block.tail.large_bytes.store(payload_bytes, Relaxed);
        block.set_state(BlockState::LargeHead);
        self.blocks.mark(head, 0).store(0, Relaxed);
        let header = self.blocks.start(head) + FIRST_CELL;
        // SAFETY: the block was free, and now belongs to this object.
        unsafe { (*(header as *const AtomicUsize)).store(0, Relaxed) };
        self.blocks.set_large(head, blocks as u32);
        cache.while_sweeping(head, || {
            let sweeping = self.enter_gate(&guard);
            drop(guard);
            if !fresh {
                self.zero(header + HEADER_BYTES, payload_bytes);
            }
            cache.made_large(header + HEADER_BYTES);
            cache.charge_large(head);
            // SAFETY: as above; from now on the object can be traced.
            unsafe { (*(header as *const AtomicUsize)).store(std::ptr::from_ref(info) as usize, Relaxed) };
            drop(sweeping);
        });
        Ok((header + HEADER_BYTES) as *mut u8)
    }

    /// Zeroes a payload. If it is big, its whole pages are returned to the kernel.
    fn zero(&self, address: usize, bytes: usize) {
        const GIVE_BACK: usize = 1 << 20;
        let end = address + bytes;
        let (first_page, last_page) = (address.next_multiple_of(4096), end / 4096 * 4096);
        let given_back = bytes >= GIVE_BACK
            // SAFETY: within the payload of an object that no other thread knows yet.
            && unsafe { self.blocks.memory().release(first_page - self.blocks.base(), last_page - first_page) }.is_ok();
        let pieces = if given_back { [(address, first_page), (last_page, end)] } else { [(address, end), (end, end)] };
        for (from, to) in pieces {
            // SAFETY: within the payload of an object that no other thread knows yet.
            unsafe { std::ptr::write_bytes(from as *mut u8, 0, to - from) };
        }
    }

    /// Frees the blocks of a dead large object.
    pub(crate) fn free_large(&self, state: &mut HeapState, head: BlockIndex) {
        let count = self.blocks.info(head).tail.large_blocks.load(Relaxed);
        for block in head..head + count {
            self.blocks.set_none(block);
            self.blocks.info(block).set_state(BlockState::Free);
            state.free.insert(block);
        }
    }

    /// Bytes of the blocks of a large object.
    pub(crate) fn large_footprint(&self, head: BlockIndex) -> u64 {
        u64::from(self.blocks.info(head).tail.large_blocks.load(Relaxed)) * BLOCK_BYTES as u64
    }
}

/// The number of blocks that a large object of this payload takes; `None` if no heap could hold it.
pub(crate) fn blocks_of(payload_bytes: usize) -> Option<usize> {
    // One byte more, so that a pointer just past the end of the payload is still inside the object's own blocks.
    let bytes = payload_bytes.checked_add(FIRST_CELL + HEADER_BYTES + 1)?;
    Some(bytes.div_ceil(BLOCK_BYTES)).filter(|&blocks| blocks < u32::MAX as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_object_has_room_past_its_end() {
        assert_eq!(blocks_of(BLOCK_BYTES - 17), Some(1));
        assert_eq!(blocks_of(BLOCK_BYTES - 16), Some(2));
        assert_eq!(blocks_of(usize::MAX), None);
    }
}
