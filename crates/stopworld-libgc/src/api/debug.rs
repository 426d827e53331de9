//! The debugging functions, which the macros of `gc.h` call with `GC_DEBUG`.
//!
//! They have the caller's address, file and line as further arguments, of which only the address is used, for profiles by call site. Objects
//! have no header with the place where they were allocated, and no words around them that are checked.

use std::ffi::{c_char, c_void};

use super::malloc::{
    free, malloc, malloc_atomic, malloc_atomic_uncollectable, malloc_uncollectable, realloc, strdup, strndup,
};

macro_rules! same {
    ($($name:ident $as:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C-unwind" fn $name(bytes: usize, caller: usize) -> *mut c_void {
            $as(bytes, caller)
        }
    )*};
}

same! {
    GC_debug_malloc malloc;
    GC_debug_malloc_atomic malloc_atomic;
    GC_debug_malloc_atomic_ignore_off_page malloc_atomic;
    GC_debug_malloc_atomic_uncollectable malloc_atomic_uncollectable;
    GC_debug_malloc_ignore_off_page malloc;
    GC_debug_malloc_stubborn malloc;
    GC_debug_malloc_uncollectable malloc_uncollectable;
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_debug_malloc_replacement(bytes: usize) -> *mut c_void {
    malloc(bytes, 0)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_debug_realloc(
    object: *mut c_void,
    bytes: usize,
    caller: usize,
) -> *mut c_void {
    // SAFETY: the program's promise.
    unsafe { realloc(object, bytes, caller) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_debug_realloc_replacement(object: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: the program's promise.
    unsafe { realloc(object, bytes, 0) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_debug_free(object: *mut c_void) {
    // SAFETY: the program's promise.
    unsafe { free(object, 0) };
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_debug_strdup(text: *const c_char, caller: usize) -> *mut c_void {
    // SAFETY: the program's promise.
    unsafe { strdup(text, caller) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_debug_strndup(
    text: *const c_char,
    most: usize,
    caller: usize,
) -> *mut c_void {
    // SAFETY: the program's promise.
    unsafe { strndup(text, most, caller) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_debug_header_size() -> usize {
    crate::data::GC_debug_header_size
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_debug_change_stubborn(_: *const c_void) {}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_debug_end_stubborn_change(_: *const c_void) {}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_debug_ptr_store_and_dirty(place: *mut *mut c_void, value: *mut c_void) {
    // SAFETY: the program's promise: a place for a pointer.
    unsafe { place.write(value) };
}
