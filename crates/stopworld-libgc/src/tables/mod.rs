//! The tables of the library, which its lock guards. The functions of the interface change them; the collecting thread reads them in the
//! stopped world, where nothing here may allocate: it removes entries, and appends where room was reserved.

pub(crate) mod finalizers;
pub(crate) mod intervals;
pub(crate) mod kinds;
pub(crate) mod links;
pub(crate) mod loaded;
pub(crate) mod objects;
pub(crate) mod toggles;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

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
