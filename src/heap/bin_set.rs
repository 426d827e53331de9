//! Sets of bins, in a few words: a thread uses few of its bins, and a stop looks at the bins of all threads.

use super::layout::BINS;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// A set of bins. One thread changes it, and it may be stopped at any instruction: an insertion and a removal are one store each.
pub(super) struct BinSet([AtomicU64; BINS.div_ceil(u64::BITS as usize)]);

impl BinSet {
    /// An empty set.
    pub(super) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; BINS.div_ceil(u64::BITS as usize)])
    }

    pub(super) fn insert(&self, bin: usize) {
        let (word, bit) = self.word(bin);
        word.store(word.load(Relaxed) | bit, Relaxed);
    }

    pub(super) fn remove(&self, bin: usize) {
        let (word, bit) = self.word(bin);
        word.store(word.load(Relaxed) & !bit, Relaxed);
    }

    pub(super) fn contains(&self, bin: usize) -> bool {
        let (word, bit) = self.word(bin);
        word.load(Relaxed) & bit != 0
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Relaxed) == 0)
    }

    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// The bins of the set, in order. A bin that is inserted or removed meanwhile may be among them or not.
    #[inline(always)]
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let mut bits = word.load(Relaxed);
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros() as usize;
                let found = (bits != 0).then_some(index * u64::BITS as usize + bit);
                bits &= bits.wrapping_sub(1);
                found
            })
        })
    }

    fn word(&self, bin: usize) -> (&AtomicU64, u64) {
        (&self.0[bin / u64::BITS as usize], 1 << (bin % u64::BITS as usize))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_has_the_bins_of_an_ordered_set(changes in prop::collection::vec((any::<bool>(), 0..BINS), 0..200)) {
            let (set, mut expected) = (BinSet::new(), BTreeSet::new());
            for (inserts, bin) in changes {
                if inserts {
                    set.insert(bin);
                    expected.insert(bin);
                } else {
                    set.remove(bin);
                    expected.remove(&bin);
                }
                prop_assert_eq!((set.contains(bin), set.is_empty()), (inserts, expected.is_empty()));
            }
            prop_assert!(set.iter().eq(expected));
            set.clear();
            prop_assert!(set.is_empty());
        }
    }
}
