//! [`GcHashSet`], a hash table of keys.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::iter::FusedIterator;

use super::map::{GcHashMap, IntoKeys, Keys};
use crate::{Mutator, OutOfMemory, Trace};

/// A hash set in the collected heap, with the interface of `HashSet`: a [`GcHashMap`] without values. See
/// [`collections`](crate::collections).
///
/// ```
/// use stopworld::{ByAddress, GcHashSet, World};
///
/// let world = World::builder().build()?;
/// // SAFETY: this thread keeps every `Gc` and every collection in local variables.
/// let mutator = unsafe { world.attach("main") }?;
/// let (one, other) = (mutator.alloc(1_u64)?, mutator.alloc(1_u64)?);
/// let mut visited = GcHashSet::new();
/// assert!(visited.insert(&mutator, ByAddress(one))?);
/// assert!(!visited.insert(&mutator, ByAddress(one))?);
/// assert!(!visited.contains(&ByAddress(other)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Trace)]
#[trace(bound = "T: Trace, S: Send + Sync + 'static")]
pub struct GcHashSet<T: Trace, S = RandomState> {
    map: GcHashMap<T, (), S>,
}

impl<T: Trace> GcHashSet<T> {
    /// Creates an empty set, without storage. O(1).
    pub fn new() -> Self {
        Self { map: GcHashMap::new() }
    }

    /// Creates an empty set with room for `capacity` values. One allocation for up to eight values, and two for more.
    ///
    /// # Errors
    /// There is no room in the heap, here and in all functions that take a mutator. The set is unchanged.
    pub fn with_capacity(mutator: &Mutator, capacity: usize) -> Result<Self, OutOfMemory>
    where
        T: Eq + Hash,
    {
        Ok(Self { map: GcHashMap::with_capacity(mutator, capacity)? })
    }
}

impl<T: Trace, S> GcHashSet<T, S> {
    /// Creates an empty set that hashes with `hasher`. O(1).
    pub const fn with_hasher(hasher: S) -> Self {
        Self { map: GcHashMap::with_hasher(hasher) }
    }

    /// Returns the set's hasher. O(1).
    pub fn hasher(&self) -> &S {
        self.map.hasher()
    }

    /// Copies the set: clones each value, and hashes none. O(n), with one allocation for up to eight values, and two for more.
    ///
    /// # Errors
    /// There is no room in the heap.
    ///
    /// # Panics
    /// If `clone` does. Then the clones are dropped.
    pub fn try_clone(&self, mutator: &Mutator) -> Result<Self, OutOfMemory>
    where
        T: Clone,
        S: Clone,
    {
        Ok(Self { map: self.map.try_clone(mutator)? })
    }

    /// Returns the number of values. O(1).
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether there is no value. O(1).
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns the number of values for which there is room. O(1).
    pub fn capacity(&self) -> usize {
        self.map.capacity()
    }

    /// Iterates over the values. O(1), as is each step.
    pub fn iter(&self) -> Keys<'_, T, ()> {
        self.map.keys()
    }

    /// Removes all values, and keeps the storage. O(capacity).
    pub fn clear(&mut self) {
        self.map.clear();
    }

    /// Removes all values, and returns an iterator over them. The capacity stays. O(capacity).
    ///
    /// The set is empty from the beginning, also if the iterator is dropped or leaked.
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = T> + FusedIterator + use<'_, T, S> {
        self.map.drain().map(|(value, ())| value)
    }

    /// Keeps the values for which `keep` returns true, in their order. O(n). A set of more than eight values takes four bytes of malloc's memory for
    /// each of them meanwhile.
    ///
    /// # Panics
    /// If `keep` does. Then all values are in the set, in another order.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.map.retain(|value, ()| keep(value));
    }

    /// Removes the values for which `remove` returns true, and returns an iterator over them. O(n) in total. A set of more than eight values takes
    /// four bytes of malloc's memory for each of them meanwhile. See [`GcHashMap::extract_if`].
    ///
    /// # Panics
    /// If `remove` does. Then its value stays, too.
    pub fn extract_if<F>(&mut self, mut remove: F) -> impl Iterator<Item = T> + use<'_, T, S, F>
    where
        F: FnMut(&T) -> bool,
    {
        self.map.extract_if(move |value, ()| remove(value)).map(|(value, ())| value)
    }
}

impl<T: Trace + Eq + Hash, S: BuildHasher> GcHashSet<T, S> {
    /// Creates an empty set that hashes with `hasher`, with room for `capacity` values.
    /// One allocation for up to eight values, and two for more.
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`].
    pub fn with_capacity_and_hasher(mutator: &Mutator, capacity: usize, hasher: S) -> Result<Self, OutOfMemory> {
        Ok(Self { map: GcHashMap::with_capacity_and_hasher(mutator, capacity, hasher)? })
    }

    /// Creates a set of the items of an iterator, which may allocate. O(n).
    ///
    /// # Errors
    /// There is no room in the heap.
    pub fn from_iter(mutator: &Mutator, items: impl IntoIterator<Item = T>) -> Result<Self, OutOfMemory>
    where
        S: Default,
    {
        let mut set = Self::with_hasher(S::default());
        set.extend(mutator, items)?;
        Ok(set)
    }

    /// Makes room for `additional` more values. O(n) if there was too little, and otherwise O(1). At most two allocations.
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`].
    pub fn reserve(&mut self, mutator: &Mutator, additional: usize) -> Result<(), OutOfMemory> {
        self.map.reserve(mutator, additional)
    }

    /// Releases the room that is not used, by moving all values to new arrays: O(n).
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`].
    pub fn shrink_to_fit(&mut self, mutator: &Mutator) -> Result<(), OutOfMemory> {
        self.map.shrink_to_fit(mutator)
    }

    /// As [`shrink_to_fit`](Self::shrink_to_fit), but leaves room for at least `capacity` values. Does nothing if the capacity is smaller.
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`].
    pub fn shrink_to(&mut self, mutator: &Mutator, capacity: usize) -> Result<(), OutOfMemory> {
        self.map.shrink_to(mutator, capacity)
    }

    /// Adds a value. Returns whether the set did not have it; otherwise the value that is in the set stays. O(1) on average: makes new
    /// arrays of twice the capacity if there is no room, which moves all values.
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`]; `value` is dropped.
    pub fn insert(&mut self, mutator: &Mutator, value: T) -> Result<bool, OutOfMemory> {
        Ok(self.map.insert(mutator, value, ())?.is_none())
    }

    /// Adds a value, and returns the equal one that was in the set. O(1) on average, as [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`]; `value` is dropped.
    pub fn replace(&mut self, mutator: &Mutator, value: T) -> Result<Option<T>, OutOfMemory> {
        Ok(self.map.replace(mutator, value, ())?.map(|(value, ())| value))
    }

    /// Adds the items of an iterator, which may allocate. O(items).
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`]. The items before the error are added.
    pub fn extend(&mut self, mutator: &Mutator, items: impl IntoIterator<Item = T>) -> Result<(), OutOfMemory> {
        self.map.extend(mutator, items.into_iter().map(|value| (value, ())))
    }

    /// Returns whether the set has this value. O(1) on average, as are all functions with a value.
    ///
    /// # Panics
    /// If `eq` or `hash` of the value do, here and in all functions with a value. The set is unchanged.
    pub fn contains<Q: ?Sized + Eq + Hash>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.map.contains_key(value)
    }

    /// Returns the value in the set that equals this one. O(1) on average.
    pub fn get<Q: ?Sized + Eq + Hash>(&self, value: &Q) -> Option<&T>
    where
        T: Borrow<Q>,
    {
        self.map.get_key_value(value).map(|(value, ())| value)
    }

    /// Removes a value. Returns whether the set had it. O(1) on average.
    pub fn remove<Q: ?Sized + Eq + Hash>(&mut self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.take(value).is_some()
    }

    /// Removes a value and returns it. O(1) on average.
    pub fn take<Q: ?Sized + Eq + Hash>(&mut self, value: &Q) -> Option<T>
    where
        T: Borrow<Q>,
    {
        self.map.remove_entry(value).map(|(value, ())| value)
    }

    /// Iterates over the values that are in this set or in the other. O(n + m) in total.
    pub fn union<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        self.iter().chain(other.difference(self))
    }

    /// Iterates over the values of this set that are in both sets. O(n) in total.
    pub fn intersection<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        self.iter().filter(|value| other.contains(*value))
    }

    /// Iterates over the values that are in this set and not in the other. O(n) in total.
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        self.iter().filter(|value| !other.contains(*value))
    }

    /// Iterates over the values that are in exactly one of the sets. O(n + m) in total.
    pub fn symmetric_difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        self.difference(other).chain(other.difference(self))
    }

    /// Creates a set of clones of the values that are in this set or in the other; std's `&one | &other`. O(n + m).
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`], here and in the three functions that follow.
    pub fn try_union(&self, mutator: &Mutator, other: &Self) -> Result<Self, OutOfMemory>
    where
        T: Clone,
        S: Default,
    {
        Self::from_iter(mutator, self.union(other).cloned())
    }

    /// Creates a set of clones of the values of this set that are in both sets; std's `&one & &other`. O(n).
    ///
    /// # Errors
    /// As [`try_union`](Self::try_union).
    pub fn try_intersection(&self, mutator: &Mutator, other: &Self) -> Result<Self, OutOfMemory>
    where
        T: Clone,
        S: Default,
    {
        Self::from_iter(mutator, self.intersection(other).cloned())
    }

    /// Creates a set of clones of the values that are in this set and not in the other; std's `&one - &other`. O(n).
    ///
    /// # Errors
    /// As [`try_union`](Self::try_union).
    pub fn try_difference(&self, mutator: &Mutator, other: &Self) -> Result<Self, OutOfMemory>
    where
        T: Clone,
        S: Default,
    {
        Self::from_iter(mutator, self.difference(other).cloned())
    }

    /// Creates a set of clones of the values that are in exactly one of the sets; std's `&one ^ &other`. O(n + m).
    ///
    /// # Errors
    /// As [`try_union`](Self::try_union).
    pub fn try_symmetric_difference(&self, mutator: &Mutator, other: &Self) -> Result<Self, OutOfMemory>
    where
        T: Clone,
        S: Default,
    {
        Self::from_iter(mutator, self.symmetric_difference(other).cloned())
    }

    /// Returns whether the other set has all values of this one. O(n).
    pub fn is_subset(&self, other: &Self) -> bool {
        self.len() <= other.len() && self.iter().all(|value| other.contains(value))
    }

    /// Returns whether this set has all values of the other one. O(m).
    pub fn is_superset(&self, other: &Self) -> bool {
        other.is_subset(self)
    }

    /// Returns whether the sets have no value in common. O(values of the smaller set).
    pub fn is_disjoint(&self, other: &Self) -> bool {
        let (small, large) = if self.len() <= other.len() { (self, other) } else { (other, self) };
        small.intersection(large).next().is_none()
    }
}

impl<'a, T: Trace, S> IntoIterator for &'a GcHashSet<T, S> {
    type Item = &'a T;
    type IntoIter = Keys<'a, T, ()>;

    fn into_iter(self) -> Keys<'a, T, ()> {
        self.iter()
    }
}

impl<T: Trace, S> IntoIterator for GcHashSet<T, S> {
    type Item = T;
    type IntoIter = IntoKeys<T, ()>;

    fn into_iter(self) -> IntoKeys<T, ()> {
        self.map.into_keys()
    }
}

impl<T: Trace, S: Default> Default for GcHashSet<T, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<T: Trace + fmt::Debug, S> fmt::Debug for GcHashSet<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<T: Trace + Eq + Hash, S: BuildHasher> PartialEq for GcHashSet<T, S> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.is_subset(other)
    }
}

impl<T: Trace + Eq + Hash, S: BuildHasher> Eq for GcHashSet<T, S> {}
