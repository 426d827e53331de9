//! The exported data of the library: settings that a program may read and write without a function.
//!
//! bdwgc exports its settings as variables. Some programs write them (neko `GC_no_dls`, ecl `GC_push_other_roots`, crystal
//! `GC_stackbottom`), so the library reads each one from the variable whenever it needs it, and the functions that get and set it use the
//! same variable. All are atomics, used relaxed: the program gives no other promise.
//!
//! bdwgc's internal tables, which its own macros and debuggers read, are exported too, as zeros.

#![allow(non_upper_case_globals, reason = "the names are those of the interface")]

use std::ffi::{c_char, c_int, c_void};

use crate::hook::Hook;
use crate::sync::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

pub(crate) type OomFunction = unsafe extern "C-unwind" fn(usize) -> *mut c_void;
pub(crate) type Procedure = unsafe extern "C-unwind" fn();
pub(crate) type AbortFunction = unsafe extern "C-unwind" fn(*const c_char);
pub(crate) type HeapResizeFunction = unsafe extern "C-unwind" fn(usize);
pub(crate) type PrintFunction = unsafe extern "C-unwind" fn(*mut c_void);
pub(crate) type PrintTwoFunction = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

unsafe extern "C-unwind" fn no_memory(_: usize) -> *mut c_void {
    std::ptr::null_mut()
}

unsafe extern "C-unwind" fn no_roots() {}

macro_rules! integers {
    ($($name:ident = $value:literal;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) static $name: AtomicI32 = AtomicI32::new($value);
    )*};
}

macro_rules! words {
    ($($name:ident = $value:literal;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) static $name: AtomicUsize = AtomicUsize::new($value);
    )*};
}

// The initial values are those of Debian's library.
integers! {
    GC_all_interior_pointers = 1;
    GC_dont_expand = 0;
    GC_dont_gc = 0;
    GC_dont_precollect = 0;
    GC_finalize_on_demand = 0;
    GC_find_leak = 0;
    GC_full_freq = 19;
    GC_gcj_debug_kind = 0;
    GC_gcj_kind = 0;
    GC_java_finalization = 1;
    GC_no_dls = 0;
    GC_parallel = 0;
    GC_use_entire_heap = 0;
}

words! {
    GC_free_space_divisor = 3;
    GC_gc_no = 0;
    GC_greatest_plausible_heap_addr = 0;
    GC_least_plausible_heap_addr = 0;
    GC_max_retries = 0;
    GC_non_gc_bytes = 0;
    GC_stackbottom = 0;
    GC_time_limit = 999_999;
}

/// The size of the header of an object of the debugging functions: this library has none.
#[unsafe(no_mangle)]
pub(crate) static GC_debug_header_size: usize = 0;

#[unsafe(no_mangle)]
pub(crate) static GC_oom_fn: Hook<OomFunction> = Hook::new(no_memory as *const ());
#[unsafe(no_mangle)]
pub(crate) static GC_push_other_roots: Hook<Procedure> = Hook::new(no_roots as *const ());
#[unsafe(no_mangle)]
pub(crate) static GC_finalizer_notifier: Hook<Procedure> = Hook::new(std::ptr::null());
#[unsafe(no_mangle)]
pub(crate) static GC_on_abort: Hook<AbortFunction> = Hook::new(crate::print::print_and_return as *const ());
#[unsafe(no_mangle)]
pub(crate) static GC_on_heap_resize: Hook<HeapResizeFunction> = Hook::new(std::ptr::null());
#[unsafe(no_mangle)]
pub(crate) static GC_same_obj_print_proc: Hook<PrintTwoFunction> =
    Hook::new(crate::print::not_the_same_object as *const ());
#[unsafe(no_mangle)]
pub(crate) static GC_is_valid_displacement_print_proc: Hook<PrintFunction> =
    Hook::new(crate::print::not_a_displacement as *const ());
#[unsafe(no_mangle)]
pub(crate) static GC_is_visible_print_proc: Hook<PrintFunction> = Hook::new(crate::print::not_visible as *const ());

/// The tables of free cells that bdwgc's own kinds use. This library's free cells are not in lists that a program may take them from.
macro_rules! internal {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) static $name: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    )*};
}

internal! {
    GC_aobjfreelist_ptr
    GC_auobjfreelist_ptr
    GC_objfreelist_ptr
    GC_uobjfreelist_ptr
}

/// The state of bdwgc, of a layout that is no part of the interface: only zeros are here.
#[unsafe(no_mangle)]
pub(crate) static GC_arrays: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

/// Returns whether a setting is on.
pub(crate) fn is_on(setting: &AtomicI32) -> bool {
    setting.load(Ordering::Relaxed) != 0
}

/// The getter and the setter of each setting that is one of the variables.
macro_rules! settings {
    ($($kind:ty, $variable:ident, $get:ident, $set:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $get() -> $kind {
            $variable.load(Ordering::Relaxed) as $kind
        }

        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $set(value: $kind) {
            $variable.store(value as _, Ordering::Relaxed);
        }
    )*};
}

settings! {
    c_int, GC_all_interior_pointers, GC_get_all_interior_pointers, GC_set_all_interior_pointers;
    c_int, GC_dont_expand, GC_get_dont_expand, GC_set_dont_expand;
    c_int, GC_dont_precollect, GC_get_dont_precollect, GC_set_dont_precollect;
    c_int, GC_finalize_on_demand, GC_get_finalize_on_demand, GC_set_finalize_on_demand;
    c_int, GC_full_freq, GC_get_full_freq, GC_set_full_freq;
    c_int, GC_java_finalization, GC_get_java_finalization, GC_set_java_finalization;
    c_int, GC_no_dls, GC_get_no_dls, GC_set_no_dls;
    usize, GC_free_space_divisor, GC_get_free_space_divisor, GC_set_free_space_divisor;
    usize, GC_max_retries, GC_get_max_retries, GC_set_max_retries;
    usize, GC_non_gc_bytes, GC_get_non_gc_bytes, GC_set_non_gc_bytes;
    usize, GC_time_limit, GC_get_time_limit, GC_set_time_limit;
}

/// The getter and the setter of each function of the program that is one of the variables.
macro_rules! hooks {
    ($($kind:ty, $variable:ident, $get:ident, $set:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $get() -> Option<$kind> {
            $variable.get()
        }

        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $set(function: Option<$kind>) {
            $variable.set(function);
        }
    )*};
}

hooks! {
    OomFunction, GC_oom_fn, GC_get_oom_fn, GC_set_oom_fn;
    Procedure, GC_push_other_roots, GC_get_push_other_roots, GC_set_push_other_roots;
    Procedure, GC_finalizer_notifier, GC_get_finalizer_notifier, GC_set_finalizer_notifier;
    AbortFunction, GC_on_abort, GC_get_abort_func, GC_set_abort_func;
    HeapResizeFunction, GC_on_heap_resize, GC_get_on_heap_resize, GC_set_on_heap_resize;
}
