//! [`GcHashSet`], a hash table of keys.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};

use super::map::{GcHashMap, Keys};
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
    /// Creates an empty set, without storage.
    pub fn new() -> Self {
        Self { map: GcHashMap::new() }
    }

    /// Creates an empty set with room for `capacity` values.
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
    /// Creates an empty set that hashes with `hasher`.
    pub const fn with_hasher(hasher: S) -> Self {
        Self { map: GcHashMap::with_hasher(hasher) }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns the number of values for which there is room.
    pub fn capacity(&self) -> usize {
        self.map.capacity()
    }

    /// Iterates over the values.
    pub fn iter(&self) -> Keys<'_, T, ()> {
        self.map.keys()
    }

    /// Removes all values, and keeps the storage.
    pub fn clear(&mut self) {
        self.map.clear();
    }

    /// Removes all values, and returns an iterator over them.
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = T> + use<T, S> {
        self.map.drain().map(|(value, ())| value)
    }

    /// Keeps the values for which `keep` returns true, in their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.map.retain(|value, ()| keep(value));
    }
}

impl<T: Trace + Eq + Hash, S: BuildHasher> GcHashSet<T, S> {
    /// Creates a set of the items of an iterator, which may allocate.
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

    /// Makes room for `additional` more values.
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`].
    pub fn reserve(&mut self, mutator: &Mutator, additional: usize) -> Result<(), OutOfMemory> {
        self.map.reserve(mutator, additional)
    }

    /// Adds a value. Returns whether the set did not have it.
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`]; `value` is dropped.
    pub fn insert(&mut self, mutator: &Mutator, value: T) -> Result<bool, OutOfMemory> {
        Ok(self.map.insert(mutator, value, ())?.is_none())
    }

    /// Adds the items of an iterator, which may allocate.
    ///
    /// # Errors
    /// As [`GcHashMap::reserve`]. The items before the error are added.
    pub fn extend(&mut self, mutator: &Mutator, items: impl IntoIterator<Item = T>) -> Result<(), OutOfMemory> {
        self.map.extend(mutator, items.into_iter().map(|value| (value, ())))
    }

    /// Returns whether the set has this value.
    pub fn contains<Q: ?Sized + Eq + Hash>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.map.contains_key(value)
    }

    /// Returns the value in the set that equals this one.
    pub fn get<Q: ?Sized + Eq + Hash>(&self, value: &Q) -> Option<&T>
    where
        T: Borrow<Q>,
    {
        self.map.get_key_value(value).map(|(value, ())| value)
    }

    /// Removes a value. Returns whether the set had it.
    pub fn remove<Q: ?Sized + Eq + Hash>(&mut self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.take(value).is_some()
    }

    /// Removes a value and returns it.
    pub fn take<Q: ?Sized + Eq + Hash>(&mut self, value: &Q) -> Option<T>
    where
        T: Borrow<Q>,
    {
        self.map.remove_entry(value).map(|(value, ())| value)
    }

    /// Iterates over the values that are in this set or in the other.
    pub fn union<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        self.iter().chain(other.difference(self))
    }

    /// Iterates over the values that are in both sets.
    pub fn intersection<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        self.iter().filter(|value| other.contains(*value))
    }

    /// Iterates over the values that are in this set and not in the other.
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        self.iter().filter(|value| !other.contains(*value))
    }

    /// Iterates over the values that are in exactly one of the sets.
    pub fn symmetric_difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        self.difference(other).chain(other.difference(self))
    }

    /// Returns whether the other set has all values of this one.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.len() <= other.len() && self.iter().all(|value| other.contains(value))
    }

    /// Returns whether this set has all values of the other one.
    pub fn is_superset(&self, other: &Self) -> bool {
        other.is_subset(self)
    }

    /// Returns whether the sets have no value in common.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.intersection(other).next().is_none()
    }
}

impl<'a, T: Trace, S> IntoIterator for &'a GcHashSet<T, S> {
    type Item = &'a T;
    type IntoIter = Keys<'a, T, ()>;

    fn into_iter(self) -> Keys<'a, T, ()> {
        self.iter()
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
