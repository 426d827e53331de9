//! [`GcHashMap`], a hash table.
//!
//! ```text
//!   index    | 0 | hash, 3 | 0 | hash, 1 | hash, 2 | 0 | 0 | 0 |      half of a hash and the number of an entry, or 0; linear probing
//!   entries  | key, value | key, value | key, value |
//! ```
//!
//! The entries are a vector in the order of insertion, so the marker and iterators read them in a row, and only they are scanned. The index
//! has eight bytes for each place and no references. A removed entry is replaced by the last one, and the places after its place in the
//! index are shifted back, so there are no marks of removed entries.
//!
//! A map that has had room for at most `SMALL` entries has no index: it compares the keys one by one, and hashes none. Many maps are that small
//! (the fields of an object, the variables of a block), and so each of them takes one array instead of two, without hashes.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::iter::FusedIterator;
use std::mem;
use std::ops::Index;
use std::slice;

use crate::collections::buffer::Storage;
use crate::collections::vec::GcVec;
use crate::{Mutator, OutOfMemory, Trace};

/// The number of entries up to which a map needs no index.
const SMALL: usize = 8;

/// The number of entries for which the first insertion makes room. More would be unused in most small maps.
const FIRST: usize = 2;

/// One entry.
#[derive(Trace)]
struct Slot<K: Trace, V: Trace> {
    key: K,
    value: V,
}

/// The half of a hash that the index has. The index uses its lower bits as a place.
type Hash32 = u32;

/// A place of the index that has an entry.
#[derive(Clone, Copy)]
struct Taken {
    hash: Hash32,
    entry: usize,
}

/// The positions of entries, by their hashes. Without references.
#[derive(Trace)]
struct Positions {
    /// In the lower half one more than the number of an entry, or 0; in the upper half its hash. The capacity is 0 or a power of two, and at
    /// least a quarter of the places are 0.
    places: Storage<u64>,
}

impl Positions {
    const NONE: Self = Self { places: Storage::EMPTY };

    /// Creates an index with room for `wanted` entries, without any.
    fn with_room(mutator: &Mutator, wanted: usize) -> Result<Self, OutOfMemory> {
        let places = (wanted.saturating_mul(4) / 3 + 1).checked_next_power_of_two().unwrap_or(usize::MAX);
        if places > 1 << u32::BITS {
            return Err(mutator.out_of_memory(places.saturating_mul(size_of::<u64>())));
        }
        Ok(Self { places: Storage::new(mutator, places)? })
    }

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

    fn get(&self, place: usize) -> Option<Taken> {
        // SAFETY: callers mask the place, and there is storage; fresh storage is 0, which is a number.
        let word = unsafe { self.places.place(place).read() };
        let entry = (word as u32).checked_sub(1)?;
        Some(Taken { hash: (word >> 32) as Hash32, entry: entry as usize })
    }

    fn set(&mut self, place: usize, taken: Option<Taken>) {
        let word = taken.map_or(0, |Taken { hash, entry }| u64::from(hash) << 32 | (entry as u64 + 1));
        // SAFETY: as in `get`; this is the owner.
        unsafe { self.places.place(place).write(word) };
    }

    /// The places that have an entry.
    fn taken(&self) -> impl Iterator<Item = Taken> {
        (0..self.places.capacity()).filter_map(|place| self.get(place))
    }

    /// Visits the entries with this hash, until `is_it` accepts the number of one; returns its place and its number. There is an index.
    fn find(&self, hash: Hash32, mut is_it: impl FnMut(usize) -> bool) -> Option<(usize, usize)> {
        let mut place = hash as usize & self.mask();
        loop {
            let taken = self.get(place)?;
            if taken.hash == hash && is_it(taken.entry) {
                return Some((place, taken.entry));
            }
            place = (place + 1) & self.mask();
        }
    }

    /// Adds an entry. There is a place.
    fn add(&mut self, taken: Taken) {
        let mut place = taken.hash as usize & self.mask();
        while self.get(place).is_some() {
            place = (place + 1) & self.mask();
        }
        self.set(place, Some(taken));
    }

    /// Removes what is at a place, and shifts back the ones after it that would not be found any more.
    fn remove(&mut self, place: usize) {
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

    fn clear(&mut self) {
        (0..self.places.capacity()).for_each(|place| self.set(place, None));
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
        Self { entries: GcVec::new(), index: Positions::NONE, hasher }
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

    /// Keeps the entries for which `keep` returns true, in their order. A map of more than eight entries takes four bytes of malloc's memory for
    /// each of them meanwhile.
    ///
    /// # Panics
    /// If `keep` does. Then all entries are in the map, in another order.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let mut moving = Moving::entries_of(self);
        let (mut at, mut kept) = (0, 0);
        moving.entries.retain_mut(|slot| {
            let keeps = keep(&slot.key, &mut slot.value);
            if keeps {
                // As the entries will be.
                if !moving.hashes.is_empty() {
                    moving.hashes.swap(kept, at);
                }
                kept += 1;
            }
            at += 1;
            keeps
        });
    }
}

/// The entries of a map while they are moved. When it is dropped, also by a panic, the index has their new positions.
struct Moving<'a, K: Trace, V: Trace> {
    entries: &'a mut GcVec<Slot<K, V>>,
    index: &'a mut Positions,
    /// The hash of each entry, which is moved as the entry is. Empty if there is no index.
    hashes: Vec<Hash32>,
}

impl<'a, K: Trace, V: Trace> Moving<'a, K, V> {
    fn entries_of<S>(map: &'a mut GcHashMap<K, V, S>) -> Self {
        let GcHashMap { entries, index, .. } = map;
        let mut hashes = vec![0; if index.exists() { entries.len() } else { 0 }];
        index.taken().for_each(|taken| hashes[taken.entry] = taken.hash);
        Self { entries, index, hashes }
    }
}

impl<K: Trace, V: Trace> Drop for Moving<'_, K, V> {
    fn drop(&mut self) {
        self.index.clear();
        for (entry, &hash) in self.hashes.iter().take(self.entries.len()).enumerate() {
            self.index.add(Taken { hash, entry });
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
            self.index.taken().for_each(|taken| index.add(taken));
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
    fn hash_of<Q: ?Sized + Hash>(&self, key: &Q) -> Option<Hash32> {
        self.index.exists().then(|| self.hash(key))
    }

    /// Returns the place in the index (0 if there is no index) and the number of the entry with this key.
    fn find<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<(usize, usize)>
    where
        K: Borrow<Q>,
    {
        self.find_hashed(self.hash_of(key), key)
    }

    fn find_hashed<Q: ?Sized + Eq>(&self, hash: Option<Hash32>, key: &Q) -> Option<(usize, usize)>
    where
        K: Borrow<Q>,
    {
        match hash {
            Some(hash) => self.index.find(hash, |entry| self.entries[entry].key.borrow() == key),
            None => self.entries.iter().position(|slot| slot.key.borrow() == key).map(|entry| (0, entry)),
        }
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
        let place = (0..=self.index.mask()).find(is_it).expect("each entry has a place");
        (place, self.index.get(place).map_or(hash, |taken| taken.hash))
    }

    /// Inserts the items of an iterator, which may allocate.
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

    /// Releases the room that is not used.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn shrink_to_fit(&mut self, mutator: &Mutator) -> Result<(), OutOfMemory> {
        self.entries.shrink_to_fit(mutator)?;
        if self.len() <= SMALL {
            self.index = Positions::NONE;
            return Ok(());
        }
        self.set_room(mutator, self.len())
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
        map.reserve(mutator, if map.entries.capacity() == 0 { FIRST } else { 1 })?;
        let entry = map.len();
        // The index may be new.
        let hash = hash.or_else(|| map.hash_of(&key));
        map.entries.push(mutator, Slot { key, value })?;
        if let Some(hash) = hash {
            map.index.add(Taken { hash, entry });
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
iterator!(EntriesMut yields (&'a K, &'a mut V): Slot { key, value } => (&*key, value));
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
