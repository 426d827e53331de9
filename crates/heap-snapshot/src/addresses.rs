//! From the address of an object to its index.
//!
//! A heap of 30 million objects has twice as many references, and each names its object by address. A hash table would take 50 bytes
//! for each object. A heap is usually visited page by page, and each page from its beginning to its end: a *run* is a sequence of
//! ascending addresses in one page of 64 KiB.
//!
//! ```text
//!   run:  first index, page    index − first index ──▶ offset in the page: 2 bytes for each object
//! ```
//!
//! A run takes 16 bytes, and 4 more if the runs are not in ascending order. If runs overlap, the addresses are kept in full: 12 to 16 bytes
//! for each object, besides the runs while they are indexed.

use std::cmp::Ordering;

use super::error::{Error, Result};

/// Addresses that have the same bits above these are in the same page.
const OFFSET_BITS: u32 = 16;

/// The addresses of all objects, by index.
#[derive(Debug)]
pub struct Addresses(Order);

#[derive(Debug)]
enum Order {
    Runs(Runs),
    Any(Sorted),
}

/// Collects the addresses of objects in the order of their indices.
#[derive(Debug, Default)]
pub struct AddressesBuilder(Runs);

impl AddressesBuilder {
    /// Adds the address of the next object.
    pub fn push(&mut self, address: u64) {
        self.0.push(address);
    }

    /// The number of objects so far.
    pub fn len(&self) -> usize {
        self.0.offsets.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Indexes the addresses. The first of several objects at the same address is the one that is found.
    ///
    /// # Errors
    /// There are 2³² − 1 objects or more.
    pub fn finish(self) -> Result<Addresses> {
        let AddressesBuilder(mut runs) = self;
        if runs.offsets.len() >= u32::MAX as usize {
            return Err(Error::TooLarge("the heap has more than 4,294,967,294 objects"));
        }
        if runs.order() {
            return Ok(Addresses(Order::Runs(runs)));
        }
        let by_index = runs.all().collect();
        drop(runs);
        Ok(Addresses(Order::Any(Sorted::new(by_index))))
    }
}

impl Addresses {
    /// The number of objects.
    pub fn len(&self) -> usize {
        match &self.0 {
            Order::Runs(runs) => runs.offsets.len(),
            Order::Any(sorted) => sorted.by_index.len(),
        }
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the address of the object with this index.
    ///
    /// # Panics
    /// If there is no such object.
    #[inline]
    pub fn at(&self, index: u32) -> u64 {
        match &self.0 {
            Order::Runs(runs) => runs.at(index),
            Order::Any(sorted) => sorted.by_index[index as usize],
        }
    }

    /// Returns the index of the object at this address.
    #[inline]
    pub fn find(&self, address: u64) -> Option<u32> {
        match &self.0 {
            Order::Runs(runs) => runs.find(address),
            Order::Any(sorted) => sorted.find(address),
        }
    }
}

/// Objects in runs of ascending addresses.
#[derive(Debug, Default)]
struct Runs {
    /// The low bits of each address.
    offsets: Vec<u16>,
    /// In the order of their objects' indices.
    runs: Vec<Run>,
    /// The numbers of the runs, in ascending order of address; empty if that is the order of `runs`.
    by_address: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    /// The address of its page, in pages.
    page: u64,
    /// The index of its first object.
    first: u32,
}

impl Runs {
    fn push(&mut self, address: u64) {
        let (page, offset) = (address >> OFFSET_BITS, address as u16);
        let continues = self.runs.last().is_some_and(|run| run.page == page)
            && self.offsets.last().is_some_and(|before| *before <= offset);
        if !continues {
            // More objects than an index can count are an error when all have been added.
            self.runs.push(Run { page, first: self.offsets.len() as u32 });
        }
        self.offsets.push(offset);
    }

    /// The indices of the objects of a run.
    fn indices(&self, run: usize) -> std::ops::Range<usize> {
        let end = self.runs.get(run + 1).map_or(self.offsets.len(), |next| next.first as usize);
        self.runs[run].first as usize..end
    }

    /// Returns the addresses in the order of the indices.
    fn all(&self) -> impl Iterator<Item = u64> {
        (0..self.runs.len()).flat_map(move |run| {
            let page = self.runs[run].page << OFFSET_BITS;
            self.offsets[self.indices(run)].iter().map(move |offset| page | u64::from(*offset))
        })
    }

    /// The addresses of the first and the last object of a run.
    fn bounds(&self, run: usize) -> (u64, u64) {
        let (indices, page) = (self.indices(run), self.runs[run].page << OFFSET_BITS);
        (page | u64::from(self.offsets[indices.start]), page | u64::from(self.offsets[indices.end - 1]))
    }

    /// Sorts the runs by address. Returns whether no two of them overlap.
    fn order(&mut self) -> bool {
        let mut sorted: Vec<u32> = (0..self.runs.len() as u32).collect();
        sorted.sort_by_key(|run| self.bounds(*run as usize));
        let bounds = |at: u32| self.bounds(at as usize);
        let is_disjoint = sorted.array_windows().all(|[before, after]| bounds(*before).1 < bounds(*after).0);
        if !sorted.is_sorted() {
            self.by_address = sorted;
        }
        is_disjoint
    }

    fn at(&self, index: u32) -> u64 {
        let run = self.runs.partition_point(|run| run.first <= index) - 1;
        self.runs[run].page << OFFSET_BITS | u64::from(self.offsets[index as usize])
    }

    fn find(&self, address: u64) -> Option<u32> {
        let by_address = |rank: usize| self.by_address.get(rank).map_or(rank, |run| *run as usize);
        let page = address >> OFFSET_BITS;
        // Mostly the pages differ; `bounds` reads another part of the memory.
        let begins_before = |run: usize| match self.runs[run].page.cmp(&page) {
            Ordering::Equal => self.bounds(run).0 <= address,
            order => order == Ordering::Less,
        };
        // The last run that begins at the address or before.
        let (mut low, mut high) = (0, self.runs.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if begins_before(by_address(middle)) { low = middle + 1 } else { high = middle }
        }
        let run = by_address(low.checked_sub(1)?);
        if self.runs[run].page != page {
            return None;
        }
        let (indices, offset) = (self.indices(run), address as u16);
        let index = indices.start + self.offsets[indices.clone()].partition_point(|other| *other < offset);
        (index < indices.end && self.offsets[index] == offset).then_some(index as u32)
    }
}

/// The addresses of objects in any order. A bucket is a range of addresses, of about two objects.
#[derive(Debug)]
struct Sorted {
    by_index: Vec<u64>,
    /// The indices in ascending order of address; empty if that is the order of the indices.
    by_rank: Vec<u32>,
    /// For each bucket, the rank of its first object; and at the end the number of objects.
    buckets: Vec<u32>,
    lowest: u64,
    /// The size of a bucket is this power of two.
    shift: u32,
}

impl Sorted {
    fn new(by_index: Vec<u64>) -> Sorted {
        let count = by_index.len();
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
        Sorted { by_index, by_rank, buckets, lowest, shift }
    }

    fn find(&self, address: u64) -> Option<u32> {
        let bucket = (address.checked_sub(self.lowest)? >> self.shift) as usize;
        let (from, to) = (*self.buckets.get(bucket)?, *self.buckets.get(bucket + 1)?);
        let index_of = |rank: u32| self.by_rank.get(rank as usize).copied().unwrap_or(rank);
        let address_of = |index: u32| self.by_index[index as usize];
        let (mut low, mut high) = (from, to);
        while low < high {
            let middle = low + (high - low) / 2;
            if address_of(index_of(middle)) < address { low = middle + 1 } else { high = middle }
        }
        (low < to).then(|| index_of(low)).filter(|index| address_of(*index) == address)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn indexed(addresses: &[u64]) -> Addresses {
        let mut builder = AddressesBuilder::default();
        addresses.iter().for_each(|address| builder.push(*address));
        assert_eq!(builder.len(), addresses.len());
        builder.finish().unwrap()
    }

    /// The oracle is a linear search.
    fn check(addresses: &[u64], others: &[u64]) -> Addresses {
        let indexed = indexed(addresses);
        for address in addresses.iter().chain(others) {
            let expected = addresses.iter().position(|other| other == address);
            assert_eq!(indexed.find(*address).map(|index| index as usize), expected, "{address:#x}");
        }
        let all: Vec<u64> = (0..indexed.len() as u32).map(|index| indexed.at(index)).collect();
        assert_eq!(all, addresses);
        indexed
    }

    #[test]
    fn an_object_in_order_takes_two_bytes() {
        let addresses: Vec<u64> = (0..100_000).map(|number| 0x7f00_0000_0010 + 32 * number).collect();
        let Addresses(Order::Runs(runs)) = indexed(&addresses) else { panic!("the addresses are in order") };
        assert_eq!((runs.offsets.len(), runs.runs.len(), runs.by_address.len()), (100_000, 49, 0));
    }

    proptest! {
        #[test]
        fn an_address_is_found_where_a_linear_search_finds_it(
            addresses in prop::collection::vec(prop_oneof![0_u64..200, any::<u64>(), Just(u64::MAX)], 0..80),
            others in prop::collection::vec(prop_oneof![0_u64..200, any::<u64>()], 0..20),
        ) {
            check(&addresses, &others);
        }

        #[test]
        fn pages_may_come_in_any_order(
            pages in prop::collection::btree_map(
                prop_oneof![0_u64..8, Just(u64::MAX >> OFFSET_BITS)], prop::collection::btree_set(0_u64..=0xffff, 1..20), 0..8,
            ).prop_map(|pages| pages.into_iter().collect::<Vec<_>>()).prop_shuffle(),
            others in prop::collection::vec(0_u64..9 << OFFSET_BITS, 0..40),
        ) {
            let address = |page: u64, offset: &u64| page << OFFSET_BITS | offset;
            let addresses: Vec<u64> =
                pages.iter().flat_map(|(page, offsets)| offsets.iter().map(|offset| address(*page, offset))).collect();
            prop_assert!(matches!(check(&addresses, &others), Addresses(Order::Runs(_))));
        }
    }
}
