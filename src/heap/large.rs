//! Large objects, and the free blocks that they and everything else come from.
//!
//! An object above the largest size class takes whole blocks side by side; its mark is the first cell's mark byte
//! of its first block. Its payload is zeroed before its header is written, so that a thread stopped while it builds
//! the value leaves an object that can be traced.

use std::io;

use super::blocks::{BlockIndex, BlockState};
use super::layout::{BLOCK_BYTES, FIRST_CELL, HEADER_BYTES, Space};
use super::trace::TypeInfo;
use super::{Heap, HeapState, Need};
use crate::os::memory::Reservation;
use crate::sync::{AtomicUsize, LockGuard, Ordering::Relaxed};

/// Which blocks are free: a bit each, set when free. Under the allocation lock.
pub(crate) struct FreeBlocks {
    bits: Reservation,
    count: usize,
    /// No block below this one is free.
    lowest: usize,
}

impl FreeBlocks {
    /// A set for `blocks` blocks, empty.
    pub(crate) fn new(blocks: usize) -> io::Result<Self> {
        let bits = Reservation::new(blocks.div_ceil(64) * 8, 4096)?;
        bits.commit(0, bits.len())?;
        Ok(Self { bits, count: 0, lowest: 0 })
    }

    /// How many blocks are free.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn words(&mut self) -> &mut [u64] {
        // SAFETY: the whole reservation is committed, zero-filled, and ours alone.
        unsafe { std::slice::from_raw_parts_mut(self.bits.base().cast::<u64>(), self.bits.len() / 8) }
    }

    pub(crate) fn contains(&mut self, block: usize) -> bool {
        self.words()[block / 64] >> (block % 64) & 1 == 1
    }

    pub(crate) fn insert(&mut self, block: BlockIndex) {
        let block = block as usize;
        debug_assert!(!self.contains(block), "block freed twice");
        self.words()[block / 64] |= 1 << (block % 64);
        self.count += 1;
        self.lowest = self.lowest.min(block);
    }

    fn remove(&mut self, first: usize, count: usize) {
        for block in first..first + count {
            self.words()[block / 64] &= !(1 << (block % 64));
        }
        self.count -= count;
    }

    /// Takes the lowest `count` blocks side by side below `end`.
    pub(crate) fn take(&mut self, count: usize, end: usize) -> Option<BlockIndex> {
        if self.count < count {
            return None;
        }
        let mut block = self.next_free(self.lowest, end)?;
        self.lowest = block;
        loop {
            let mut run = 1;
            while run < count && block + run < end && self.contains(block + run) {
                run += 1;
            }
            if run == count {
                self.remove(block, count);
                if block == self.lowest {
                    self.lowest = block + count;
                }
                return Some(block as BlockIndex);
            }
            block = self.next_free(block + run, end)?;
        }
    }

    /// How many blocks side by side just below `end` are free, counted up to `most`.
    pub(crate) fn free_before(&mut self, end: usize, most: usize) -> usize {
        (0..most.min(end)).take_while(|back| self.contains(end - 1 - back)).count()
    }

    /// The first free block in `[from, end)`.
    fn next_free(&mut self, from: usize, end: usize) -> Option<usize> {
        let mut block = from;
        while block < end {
            let rest = self.words()[block / 64] >> (block % 64);
            if rest != 0 {
                let found = block + rest.trailing_zeros() as usize;
                return (found < end).then_some(found);
            }
            block = (block / 64 + 1) * 64;
        }
        None
    }
}

impl Heap {
    /// Allocates a large object with a zeroed payload. `lock` takes the allocation lock; `made` hears of the payload's address
    /// before it is an object, in the same step as far as a stop can see.
    ///
    /// # Errors
    /// Why a collection is needed first.
    pub(crate) fn allocate_large<'a>(
        &'a self,
        payload_bytes: usize,
        info: &'static TypeInfo,
        lock: impl FnOnce() -> LockGuard<'a>,
        made: impl FnOnce(usize),
    ) -> Result<*mut u8, Need> {
        let blocks = blocks_of(payload_bytes).ok_or(Need::Room)?;
        let guard = lock();
        // SAFETY: the allocation lock is held.
        let state = unsafe { self.state() };
        if state.acquired_bytes >= state.budget_bytes {
            return Err(Need::Budget);
        }
        let head = self.take_free_blocks(state, blocks).ok_or(Need::Room)?;
        let fresh = (head..head + blocks as u32).filter(|&block| self.take_fresh(state, block)).count() == blocks;
        state.acquired_bytes += (blocks * BLOCK_BYTES) as u64;
        let block = self.blocks.info(head);
        block.space.store(Space::Large as u8, Relaxed);
        block.large_blocks.store(blocks as u32, Relaxed);
        block.large_bytes.store(payload_bytes, Relaxed);
        block.set_state(BlockState::LargeHead);
        self.blocks.mark(head, 0).store(0, Relaxed);
        let header = self.blocks.start(head) + FIRST_CELL;
        // SAFETY: the block was free; it is this object's now.
        unsafe { (*(header as *const AtomicUsize)).store(0, Relaxed) };
        self.blocks.set_large(head, blocks as u32);
        let sweeping = self.gate.enter();
        drop(guard);
        if !fresh {
            self.zero(header + HEADER_BYTES, payload_bytes);
        }
        made(header + HEADER_BYTES);
        // SAFETY: as above; from now on the object can be traced.
        unsafe { (*(header as *const AtomicUsize)).store(std::ptr::from_ref(info) as usize, Relaxed) };
        drop(sweeping);
        Ok((header + HEADER_BYTES) as *mut u8)
    }

    /// Zeroes a payload: big ones by giving their whole pages back to the kernel.
    fn zero(&self, address: usize, bytes: usize) {
        const GIVE_BACK: usize = 1 << 20;
        let end = address + bytes;
        let (first_page, last_page) = (address.next_multiple_of(4096), end / 4096 * 4096);
        let given_back = bytes >= GIVE_BACK
            && self.blocks.memory().release(first_page - self.blocks.base(), last_page - first_page).is_ok();
        let pieces = if given_back { [(address, first_page), (last_page, end)] } else { [(address, end), (end, end)] };
        for (from, to) in pieces {
            // SAFETY: within the payload of an object that nobody else knows yet.
            unsafe { std::ptr::write_bytes(from as *mut u8, 0, to - from) };
        }
    }

    /// Frees the blocks of a dead large object.
    pub(crate) fn free_large(&self, state: &mut HeapState, head: BlockIndex) {
        let count = self.blocks.info(head).large_blocks.load(Relaxed);
        for block in head..head + count {
            self.blocks.set_none(block);
            self.blocks.info(block).set_state(BlockState::Free);
            state.free.insert(block);
        }
    }

    /// Bytes of the blocks of a large object.
    pub(crate) fn large_footprint(&self, head: BlockIndex) -> u64 {
        u64::from(self.blocks.info(head).large_blocks.load(Relaxed)) * BLOCK_BYTES as u64
    }
}

/// Blocks that a large object of this payload takes; `None` if no heap could hold it.
pub(crate) fn blocks_of(payload_bytes: usize) -> Option<usize> {
    // One byte more, so that a pointer one past its end is still inside its own blocks.
    let bytes = payload_bytes.checked_add(FIRST_CELL + HEADER_BYTES + 1)?;
    Some(bytes.div_ceil(BLOCK_BYTES)).filter(|&blocks| blocks < u32::MAX as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// The oracle is a set of numbers, searched in the plainest way.
        #[test]
        fn free_blocks_give_the_lowest_that_fit_like_a_plain_set(
            steps in proptest::collection::vec((any::<bool>(), 1_usize..70, 0_usize..300), 1..200),
        ) {
            const END: usize = 320;
            let mut free = FreeBlocks::new(END).unwrap();
            let mut oracle = BTreeSet::new();
            for (take, count, block) in steps {
                if take {
                    let expected = (0..END).find(|&b| (b..b + count).all(|i| i < END && oracle.contains(&i)));
                    prop_assert_eq!(free.take(count, END), expected.map(|b| b as BlockIndex));
                    if let Some(b) = expected {
                        (b..b + count).for_each(|i| { oracle.remove(&i); });
                    }
                } else if oracle.insert(block) {
                    free.insert(block as BlockIndex);
                }
                prop_assert_eq!(free.count(), oracle.len());
            }
        }
    }

    #[test]
    fn a_large_object_has_room_behind_its_end() {
        assert_eq!(blocks_of(BLOCK_BYTES - 17), Some(1));
        assert_eq!(blocks_of(BLOCK_BYTES - 16), Some(2));
        assert_eq!(blocks_of(usize::MAX), None);
    }
}
