//! The index of a map: the numbers of its entries, by their hashes.
//!
//! ```text
//!   bucket  | hash | hash |   |   |   |   |   |   | 3 | 1 | 0 | 0 | 0 | 0 | 0 | 0 |      8 places; 0: free
//! ```
//!
//! An entry is in the bucket that its hash selects, its home, or, where that was full, in the next one that was not. A search compares the eight
//! hashes of a bucket at once, and ends at a bucket with a free place: mostly at the first, which is one cache line.

use std::arch::x86_64::{
    __m128i, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32,
    _mm_setzero_si128,
};

use crate::collections::buffer::Storage;
use crate::{Mutator, OutOfMemory, Trace};

/// The number of entries up to which a map needs no index.
pub(super) const SMALL: usize = 8;

/// The places of a bucket.
const PLACES: usize = 8;

/// A bucket has room for this many entries, on average. With fewer free places, searches would read more buckets.
const ROOM: usize = 7;

/// The half of a hash that the index has. The index uses its lower bits as the number of a bucket.
pub(super) type Hash32 = u32;

/// A place of the index that has an entry.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    pub(super) hash: Hash32,
    pub(super) entry: usize,
}

#[derive(Trace)]
struct Bucket {
    hashes: [Hash32; PLACES],
    /// One more than the number of an entry, or 0 for a free place.
    numbers: [u32; PLACES],
}

impl Bucket {
    /// Returns the places with this hash, as bits. Free places may be among them.
    #[inline(always)]
    fn with_hash(&self, hash: Hash32) -> u32 {
        equal(&self.hashes, hash)
    }

    /// Returns the free places, as bits.
    #[inline(always)]
    fn free(&self) -> u32 {
        equal(&self.numbers, 0)
    }
}

/// Returns which words have a value, as bits.
#[inline(always)]
fn equal(words: &[u32; PLACES], word: u32) -> u32 {
    let vectors = words.as_ptr().cast::<__m128i>();
    // SAFETY: every x86-64 processor has SSE2. Eight words are two vectors, which may lie at any address.
    unsafe {
        let (low, high, word) =
            (_mm_loadu_si128(vectors), _mm_loadu_si128(vectors.add(1)), _mm_set1_epi32(word as i32));
        let halves = _mm_packs_epi32(_mm_cmpeq_epi32(low, word), _mm_cmpeq_epi32(high, word));
        _mm_movemask_epi8(_mm_packs_epi16(halves, _mm_setzero_si128())) as u32
    }
}

/// The positions of entries, by their hashes. Without references.
#[derive(Trace)]
pub(super) struct Positions {
    /// None, or a power of two. All buckets from the home of an entry up to the one before its own are full.
    buckets: Storage<Bucket>,
}

impl Positions {
    pub(super) const NONE: Self = Self { buckets: Storage::EMPTY };

    /// Creates an index with room for `wanted` entries, without any.
    pub(super) fn with_room(mutator: &Mutator, wanted: usize) -> Result<Self, OutOfMemory> {
        let buckets = wanted.div_ceil(ROOM).checked_next_power_of_two().unwrap_or(usize::MAX);
        if buckets > (1 << u32::BITS) / PLACES {
            return Err(mutator.out_of_memory(buckets.saturating_mul(size_of::<Bucket>())));
        }
        Ok(Self { buckets: Storage::new(mutator, buckets)? })
    }

    /// Returns whether there is an index. Without one, all entries are searched.
    pub(super) fn exists(&self) -> bool {
        self.buckets.capacity() > 0
    }

    /// The number of entries for which there is room.
    pub(super) fn room(&self) -> usize {
        if self.exists() { self.buckets.capacity() * ROOM } else { SMALL }
    }

    /// The number of places.
    pub(super) fn places(&self) -> usize {
        self.buckets.capacity() * PLACES
    }

    /// The number of the bucket `steps` after another one. There is an index.
    fn after(&self, bucket: usize, steps: usize) -> usize {
        (bucket + steps) & (self.buckets.capacity() - 1)
    }

    /// The home of the entries with a hash. There is an index.
    fn home(&self, hash: Hash32) -> usize {
        self.after(hash as usize, 0)
    }

    fn bucket(&self, bucket: usize) -> &Bucket {
        // SAFETY: callers have the number from `after`, or from a place; fresh storage is 0, which is a bucket. Only the owner writes it.
        unsafe { &*self.buckets.place(bucket) }
    }

    pub(super) fn get(&self, place: usize) -> Option<Taken> {
        let bucket = self.bucket(place / PLACES);
        let entry = bucket.numbers[place % PLACES].checked_sub(1)?;
        Some(Taken { hash: bucket.hashes[place % PLACES], entry: entry as usize })
    }

    pub(super) fn set(&mut self, place: usize, taken: Option<Taken>) {
        // SAFETY: as in `bucket`; this is the owner.
        let bucket = unsafe { &mut *self.buckets.place(place / PLACES) };
        let (hash, number) = taken.map_or((0, 0), |Taken { hash, entry }| (hash, entry as u32 + 1));
        (bucket.hashes[place % PLACES], bucket.numbers[place % PLACES]) = (hash, number);
    }

    /// The places that have an entry.
    pub(super) fn taken(&self) -> impl Iterator<Item = Taken> {
        (0..self.places()).filter_map(|place| self.get(place))
    }

    /// Visits the entries with this hash, until `is_it` accepts the number of one; returns its place and its number. There is an index.
    #[inline]
    pub(super) fn find(&self, hash: Hash32, mut is_it: impl FnMut(usize) -> bool) -> Option<(usize, usize)> {
        let mut at = self.home(hash);
        loop {
            let bucket = self.bucket(at);
            for place in bits(bucket.with_hash(hash)) {
                if let Some(entry) = bucket.numbers[place].checked_sub(1)
                    && is_it(entry as usize)
                {
                    return Some((at * PLACES + place, entry as usize));
                }
            }
            if bucket.free() != 0 {
                return None;
            }
            at = self.after(at, 1);
        }
    }

    /// Adds an entry, and returns its place. There is one.
    pub(super) fn add(&mut self, taken: Taken) -> usize {
        let mut at = self.home(taken.hash);
        let place = loop {
            if let Some(place) = bits(self.bucket(at).free()).next() {
                break at * PLACES + place;
            }
            at = self.after(at, 1);
        };
        self.set(place, Some(taken));
        place
    }

    /// Removes what is at a place. If its bucket was full, an entry that had found no place in it is moved there, and so on.
    pub(super) fn remove(&mut self, place: usize) {
        let mut hole = place;
        let (mut at, mut was_full) = (place / PLACES, self.bucket(place / PLACES).free() == 0);
        self.set(hole, None);
        while was_full {
            at = self.after(at, 1);
            was_full = self.bucket(at).free() == 0;
            let steps = |from: usize| self.after(at, self.buckets.capacity() - from);
            // The home of what may move is not after the bucket of the hole.
            let moves = |&place: &usize| {
                self.get(place).is_some_and(|taken| steps(self.home(taken.hash)) >= steps(hole / PLACES))
            };
            if let Some(place) = (at * PLACES..(at + 1) * PLACES).find(moves) {
                let taken = self.get(place);
                self.set(hole, taken);
                self.set(place, None);
                hole = place;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        (0..self.places()).for_each(|place| self.set(place, None));
    }
}

/// The numbers of the bits that are set.
#[inline(always)]
fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.checked_ilog2()?;
        mask ^= 1 << bit;
        Some(bit as usize)
    })
}
