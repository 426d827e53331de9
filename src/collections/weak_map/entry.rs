//! The entry of a key in a [`WeakMap`]: to read, change, insert or remove it with one search.

use std::fmt;
use std::mem;

use super::iter::value_of;
use super::weak_hash_map::WeakMap;
use crate::{Gc, Mutator, OutOfMemory, Trace, keep_alive};

/// The entry of a key in a [`WeakMap`]. It keeps the key alive.
pub enum WeakEntry<'a, K: ?Sized + 'static, V: Trace> {
    /// The map has the key.
    Occupied(WeakOccupiedEntry<'a, K, V>),
    /// The map does not have the key.
    Vacant(WeakVacantEntry<'a, K, V>),
}

/// A [`WeakEntry`] of a key that the map has.
pub struct WeakOccupiedEntry<'a, K: ?Sized + 'static, V: Trace> {
    map: &'a mut WeakMap<K, V>,
    key: Gc<K>,
    /// The value's object, which this address keeps alive. Nothing else refers to the value, as the map is borrowed exclusively.
    value: *mut V,
}

/// A [`WeakEntry`] of a key that the map does not have.
pub struct WeakVacantEntry<'a, K: ?Sized + 'static, V: Trace> {
    map: &'a mut WeakMap<K, V>,
    key: Gc<K>,
}

impl<K: ?Sized + 'static, V: Trace> WeakMap<K, V> {
    /// Returns the entry of a key. O(1) on average.
    pub fn entry(&mut self, key: Gc<K>) -> WeakEntry<'_, K, V> {
        let value = self.find(key).and_then(|place| value_of(place));
        keep_alive(key);
        match value {
            Some(value) => WeakEntry::Occupied(WeakOccupiedEntry { map: self, key, value }),
            None => WeakEntry::Vacant(WeakVacantEntry { map: self, key }),
        }
    }
}

impl<'a, K: ?Sized + 'static, V: Trace> WeakEntry<'a, K, V> {
    /// Returns the value; inserts `default` first if there is none. O(1) on average, as [`WeakMap::insert`].
    ///
    /// # Errors
    /// As [`WeakMap::reserve`].
    pub fn or_insert(self, mutator: &Mutator, default: V) -> Result<&'a mut V, OutOfMemory> {
        self.or_insert_with(mutator, || default)
    }

    /// Returns the value; inserts the result of `default` first if there is none. The function may allocate.
    /// O(1) on average, as [`WeakMap::insert`].
    ///
    /// # Errors
    /// As [`WeakMap::reserve`].
    pub fn or_insert_with(self, mutator: &Mutator, default: impl FnOnce() -> V) -> Result<&'a mut V, OutOfMemory> {
        self.or_insert_with_key(mutator, |_| default())
    }

    /// Returns the value; inserts the result of `default`, called with the key, first if there is none. The function may allocate.
    /// O(1) on average, as [`WeakMap::insert`].
    ///
    /// # Errors
    /// As [`WeakMap::reserve`].
    pub fn or_insert_with_key(
        self,
        mutator: &Mutator,
        default: impl FnOnce(Gc<K>) -> V,
    ) -> Result<&'a mut V, OutOfMemory> {
        match self {
            WeakEntry::Occupied(entry) => Ok(entry.into_mut()),
            WeakEntry::Vacant(entry) => {
                let value = default(entry.key());
                entry.insert(mutator, value)
            }
        }
    }

    /// Returns the value; inserts the default of the type first if there is none.
    /// O(1) on average, as [`WeakMap::insert`].
    ///
    /// # Errors
    /// As [`WeakMap::reserve`].
    pub fn or_default(self, mutator: &Mutator) -> Result<&'a mut V, OutOfMemory>
    where
        V: Default,
    {
        self.or_insert_with(mutator, V::default)
    }

    /// Sets the value, and returns the entry. O(1) on average, as [`WeakMap::insert`].
    ///
    /// # Errors
    /// As [`WeakMap::reserve`]; the value is dropped.
    pub fn insert_entry(self, mutator: &Mutator, value: V) -> Result<WeakOccupiedEntry<'a, K, V>, OutOfMemory> {
        match self {
            WeakEntry::Occupied(mut entry) => {
                entry.insert(value);
                Ok(entry)
            }
            WeakEntry::Vacant(entry) => entry.insert_entry(mutator, value),
        }
    }

    /// Changes the value, if there is one. O(1).
    #[must_use]
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
        if let WeakEntry::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }

    /// Returns the key. O(1).
    pub fn key(&self) -> Gc<K> {
        match self {
            WeakEntry::Occupied(entry) => entry.key(),
            WeakEntry::Vacant(entry) => entry.key(),
        }
    }
}

impl<'a, K: ?Sized + 'static, V: Trace> WeakOccupiedEntry<'a, K, V> {
    /// Returns the key. O(1).
    pub fn key(&self) -> Gc<K> {
        self.key
    }

    /// Returns the value. O(1).
    pub fn get(&self) -> &V {
        // SAFETY: see `value`.
        unsafe { &*self.value }
    }

    /// Returns a mutable reference to the value. O(1).
    pub fn get_mut(&mut self) -> &mut V {
        // SAFETY: see `value`.
        unsafe { &mut *self.value }
    }

    /// Returns a mutable reference to the value that lives as long as the borrow of the map. O(1).
    pub fn into_mut(self) -> &'a mut V {
        // SAFETY: see `value`.
        unsafe { &mut *self.value }
    }

    /// Sets the value and returns the previous one. O(1).
    pub fn insert(&mut self, value: V) -> V {
        mem::replace(self.get_mut(), value)
    }

    /// Removes the entry and returns its value. O(1) on average.
    pub fn remove(self) -> V {
        self.remove_entry().1
    }

    /// Removes the entry and returns its key and its value. O(1) on average.
    pub fn remove_entry(self) -> (Gc<K>, V) {
        let removed = self.map.remove_entry(self.key);
        removed.expect("the entry of a key that is alive stays")
    }
}

impl<'a, K: ?Sized + 'static, V: Trace> WeakVacantEntry<'a, K, V> {
    /// Returns the key. O(1).
    pub fn key(&self) -> Gc<K> {
        self.key
    }

    /// Inserts the key with this value. O(1) on average, as [`WeakMap::insert`].
    ///
    /// # Errors
    /// As [`WeakMap::reserve`]; the value is dropped.
    pub fn insert(self, mutator: &Mutator, value: V) -> Result<&'a mut V, OutOfMemory> {
        Ok(self.insert_entry(mutator, value)?.into_mut())
    }

    /// As [`insert`](Self::insert), but returns the entry. O(1) on average, as [`WeakMap::insert`].
    ///
    /// # Errors
    /// As [`WeakMap::reserve`]; the value is dropped.
    pub fn insert_entry(self, mutator: &Mutator, value: V) -> Result<WeakOccupiedEntry<'a, K, V>, OutOfMemory> {
        let value = self.map.insert_new(mutator, self.key, value)?;
        Ok(WeakOccupiedEntry { map: self.map, key: self.key, value })
    }
}

impl<K: ?Sized + fmt::Debug + 'static, V: Trace + fmt::Debug> fmt::Debug for WeakEntry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WeakEntry::Occupied(entry) => f.debug_tuple("WeakEntry").field(entry).finish(),
            WeakEntry::Vacant(entry) => f.debug_tuple("WeakEntry").field(entry).finish(),
        }
    }
}

impl<K: ?Sized + fmt::Debug + 'static, V: Trace + fmt::Debug> fmt::Debug for WeakOccupiedEntry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakOccupiedEntry").field("key", &self.key).field("value", self.get()).finish()
    }
}

impl<K: ?Sized + fmt::Debug + 'static, V: Trace> fmt::Debug for WeakVacantEntry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WeakVacantEntry").field(&self.key).finish()
    }
}
