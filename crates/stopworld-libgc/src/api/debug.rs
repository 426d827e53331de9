//! The debugging functions, which the macros of `gc.h` call with `GC_DEBUG`.
//!
//! They have the caller's address, file and line as further arguments, which are not used: objects have no header with the place where
//! they were allocated, and no words around them that are checked. A profile by call site has that place for every object.

use std::ffi::{c_char, c_void};

use super::malloc::{
    GC_malloc, GC_malloc_atomic, GC_malloc_atomic_uncollectable, GC_malloc_uncollectable, GC_realloc, GC_strdup,
    GC_strndup, free,
};

macro_rules! same {
    ($($name:ident $as:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C-unwind" fn $name(bytes: usize) -> *mut c_void {
            $as(bytes)
        }
    )*};
}

same! {
    GC_debug_malloc GC_malloc;
    GC_debug_malloc_atomic GC_malloc_atomic;
    GC_debug_malloc_atomic_ignore_off_page GC_malloc_atomic;
    GC_debug_malloc_atomic_uncollectable GC_malloc_atomic_uncollectable;
    GC_debug_malloc_ignore_off_page GC_malloc;
    GC_debug_malloc_replacement GC_malloc;
    GC_debug_malloc_stubborn GC_malloc;
    GC_debug_malloc_uncollectable GC_malloc_uncollectable;
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_debug_realloc(object: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: the program's promise.
    unsafe { GC_realloc(object, bytes) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_debug_realloc_replacement(object: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: the program's promise.
    unsafe { GC_realloc(object, bytes) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_debug_free(object: *mut c_void) {
    // SAFETY: the program's promise.
    unsafe { free(object, 0) };
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_debug_strdup(text: *const c_char) -> *mut c_char {
    // SAFETY: the program's promise.
    unsafe { GC_strdup(text) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_debug_strndup(text: *const c_char, most: usize) -> *mut c_char {
    // SAFETY: the program's promise.
    unsafe { GC_strndup(text, most) }
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
