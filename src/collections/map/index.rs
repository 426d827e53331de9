//! The index of a map: the positions of its entries, by their hashes.

use crate::collections::buffer::Storage;
use crate::{Mutator, OutOfMemory, Trace};

/// The number of entries up to which a map needs no index.
pub(super) const SMALL: usize = 8;

/// The half of a hash that the index has. The index uses its lower bits as a place.
pub(super) type Hash32 = u32;

/// A place of the index that has an entry.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    pub(super) hash: Hash32,
    pub(super) entry: usize,
}

/// The positions of entries, by their hashes. Without references.
#[derive(Trace)]
pub(super) struct Positions {
    /// In the lower half one more than the number of an entry, or 0; in the upper half its hash. The capacity is 0 or a power of two, and at
    /// least a quarter of the places are 0.
    places: Storage<u64>,
}

impl Positions {
    pub(super) const NONE: Self = Self { places: Storage::EMPTY };

    /// Creates an index with room for `wanted` entries, without any.
    pub(super) fn with_room(mutator: &Mutator, wanted: usize) -> Result<Self, OutOfMemory> {
        let places = (wanted.saturating_mul(4) / 3 + 1).checked_next_power_of_two().unwrap_or(usize::MAX);
        if places > 1 << u32::BITS {
            return Err(mutator.out_of_memory(places.saturating_mul(size_of::<u64>())));
        }
        Ok(Self { places: Storage::new(mutator, places)? })
    }

    /// Returns whether there is an index. Without one, all entries are searched.
    pub(super) fn exists(&self) -> bool {
        self.places.capacity() > 0
    }

    /// The number of entries for which there is room.
    pub(super) fn room(&self) -> usize {
        if self.exists() { self.places.capacity() / 4 * 3 } else { SMALL }
    }

    pub(super) fn mask(&self) -> usize {
        self.places.capacity().wrapping_sub(1)
    }

    pub(super) fn get(&self, place: usize) -> Option<Taken> {
        // SAFETY: callers mask the place, and there is storage; fresh storage is 0, which is a number.
        let word = unsafe { self.places.place(place).read() };
        let entry = (word as u32).checked_sub(1)?;
        Some(Taken { hash: (word >> 32) as Hash32, entry: entry as usize })
    }

    pub(super) fn set(&mut self, place: usize, taken: Option<Taken>) {
        let word = taken.map_or(0, |Taken { hash, entry }| u64::from(hash) << 32 | (entry as u64 + 1));
        // SAFETY: as in `get`; this is the owner.
        unsafe { self.places.place(place).write(word) };
    }

    /// The places that have an entry.
    pub(super) fn taken(&self) -> impl Iterator<Item = Taken> {
        (0..self.places.capacity()).filter_map(|place| self.get(place))
    }

    /// Visits the entries with this hash, until `is_it` accepts the number of one; returns its place and its number. There is an index.
    pub(super) fn find(&self, hash: Hash32, mut is_it: impl FnMut(usize) -> bool) -> Option<(usize, usize)> {
        let mut place = hash as usize & self.mask();
        loop {
            let taken = self.get(place)?;
            if taken.hash == hash && is_it(taken.entry) {
                return Some((place, taken.entry));
            }
            place = (place + 1) & self.mask();
        }
    }

    /// Adds an entry, and returns its place. There is one.
    pub(super) fn add(&mut self, taken: Taken) -> usize {
        let mut place = taken.hash as usize & self.mask();
        while self.get(place).is_some() {
            place = (place + 1) & self.mask();
        }
        self.set(place, Some(taken));
        place
    }

    /// Removes what is at a place, and shifts back the ones after it that would not be found any more.
    pub(super) fn remove(&mut self, place: usize) {
        let (mut hole, mut place) = (place, place);
        loop {
            place = (place + 1) & self.mask();
            let Some(taken) = self.get(place) else { break };
            let home = taken.hash as usize & self.mask();
            // The entry may move to the hole unless its home is after the hole.
            if place.wrapping_sub(home) & self.mask() >= place.wrapping_sub(hole) & self.mask() {
                self.set(hole, Some(taken));
                hole = place;
            }
        }
        self.set(hole, None);
    }

    pub(super) fn clear(&mut self) {
        (0..self.places.capacity()).for_each(|place| self.set(place, None));
    }
}
