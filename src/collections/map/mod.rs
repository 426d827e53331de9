//! [`GcHashMap`], a hash table.
//!
//! ```text
//!   index    | 0 | hash, 3 | 0 | hash, 1 | hash, 2 | 0 | 0 | 0 |      half of a hash and the number of an entry, or 0; linear probing
//!   entries  | key, value | key, value | key, value |
//! ```
//!
//! The entries are a vector in the order of insertion, so the marker and iterators read them in a row, and only they are scanned. The index
//! has eight bytes for each place and no references. A removed entry is replaced by the last one, and the places after its place in the
//! index are shifted back, so there are no marks of removed entries.
//!
//! A map that has had room for at most `SMALL` entries has no index: it compares the keys one by one, and hashes none. Many maps are that small
//! (the fields of an object, the variables of a block), and so each of them takes one array instead of two, without hashes.

mod entry;
mod hash_map;
mod index;
mod iter;
mod removal;

pub use entry::{Entry, OccupiedEntry, VacantEntry};
pub use hash_map::GcHashMap;
pub use iter::{Entries, EntriesMut, IntoEntries, IntoKeys, IntoValues, Keys};
