//! Roots: ranges that the program adds, and what its functions push while the collector looks for roots.

use std::ffi::{c_char, c_int, c_void};

use crate::binding::{ADDED, with_marks, with_scanner};
use crate::lock::LOCK;
use crate::os;
use crate::tables::loaded::{self, FILTER, Filter, LOADED};
use crate::thread::library;

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_add_roots(low: *mut c_void, high: *mut c_void) {
    ADDED.get(&LOCK.lock()).add(low as usize, high as usize);
}

/// Also parts of ranges that were added can be removed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_remove_roots(low: *mut c_void, high: *mut c_void) {
    ADDED.get(&LOCK.lock()).remove(low as usize, high as usize);
}

/// The data of loaded objects become roots again at the next collection, unless `GC_no_dls` is set.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_clear_roots() {
    let held = LOCK.lock();
    ADDED.get(&held).clear();
    LOADED.get(&held).is_program_cleared = true;
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_exclude_static_roots(low: *mut c_void, high: *mut c_void) {
    LOADED.get(&LOCK.lock()).excluded.add(low as usize, high as usize);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_clear_exclusion_table() {
    LOADED.get(&LOCK.lock()).excluded.clear();
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_register_has_static_roots_callback(function: Option<Filter>) {
    FILTER.set(function);
    loaded::forget(&LOCK.lock());
}

/// The loader's list is looked at again in each stop, so no collection needs to wait for the call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_dlopen(path: *const c_char, mode: c_int) -> *mut c_void {
    // SAFETY: the program's promise.
    unsafe { os::open_library(path, mode) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_is_tmp_root(_: *mut c_void) -> c_int {
    0
}

/// For functions that the collector calls while it looks for roots.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_push_all(low: *mut c_void, high: *mut c_void) {
    // SAFETY: the program's promise: readable memory; all threads are stopped.
    with_scanner(|roots| unsafe { roots.range(low as usize, high as usize) });
}

/// As [`GC_push_all`], for stacks: pointers into objects count.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_push_all_eager(low: *mut c_void, high: *mut c_void) {
    // SAFETY: as above.
    with_scanner(|roots| unsafe { roots.stack(low as usize, high as usize) });
}

/// Pages are not watched, so all of them may have changed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_push_conditional(low: *mut c_void, high: *mut c_void, _: c_int) {
    // SAFETY: as above.
    unsafe { GC_push_all(low, high) };
}

/// The collector always does this itself.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_push_finalizer_structures() {}

/// Keeps the object alive, with what it refers to: more than the interface requires. Does nothing outside a collection.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_mark_bit(object: *const c_void) {
    if !with_scanner(|roots| roots.object(object as usize)) {
        with_marks(|heap| heap.keep(object as usize));
    }
}

/// Marks stay: clearing one would free an object to which others refer.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_clear_mark_bit(_: *const c_void) {}

/// Outside a collection, returns whether the object is alive.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_is_marked(object: *const c_void) -> c_int {
    let object = object as usize;
    let in_collection = with_marks(|heap| heap.is_marked(object));
    let outside = || library().world.untyped_object(object).is_some();
    c_int::from(in_collection.unwrap_or_else(outside))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_register_displacement(bytes: usize) {
    library().world.register_displacement(bytes);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_debug_register_displacement(bytes: usize) {
    GC_register_displacement(bytes);
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_mark_and_push(
    object: *mut c_void,
    top: *mut c_void,
    _limit: *mut c_void,
    _source: *mut *mut c_void,
) -> *mut c_void {
    // The program only passes `top` on. What is marked is on a stack of the collector's own.
    with_marks(|heap| heap.keep_word(object as usize));
    top
}
