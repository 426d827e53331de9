//! The debugging functions, which the macros of `gc.h` call with `GC_DEBUG`.
//!
//! They have the file and the line of the call as further arguments, for reports of leaks. Objects have no header with the place where they were
//! allocated, and no words around them that are checked.

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_int, c_void};

use crate::tables::leaks;

use super::malloc::{
    free, malloc, malloc_atomic, malloc_atomic_uncollectable, malloc_uncollectable, realloc, strdup, strndup,
    with_caller,
};

with_caller! {
    GC_debug_malloc(bytes: usize, file: *const c_char, line: c_int) "rcx" => normal;
    GC_debug_malloc_atomic(bytes: usize, file: *const c_char, line: c_int) "rcx" => atomic;
    GC_debug_malloc_atomic_ignore_off_page(bytes: usize, file: *const c_char, line: c_int) "rcx" => atomic;
    GC_debug_malloc_atomic_uncollectable(bytes: usize, file: *const c_char, line: c_int) "rcx" => atomic_uncollectable;
    GC_debug_malloc_ignore_off_page(bytes: usize, file: *const c_char, line: c_int) "rcx" => normal;
    GC_debug_malloc_replacement(bytes: usize) "rsi" => malloc;
    GC_debug_malloc_stubborn(bytes: usize, file: *const c_char, line: c_int) "rcx" => normal;
    GC_debug_malloc_uncollectable(bytes: usize, file: *const c_char, line: c_int) "rcx" => uncollectable;
    GC_debug_realloc(object: *mut c_void, bytes: usize, file: *const c_char, line: c_int) "r8" => reallocated;
    GC_debug_realloc_replacement(object: *mut c_void, bytes: usize) "rdx" => realloc;
    GC_debug_strdup(text: *const c_char, file: *const c_char, line: c_int) "rcx" => copied;
    GC_debug_strndup(text: *const c_char, most: usize, file: *const c_char, line: c_int) "r8" => copied_part;
}

/// Defines functions that allocate, and note the place. All arguments but the file and the line are those of the function that allocates.
macro_rules! noting {
    ($($name:ident($($argument:ident: $type:ty),*) $bytes:expr, $call:expr;)*) => {$(
        unsafe extern "C-unwind" fn $name($($argument: $type,)* file: *const c_char, line: c_int, caller: usize) -> *mut c_void {
            // SAFETY: the program's promise, also that `file` is the name of a file.
            unsafe {
                let object = $call(caller);
                leaks::allocated(object as usize, $bytes, file, line);
                object
            }
        }
    )*};
}

noting! {
    normal(bytes: usize) bytes, |caller| malloc(bytes, caller);
    atomic(bytes: usize) bytes, |caller| malloc_atomic(bytes, caller);
    atomic_uncollectable(bytes: usize) bytes, |caller| malloc_atomic_uncollectable(bytes, caller);
    uncollectable(bytes: usize) bytes, |caller| malloc_uncollectable(bytes, caller);
    reallocated(object: *mut c_void, bytes: usize) bytes, |caller| realloc(object, bytes, caller);
}

unsafe extern "C-unwind" fn copied(
    text: *const c_char,
    file: *const c_char,
    line: c_int,
    caller: usize,
) -> *mut c_void {
    // SAFETY: the program's promise, also that `file` is the name of a file.
    unsafe { note_copy(strdup(text, caller), file, line) }
}

unsafe extern "C-unwind" fn copied_part(
    text: *const c_char,
    most: usize,
    file: *const c_char,
    line: c_int,
    caller: usize,
) -> *mut c_void {
    // SAFETY: the program's promise, also that `file` is the name of a file.
    unsafe { note_copy(strndup(text, most, caller), file, line) }
}

/// # Safety
/// `copy` is null or a text that ends in 0, and `file` is the name of a file.
unsafe fn note_copy(copy: *mut c_void, file: *const c_char, line: c_int) -> *mut c_void {
    if !copy.is_null() {
        // SAFETY: the caller's promise.
        unsafe { leaks::allocated(copy as usize, CStr::from_ptr(copy.cast()).count_bytes() + 1, file, line) };
    }
    copy
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_debug_free(object: *mut c_void) {
    // SAFETY: the program's promise.
    unsafe { free(object, 0) };
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
