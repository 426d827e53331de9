//! The iterators over the entries of a [`WeakMap`] by value.

use std::fmt;
use std::iter::FusedIterator;

use super::iter::entry_of;
use super::weak_hash_map::WeakMap;
use crate::{Gc, Trace, keep_alive};

impl<K: ?Sized + 'static, V: Trace> WeakMap<K, V> {
    /// Removes all entries, and returns an iterator over them, in no particular order. The table stays. O(places of the table).
    ///
    /// The entries that the iterator has not returned are removed when it is dropped. If it is leaked, they stay.
    pub fn drain(&mut self) -> WeakDrain<'_, K, V> {
        WeakDrain { map: self, at: 0 }
    }

    /// Removes the first entry in a place from `at` on, and moves `at` past it.
    fn take_from(&mut self, at: &mut usize) -> Option<(Gc<K>, V)> {
        let table = self.table?;
        loop {
            let place = table.places().get(*at)?;
            *at += 1;
            let Some((key, value)) = entry_of::<K, V>(place) else { continue };
            table.remove(place);
            // Up to here the entry must not disappear.
            keep_alive(key);
            // SAFETY: a value that the map owned, and that nothing refers to any more. Its address is on this stack.
            return Some((key, unsafe { value.read() }));
        }
    }
}

/// An iterator that removes the entries of a [`WeakMap`]: [`WeakMap::drain`].
pub struct WeakDrain<'a, K: ?Sized + 'static, V: Trace> {
    map: &'a mut WeakMap<K, V>,
    /// The first place that has not been read.
    at: usize,
}

/// An iterator over the entries of a [`WeakMap`] by value, in no particular order. Like the map, it keeps no key alive.
#[derive(Trace)]
#[trace(bound = "V: Trace")]
pub struct WeakIntoEntries<K: ?Sized + 'static, V: Trace> {
    map: WeakMap<K, V>,
    at: usize,
}

impl<K: ?Sized + 'static, V: Trace> Iterator for WeakDrain<'_, K, V> {
    type Item = (Gc<K>, V);

    fn next(&mut self) -> Option<(Gc<K>, V)> {
        self.map.take_from(&mut self.at)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.map.len()))
    }
}

impl<K: ?Sized + 'static, V: Trace> Iterator for WeakIntoEntries<K, V> {
    type Item = (Gc<K>, V);

    fn next(&mut self) -> Option<(Gc<K>, V)> {
        self.map.take_from(&mut self.at)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.map.len()))
    }
}

impl<K: ?Sized + 'static, V: Trace> FusedIterator for WeakDrain<'_, K, V> {}

impl<K: ?Sized + 'static, V: Trace> FusedIterator for WeakIntoEntries<K, V> {}

impl<K: ?Sized + 'static, V: Trace> Drop for WeakDrain<'_, K, V> {
    fn drop(&mut self) {
        self.map.clear();
    }
}

impl<K: ?Sized + 'static, V: Trace> fmt::Debug for WeakDrain<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakDrain").finish_non_exhaustive()
    }
}

impl<K: ?Sized + 'static, V: Trace> fmt::Debug for WeakIntoEntries<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakIntoEntries").finish_non_exhaustive()
    }
}

impl<K: ?Sized + 'static, V: Trace> IntoIterator for WeakMap<K, V> {
    type Item = (Gc<K>, V);
    type IntoIter = WeakIntoEntries<K, V>;

    fn into_iter(self) -> WeakIntoEntries<K, V> {
        WeakIntoEntries { map: self, at: 0 }
    }
}
