//! Leaks: objects that the program has not freed, and to which nothing refers any more.
//!
//! A program that frees its objects itself can search for those that it forgets (`GC_set_find_leak`). Each collection then records the
//! objects that it finds dead, before their memory is free, and they are printed when the world runs again: with the place of the
//! allocation, if it was by a debugging function, which the macros of `gc.h` call with `GC_DEBUG`.

use std::ffi::{CStr, c_char, c_int};
use std::hash::BuildHasherDefault;

use stopworld::TypeInfo;

use super::AddressMap;
use crate::data::{GC_find_leak, is_on};
use crate::lock::{Guarded, Held, LOCK};
use crate::print::log;
use crate::sync::{AtomicBool, Ordering};

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

impl Leaks {
    const fn new() -> Self {
        Self { places: AddressMap::with_hasher(BuildHasherDefault::new()), found: Vec::new(), others: 0 }
    }

    /// Provides room for `MOST` leaks.
    fn make_room(&mut self) {
        let room = MOST.saturating_sub(self.found.len());
        self.found.reserve(room);
    }

    /// Records a dead object. Allocates nothing.
    fn record(&mut self, object: usize, bytes: usize, type_info: &'static TypeInfo) {
        let place = self.places.remove(&object);
        if self.found.len() < self.found.capacity() {
            self.found.push(Leak { object, bytes, type_info, place });
        } else {
            self.others += 1;
        }
    }

    /// Removes the leaks that were found, and returns them and the number of the others. The room stays: another thread may be about to
    /// stop the world.
    fn take(&mut self) -> (Vec<Leak>, usize) {
        (self.found.drain(..).collect(), std::mem::take(&mut self.others))
    }
}

static LEAKS: Guarded<Leaks> = Guarded::new(Leaks::new());

/// Whether the place of any object was noted. The table of places is kept right also while leaks are not searched for: the program may
/// resume the search.
static HAS_PLACES: AtomicBool = AtomicBool::new(false);

/// Whether the program searches for leaks.
pub(crate) fn are_wanted() -> bool {
    is_on(&GC_find_leak)
}

/// Called before a collection, in the running world: provides the memory that the search needs.
pub(crate) fn prepare() {
    if are_wanted() {
        LEAKS.get(&LOCK.lock()).make_room();
    }
}

/// Notes where an object was allocated, if leaks are searched for.
///
/// # Safety
/// `file` is null, or a text that ends in 0 and lives for ever.
pub(crate) unsafe fn allocated(object: usize, bytes: usize, file: *const c_char, line: c_int) {
    if object != 0 && are_wanted() {
        // Relaxed: whatever passes the object to another thread also passes this.
        HAS_PLACES.store(true, Ordering::Relaxed);
        LEAKS.get(&LOCK.lock()).places.insert(object, Place { file: file as usize, line, bytes });
    }
}

/// Forgets where an object was allocated that the program has freed.
pub(crate) fn freed(object: usize) {
    if HAS_PLACES.load(Ordering::Relaxed) {
        LEAKS.get(&LOCK.lock()).places.remove(&object);
    }
}

/// Records a dead object, in the stopped world: allocates nothing.
pub(crate) fn found(object: usize, bytes: usize, type_info: &'static TypeInfo, held: &Held) {
    LEAKS.get(held).record(object, bytes, type_info);
}

/// Forgets where dead objects were allocated, in the stopped world, for a collection that does not search for leaks: allocates nothing.
pub(crate) fn forget_dead(is_alive: impl Fn(usize) -> bool, held: &Held) {
    if HAS_PLACES.load(Ordering::Relaxed) {
        LEAKS.get(held).places.retain(|&object, _| is_alive(object));
    }
}

/// Prints the leaks that were found, once, in the form of bdwgc. `is_atomic` returns whether objects with a description have no pointers.
pub(crate) fn print(is_atomic: impl Fn(&'static TypeInfo) -> bool) {
    let (leaks, others) = LEAKS.get(&LOCK.lock()).take();
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

#[cfg(test)]
mod tests {
    use super::*;
    use stopworld::untyped::UntypedKind;

    #[test]
    fn leaks_are_described_although_another_thread_prints_before_the_stop() {
        let type_info = UntypedKind::leaf("leaked").type_info();
        let mut leaks = Leaks::new();
        for _ in 0..2 {
            leaks.make_room();
            let printed = leaks.take();
            assert_eq!((printed.0.len(), printed.1), (0, 0));
            let room = leaks.found.capacity();
            assert!(room >= MOST);
            (1..=room + 3).for_each(|object| leaks.record(object, 16, type_info));
            let (found, others) = leaks.take();
            assert!(found.iter().map(|leak| leak.object).eq(1..=room));
            assert_eq!(others, 3);
        }
    }
}
