//! Large objects, and the free blocks that they and everything else come from.
//!
//! An object above the largest size class takes whole blocks side by side; its mark is the first cell's mark byte
//! of its first block. Its payload is zeroed before its header is written, so that a thread stopped while it builds
//! the value leaves an object that can be traced.

use std::io;

use super::blocks::{BlockIndex, BlockState};
use super::cache::AllocationCache;
use super::layout::{BLOCK_BYTES, FIRST_CELL, HEADER_BYTES, Space};
use super::trace::TypeInfo;
use super::{Heap, HeapState, Need};
use crate::os::memory::Reservation;
use crate::sync::{AtomicUsize, LockGuard, Ordering::Relaxed};

/// Which blocks are free: a bit each, set when free. Part of the [`HeapState`].
///
/// Each *span* of eight blocks remembers which thread had it last:
/// a thread gets back what it had before the last collection, if it can. Memory that another processor wrote last has to
/// be fetched from its cache, line by line: two threads that took blocks as they came allocated three times more
/// slowly each than either alone.
pub(crate) struct FreeBlocks {
    bits: Reservation,
    /// For each span, the tag of the thread that took blocks from it last; 0 if nobody has.
    owners: Reservation,
    count: usize,
    /// No block below this one is free.
    lowest: usize,
}

impl FreeBlocks {
    /// A set for `blocks` blocks, empty.
    pub(crate) fn new(blocks: usize) -> io::Result<Self> {
        let bits = Reservation::new(blocks.div_ceil(64) * 8, 4096)?;
        bits.commit(0, bits.len())?;
        let owners = Reservation::new(bits.len(), 4096)?;
        owners.commit(0, owners.len())?;
        Ok(Self { bits, owners, count: 0, lowest: 0 })
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

    fn owner(&mut self, span: usize) -> &mut u8 {
        // SAFETY: the whole reservation is committed, zero-filled, and ours alone; one byte for each byte of the bits.
        let owners = unsafe { std::slice::from_raw_parts_mut(self.owners.base(), self.owners.len()) };
        &mut owners[span]
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

    /// Takes up to `most` free blocks side by side, from the lowest span that `tag` had last or nobody ever had, or else
    /// from the lowest.
    pub(crate) fn take_some(&mut self, tag: u8, most: u32, end: usize) -> Option<BlockRun> {
        let mut block = self.next_free(self.lowest, end)?;
        self.lowest = block;
        let lowest = block;
        let mut strangers = 0;
        while !self.is_for(tag, block) {
            strangers += 1;
            let next = self.next_free((block / SPAN_BLOCKS + 1) * SPAN_BLOCKS, end);
            match next.filter(|_| strangers < MOST_STRANGERS) {
                Some(next) => block = next,
                None => {
                    // None of its own: the lowest span, whole.
                    block = lowest;
                    *self.owner(block / SPAN_BLOCKS) = tag;
                    break;
                }
            }
        }
        let mut count = 0;
        while count < most as usize
            && block + count < end
            && self.contains(block + count)
            && self.is_for(tag, block + count)
        {
            *self.owner((block + count) / SPAN_BLOCKS) = tag;
            count += 1;
        }
        self.remove(block, count);
        Some(BlockRun { first: block as BlockIndex, count: count as u32 })
    }

    /// Whether a thread should rather have this block than another.
    fn is_for(&mut self, tag: u8, block: usize) -> bool {
        let owner = *self.owner(block / SPAN_BLOCKS);
        owner == tag || owner == 0
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

/// Blocks side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockRun {
    pub(crate) first: BlockIndex,
    pub(crate) count: u32,
}

impl BlockRun {
    pub(crate) fn iter(self) -> impl Iterator<Item = BlockIndex> {
        self.first..self.first + self.count
    }
}

/// Blocks that are remembered together.
const SPAN_BLOCKS: usize = 8;
/// Spans that others had which a search passes before it takes one of them.
const MOST_STRANGERS: usize = 256;

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
        // SAFETY: the block was free; it is this object's now.
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

    proptest! {
        /// Whatever was given and taken before, a thread gets free blocks side by side, and of its own spans or nobody's
        /// as long as there are any.
        #[test]
        fn a_thread_gets_what_it_had(
            steps in proptest::collection::vec((1_u8..4, 1_u32..40, proptest::collection::vec(0_usize..320, 0..40)), 1..60),
        ) {
            const END: usize = 320;
            let mut free = FreeBlocks::new(END).unwrap();
            let mut oracle = BTreeSet::new();
            let mut owners = [0; END / SPAN_BLOCKS];
            for (tag, most, given) in steps {
                for block in given {
                    if oracle.insert(block) {
                        free.insert(block as BlockIndex);
                    }
                }
                let own = |owners: &[u8], block: usize| [0, tag].contains(&owners[block / SPAN_BLOCKS]);
                let wanted = oracle.iter().find(|&&block| own(&owners, block)).or(oracle.first()).copied();
                let run = free.take_some(tag, most, END);
                prop_assert_eq!(run.map(|run| run.first as usize), wanted);
                if let Some(run) = run {
                    prop_assert!((1..=most).contains(&run.count));
                    owners[run.first as usize / SPAN_BLOCKS] = tag;
                    for block in run.iter() {
                        prop_assert!(oracle.remove(&(block as usize)));
                        prop_assert!(own(&owners, block as usize));
                        owners[block as usize / SPAN_BLOCKS] = tag;
                    }
                    let next = (run.first + run.count) as usize;
                    let ends = run.count == most || !oracle.contains(&next) || !own(&owners, next);
                    prop_assert!(ends, "it could have been longer");
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
