//! Objects that the collector must not free by itself, and words of the library that are roots.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use super::{AddressHasher, AddressMap};
use crate::lock::Guarded;

/// The objects that only the program frees. Those of a scanned kind keep alive what they refer to.
pub(crate) static UNCOLLECTABLE: Guarded<HashSet<usize, BuildHasherDefault<AddressHasher>>> =
    Guarded::new(HashSet::with_hasher(BuildHasherDefault::new()));

/// Words that keep objects alive, by a key: the results of threads that ended and were not joined, and the arguments of threads that have
/// not begun.
pub(crate) static KEPT_WORDS: Guarded<AddressMap<usize>> =
    Guarded::new(AddressMap::with_hasher(BuildHasherDefault::new()));

/// The kernel's ids of the attached threads, by the number that libc gives them.
pub(crate) static THREADS: Guarded<AddressMap<i32>> = Guarded::new(AddressMap::with_hasher(BuildHasherDefault::new()));

/// Where the stacks of threads end, if the program has said so: by the kernel's id of the thread.
pub(crate) static STACK_ENDS: Guarded<AddressMap<usize>> =
    Guarded::new(AddressMap::with_hasher(BuildHasherDefault::new()));
