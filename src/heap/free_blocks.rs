//! The set of free blocks.

use std::io;

use super::blocks::BlockIndex;
use crate::os::memory::Reservation;

/// The set of free blocks: a bit each, set when free. Part of the [`HeapState`].
///
/// For each *span* of eight blocks, the set stores which thread took blocks from it last, so that a thread gets the spans that it had
/// before the last collection, if possible. Memory that another processor wrote last has to be fetched from that processor's cache,
/// line by line: two threads that took blocks in address order each allocated at a third of the speed of one thread alone.
pub(crate) struct FreeBlocks {
    bits: Reservation,
    /// For each span, the tag of the thread that took blocks from it last; 0 if no thread has.
    owners: Reservation,
    count: usize,
    /// No block below this one is free.
    lowest: usize,
}

impl FreeBlocks {
    /// Creates an empty set for `blocks` blocks.
    pub(crate) fn new(blocks: usize) -> io::Result<Self> {
        let bits = Reservation::new(blocks.div_ceil(64) * 8, 4096)?;
        bits.commit(0, bits.len())?;
        let owners = Reservation::new(bits.len(), 4096)?;
        owners.commit(0, owners.len())?;
        Ok(Self { bits, owners, count: 0, lowest: 0 })
    }

    /// The number of free blocks.
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

    /// Takes the lowest `count` adjacent blocks below `end`.
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

    /// Takes up to `most` adjacent free blocks from the lowest span that the thread `tag` had last. If there is no such span, takes them from
    /// the lowest span: memory that another thread has used before comes before memory that was never used, so that a program that begins
    /// new threads again and again does not grow with each.
    pub(crate) fn take_some(&mut self, tag: u8, most: u32, end: usize) -> Option<BlockRun> {
        let mut block = self.next_free(self.lowest, end)?;
        self.lowest = block;
        let lowest = block;
        let mut strangers = 0;
        while *self.owner(block / SPAN_BLOCKS) != tag {
            strangers += 1;
            let next = self.next_free((block / SPAN_BLOCKS + 1) * SPAN_BLOCKS, end);
            match next.filter(|_| strangers < MOST_STRANGERS) {
                Some(next) => block = next,
                None => {
                    // No span is the thread's own: take the lowest span as a whole.
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

    /// Returns whether a thread that takes the block before this one takes this one, too: the thread was the last to take blocks from its
    /// span, or no thread ever did.
    fn is_for(&mut self, tag: u8, block: usize) -> bool {
        let owner = *self.owner(block / SPAN_BLOCKS);
        owner == tag || owner == 0
    }

    /// Returns the number of adjacent free blocks just below `end`, counted up to `most`.
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

/// Adjacent blocks.
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

/// The number of blocks in a span.
const SPAN_BLOCKS: usize = 8;
/// The number of other threads' spans that a search passes before it takes one of them.
const MOST_STRANGERS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// The oracle is a set of numbers, searched one by one.
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
        /// Whatever was given and taken before, a thread gets adjacent free blocks. They are from its own spans as long as there are such
        /// spans, and otherwise the lowest.
        #[test]
        fn a_thread_gets_back_its_own_spans(
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
                let wanted = oracle.iter().find(|&&block| owners[block / SPAN_BLOCKS] == tag).or(oracle.first()).copied();
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
}
