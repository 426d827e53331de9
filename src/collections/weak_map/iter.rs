//! The iterators over references to the entries of a weak map, and how the words of an entry are read.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::slice;

use crate::heap::ephemerons::Ephemeron;
use crate::{Gc, Trace, keep_alive};

/// An iterator over the entries of a [`WeakMap`](crate::WeakMap), in no particular order.
///
/// Entries whose keys die meanwhile may be missing, so the length is not known.
pub struct WeakEntries<'a, K: ?Sized + 'static, V: Trace> {
    places: slice::Iter<'a, Ephemeron>,
    /// What it yields: it may be sent to another thread only if that may.
    _yields: PhantomData<(Gc<K>, &'a V)>,
}

/// An iterator over the entries of a [`WeakMap`](crate::WeakMap), with mutable references to the values, in no particular order.
pub struct WeakEntriesMut<'a, K: ?Sized + 'static, V: Trace> {
    places: slice::Iter<'a, Ephemeron>,
    /// As for [`WeakEntries`].
    _yields: PhantomData<(Gc<K>, &'a mut V)>,
}

impl<'a, K: ?Sized + 'static, V: Trace> WeakEntries<'a, K, V> {
    /// The map is borrowed for `'a`.
    pub(super) fn over(places: &'a [Ephemeron]) -> Self {
        Self { places: places.iter(), _yields: PhantomData }
    }
}

impl<'a, K: ?Sized + 'static, V: Trace> WeakEntriesMut<'a, K, V> {
    /// # Safety
    /// The map is borrowed exclusively for `'a`.
    pub(super) unsafe fn over(places: &'a [Ephemeron]) -> Self {
        Self { places: places.iter(), _yields: PhantomData }
    }
}

impl<K: ?Sized + 'static, V: Trace> Clone for WeakEntries<'_, K, V> {
    fn clone(&self) -> Self {
        Self { places: self.places.clone(), _yields: PhantomData }
    }
}

impl<'a, K: ?Sized + 'static, V: Trace> Iterator for WeakEntries<'a, K, V> {
    type Item = (Gc<K>, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.places.find_map(entry_of::<K, V>)?;
        // SAFETY: an object with a `V`, whose address keeps it alive. Only a `&mut` to the map, which is borrowed, can change it.
        Some((key, unsafe { &*value }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.places.size_hint().1)
    }
}

impl<'a, K: ?Sized + 'static, V: Trace> Iterator for WeakEntriesMut<'a, K, V> {
    type Item = (Gc<K>, &'a mut V);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.places.find_map(entry_of::<K, V>)?;
        // SAFETY: as above, and each entry has a value of its own; the borrow of the map is exclusive.
        Some((key, unsafe { &mut *value }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.places.size_hint().1)
    }
}

impl<K: ?Sized + 'static, V: Trace> FusedIterator for WeakEntries<'_, K, V> {}

impl<K: ?Sized + 'static, V: Trace> FusedIterator for WeakEntriesMut<'_, K, V> {}

impl<K: ?Sized + 'static, V: Trace> fmt::Debug for WeakEntries<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakEntries").finish_non_exhaustive()
    }
}

impl<K: ?Sized + 'static, V: Trace> fmt::Debug for WeakEntriesMut<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakEntriesMut").finish_non_exhaustive()
    }
}

/// Returns the address of the value of an entry, if there is an entry.
pub(super) fn value_of<V: Trace>(place: &Ephemeron) -> Option<*mut V> {
    let value = place.value();
    if value == 0 {
        return None;
    }
    // SAFETY: the entry was there when the word was loaded, so the object was alive, and now it is in a register or on this stack.
    let value: Gc<V> = unsafe { Gc::from_addr(value) };
    // The reference shows the read to profiles. The pointer does not come from it: values may be changed through it.
    let _: &V = &value;
    Some(Gc::as_ptr(value).cast_mut())
}

/// Returns the key of an entry and the address of its value, if there is an entry.
pub(super) fn entry_of<K: ?Sized + 'static, V: Trace>(place: &Ephemeron) -> Option<(Gc<K>, *mut V)> {
    let key = place.key()?;
    // SAFETY: as in `value_of`.
    let key: Gc<K> = unsafe { Gc::from_addr(key) };
    let value = value_of(place)?;
    // The key is alive until the value is loaded, so both are of one entry.
    keep_alive(key);
    Some((key, value))
}
