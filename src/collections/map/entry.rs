//! The entry of a key in a [`GcHashMap`]: to read, change, insert or remove it with one search.

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::mem;

use super::hash_map::GcHashMap;
use super::index::{Hash32, Taken};
use super::iter::Slot;
use crate::{Mutator, OutOfMemory, Trace};

/// The number of entries for which the first insertion makes room. More would be unused in most small maps.
const FIRST: usize = 2;

impl<K: Trace + Eq + Hash, V: Trace, S: BuildHasher> GcHashMap<K, V, S> {
    /// Sets the value of a key, and returns its previous value. The key that is in the map stays. O(1) on average: makes
    /// new arrays of twice the capacity if there is no room, which moves all entries.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve); key and value are dropped.
    pub fn insert(&mut self, mutator: &Mutator, key: K, value: V) -> Result<Option<V>, OutOfMemory> {
        match self.entry(key) {
            Entry::Occupied(mut entry) => Ok(Some(entry.insert(value))),
            Entry::Vacant(entry) => entry.insert(mutator, value).map(|_| None),
        }
    }

    /// As [`insert`](Self::insert), but replaces the key, too. Returns the previous entry.
    pub(in crate::collections) fn replace(
        &mut self,
        mutator: &Mutator,
        key: K,
        value: V,
    ) -> Result<Option<(K, V)>, OutOfMemory> {
        match self.find(&key) {
            Some((_, entry)) => {
                let Slot { key, value } = mem::replace(&mut self.entries[entry], Slot { key, value });
                Ok(Some((key, value)))
            }
            None => self.insert(mutator, key, value).map(|_| None),
        }
    }

    /// Returns the entry of a key, to read, change or insert it with one search. O(1) on average.
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V, S> {
        let hash = self.hash_of(&key);
        match self.find_hashed(hash, &key) {
            Some((place, entry)) => Entry::Occupied(OccupiedEntry { map: self, place, entry }),
            None => Entry::Vacant(VacantEntry { map: self, hash, key }),
        }
    }
}

/// The entry of a key in a [`GcHashMap`].
pub enum Entry<'a, K: Trace, V: Trace, S = RandomState> {
    /// The map has the key.
    Occupied(OccupiedEntry<'a, K, V, S>),
    /// The map does not have the key.
    Vacant(VacantEntry<'a, K, V, S>),
}

/// An [`Entry`] of a key that the map has.
pub struct OccupiedEntry<'a, K: Trace, V: Trace, S = RandomState> {
    map: &'a mut GcHashMap<K, V, S>,
    place: usize,
    entry: usize,
}

/// An [`Entry`] of a key that the map does not have.
pub struct VacantEntry<'a, K: Trace, V: Trace, S = RandomState> {
    map: &'a mut GcHashMap<K, V, S>,
    /// The hash of the key, if the map has an index.
    hash: Option<Hash32>,
    key: K,
}

impl<'a, K: Trace + Eq + Hash, V: Trace, S: BuildHasher> Entry<'a, K, V, S> {
    /// Returns the value; inserts `default` first if there is none. O(1) on average, as [`GcHashMap::insert`].
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`].
    pub fn or_insert(self, mutator: &Mutator, default: V) -> Result<&'a mut V, OutOfMemory> {
        self.or_insert_with(mutator, || default)
    }

    /// Returns the value; inserts the result of `default` first if there is none. The function may allocate.
    /// O(1) on average, as [`GcHashMap::insert`].
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`].
    pub fn or_insert_with(self, mutator: &Mutator, default: impl FnOnce() -> V) -> Result<&'a mut V, OutOfMemory> {
        self.or_insert_with_key(mutator, |_| default())
    }

    /// Returns the value; inserts the result of `default`, called with the key, first if there is none. The function may allocate.
    /// O(1) on average, as [`GcHashMap::insert`].
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`].
    pub fn or_insert_with_key(
        self,
        mutator: &Mutator,
        default: impl FnOnce(&K) -> V,
    ) -> Result<&'a mut V, OutOfMemory> {
        match self {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let value = default(entry.key());
                entry.insert(mutator, value)
            }
        }
    }

    /// Returns the value; inserts the default of the type first if there is none.
    /// O(1) on average, as [`GcHashMap::insert`].
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`].
    pub fn or_default(self, mutator: &Mutator) -> Result<&'a mut V, OutOfMemory>
    where
        V: Default,
    {
        self.or_insert_with(mutator, V::default)
    }

    /// Sets the value, and returns the entry. O(1) on average, as [`GcHashMap::insert`].
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`]; the value is dropped.
    pub fn insert_entry(self, mutator: &Mutator, value: V) -> Result<OccupiedEntry<'a, K, V, S>, OutOfMemory> {
        match self {
            Entry::Occupied(mut entry) => {
                entry.insert(value);
                Ok(entry)
            }
            Entry::Vacant(entry) => entry.insert_entry(mutator, value),
        }
    }

    /// Changes the value, if there is one. O(1).
    #[must_use]
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
        if let Entry::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }

    /// Returns the key. O(1).
    pub fn key(&self) -> &K {
        match self {
            Entry::Occupied(entry) => entry.key(),
            Entry::Vacant(entry) => entry.key(),
        }
    }
}

impl<'a, K: Trace + Eq + Hash, V: Trace, S: BuildHasher> OccupiedEntry<'a, K, V, S> {
    /// Returns the key that is in the map. O(1).
    pub fn key(&self) -> &K {
        &self.map.entries[self.entry].key
    }

    /// Returns the value. O(1).
    pub fn get(&self) -> &V {
        &self.map.entries[self.entry].value
    }

    /// Returns a mutable reference to the value. O(1).
    pub fn get_mut(&mut self) -> &mut V {
        &mut self.map.entries[self.entry].value
    }

    /// Returns a mutable reference to the value that lives as long as the borrow of the map. O(1).
    pub fn into_mut(self) -> &'a mut V {
        &mut self.map.entries[self.entry].value
    }

    /// Sets the value and returns the previous one. O(1).
    pub fn insert(&mut self, value: V) -> V {
        mem::replace(self.get_mut(), value)
    }

    /// Removes the entry and returns its value. O(1).
    pub fn remove(self) -> V {
        self.remove_entry().1
    }

    /// Removes the entry and returns its key and its value. O(1).
    pub fn remove_entry(self) -> (K, V) {
        self.map.remove_at(self.place, self.entry)
    }
}

impl<'a, K: Trace + Eq + Hash, V: Trace, S: BuildHasher> VacantEntry<'a, K, V, S> {
    /// Returns the key that was looked up. O(1).
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the key that was looked up, and inserts nothing. O(1).
    pub fn into_key(self) -> K {
        self.key
    }

    /// Inserts the key with this value. O(1) on average, as [`GcHashMap::insert`].
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`]; key and value are dropped.
    pub fn insert(self, mutator: &Mutator, value: V) -> Result<&'a mut V, OutOfMemory> {
        Ok(self.insert_entry(mutator, value)?.into_mut())
    }

    /// As [`insert`](Self::insert), but returns the entry. O(1) on average, as [`GcHashMap::insert`].
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`]; key and value are dropped.
    pub fn insert_entry(self, mutator: &Mutator, value: V) -> Result<OccupiedEntry<'a, K, V, S>, OutOfMemory> {
        let Self { map, hash, key } = self;
        map.reserve(mutator, if map.entries.capacity() == 0 { FIRST } else { 1 })?;
        let entry = map.len();
        // The index may be new.
        let hash = hash.or_else(|| map.hash_of(&key));
        map.entries.push(mutator, Slot { key, value })?;
        let place = hash.map_or(0, |hash| map.index.add(Taken { hash, entry }));
        Ok(OccupiedEntry { map, place, entry })
    }
}

impl<K: Trace + fmt::Debug, V: Trace + fmt::Debug, S> fmt::Debug for Entry<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Occupied(entry) => f.debug_tuple("Entry").field(entry).finish(),
            Entry::Vacant(entry) => f.debug_tuple("Entry").field(entry).finish(),
        }
    }
}

impl<K: Trace + fmt::Debug, V: Trace + fmt::Debug, S> fmt::Debug for OccupiedEntry<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Slot { key, value } = &self.map.entries[self.entry];
        f.debug_struct("OccupiedEntry").field("key", key).field("value", value).finish()
    }
}

impl<K: Trace + fmt::Debug, V: Trace, S> fmt::Debug for VacantEntry<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VacantEntry").field(&self.key).finish()
    }
}
