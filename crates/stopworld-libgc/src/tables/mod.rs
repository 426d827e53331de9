//! The tables of the library, which its lock guards. The functions of the interface change them; the collecting thread reads them in the
//! stopped world, where nothing here may allocate: it removes entries, and appends where room was reserved.

pub(crate) mod disclaim;
pub(crate) mod finalizers;
pub(crate) mod intervals;
pub(crate) mod kinds;
pub(crate) mod leaks;
pub(crate) mod links;
pub(crate) mod loaded;
pub(crate) mod objects;
pub(crate) mod toggles;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use indexmap::IndexMap;

/// Hashes one address.
#[derive(Clone, Copy, Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, address: usize) {
        // The rotation brings the product's best bits to both ends: the table uses the lowest and the highest.
        self.0 = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

/// A map from addresses.
pub(crate) type AddressMap<V> = HashMap<usize, V, BuildHasherDefault<AddressHasher>>;

/// A map from addresses for tables that each collection walks through. Its entries are in the order in which they were added, as long as none
/// is removed. That is about the order of their objects in memory, which are then examined one after the other: in the order of a hash
/// table, each would be a cache miss.
pub(crate) type OrderedMap<V> = IndexMap<usize, V, BuildHasherDefault<AddressHasher>>;

/// Removes the entries for which `is_dead` returns true, in the stopped world: allocates nothing. `is_dead` is called with each entry once or
/// twice, and answers the same.
pub(crate) fn remove_dead<V>(map: &mut OrderedMap<V>, is_dead: impl Fn(usize, &V) -> bool) {
    /// The part of the entries up to which they are removed one by one. To remove more, the map's index is made again.
    const FEW: usize = 8;
    let dead = map.iter().filter(|&(&address, value)| is_dead(address, value)).count();
    if dead > map.len() / FEW {
        return map.retain(|&address, value| !is_dead(address, value));
    }
    let mut index = map.len();
    let mut left = dead;
    while left > 0 {
        index -= 1;
        if map.get_index(index).is_some_and(|(&address, value)| is_dead(address, value)) {
            // The last entry takes its place, which was examined already.
            map.swap_remove_index(index);
            left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The oracle is a plain map.
        #[test]
        fn the_dead_entries_are_removed_and_the_map_does_not_grow(
            entries in proptest::collection::btree_map(any::<usize>(), 0_u8..10, 0..200), border in 0_u8..11,
        ) {
            let mut map: OrderedMap<u8> = entries.iter().map(|(&address, &value)| (address, value)).collect();
            let capacity = map.capacity();
            remove_dead(&mut map, |_, value| *value < border);
            // The capacity leaves out places of removed entries that cannot be used again yet, so it may get smaller.
            prop_assert!(map.capacity() <= capacity);
            let expected: BTreeMap<usize, u8> = entries.into_iter().filter(|&(_, value)| value >= border).collect();
            prop_assert!(expected.keys().all(|address| map.contains_key(address)));
            prop_assert_eq!(map.into_iter().collect::<BTreeMap<_, _>>(), expected);
        }
    }
}
