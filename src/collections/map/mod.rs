//! [`GcHashMap`], a hash table.

mod hash_map;

pub use hash_map::{Entries, EntriesMut, Entry, GcHashMap, Keys, OccupiedEntry, VacantEntry};
