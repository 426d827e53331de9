//! The iterators over a map: those over its vector of entries.

use std::fmt;
use std::iter::FusedIterator;
use std::slice;

use crate::Trace;
use crate::collections::vec::{IntoIter, IterMut};

/// One entry.
#[derive(Trace)]
pub(super) struct Slot<K: Trace, V: Trace> {
    pub(super) key: K,
    pub(super) value: V,
}

/// An iterator over the entries of a [`GcHashMap`](crate::GcHashMap).
pub struct Entries<'a, K: Trace, V: Trace> {
    pub(super) slots: slice::Iter<'a, Slot<K, V>>,
}

/// An iterator over the entries of a [`GcHashMap`](crate::GcHashMap), with mutable references to the values.
pub struct EntriesMut<'a, K: Trace, V: Trace> {
    pub(super) slots: IterMut<'a, Slot<K, V>>,
}

/// An iterator over the keys of a [`GcHashMap`](crate::GcHashMap), or over the values of a [`GcHashSet`](crate::GcHashSet).
pub struct Keys<'a, K: Trace, V: Trace> {
    pub(super) slots: slice::Iter<'a, Slot<K, V>>,
}

/// An iterator over the entries of a [`GcHashMap`](crate::GcHashMap) by value. Like the map, it is kept where the collector looks.
#[derive(Trace)]
pub struct IntoEntries<K: Trace, V: Trace> {
    pub(super) slots: IntoIter<Slot<K, V>>,
}

/// An iterator over the keys of a [`GcHashMap`](crate::GcHashMap), or over the values of a [`GcHashSet`](crate::GcHashSet), by value. Like
/// the map, it is kept where the collector looks.
#[derive(Trace)]
pub struct IntoKeys<K: Trace, V: Trace> {
    pub(super) slots: IntoIter<Slot<K, V>>,
}

/// An iterator over the values of a [`GcHashMap`](crate::GcHashMap) by value. Like the map, it is kept where the collector looks.
#[derive(Trace)]
pub struct IntoValues<K: Trace, V: Trace> {
    pub(super) slots: IntoIter<Slot<K, V>>,
}

macro_rules! iterator {
    ($name:ident<$($lifetime:lifetime)?> yields $item:ty: $slot:pat => $of_slot:expr) => {
        impl<$($lifetime,)? K: Trace, V: Trace> Iterator for $name<$($lifetime,)? K, V> {
            type Item = $item;

            fn next(&mut self) -> Option<$item> {
                self.slots.next().map(|$slot| $of_slot)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.slots.size_hint()
            }
        }

        impl<$($lifetime,)? K: Trace, V: Trace> ExactSizeIterator for $name<$($lifetime,)? K, V> {}

        impl<$($lifetime,)? K: Trace, V: Trace> FusedIterator for $name<$($lifetime,)? K, V> {}

        impl<$($lifetime,)? K: Trace, V: Trace> fmt::Debug for $name<$($lifetime,)? K, V> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("len", &self.len()).finish()
            }
        }
    };
}

iterator!(Entries<'a> yields (&'a K, &'a V): slot => (&slot.key, &slot.value));
iterator!(EntriesMut<'a> yields (&'a K, &'a mut V): Slot { key, value } => (&*key, value));
iterator!(Keys<'a> yields &'a K: slot => &slot.key);
iterator!(IntoEntries<> yields (K, V): slot => (slot.key, slot.value));
iterator!(IntoKeys<> yields K: slot => slot.key);
iterator!(IntoValues<> yields V: slot => slot.value);

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
