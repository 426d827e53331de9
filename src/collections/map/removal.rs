//! What removes many entries of a [`GcHashMap`].

use std::iter::FusedIterator;

use super::hash_map::GcHashMap;
use super::index::{Hash32, Positions, Taken};
use super::iter::Slot;
use crate::Trace;
use crate::collections::vec::GcVec;

impl<K: Trace, V: Trace, S> GcHashMap<K, V, S> {
    /// Removes all entries, and returns an iterator over them. The capacity stays. O(capacity).
    ///
    /// The map is empty from the beginning, also if the iterator is dropped or leaked.
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = (K, V)> + FusedIterator + use<'_, K, V, S> {
        self.index.clear();
        self.entries.drain(..).map(|slot| (slot.key, slot.value))
    }

    /// Keeps the entries for which `keep` returns true, in their order. O(n). A map of more than eight entries takes four bytes of malloc's memory for
    /// each of them meanwhile.
    ///
    /// # Panics
    /// If `keep` does. Then all entries are in the map, in another order.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let hashes = self.hashes();
        let mut moving = Moving { entries: &mut self.entries, index: &mut self.index, hashes };
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

    /// Removes the entries for which `remove` returns true, and returns an iterator over them. O(n) in total. The order of the other entries may
    /// change. A map of more than eight entries takes four bytes of malloc's memory for each of them meanwhile.
    ///
    /// The function is called when the iterator is advanced. The entries that the iterator has not reached when it is dropped or leaked stay.
    ///
    /// # Panics
    /// If `remove` does. Then its entry stays, too.
    pub fn extract_if<F>(&mut self, remove: F) -> impl Iterator<Item = (K, V)> + use<'_, K, V, S, F>
    where
        F: FnMut(&K, &mut V) -> bool,
    {
        let hashes = self.hashes();
        ExtractIf { map: self, remove, hashes, at: 0 }
    }

    /// The hash of each entry, as the index has it. Empty if there is no index.
    fn hashes(&self) -> Vec<Hash32> {
        let mut hashes = vec![0; if self.index.exists() { self.len() } else { 0 }];
        self.index.taken().for_each(|taken| hashes[taken.entry] = taken.hash);
        hashes
    }
}

/// The entries of a map while they are moved. When it is dropped, also by a panic, the index has their new positions.
struct Moving<'a, K: Trace, V: Trace> {
    entries: &'a mut GcVec<Slot<K, V>>,
    index: &'a mut Positions,
    /// The hash of each entry, which is moved as the entry is. Empty if there is no index.
    hashes: Vec<Hash32>,
}

impl<K: Trace, V: Trace> Drop for Moving<'_, K, V> {
    fn drop(&mut self) {
        self.index.clear();
        for (entry, &hash) in self.hashes.iter().take(self.entries.len()).enumerate() {
            self.index.add(Taken { hash, entry });
        }
    }
}

/// What [`GcHashMap::extract_if`] returns. The map is whole at each step.
struct ExtractIf<'a, K: Trace, V: Trace, S, F> {
    map: &'a mut GcHashMap<K, V, S>,
    remove: F,
    /// The hash of each entry. Empty if there is no index.
    hashes: Vec<Hash32>,
    /// The first entry that `remove` has not seen.
    at: usize,
}

impl<K: Trace, V: Trace, S, F: FnMut(&K, &mut V) -> bool> Iterator for ExtractIf<'_, K, V, S, F> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        loop {
            let Slot { key, value } = self.map.entries.get_mut(self.at)?;
            if (self.remove)(key, value) {
                break;
            }
            self.at += 1;
        }
        // The last entry takes the place of the removed one.
        let place_of = |index: &Positions, hash: Hash32, entry: usize| {
            index.find(hash, |other| other == entry).expect("each entry has a place").0
        };
        let index = &mut self.map.index;
        if let Some(&hash) = self.hashes.get(self.at) {
            let last = self.hashes.len() - 1;
            let (place, last_place) = (place_of(index, hash, self.at), place_of(index, self.hashes[last], last));
            self.hashes.swap_remove(self.at);
            if self.at != last {
                index.set(last_place, Some(Taken { hash: self.hashes[self.at], entry: self.at }));
            }
            index.remove(place);
        }
        let slot = self.map.entries.swap_remove(self.at);
        Some((slot.key, slot.value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.map.len() - self.at))
    }
}
