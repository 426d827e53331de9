//! [`WeakMap`], values that live as long as objects.
//!
//! ```text
//!   table    | key, value | removed | key, value |      |  …      open addressing, by the address of the key
//!                    |
//!                    ▼
//!                  value                                          an object of its own
//! ```
//!
//! The table is an [`Ephemerons`]: the collector keeps the value of an entry while the key is alive, and removes the entry when the key is dead.
//! Why each value is an object of its own: a `&V` may be in use when its key dies. It is the address of the value's object, which it keeps alive,
//! as any address of an object on a stack does. In the table itself, the value would be cleared with its entry.

mod drain;
mod entry;
mod iter;
mod weak_hash_map;

pub use drain::{WeakDrain, WeakIntoEntries};
pub use entry::{WeakEntry, WeakOccupiedEntry, WeakVacantEntry};
pub use iter::{WeakEntries, WeakEntriesMut};
pub use weak_hash_map::WeakMap;
