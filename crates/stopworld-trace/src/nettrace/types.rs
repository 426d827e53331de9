//! The names of types: converts the address in an event to the name in the type's description.

use stopworld::TypeInfo;

/// Returns the name of the type with its description at this address, or an empty string if there is no description.
pub(crate) fn name_of(address: u64) -> &'static str {
    // SAFETY: a record contains the address of a description, which is a static and lives for ever, or a number that is not such an
    // address, which `at` detects. Programs have no reason to forge descriptions.
    unsafe { TypeInfo::at(address as usize) }.map_or("", TypeInfo::name)
}

/// A cache of recently used names.
#[derive(Debug)]
pub(crate) struct Names(Box<[(u64, &'static str)]>);

const CACHE_ENTRIES: usize = 1 << 10;

impl Names {
    pub(crate) fn new() -> Names {
        Names(vec![(0, ""); CACHE_ENTRIES].into())
    }

    /// Like [`name_of`], but without a system call if the name is in the cache.
    #[inline]
    pub(crate) fn of(&mut self, address: u64) -> &'static str {
        let place = &mut self.0[(address >> 3) as usize % CACHE_ENTRIES];
        if place.0 != address {
            *place = (address, name_of(address));
        }
        place.1
    }
}
