//! The map, and what reads it or changes one entry. The head of `mod.rs` describes its memory.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Index;

use super::index::{Hash32, Positions, SMALL, Taken};
use super::iter::{Entries, EntriesMut, IntoEntries, IntoKeys, IntoValues, Keys, Slot};
use crate::collections::vec::GcVec;
use crate::{Mutator, OutOfMemory, Trace};

/// A hash map in the collected heap, with the interface of `HashMap`. See [`collections`](crate::collections).
///
/// Iteration is in the order of insertion as long as nothing is removed. Keys that are references are compared by value, as `Gc` is:
/// a map with keys `Gc<str>` looks up a `&str`. For keys by identity, use [`ByAddress`](crate::ByAddress): objects do not move.
///
/// ```
/// use stopworld::{Gc, GcHashMap, World};
///
/// let world = World::builder().build()?;
/// // SAFETY: this thread keeps every `Gc` and every collection in local variables.
/// let mutator = unsafe { world.attach("main") }?;
/// let mut ages: GcHashMap<Gc<str>, u32> = GcHashMap::new();
/// ages.insert(&mutator, mutator.alloc_str("Ada")?, 36)?;
/// ages.insert(&mutator, mutator.alloc_str("Alan")?, 41)?;
/// *ages.get_mut("Alan").unwrap() += 1;
/// assert_eq!((ages["Ada"], ages.get("Alan"), ages.get("Grace")), (36, Some(&42), None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Trace)]
#[trace(bound = "K: Trace, V: Trace, S: Send + Sync + 'static")]
pub struct GcHashMap<K: Trace, V: Trace, S = RandomState> {
    pub(super) entries: GcVec<Slot<K, V>>,
    pub(super) index: Positions,
    #[trace(skip = "a hasher has no references: it is `Send` and `Sync`")]
    hasher: S,
}

impl<K: Trace, V: Trace> GcHashMap<K, V> {
    /// Creates an empty map, without storage. O(1).
    pub fn new() -> Self {
        Self::with_hasher(RandomState::new())
    }

    /// Creates an empty map with room for `capacity` entries. One allocation for up to eight entries, and two for more.
    ///
    /// # Errors
    /// There is no room in the heap, here and in all functions that take a mutator. The map is unchanged.
    pub fn with_capacity(mutator: &Mutator, capacity: usize) -> Result<Self, OutOfMemory>
    where
        K: Eq + Hash,
    {
        Self::with_capacity_and_hasher(mutator, capacity, RandomState::new())
    }
}

impl<K: Trace, V: Trace, S> GcHashMap<K, V, S> {
    /// Creates an empty map that hashes with `hasher`. O(1).
    pub const fn with_hasher(hasher: S) -> Self {
        Self { entries: GcVec::new(), index: Positions::NONE, hasher }
    }

    /// Returns the map's hasher. O(1).
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// Returns the number of entries. O(1).
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no entry. O(1).
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of entries for which there is room. O(1).
    pub fn capacity(&self) -> usize {
        self.entries.capacity().min(self.index.room())
    }

    /// Iterates over the entries. O(1), as is each step.
    pub fn iter(&self) -> Entries<'_, K, V> {
        Entries { slots: self.entries.iter() }
    }

    /// Iterates over the entries, with mutable references to the values. O(1), as is each step.
    pub fn iter_mut(&mut self) -> EntriesMut<'_, K, V> {
        EntriesMut { slots: self.entries.iter_mut() }
    }

    /// Iterates over the keys. O(1), as is each step.
    pub fn keys(&self) -> Keys<'_, K, V> {
        Keys { slots: self.entries.iter() }
    }

    /// Iterates over the values. O(1), as is each step.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> + Clone {
        self.entries.iter().map(|slot| &slot.value)
    }

    /// Iterates over mutable references to the values. O(1), as is each step.
    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut V> {
        self.entries.iter_mut().map(|slot| &mut slot.value)
    }

    /// Returns an iterator over the keys by value. O(1).
    pub fn into_keys(self) -> IntoKeys<K, V> {
        IntoKeys { slots: self.entries.into_iter() }
    }

    /// Returns an iterator over the values by value. O(1).
    pub fn into_values(self) -> IntoValues<K, V> {
        IntoValues { slots: self.entries.into_iter() }
    }

    /// Copies the map: clones each entry, and hashes none. O(n), with one allocation for up to eight entries, and two for more.
    ///
    /// # Errors
    /// There is no room in the heap.
    ///
    /// # Panics
    /// If a `clone` does. Then the clones are dropped.
    pub fn try_clone(&self, mutator: &Mutator) -> Result<Self, OutOfMemory>
    where
        K: Clone,
        V: Clone,
        S: Clone,
    {
        let mut entries = GcVec::with_capacity(mutator, self.len())?;
        let clones = self.iter().map(|(key, value)| Slot { key: key.clone(), value: value.clone() });
        entries.extend(mutator, clones)?;
        let mut index = Positions::NONE;
        if self.len() > SMALL {
            index = Positions::with_room(mutator, self.len())?;
            self.index.taken().for_each(|taken| _ = index.add(taken));
        }
        Ok(Self { entries, index, hasher: self.hasher.clone() })
    }

    /// Removes all entries, and keeps the storage. O(capacity).
    pub fn clear(&mut self) {
        self.entries.clear();
        self.index.clear();
    }
}

impl<K: Trace + Eq + Hash, V: Trace, S: BuildHasher> GcHashMap<K, V, S> {
    /// Creates an empty map that hashes with `hasher`, with room for `capacity` entries.
    /// One allocation for up to eight entries, and two for more.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn with_capacity_and_hasher(mutator: &Mutator, capacity: usize, hasher: S) -> Result<Self, OutOfMemory> {
        let mut map = Self::with_hasher(hasher);
        map.reserve(mutator, capacity)?;
        Ok(map)
    }

    /// Creates a map of the items of an iterator, which may allocate. O(n). Of items with the same key, the last value is in the map.
    ///
    /// # Errors
    /// There is no room in the heap.
    pub fn from_iter(mutator: &Mutator, items: impl IntoIterator<Item = (K, V)>) -> Result<Self, OutOfMemory>
    where
        S: Default,
    {
        let mut map = Self::with_hasher(S::default());
        map.extend(mutator, items)?;
        Ok(map)
    }

    /// Makes room for `additional` more entries. O(n) if there was too little, and otherwise O(1). At most two allocations.
    ///
    /// # Errors
    /// There is no room in the heap, or more than 7 × 2²⁹ entries are wanted; the map is unchanged.
    pub fn reserve(&mut self, mutator: &Mutator, additional: usize) -> Result<(), OutOfMemory> {
        let wanted = self.len().saturating_add(additional);
        if self.entries.capacity() == 0 {
            self.entries = GcVec::with_capacity(mutator, wanted)?;
        } else {
            self.entries.reserve(mutator, additional)?;
        }
        if wanted <= self.index.room() { Ok(()) } else { self.set_room(mutator, wanted) }
    }

    /// Makes a new index, with room for `wanted` entries, which are more than [`SMALL`].
    fn set_room(&mut self, mutator: &Mutator, wanted: usize) -> Result<(), OutOfMemory> {
        let mut index = Positions::with_room(mutator, wanted)?;
        if self.index.exists() {
            self.index.taken().for_each(|taken| _ = index.add(taken));
        } else {
            for (entry, slot) in self.entries.iter().enumerate() {
                index.add(Taken { hash: self.hash(&slot.key), entry });
            }
        }
        self.index = index;
        Ok(())
    }

    fn hash<Q: ?Sized + Hash>(&self, key: &Q) -> Hash32 {
        let hash = self.hasher.hash_one(key);
        (hash ^ hash >> 32) as Hash32
    }

    /// Returns the hash of a key, if the map has an index.
    pub(super) fn hash_of<Q: ?Sized + Hash>(&self, key: &Q) -> Option<Hash32> {
        self.index.exists().then(|| self.hash(key))
    }

    /// Returns the place in the index (0 if there is no index) and the number of the entry with this key.
    pub(super) fn find<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<(usize, usize)>
    where
        K: Borrow<Q>,
    {
        self.find_hashed(self.hash_of(key), key)
    }

    pub(super) fn find_hashed<Q: ?Sized + Eq>(&self, hash: Option<Hash32>, key: &Q) -> Option<(usize, usize)>
    where
        K: Borrow<Q>,
    {
        match hash {
            Some(hash) => self.index.find(hash, |entry| self.entries[entry].key.borrow() == key),
            None => self.entries.iter().position(|slot| slot.key.borrow() == key).map(|entry| (0, entry)),
        }
    }

    /// Returns the value of a key. O(1) on average, as are all functions with a key.
    ///
    /// # Panics
    /// If `eq` or `hash` of the key do, here and in all functions with a key. The map is unchanged.
    pub fn get<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// Returns the key that is in the map, and its value. O(1) on average.
    pub fn get_key_value<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        let (_, entry) = self.find(key)?;
        let slot = &self.entries[entry];
        Some((&slot.key, &slot.value))
    }

    /// Returns a mutable reference to the value of a key. O(1) on average.
    pub fn get_mut<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (_, entry) = self.find(key)?;
        Some(&mut self.entries[entry].value)
    }

    /// Returns mutable references to the values of several keys. O(`N`²), and `N` searches.
    ///
    /// # Panics
    /// If two of the keys are in the map and are equal.
    pub fn get_disjoint_mut<Q: ?Sized + Eq + Hash, const N: usize>(&mut self, keys: [&Q; N]) -> [Option<&mut V>; N]
    where
        K: Borrow<Q>,
    {
        let found = keys.map(|key| self.find(key).map(|(_, entry)| entry));
        for (number, entry) in found.iter().enumerate() {
            assert!(entry.is_none() || !found[..number].contains(entry), "two of the keys are equal");
        }
        let slots = self.entries.as_mut_slice().as_mut_ptr();
        // SAFETY: these are different entries, of a vector that the results borrow exclusively.
        found.map(|entry| entry.map(|entry| unsafe { &mut (*slots.add(entry)).value }))
    }

    /// Returns whether the map has this key. O(1) on average.
    pub fn contains_key<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_some()
    }

    /// Removes a key, and returns its value. O(1) on average. The last entry takes the place of the removed one.
    pub fn remove<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Removes a key, and returns it with its value. O(1) on average.
    pub fn remove_entry<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        let (place, entry) = self.find(key)?;
        Some(self.remove_at(place, entry))
    }

    pub(super) fn remove_at(&mut self, place: usize, entry: usize) -> (K, V) {
        let last = self.len() - 1;
        if self.index.exists() {
            if entry != last {
                // The last entry takes the place of the removed one.
                let (place, hash) = self.place_of(last);
                self.index.set(place, Some(Taken { hash, entry }));
            }
            self.index.remove(place);
        }
        let slot = self.entries.swap_remove(entry);
        (slot.key, slot.value)
    }

    /// Returns the place of an entry in the index, and its hash.
    fn place_of(&self, entry: usize) -> (usize, Hash32) {
        let hash = self.hash(&self.entries[entry].key);
        if let Some((place, _)) = self.index.find(hash, |other| other == entry) {
            return (place, hash);
        }
        // The key has another hash than at its insertion. It is not found by its key any more, but its position must stay right.
        let is_it = |&place: &usize| self.index.get(place).is_some_and(|taken| taken.entry == entry);
        let place = (0..self.index.places()).find(is_it).expect("each entry has a place");
        (place, self.index.get(place).map_or(hash, |taken| taken.hash))
    }

    /// Inserts the items of an iterator, which may allocate. O(items).
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve). The items before the error are inserted.
    pub fn extend(&mut self, mutator: &Mutator, items: impl IntoIterator<Item = (K, V)>) -> Result<(), OutOfMemory> {
        let items = items.into_iter();
        if self.entries.capacity() == 0 {
            self.reserve(mutator, items.size_hint().0)?;
        }
        for (key, value) in items {
            self.insert(mutator, key, value)?;
        }
        Ok(())
    }

    /// Releases the room that is not used, by moving all entries to new arrays: O(n).
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn shrink_to_fit(&mut self, mutator: &Mutator) -> Result<(), OutOfMemory> {
        self.shrink_to(mutator, 0)
    }

    /// As [`shrink_to_fit`](Self::shrink_to_fit), but leaves room for at least `capacity` entries. Does nothing if the capacity is smaller.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn shrink_to(&mut self, mutator: &Mutator, capacity: usize) -> Result<(), OutOfMemory> {
        let capacity = capacity.max(self.len());
        if self.entries.capacity().max(self.index.room()) <= capacity {
            return Ok(());
        }
        self.entries.shrink_to(mutator, capacity)?;
        if capacity <= SMALL {
            self.index = Positions::NONE;
            return Ok(());
        }
        if capacity < self.index.room() { self.set_room(mutator, capacity) } else { Ok(()) }
    }
}

impl<K: Trace, V: Trace, S: Default> Default for GcHashMap<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K: Trace + fmt::Debug, V: Trace + fmt::Debug, S> fmt::Debug for GcHashMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Trace + Eq + Hash, V: Trace + PartialEq, S: BuildHasher> PartialEq for GcHashMap<K, V, S> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key).is_some_and(|other| other == value))
    }
}

impl<K: Trace + Eq + Hash, V: Trace + Eq, S: BuildHasher> Eq for GcHashMap<K, V, S> {}

impl<K, Q, V, S> Index<&Q> for GcHashMap<K, V, S>
where
    K: Trace + Eq + Hash + Borrow<Q>,
    Q: ?Sized + Eq + Hash,
    V: Trace,
    S: BuildHasher,
{
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("the map has no entry with this key")
    }
}

impl<'a, K: Trace, V: Trace, S> IntoIterator for &'a GcHashMap<K, V, S> {
    type Item = (&'a K, &'a V);
    type IntoIter = Entries<'a, K, V>;

    fn into_iter(self) -> Entries<'a, K, V> {
        self.iter()
    }
}

impl<'a, K: Trace, V: Trace, S> IntoIterator for &'a mut GcHashMap<K, V, S> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = EntriesMut<'a, K, V>;

    fn into_iter(self) -> EntriesMut<'a, K, V> {
        self.iter_mut()
    }
}

impl<K: Trace, V: Trace, S> IntoIterator for GcHashMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = IntoEntries<K, V>;

    fn into_iter(self) -> IntoEntries<K, V> {
        IntoEntries { slots: self.entries.into_iter() }
    }
}
