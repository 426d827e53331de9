//! [`WeakMap`], values that live as long as objects.

mod weak_hash_map;

pub use weak_hash_map::WeakMap;
