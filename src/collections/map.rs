//! [`GcHashMap`], a hash table.
//!
//! ```text
//!   index    | 0 | 3 | 0 | 1 | 2 | 0 | 0 | 0 |      the number of an entry, or 0; linear probing
//!   entries  | hash, key, value | hash, key, value | hash, key, value |
//! ```
//!
//! The entries are a vector in the order of insertion, so the marker and iterators read them in a row, and only they are scanned. The index
//! has four bytes for each place and no references. A removed entry is replaced by the last one, and the places after its place in the
//! index are shifted back, so there are no marks of removed entries.
//!
//! A map that has had room for at most `SMALL` entries has no index: it compares the keys one by one, and hashes none. Many maps are that small
//! (the fields of an object, the variables of a block), and so each of them takes one array instead of two. The hashes are stored when the
//! index is made.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::iter::FusedIterator;
use std::mem;
use std::ops::Index;
use std::slice;

use super::buffer::Storage;
use super::vec::GcVec;
use crate::{Mutator, OutOfMemory, Trace};

/// The number of entries up to which a map needs no index.
const SMALL: usize = 8;

/// One entry. The hash has a meaning only while the map has an index. Being a word, it makes each entry whole words.
#[derive(Trace)]
struct Slot<K: Trace, V: Trace> {
    hash: u64,
    key: K,
    value: V,
}

/// The positions of entries, by their hashes. Without references.
#[derive(Trace)]
struct Positions {
    /// One more than the number of an entry, or 0. The capacity is 0 or a power of two, and at least a quarter of the places are 0.
    places: Storage<u32>,
}

impl Positions {
    /// Returns whether there is an index. Without one, all entries are searched.
    fn exists(&self) -> bool {
        self.places.capacity() > 0
    }

    /// The number of entries for which there is room.
    fn room(&self) -> usize {
        if self.exists() { self.places.capacity() / 4 * 3 } else { SMALL }
    }

    fn mask(&self) -> usize {
        self.places.capacity().wrapping_sub(1)
    }

    fn get(&self, place: usize) -> u32 {
        // SAFETY: callers mask the place, and there is storage; fresh storage is 0, which is a number.
        unsafe { self.places.place(place).read() }
    }

    fn set(&mut self, place: usize, position: u32) {
        // SAFETY: as in `get`; this is the owner.
        unsafe { self.places.place(place).write(position) };
    }

    /// Visits the places where an entry with this hash may be, until `is_it` accepts the number of an entry. There is an index.
    fn find(&self, hash: u64, mut is_it: impl FnMut(usize) -> bool) -> Option<usize> {
        let mut place = hash as usize & self.mask();
        loop {
            let entry = self.get(place).checked_sub(1)?;
            if is_it(entry as usize) {
                return Some(place);
            }
            place = (place + 1) & self.mask();
        }
    }

    /// Adds an entry. There is a place.
    fn add(&mut self, hash: u64, entry: usize) {
        let mut place = hash as usize & self.mask();
        while self.get(place) != 0 {
            place = (place + 1) & self.mask();
        }
        self.set(place, entry as u32 + 1);
    }

    /// Removes what is at a place, and shifts back the ones after it that would not be found any more. `hash_of` returns the hash of an entry.
    fn remove(&mut self, place: usize, hash_of: impl Fn(usize) -> u64) {
        let (mut hole, mut place) = (place, place);
        loop {
            place = (place + 1) & self.mask();
            let position = self.get(place);
            if position == 0 {
                break;
            }
            let home = hash_of(position as usize - 1) as usize & self.mask();
            // The entry may move to the hole unless its home is after the hole.
            if place.wrapping_sub(home) & self.mask() >= place.wrapping_sub(hole) & self.mask() {
                self.set(hole, position);
                hole = place;
            }
        }
        self.set(hole, 0);
    }

    fn clear(&mut self) {
        (0..self.places.capacity()).for_each(|place| self.set(place, 0));
    }
}

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
    entries: GcVec<Slot<K, V>>,
    index: Positions,
    #[trace(skip = "a hasher has no references: it is `Send` and `Sync`")]
    hasher: S,
}

impl<K: Trace, V: Trace> GcHashMap<K, V> {
    /// Creates an empty map, without storage.
    pub fn new() -> Self {
        Self::with_hasher(RandomState::new())
    }

    /// Creates an empty map with room for `capacity` entries.
    ///
    /// # Errors
    /// There is no room in the heap, here and in all functions that take a mutator. The map is unchanged.
    pub fn with_capacity(mutator: &Mutator, capacity: usize) -> Result<Self, OutOfMemory>
    where
        K: Eq + Hash,
    {
        let mut map = Self::new();
        map.reserve(mutator, capacity)?;
        Ok(map)
    }
}

impl<K: Trace, V: Trace, S> GcHashMap<K, V, S> {
    /// Creates an empty map that hashes with `hasher`.
    pub const fn with_hasher(hasher: S) -> Self {
        Self { entries: GcVec::new(), index: Positions { places: Storage::EMPTY }, hasher }
    }

    /// Returns the map's hasher.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of entries for which there is room.
    pub fn capacity(&self) -> usize {
        self.entries.capacity().min(self.index.room())
    }

    /// Iterates over the entries.
    pub fn iter(&self) -> Entries<'_, K, V> {
        Entries { slots: self.entries.iter() }
    }

    /// Iterates over the entries, with mutable references to the values.
    pub fn iter_mut(&mut self) -> EntriesMut<'_, K, V> {
        EntriesMut { slots: self.entries.as_mut_slice().iter_mut() }
    }

    /// Iterates over the keys.
    pub fn keys(&self) -> Keys<'_, K, V> {
        Keys { slots: self.entries.iter() }
    }

    /// Iterates over the values.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> + Clone {
        self.entries.iter().map(|slot| &slot.value)
    }

    /// Iterates over mutable references to the values.
    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut V> {
        self.entries.iter_mut().map(|slot| &mut slot.value)
    }

    /// Removes all entries, and keeps the storage.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.index.clear();
    }

    /// Removes all entries, and returns an iterator over them.
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = (K, V)> + use<K, V, S> {
        self.index.clear();
        mem::take(&mut self.entries).into_iter().map(|slot| (slot.key, slot.value))
    }

    /// Keeps the entries for which `keep` returns true, in their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        // While the index is empty, a panic of `keep` leaves a map that has no wrong positions: it finds nothing, or has no index and finds
        // what is left.
        self.index.clear();
        self.entries.retain_mut(|slot| keep(&slot.key, &mut slot.value));
        self.index_all();
    }

    /// Adds all entries to the index, if there is one. It is empty and has room.
    fn index_all(&mut self) {
        if !self.index.exists() {
            return;
        }
        for (position, slot) in self.entries.iter().enumerate() {
            self.index.add(slot.hash, position);
        }
    }
}

impl<K: Trace + Eq + Hash, V: Trace, S: BuildHasher> GcHashMap<K, V, S> {
    /// Creates a map of the items of an iterator, which may allocate.
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

    /// Makes room for `additional` more entries.
    ///
    /// # Errors
    /// There is no room in the heap, or more than 3 × 2³⁰ entries are wanted; the map is unchanged.
    pub fn reserve(&mut self, mutator: &Mutator, additional: usize) -> Result<(), OutOfMemory> {
        self.entries.reserve(mutator, additional)?;
        let wanted = self.len() + additional;
        if wanted <= self.index.room() { Ok(()) } else { self.set_places(mutator, wanted) }
    }

    /// Makes a new index, with room for `wanted` entries, which are more than [`SMALL`].
    fn set_places(&mut self, mutator: &Mutator, wanted: usize) -> Result<(), OutOfMemory> {
        let places = (wanted.saturating_mul(4) / 3 + 1).checked_next_power_of_two().unwrap_or(usize::MAX);
        if places > 1 << u32::BITS {
            return Err(mutator.out_of_memory(places.saturating_mul(size_of::<u32>())));
        }
        let places = Storage::new(mutator, places)?;
        if !self.index.exists() {
            // If a hash panics, there still is no index.
            for slot in self.entries.iter_mut() {
                slot.hash = self.hasher.hash_one(&slot.key);
            }
        }
        self.index = Positions { places };
        self.index_all();
        Ok(())
    }

    /// Returns the hash of a key, if the map has an index.
    fn hash_of<Q: ?Sized + Hash>(&self, key: &Q) -> Option<u64> {
        self.index.exists().then(|| self.hasher.hash_one(key))
    }

    /// Returns the place in the index (0 if there is no index) and the number of the entry with this key.
    fn find<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<(usize, usize)>
    where
        K: Borrow<Q>,
    {
        self.find_hashed(self.hash_of(key), key)
    }

    fn find_hashed<Q: ?Sized + Eq>(&self, hash: Option<u64>, key: &Q) -> Option<(usize, usize)>
    where
        K: Borrow<Q>,
    {
        let Some(hash) = hash else {
            return self.entries.iter().position(|slot| slot.key.borrow() == key).map(|entry| (0, entry));
        };
        let is_it = |entry: usize| {
            let slot = &self.entries[entry];
            slot.hash == hash && slot.key.borrow() == key
        };
        let place = self.index.find(hash, is_it)?;
        Some((place, self.index.get(place) as usize - 1))
    }

    /// Returns the value of a key.
    pub fn get<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// Returns the key that is in the map, and its value.
    pub fn get_key_value<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        let (_, entry) = self.find(key)?;
        let slot = &self.entries[entry];
        Some((&slot.key, &slot.value))
    }

    /// Returns a mutable reference to the value of a key.
    pub fn get_mut<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (_, entry) = self.find(key)?;
        Some(&mut self.entries[entry].value)
    }

    /// Returns whether the map has this key.
    pub fn contains_key<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_some()
    }

    /// Sets the value of a key, and returns its previous value. The key that is in the map stays.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve); key and value are dropped.
    pub fn insert(&mut self, mutator: &Mutator, key: K, value: V) -> Result<Option<V>, OutOfMemory> {
        match self.entry(key) {
            Entry::Occupied(mut entry) => Ok(Some(entry.insert(value))),
            Entry::Vacant(entry) => entry.insert(mutator, value).map(|_| None),
        }
    }

    /// Returns the entry of a key, to read, change or insert it with one search.
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V, S> {
        let hash = self.hash_of(&key);
        match self.find_hashed(hash, &key) {
            Some((place, entry)) => Entry::Occupied(OccupiedEntry { map: self, place, entry }),
            None => Entry::Vacant(VacantEntry { map: self, hash, key }),
        }
    }

    /// Removes a key, and returns its value.
    pub fn remove<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Removes a key, and returns it with its value.
    pub fn remove_entry<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        let (place, entry) = self.find(key)?;
        Some(self.remove_at(place, entry))
    }

    fn remove_at(&mut self, place: usize, entry: usize) -> (K, V) {
        let Self { entries, index, .. } = self;
        if index.exists() {
            index.remove(place, |entry| entries[entry].hash);
            let last = entries.len() - 1;
            // The last entry takes the place of the removed one.
            if entry != last
                && let Some(place) = index.find(entries[last].hash, |other| other == last)
            {
                index.set(place, entry as u32 + 1);
            }
        }
        let slot = entries.swap_remove(entry);
        (slot.key, slot.value)
    }

    /// Inserts the items of an iterator, which may allocate.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve). The items before the error are inserted.
    pub fn extend(&mut self, mutator: &Mutator, items: impl IntoIterator<Item = (K, V)>) -> Result<(), OutOfMemory> {
        for (key, value) in items {
            self.insert(mutator, key, value)?;
        }
        Ok(())
    }

    /// Releases the room that is not used.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn shrink_to_fit(&mut self, mutator: &Mutator) -> Result<(), OutOfMemory> {
        self.entries.shrink_to_fit(mutator)?;
        if self.len() <= SMALL {
            self.index = Positions { places: Storage::EMPTY };
            return Ok(());
        }
        self.set_places(mutator, self.len())
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
    hash: Option<u64>,
    key: K,
}

impl<'a, K: Trace + Eq + Hash, V: Trace, S: BuildHasher> Entry<'a, K, V, S> {
    /// Returns the value; inserts `default` first if there is none.
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`].
    pub fn or_insert(self, mutator: &Mutator, default: V) -> Result<&'a mut V, OutOfMemory> {
        self.or_insert_with(mutator, || default)
    }

    /// Returns the value; inserts the result of `default` first if there is none.
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`].
    pub fn or_insert_with(self, mutator: &Mutator, default: impl FnOnce() -> V) -> Result<&'a mut V, OutOfMemory> {
        match self {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => entry.insert(mutator, default()),
        }
    }

    /// Returns the value; inserts the default of the type first if there is none.
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`].
    pub fn or_default(self, mutator: &Mutator) -> Result<&'a mut V, OutOfMemory>
    where
        V: Default,
    {
        self.or_insert_with(mutator, V::default)
    }

    /// Changes the value, if there is one.
    #[must_use]
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
        if let Entry::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }

    /// Returns the key.
    pub fn key(&self) -> &K {
        match self {
            Entry::Occupied(entry) => entry.key(),
            Entry::Vacant(entry) => entry.key(),
        }
    }
}

impl<'a, K: Trace + Eq + Hash, V: Trace, S: BuildHasher> OccupiedEntry<'a, K, V, S> {
    /// Returns the key that is in the map.
    pub fn key(&self) -> &K {
        &self.map.entries[self.entry].key
    }

    /// Returns the value.
    pub fn get(&self) -> &V {
        &self.map.entries[self.entry].value
    }

    /// Returns a mutable reference to the value.
    pub fn get_mut(&mut self) -> &mut V {
        &mut self.map.entries[self.entry].value
    }

    /// Returns a mutable reference to the value that lives as long as the borrow of the map.
    pub fn into_mut(self) -> &'a mut V {
        &mut self.map.entries[self.entry].value
    }

    /// Sets the value and returns the previous one.
    pub fn insert(&mut self, value: V) -> V {
        mem::replace(self.get_mut(), value)
    }

    /// Removes the entry and returns its value.
    pub fn remove(self) -> V {
        self.map.remove_at(self.place, self.entry).1
    }
}

impl<'a, K: Trace + Eq + Hash, V: Trace, S: BuildHasher> VacantEntry<'a, K, V, S> {
    /// Returns the key that was looked up.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Inserts the key with this value.
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`]; key and value are dropped.
    pub fn insert(self, mutator: &Mutator, value: V) -> Result<&'a mut V, OutOfMemory> {
        let Self { map, hash, key } = self;
        map.reserve(mutator, 1)?;
        let entry = map.len();
        // The index may be new.
        let hash = hash.or_else(|| map.hash_of(&key));
        map.entries.push(mutator, Slot { hash: hash.unwrap_or(0), key, value })?;
        if let Some(hash) = hash {
            map.index.add(hash, entry);
        }
        Ok(&mut map.entries[entry].value)
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

/// An iterator over the entries of a [`GcHashMap`].
pub struct Entries<'a, K: Trace, V: Trace> {
    slots: slice::Iter<'a, Slot<K, V>>,
}

/// An iterator over the entries of a [`GcHashMap`], with mutable references to the values.
pub struct EntriesMut<'a, K: Trace, V: Trace> {
    slots: slice::IterMut<'a, Slot<K, V>>,
}

/// An iterator over the keys of a [`GcHashMap`], or over the values of a [`GcHashSet`](crate::GcHashSet).
pub struct Keys<'a, K: Trace, V: Trace> {
    slots: slice::Iter<'a, Slot<K, V>>,
}

macro_rules! iterator {
    ($name:ident yields $item:ty: $slot:pat => $of_slot:expr) => {
        impl<'a, K: Trace, V: Trace> Iterator for $name<'a, K, V> {
            type Item = $item;

            fn next(&mut self) -> Option<$item> {
                self.slots.next().map(|$slot| $of_slot)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.slots.size_hint()
            }
        }

        impl<K: Trace, V: Trace> ExactSizeIterator for $name<'_, K, V> {}

        impl<K: Trace, V: Trace> FusedIterator for $name<'_, K, V> {}

        impl<K: Trace, V: Trace> fmt::Debug for $name<'_, K, V> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("len", &self.len()).finish()
            }
        }
    };
}

iterator!(Entries yields (&'a K, &'a V): slot => (&slot.key, &slot.value));
iterator!(EntriesMut yields (&'a K, &'a mut V): Slot { key, value, .. } => (&*key, value));
iterator!(Keys yields &'a K: slot => &slot.key);

impl<K: Trace, V: Trace> Clone for Entries<'_, K, V> {
    fn clone(&self) -> Self {
        Self { slots: self.slots.clone() }
    }
}

impl<K: Trace, V: Trace> Clone for Keys<'_, K, V> {
    fn clone(&self) -> Self {
        Self { slots: self.slots.clone() }
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
