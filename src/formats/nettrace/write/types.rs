//! What types are called: from the address in an event to the name that the type gave itself.

use crate::heap::trace::{TYPE_INFO_MAGIC, TypeInfo};
use crate::os::memory::read_carefully;

/// The name of the type whose description lies here; nothing if none does.
///
/// Descriptions are statics, so what was one is one. That it was one is not taken on trust from a number in a record.
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
    // SAFETY: readable, and begins as nothing but a description does, of which each is a static.
    unsafe { &*(address as usize as *const TypeInfo) }.name()
}

/// Names that were asked for lately.
#[derive(Debug)]
pub(crate) struct Names(Box<[(u64, &'static str)]>);

const LATELY: usize = 1 << 10;

impl Names {
    pub(crate) fn new() -> Names {
        Names(vec![(0, ""); LATELY].into())
    }

    /// As [`name_of`], but for the first time without a system call.
    #[inline]
    pub(crate) fn of(&mut self, address: u64) -> &'static str {
        let place = &mut self.0[(address >> 3) as usize % LATELY];
        if place.0 != address {
            *place = (address, name_of(address));
        }
        place.1
    }
}
