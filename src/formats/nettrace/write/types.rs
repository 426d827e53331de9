//! The names of types: converts the address in an event to the name in the type's description.

use crate::heap::trace::{TYPE_INFO_MAGIC, TypeInfo};
use crate::os::memory::read_carefully;

/// Returns the name of the type with its description at this address, or an empty string if there is no description.
///
/// Descriptions are statics, so a valid address stays valid. But a number in a record is not trusted to be one: the memory is
/// checked for the magic number first.
pub(crate) fn name_of(address: u64) -> &'static str {
    if address == 0 || !address.is_multiple_of(align_of::<TypeInfo>() as u64) {
        return "";
    }
    let mut magic = [0; 8];
    // SAFETY: the bytes are only compared with the magic number.
    let read = unsafe { read_carefully(address as usize, &mut magic) };
    if read != magic.len() || u64::from_ne_bytes(magic) != TYPE_INFO_MAGIC {
        return "";
    }
    // SAFETY: the memory is readable and begins with the magic number, as only descriptions do; each description is a static.
    unsafe { &*(address as usize as *const TypeInfo) }.name()
}

/// A cache of recently used names.
#[derive(Debug)]
pub(crate) struct Names(Box<[(u64, &'static str)]>);

const LATELY: usize = 1 << 10;

impl Names {
    pub(crate) fn new() -> Names {
        Names(vec![(0, ""); LATELY].into())
    }

    /// As [`name_of`], but without a system call if the name is in the cache.
    #[inline]
    pub(crate) fn of(&mut self, address: u64) -> &'static str {
        let place = &mut self.0[(address >> 3) as usize % LATELY];
        if place.0 != address {
            *place = (address, name_of(address));
        }
        place.1
    }
}
