//! Leaks: objects that the program has not freed, and to which nothing refers any more.
//!
//! A program that frees its objects itself can search for those that it forgets (`GC_set_find_leak`). Each collection then takes down the
//! objects that it finds dead, before their memory is free, and they are printed when the world runs again: with the place of the
//! allocation, if it was by a debugging function, which the macros of `gc.h` call with `GC_DEBUG`.

use std::ffi::{CStr, c_char, c_int};
use std::hash::BuildHasherDefault;

use stopworld::TypeInfo;

use super::AddressMap;
use crate::data::{GC_find_leak, is_on};
use crate::lock::{Guarded, Held, LOCK};
use crate::print::log;

/// The number of leaks of one collection that are described. Further ones are counted.
const MOST: usize = 1000;

/// What a debugging function was called with.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The address of a text that ends in 0 and lives for ever, or 0.
    file: usize,
    line: c_int,
    bytes: usize,
}

/// A leak. `bytes` is the size of the object's memory.
#[derive(Clone, Copy, Debug)]
struct Leak {
    object: usize,
    bytes: usize,
    type_info: &'static TypeInfo,
    place: Option<Place>,
}

#[derive(Debug)]
struct Leaks {
    /// The places of the objects that debugging functions have allocated, and that are not freed.
    places: AddressMap<Place>,
    /// The leaks that were found and not printed yet. It has room for `MOST` of them once the library searches for leaks.
    found: Vec<Leak>,
    /// The number of leaks for which `found` had no room.
    others: usize,
}

static LEAKS: Guarded<Leaks> =
    Guarded::new(Leaks { places: AddressMap::with_hasher(BuildHasherDefault::new()), found: Vec::new(), others: 0 });

/// Whether the program searches for leaks.
pub(crate) fn are_wanted() -> bool {
    is_on(&GC_find_leak)
}

/// Called before a collection, in the running world: provides the memory that the search needs.
pub(crate) fn prepare() {
    if are_wanted() {
        let held = LOCK.lock();
        let mut leaks = LEAKS.get(&held);
        let room = MOST.saturating_sub(leaks.found.len());
        leaks.found.reserve(room);
    }
}

/// Notes where an object was allocated, if leaks are searched for.
///
/// # Safety
/// `file` is null, or a text that ends in 0 and lives for ever.
pub(crate) unsafe fn allocated(object: usize, bytes: usize, file: *const c_char, line: c_int) {
    if object != 0 && are_wanted() {
        LEAKS.get(&LOCK.lock()).places.insert(object, Place { file: file as usize, line, bytes });
    }
}

/// Forgets where an object was allocated that the program has freed.
pub(crate) fn freed(object: usize) {
    if are_wanted() {
        LEAKS.get(&LOCK.lock()).places.remove(&object);
    }
}

/// Takes down a dead object, in the stopped world: allocates nothing.
pub(crate) fn found(object: usize, bytes: usize, type_info: &'static TypeInfo, held: &Held) {
    let Leaks { places, found, others } = &mut *LEAKS.get(held);
    let place = places.remove(&object);
    if found.len() < found.capacity() {
        found.push(Leak { object, bytes, type_info, place });
    } else {
        *others += 1;
    }
}

/// Prints the leaks that were found, once, in the form of bdwgc. `is_atomic` returns whether objects with a description have no pointers.
pub(crate) fn print(is_atomic: impl Fn(&'static TypeInfo) -> bool) {
    let (leaks, others) = {
        let held = LOCK.lock();
        let mut all = LEAKS.get(&held);
        (std::mem::take(&mut all.found), std::mem::take(&mut all.others))
    };
    if leaks.is_empty() && others == 0 {
        return;
    }
    log(&format!("Found {} leaked objects:\n", leaks.len() + others));
    for Leak { object, bytes, type_info, place } in leaks {
        let (form, kind) = if is_atomic(type_info) { ("atomic", "PTRFREE") } else { ("composite", "NORMAL") };
        let bytes = place.map_or(bytes, |place| place.bytes);
        let place = place.filter(|place| place.file != 0).map_or_else(String::new, |place| {
            // SAFETY: by the promise of `allocated`.
            let file = unsafe { CStr::from_ptr(place.file as *const c_char) };
            format!("{}:{}, ", file.to_string_lossy(), place.line)
        });
        log(&format!("Leaked {form} object at {object:#x} ({place}sz={bytes}, {kind})\n"));
    }
    if others > 0 {
        log(&format!("and {others} others\n"));
    }
}
