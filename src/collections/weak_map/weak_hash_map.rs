//! The map. The head of `mod.rs` describes its memory.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, needs_drop};

use super::iter::{WeakEntries, WeakEntriesMut, entry_of, value_of};
use crate::heap::ephemerons::{ELEMENT_BYTES, Ephemeron, Ephemerons};
use crate::{Gc, Mutator, OutOfMemory, Trace, keep_alive};

/// The smallest number of places in a table.
const LEAST: usize = 8;
/// The largest number of places in a table.
const MOST: usize = 1 << 31;

/// A map from objects to values that keeps no key alive: when a key is unreachable, its entry is gone.
///
/// Use it to give objects more fields than their types have: a cache of what was computed from an object, names for the nodes of a graph.
/// Keys are compared by identity.
///
/// The value of an entry lives while the map is alive, and the key is kept alive **by something other than this value**. So a value may
/// refer to its own key, directly or through other objects and other maps. In a `GcHashMap`, such a value would keep its key for ever. (Such
/// an entry is called an *ephemeron*.)
///
/// ```
/// use stopworld::{Gc, GcCell, Trace, WeakMap, World};
///
/// #[derive(Trace)]
/// struct Node {
///     next: GcCell<Option<Gc<Node>>>,
/// }
///
/// #[derive(Trace)]
/// struct Label {
///     text: Gc<str>,
///     of: Gc<Node>, // does not keep the node alive
/// }
///
/// let world = World::builder().build()?;
/// // SAFETY: this thread keeps every `Gc` and every collection in local variables and in collected objects.
/// let mutator = unsafe { world.attach("main") }?;
/// let node = mutator.alloc(Node { next: GcCell::new(None) })?;
/// let mut labels: WeakMap<Node, Label> = WeakMap::new();
/// labels.insert(&mutator, node, Label { text: mutator.alloc_str("first")?, of: node })?;
/// mutator.collect()?;
/// assert_eq!(labels.get(node).map(|label| &*label.text), Some("first"));
/// assert!(Gc::ptr_eq(labels.get(node).unwrap().of, node));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # When entries disappear
/// A collection that finds a key dead removes its entries from all maps while the world is stopped, in the step that clears weak
/// references. This comes before finalizers: if the key has a finalizer, the entry is gone when that runs, and stays gone if the finalizer
/// stores the key somewhere. A map that only the object with the finalizer reaches is different: the finalizer finds it with all entries
/// whose keys it can reach.
///
/// So [`len`](Self::len) and iteration depend on when collections happen. While a thread has a key on its stack, the entry stays. Stacks are scanned
/// conservatively, so a stale word can keep a key, and its entry, for longer.
///
/// A `&V` keeps the value alive, also when the entry is gone, as long as it is where a [`Gc`] may be: on the stack, not in a `Vec<&V>`
/// ([`World::attach`](crate::World::attach)).
///
/// # Costs
/// An entry takes 24 bytes in the table, of which at least a quarter is free, and an object for its value. The functions cost what those of a hash
/// map cost; a value is one load farther away.
///
/// A collection looks at each place in the tables of all maps that are alive, two to four times. That is linear in the number of places, also if
/// the value of each entry leads to the key of the next. All markers remove the entries of dead keys from large tables; the rest is done by
/// the collecting thread alone, which also marks the objects that are reached only through values.
///
/// A removed entry leaves a mark in its place of the table, whether the collector or [`remove`](Self::remove) has removed it.
/// [`insert`](Self::insert) reuses such places. If a quarter of all places have such marks, and at least 8, it makes a new table, of a
/// size for the entries that are left. A map into which nothing is inserted keeps its table; [`shrink_to_fit`](Self::shrink_to_fit) makes it smaller.
#[derive(Trace)]
#[trace(bound = "V: Trace")]
pub struct WeakMap<K: ?Sized + 'static, V: Trace> {
    pub(super) table: Option<Gc<Ephemerons>>,
    _maps: PhantomData<(Gc<K>, V)>,
}

impl<K: ?Sized + 'static, V: Trace> WeakMap<K, V> {
    /// Creates an empty map, without a table. O(1).
    pub const fn new() -> Self {
        const { assert!(!needs_drop::<V>(), "the values of a `WeakMap` can't have drop glue") };
        Self { table: None, _maps: PhantomData }
    }

    /// Creates an empty map with room for `capacity` entries, with one allocation.
    ///
    /// # Errors
    /// There is no room in the heap, here and in all functions that take a mutator. The map is unchanged.
    pub fn with_capacity(mutator: &Mutator, capacity: usize) -> Result<Self, OutOfMemory> {
        let mut map = Self::new();
        map.reserve(mutator, capacity)?;
        Ok(map)
    }

    /// Creates a map of the items of an iterator, which may allocate. O(n), with an allocation for each item, and O(log n) for the table.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn from_iter(mutator: &Mutator, items: impl IntoIterator<Item = (Gc<K>, V)>) -> Result<Self, OutOfMemory> {
        let mut map = Self::new();
        map.extend(mutator, items)?;
        Ok(map)
    }

    /// Copies the map: clones each value into an object of its own. O(places of the table).
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    ///
    /// # Panics
    /// If `clone` does. Then the clones are dropped.
    pub fn try_clone(&self, mutator: &Mutator) -> Result<Self, OutOfMemory>
    where
        V: Clone,
    {
        let mut copy = Self::with_capacity(mutator, self.len())?;
        copy.extend(mutator, self.iter().map(|(key, value)| (key, value.clone())))?;
        Ok(copy)
    }

    /// Returns the number of entries. O(1). Those whose keys have become unreachable since the last collection count.
    pub fn len(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.live())
    }

    /// Returns whether [`len`](Self::len) is 0. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries for which the table has room. O(1).
    pub fn capacity(&self) -> usize {
        self.places().len() / 4 * 3
    }

    fn places(&self) -> &[Ephemeron] {
        self.table.as_ref().map_or(&[], |table| table.places())
    }

    pub(super) fn find(&self, key: Gc<K>) -> Option<&Ephemeron> {
        self.table.as_ref()?.find(Gc::addr(key))
    }

    /// Returns the value of a key. O(1) on average, as are all functions with a key.
    pub fn get(&self, key: Gc<K>) -> Option<&V> {
        let value = self.find(key).and_then(|place| value_of(place)).map(|value| {
            // SAFETY: an object with a `V`. The caller has its address, which keeps it alive. Only a `&mut` to this map can change it.
            unsafe { &*value }
        });
        // Up to here the entry must not disappear.
        keep_alive(key);
        value
    }

    /// Returns a mutable reference to the value of a key. O(1) on average.
    pub fn get_mut(&mut self, key: Gc<K>) -> Option<&mut V> {
        let value = self.find(key).and_then(|place| value_of(place)).map(|value| {
            // SAFETY: as in `get`; the borrow of the map is exclusive, and an object with a value belongs to one map.
            unsafe { &mut *value }
        });
        keep_alive(key);
        value
    }

    /// Returns whether the map has an entry with this key. O(1) on average.
    pub fn contains_key(&self, key: Gc<K>) -> bool {
        self.get(key).is_some()
    }

    /// Sets the value of a key, and returns its previous value. O(1) on average. A new entry takes one allocation for the value, and
    /// perhaps one for a table of another size.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve); `value` is dropped.
    pub fn insert(&mut self, mutator: &Mutator, key: Gc<K>, value: V) -> Result<Option<V>, OutOfMemory> {
        if let Some(place) = self.get_mut(key) {
            return Ok(Some(mem::replace(place, value)));
        }
        self.insert_new(mutator, key, value)?;
        Ok(None)
    }

    /// Returns the value of a key; inserts the result of `make` first if there is none. `make` may allocate, and cannot use the map.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn get_or_insert_with(
        &mut self,
        mutator: &Mutator,
        key: Gc<K>,
        make: impl FnOnce() -> V,
    ) -> Result<&mut V, OutOfMemory> {
        let value = match self.find(key).and_then(|place| value_of(place)) {
            Some(value) => value,
            None => self.insert_new(mutator, key, make())?,
        };
        keep_alive(key);
        // SAFETY: as in `get_mut`.
        Ok(unsafe { &mut *value })
    }

    /// Adds an entry whose key is not in the map. Returns the address of the value, which this thread's stack keeps alive.
    pub(super) fn insert_new(&mut self, mutator: &Mutator, key: Gc<K>, value: V) -> Result<*mut V, OutOfMemory> {
        self.reserve(mutator, 1)?;
        let value = mutator.alloc(value)?;
        if let Some(table) = self.table {
            table.add(Gc::addr(key), Gc::addr(value));
        }
        keep_alive(value);
        keep_alive(key);
        Ok(Gc::as_ptr(value).cast_mut())
    }

    /// Removes a key, and returns its value. O(1) on average.
    pub fn remove(&mut self, key: Gc<K>) -> Option<V> {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Removes a key, and returns it with its value. O(1) on average.
    pub fn remove_entry(&mut self, key: Gc<K>) -> Option<(Gc<K>, V)> {
        let table = self.table?;
        let place = table.find(Gc::addr(key))?;
        let value: *mut V = value_of(place)?;
        table.remove(place);
        keep_alive(key);
        // SAFETY: a value that the map owned, and that nothing refers to any more. Its address is on this stack.
        Some((key, unsafe { value.read() }))
    }

    /// Removes all entries, and keeps the table. O(places of the table).
    pub fn clear(&mut self) {
        if let Some(table) = self.table {
            table.clear();
        }
    }

    /// Keeps the entries for which `keep` returns true. O(places of the table). The function may allocate.
    ///
    /// # Panics
    /// If `keep` does. Then its entry and those that it has not seen stay.
    pub fn retain(&mut self, mut keep: impl FnMut(Gc<K>, &mut V) -> bool) {
        let Some(table) = self.table else { return };
        for place in table.places() {
            let Some((key, value)) = entry_of::<K, V>(place) else { continue };
            // SAFETY: as in `get_mut`; the reference ends with the call.
            if !keep(key, unsafe { &mut *value }) {
                table.remove(place);
            }
        }
    }

    /// Iterates over the entries, in no particular order. O(1); all steps together are O(places of the table).
    ///
    /// The iterator yields references, so it can't be sent to another thread, or into a blocking region:
    ///
    /// ```compile_fail,E0277
    /// # use stopworld::{Mutator, WeakMap};
    /// fn count(mutator: &Mutator, map: &WeakMap<u64, u64>) -> usize {
    ///     let entries = map.iter();
    ///     mutator.blocking(move || entries.count())
    /// }
    /// ```
    pub fn iter(&self) -> WeakEntries<'_, K, V> {
        WeakEntries::over(self.places())
    }

    /// Iterates over the entries, with mutable references to the values.
    /// O(1); all steps together are O(places of the table).
    pub fn iter_mut(&mut self) -> WeakEntriesMut<'_, K, V> {
        // SAFETY: the map is borrowed exclusively.
        unsafe { WeakEntriesMut::over(self.places()) }
    }

    /// Iterates over the keys. O(1); all steps together are O(places of the table).
    pub fn keys(&self) -> impl Iterator<Item = Gc<K>> + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// Iterates over the values. O(1); all steps together are O(places of the table).
    pub fn values(&self) -> impl Iterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// Iterates over mutable references to the values. O(1); all steps together are O(places of the table).
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// Inserts the items of an iterator, which may allocate. O(items).
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve). The items before the error are inserted.
    pub fn extend(
        &mut self,
        mutator: &Mutator,
        items: impl IntoIterator<Item = (Gc<K>, V)>,
    ) -> Result<(), OutOfMemory> {
        for (key, value) in items {
            self.insert(mutator, key, value)?;
        }
        Ok(())
    }

    /// Makes room in the table for `additional` more entries. Their values still need room in the heap. O(places of the table) and one
    /// allocation if there was too little, and otherwise O(1).
    ///
    /// # Errors
    /// There is no room in the heap, or more than 2³⁰ entries are wanted; the map is unchanged.
    pub fn reserve(&mut self, mutator: &Mutator, additional: usize) -> Result<(), OutOfMemory> {
        let places = self.places().len();
        // The collector may remove entries between the two loads, and after them; then there is more room than this knows of.
        let live = self.len();
        let used = self.table.as_ref().map_or(0, |table| table.used());
        let has_room = used.saturating_add(additional) <= self.capacity();
        let removed = used - live;
        if has_room && removed < (places / 4).max(LEAST) { Ok(()) } else { self.set_places(mutator, live, additional) }
    }

    /// Makes a new table, with room for the entries and `additional` more.
    fn set_places(&mut self, mutator: &Mutator, live: usize, additional: usize) -> Result<(), OutOfMemory> {
        let places = places_for(live, additional);
        if places > MOST {
            return Err(mutator.out_of_memory(places.saturating_mul(ELEMENT_BYTES)));
        }
        let table = mutator.alloc_ephemerons(places)?;
        for place in self.places() {
            if let Some((key, value)) = entry_of::<K, V>(place) {
                table.add(Gc::addr(key), value.addr());
                keep_alive(key);
            }
        }
        self.table = Some(table);
        Ok(())
    }

    /// Makes the table as small as its entries allow; releases it if there is none. O(places of the table), and at most one allocation.
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
        let live = self.len();
        if live == 0 && capacity == 0 {
            self.table = None;
            return Ok(());
        }
        let additional = capacity.saturating_sub(live);
        if places_for(live, additional) < self.places().len() {
            self.set_places(mutator, live, additional)
        } else {
            Ok(())
        }
    }
}

/// The number of places in a new table.
fn places_for(live: usize, additional: usize) -> usize {
    // Between a quarter and a half full, so that the next new table pays off: there were as many insertions or removals before it.
    let wanted = live.saturating_add(additional).saturating_mul(2).max(LEAST);
    wanted.checked_next_power_of_two().unwrap_or(usize::MAX)
}

impl<K: ?Sized + 'static, V: Trace> Default for WeakMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: ?Sized + fmt::Debug + 'static, V: Trace + fmt::Debug> fmt::Debug for WeakMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'a, K: ?Sized + 'static, V: Trace> IntoIterator for &'a WeakMap<K, V> {
    type Item = (Gc<K>, &'a V);
    type IntoIter = WeakEntries<'a, K, V>;

    fn into_iter(self) -> WeakEntries<'a, K, V> {
        self.iter()
    }
}

impl<'a, K: ?Sized + 'static, V: Trace> IntoIterator for &'a mut WeakMap<K, V> {
    type Item = (Gc<K>, &'a mut V);
    type IntoIter = WeakEntriesMut<'a, K, V>;

    fn into_iter(self) -> WeakEntriesMut<'a, K, V> {
        self.iter_mut()
    }
}
