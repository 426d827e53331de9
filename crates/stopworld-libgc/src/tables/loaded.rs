//! The data segments of the program and of the shared libraries that it has loaded: roots.
//!
//! The list of loaded objects belongs to the dynamic loader, and so does the lock that guards it. A stopped thread may hold that lock. So
//! the segments are recorded before the stop ([`refresh`]), and in the stopped world the loader's list is walked without the lock, as a
//! debugger does it, to find out which of them are still loaded and whether others have come ([`Loaded::for_each`]):
//!
//! ```text
//!   refresh (dl_iterate_phdr) ── a thread calls dlopen or dlclose ── stop ── for_each (_r_debug)
//! ```
//!
//! A thread may be stopped inside dlopen or dlclose. The object that it removes may be unmapped already, and is still in the list. So only
//! memory that is still mapped is scanned then. The objects that other threads have loaded since the refresh are in the list, too.
//!
//! What the loader makes read-only after relocation (RELRO) is left out, and so are the data of this library.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::data::{GC_no_dls, is_on};
use crate::hook::Hook;
use crate::lock::{Guarded, Held, LOCK};
use crate::os::{LoadedObject, LoaderList, LoaderVersion, PAGE, for_each_loaded, headers_at, is_mapped};
use crate::sync::{AtomicBool, Ordering};
use crate::tables::intervals::Intervals;

/// Decides whether a segment is scanned: gets the object's name, the segment's address, and its size.
pub(crate) type Filter = unsafe extern "C-unwind" fn(*const c_char, *mut c_void, usize) -> c_int;

pub(crate) static FILTER: Hook<Filter> = Hook::new(std::ptr::null());

/// The segments of one loaded object.
struct Object {
    /// The address of its dynamic section, which identifies it.
    dynamic: usize,
    /// Its segments, in [`Loaded::segments`].
    segments: std::ops::Range<usize>,
}

/// The data segments of all loaded objects, as of the last refresh. The program comes first.
pub(crate) struct Loaded {
    version: Option<LoaderVersion>,
    objects: Vec<Object>,
    segments: Vec<(usize, usize)>,
    list: Option<LoaderList>,
    /// Whether the program's own data were given up by `GC_clear_roots`. They are roots again if libraries are.
    pub(crate) is_program_cleared: bool,
    /// Memory that is never scanned as data of a loaded object.
    pub(crate) excluded: Intervals,
}

pub(crate) static LOADED: Guarded<Loaded> = Guarded::new(Loaded {
    version: None,
    objects: Vec::new(),
    segments: Vec::new(),
    list: None,
    is_program_cleared: false,
    excluded: Intervals::new(),
});

/// Returns the parts of the writable segments that stay writable.
fn data_segments(
    base: usize,
    headers: impl Iterator<Item = libc::Elf64_Phdr> + Clone,
    mut visit: impl FnMut(usize, usize),
) {
    let range = |header: &libc::Elf64_Phdr| {
        // An object that is being unmapped may have lost its memory to another mapping: the fields may be anything.
        let low = base.wrapping_add(header.p_vaddr as usize);
        (low, low.saturating_add(header.p_memsz as usize))
    };
    let relro = headers.clone().find(|header| header.p_type == libc::PT_GNU_RELRO).as_ref().map(range);
    for header in headers.filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W != 0) {
        let (low, high) = range(&header);
        match relro {
            // The loader protects whole pages: up to the last page boundary of the part.
            Some((from, to)) if low <= from && from < high => {
                visit(low, from);
                visit((to / PAGE * PAGE).max(from), high);
            }
            _ => visit(low, high),
        }
    }
}

/// Whether an object is this library, and not the program that contains it.
fn is_this_library(object: &LoadedObject<'_>) -> bool {
    static HERE: u8 = 0;
    let here = &raw const HERE as usize;
    let contains = |header: &libc::Elf64_Phdr| {
        let low = object.base + header.p_vaddr as usize;
        header.p_type == libc::PT_LOAD && (low..low + header.p_memsz as usize).contains(&here)
    };
    !object.name.is_empty() && object.headers.iter().any(contains)
}

fn dynamic_section(object: &LoadedObject<'_>) -> usize {
    let found = object.headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC);
    found.map_or(0, |header| object.base + header.p_vaddr as usize)
}

/// Whether the process was forked: another thread may have held the loader's lock, which stays locked then.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// Called in the child of a fork: from now on only the walk in the stop finds loaded objects, which needs no lock.
pub(crate) fn forked() {
    IS_FORKED.store(true, Ordering::Relaxed);
}

/// Records the segments of the loaded objects, if the list has changed. Takes the loader's lock, and no other lock meanwhile: it may
/// call a function of the program, and another thread may call into this library with the loader's lock held.
pub(crate) fn refresh() {
    if IS_FORKED.load(Ordering::Relaxed) {
        return;
    }
    let known = LOADED.get(&LOCK.lock()).version;
    let (mut version, mut objects, mut segments) = (None, Vec::new(), Vec::new());
    for_each_loaded(|now, object| {
        if known == Some(now) {
            return false;
        }
        version = Some(now);
        let first = segments.len();
        if !is_this_library(&object) {
            data_segments(object.base, object.headers.iter().copied(), |low, high| {
                if low < high && is_wanted(object.name, low, high) {
                    segments.push((low, high));
                }
            });
        }
        objects.push(Object { dynamic: dynamic_section(&object), segments: first..segments.len() });
        true
    });
    let Some(version) = version else { return };
    let list = LoaderList::find();
    let held = LOCK.lock();
    let mut loaded = LOADED.get(&held);
    // Another thread may have stored a later list meanwhile. The counts of the loader only grow.
    if loaded.version.is_none_or(|before| before < version) {
        (loaded.version, loaded.objects, loaded.segments, loaded.list) = (Some(version), objects, segments, list);
    }
}

/// Calls `visit` with the path of each loaded object that is not this library.
pub(crate) fn for_each_other_object(mut visit: impl FnMut(&str)) {
    for_each_loaded(|_, object| {
        if !is_this_library(&object) {
            visit(&object.name.to_string_lossy());
        }
        true
    });
}

/// Makes the next [`refresh`] record the segments, although the list has not changed.
pub(crate) fn forget(held: &Held) {
    LOADED.get(held).version = None;
}

fn is_wanted(name: &CStr, low: usize, high: usize) -> bool {
    let Some(filter) = FILTER.get() else { return true };
    // SAFETY: the program's function, called as the interface promises it.
    unsafe { filter(name.as_ptr(), low as *mut c_void, high - low) != 0 }
}

impl Loaded {
    /// Calls `visit` with each range of data that may hold references. For the stopped world.
    ///
    /// # Safety
    /// No other thread of the process changes the loader's list.
    pub(crate) unsafe fn for_each(&self, mut visit: impl FnMut(usize, usize)) {
        let mut visit = |low, high| self.excluded.for_each_outside(low, high, &mut visit);
        let program = self.objects.first();
        if is_on(&GC_no_dls) {
            if !self.is_program_cleared {
                self.segments_of(program).iter().for_each(|&(low, high)| visit(low, high));
            }
            return;
        }
        let Some(list) = self.list else {
            return self.segments.iter().for_each(|&(low, high)| visit(low, high));
        };
        let is_consistent = list.is_consistent();
        let mut visit_mapped = |low, high| {
            if is_consistent || is_mapped(low / PAGE * PAGE, high) {
                visit(low, high);
            }
        };
        let mut next = 0;
        // SAFETY: the caller's promise.
        unsafe {
            list.for_each(|base, dynamic| {
                // Both lists have the same order, unless an object was removed or added.
                let matches = |object: &Object| object.dynamic == dynamic;
                let at = match self.objects.get(next) {
                    Some(object) if matches(object) => Some(next),
                    _ => self.objects.iter().position(matches),
                };
                if let Some(at) = at {
                    next = at + 1;
                    self.segments_of(self.objects.get(at)).iter().for_each(|&(low, high)| visit_mapped(low, high));
                } else if let Some(headers) = headers_at(base) {
                    data_segments(base, headers, &mut visit_mapped);
                }
            });
        }
    }

    fn segments_of(&self, object: Option<&Object>) -> &[(usize, usize)] {
        object.map_or(&[], |object| &self.segments[object.segments.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::AtomicUsize;

    static DATA: AtomicUsize = AtomicUsize::new(1);
    static ZEROED: AtomicUsize = AtomicUsize::new(0);
    /// Relocated, and so in the part that becomes read-only.
    static CONSTANT: &&str = &"constant";

    #[test]
    fn the_programs_data_are_found_and_its_constants_are_not() {
        refresh();
        assert_eq!((DATA.load(Ordering::Relaxed), ZEROED.load(Ordering::Relaxed)), (1, 0));
        let held = LOCK.lock();
        let mut ranges = Vec::new();
        // SAFETY: no test of this program loads libraries.
        unsafe { LOADED.get(&held).for_each(|low, high| ranges.push((low, high))) };
        let is_in = |address: usize| ranges.iter().any(|&(low, high)| (low..high).contains(&address));
        assert!(is_in(&raw const DATA as usize) && is_in(&raw const ZEROED as usize), "{ranges:x?}");
        assert!(!is_in(&raw const CONSTANT as usize));
        // libc has variables too.
        // SAFETY: an address of libc's.
        assert!(is_in(unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"environ".as_ptr()) } as usize));
        assert!(!is_in(&raw const held as usize), "a stack is none");
    }
}
