//! From the address of an object to its index.
//!
//! A heap of 30 million objects has twice as many references, and each names its object by address. A hash table would take 50 bytes
//! for each object. Here are 8 bytes for its address, 4 for a bucket of about two objects, and 4 for its rank if the objects did not
//! come in ascending order. A bucket is a range of addresses; objects are spread evenly enough that a lookup compares two or three.

use super::error::{Error, Result};

/// The addresses of all objects, by index.
#[derive(Debug, Default)]
pub struct Addresses {
    by_index: Vec<u64>,
    /// The indices in ascending order of address; empty if that is the order of the indices.
    by_rank: Vec<u32>,
    /// For each bucket, the rank of its first object; and at the end the number of objects.
    buckets: Vec<u32>,
    lowest: u64,
    /// The size of a bucket is this power of two.
    shift: u32,
}

impl Addresses {
    /// Indexes the addresses of objects. The first of several objects at the same address is the one that is found.
    ///
    /// # Errors
    /// There are 2³² − 1 objects or more.
    pub fn new(by_index: Vec<u64>) -> Result<Addresses> {
        let count = by_index.len();
        if count >= u32::MAX as usize {
            return Err(Error::TooLarge("the heap has more than 4,294,967,294 objects"));
        }
        let mut by_rank = Vec::new();
        if !by_index.is_sorted() {
            by_rank = (0..count as u32).collect();
            by_rank.sort_by_key(|index| by_index[*index as usize]);
        }
        let ranked = |rank: usize| by_index[by_rank.get(rank).map_or(rank, |index| *index as usize)];
        let (lowest, highest) = if count == 0 { (0, 0) } else { (ranked(0), ranked(count - 1)) };
        let span = highest - lowest;
        // At most one bucket for each object and one more.
        let shift = (0..64).find(|shift| span >> shift <= count as u64).unwrap_or(63);
        let mut buckets = vec![0; (span >> shift) as usize + 2];
        for rank in 0..count {
            buckets[((ranked(rank) - lowest) >> shift) as usize + 1] += 1_u32;
        }
        let mut sum = 0;
        for bucket in &mut buckets {
            sum += *bucket;
            *bucket = sum;
        }
        Ok(Addresses { by_index, by_rank, buckets, lowest, shift })
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.by_index.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.by_index.is_empty()
    }

    /// Returns the address of the object with this index.
    ///
    /// # Panics
    /// If there is no such object.
    #[inline]
    pub fn at(&self, index: u32) -> u64 {
        self.by_index[index as usize]
    }

    /// Returns the index of the object at this address.
    #[inline]
    pub fn find(&self, address: u64) -> Option<u32> {
        let bucket = (address.checked_sub(self.lowest)? >> self.shift) as usize;
        let (from, to) = (*self.buckets.get(bucket)?, *self.buckets.get(bucket + 1)?);
        let index_of = |rank: u32| self.by_rank.get(rank as usize).copied().unwrap_or(rank);
        let (mut low, mut high) = (from, to);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.at(index_of(middle)) < address { low = middle + 1 } else { high = middle }
        }
        (low < to).then(|| index_of(low)).filter(|index| self.at(*index) == address)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_address_is_found_where_a_linear_search_finds_it(
            addresses in prop::collection::vec(prop_oneof![0_u64..200, any::<u64>(), Just(u64::MAX)], 0..80),
            others in prop::collection::vec(prop_oneof![0_u64..200, any::<u64>()], 0..20),
        ) {
            let indexed = Addresses::new(addresses.clone()).unwrap();
            for address in addresses.iter().chain(&others) {
                let expected = addresses.iter().position(|other| other == address);
                prop_assert_eq!(indexed.find(*address).map(|index| index as usize), expected);
            }
        }
    }
}
