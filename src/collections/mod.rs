//! Collections whose storage is in the collected heap, with the interfaces of the standard library's.
//!
//! A [`GcVec`] is to a `Vec` what a [`Gc`](crate::Gc) is to a `Box`: a value that owns its storage, which here is a collected object instead
//! of memory of malloc. So the elements may be references, and the collector sees them. What allocates takes a
//! [`Mutator`](crate::Mutator) as its first argument and returns `Result<_, OutOfMemory>`; after an error the collection is unchanged. All
//! else is as in std.
//!
//! | here | std | storage |
//! |---|---|---|
//! | [`GcVec`] | `Vec` | one array |
//! | [`GcString`] | `String` | one array of bytes |
//! | [`GcDeque`] | `VecDeque` | one array, used as a ring |
//! | [`GcHashMap`], [`GcHashSet`] | `HashMap`, `HashSet` | an array of entries in the order of insertion, and beyond 8 entries an index of 8 bytes for each place |
//! | [`WeakMap`] | | a table of entries, and an object for each value |
//! | [`GcMutex`] | `Mutex` | none of its own |
//!
//! ```
//! use stopworld::{Gc, GcHashMap, GcVec, World};
//!
//! let world = World::builder().build()?;
//! // SAFETY: this thread keeps every `Gc` and every collection in local variables.
//! let mutator = unsafe { world.attach("main") }?;
//! let mut words: GcHashMap<Gc<str>, GcVec<usize>> = GcHashMap::new();
//! for (line, word) in "to be or not to be".split(' ').enumerate() {
//!     if !words.contains_key(word) {
//!         words.insert(&mutator, mutator.alloc_str(word)?, GcVec::new())?;
//!     }
//!     words.get_mut(word).unwrap().push(&mutator, line)?;
//! }
//! mutator.collect()?;
//! assert_eq!(*words["be"], [1, 5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is different from std
//! * `Clone`, `Extend`, `FromIterator`, `From<[T; N]>` and the operators of sets have no place for a mutator and an error. Their functions are
//!   methods: `try_clone`, `extend`, `from_iter`, `try_union` and so on. `write!` needs [`GcString::writer`].
//! * Nothing gives out a `&mut [T]` ([`GcVec`] says why). So `chunks_mut`, `split_at_mut`, `select_nth_unstable`, `as_mut_slices` and
//!   `sort_by_cached_key` are missing. An element that is an array is a slice itself: do not sort it by std's stable sort, but by
//!   `sort_unstable`. [`GcDeque::make_contiguous`] returns a `&[T]`; sort a [`GcVec`], which a queue becomes by `From`.
//! * [`GcVec::splice`] replaces the range at once.
//! * Missing are functions for the memory behind a collection (`leak`, `from_raw_parts`, `spare_capacity_mut`, `into_boxed_slice`), the UTF-16
//!   functions of `String`, and what is unstable in std.
//!
//! Everything else has the meaning that it has in std, also after a panic of a closure and after an iterator has been leaked, as far as std
//! defines that. No element is used twice or seen after it is gone; each function says which ones may be lost.
//!
//! # Where a collection may be
//! Where a `Gc` may be ([`World::attach`](crate::World::attach)): in a local variable, or in a collected object. It contains a `Gc`, so it
//! is neither `Send` nor `Sync`, and it is `Trace`, so it can be a field of an object or an element of another collection. Elements are of
//! any type that is `Trace`, has no drop glue, and is aligned to at most 8 bytes. A `u128` is aligned to 16: store it as two `u64`, or as a `Gc<u128>`.
//!
//! # Why this is sound
//! A collection is not `Copy`, and nothing gives out its storage. So the borrow checker decides which references to elements exist: `&mut`
//! to an element needs `&mut` to the collection. In an object that others can refer to there is never a `&mut`, so a collection there can
//! only be read; in a [`GcMutex`] it can be changed, by the one thread that has the lock. No two threads can reach the same storage
//! with one of them writing.
//!
//! The collector may stop a thread anywhere in an operation, and reads the storage then. Therefore elements are moved word by
//! word, a moved element is written to its new place before its old place is cleared, and places without an element are 0.
//!
//! # Costs
//! The marker scans the whole storage, also the unused part, unless the elements contain no references. Growing leaves the old storage to
//! the collector. Objects do not move, so a reference to an element is valid as long as it is borrowed.

mod buffer;
mod deque;
mod map;
mod mutex;
mod set;
mod string;
mod vec;
mod weak_map;

pub use deque::{DequeDrain, DequeIntoIter, DequeIter, DequeIterMut, GcDeque};
pub use map::{
    Entries, EntriesMut, Entry, GcHashMap, IntoEntries, IntoKeys, IntoValues, Keys, OccupiedEntry, VacantEntry,
};
pub use mutex::{GcMutex, GcMutexGuard};
pub use set::GcHashSet;
pub use string::{GcString, GcStringWriter, StringDrain, TextPiece};
pub use vec::{Drain, GcVec, IntoIter, IterMut};
pub use weak_map::{
    WeakDrain, WeakEntries, WeakEntriesMut, WeakEntry, WeakIntoEntries, WeakMap, WeakOccupiedEntry, WeakVacantEntry,
};
