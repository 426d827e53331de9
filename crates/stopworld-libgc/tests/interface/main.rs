//! The functions of the interface, called by this program, which contains the library.

mod disclaim;
mod figures;
mod objects;
mod reachability;

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

// Links the library.
use stopworld_gc as _;

pub(crate) type Pointer = *mut c_void;
pub(crate) type Finalizer = extern "C" fn(Pointer, Pointer);

unsafe extern "C" {
    pub(crate) static GC_gc_no: usize;
    pub(crate) static mut GC_dont_gc: c_int;

    pub(crate) fn GC_malloc(bytes: usize) -> Pointer;
    pub(crate) fn GC_malloc_atomic(bytes: usize) -> Pointer;
    pub(crate) fn GC_malloc_uncollectable(bytes: usize) -> Pointer;
    pub(crate) fn GC_malloc_many(bytes: usize) -> Pointer;
    pub(crate) fn GC_realloc(object: Pointer, bytes: usize) -> Pointer;
    pub(crate) fn GC_free(object: Pointer);
    pub(crate) fn GC_strdup(text: *const c_char) -> *mut c_char;
    pub(crate) fn GC_strndup(text: *const c_char, most: usize) -> *mut c_char;
    pub(crate) fn GC_memalign(align: usize, bytes: usize) -> Pointer;
    pub(crate) fn GC_posix_memalign(place: *mut Pointer, align: usize, bytes: usize) -> c_int;
    pub(crate) fn GC_base(pointer: Pointer) -> Pointer;
    pub(crate) fn GC_size(pointer: Pointer) -> usize;
    pub(crate) fn GC_is_heap_ptr(pointer: Pointer) -> c_int;
    pub(crate) fn GC_get_kind_and_size(pointer: Pointer, size: *mut usize) -> c_int;
    pub(crate) fn GC_generic_malloc(bytes: usize, kind: c_int) -> Pointer;
    pub(crate) fn GC_generic_malloc_many(bytes: usize, kind: c_int, place: *mut Pointer);
    pub(crate) fn GC_new_free_list() -> *mut Pointer;
    pub(crate) fn GC_new_kind(list: *mut Pointer, descriptor: usize, adds_size: c_int, clears: c_int) -> u32;
    pub(crate) fn GC_register_disclaim_proc(
        kind: c_int,
        function: Option<extern "C" fn(Pointer) -> c_int>,
        keeps_referents: c_int,
    );
    pub(crate) fn GC_new_proc(procedure: extern "C" fn(*mut usize, Pointer, Pointer, usize) -> Pointer) -> u32;
    pub(crate) fn GC_mark_and_push(object: Pointer, top: Pointer, limit: Pointer, source: *mut Pointer) -> Pointer;
    pub(crate) fn GC_make_descriptor(bitmap: *const usize, bits: usize) -> usize;
    pub(crate) fn GC_malloc_explicitly_typed(bytes: usize, descriptor: usize) -> Pointer;
    pub(crate) fn GC_gcollect();
    pub(crate) fn GC_expand_hp(bytes: usize) -> c_int;
    pub(crate) fn GC_set_on_heap_resize(function: Option<extern "C" fn(usize)>);
    pub(crate) fn GC_enable();
    pub(crate) fn GC_disable();
    pub(crate) fn GC_is_disabled() -> c_int;
    pub(crate) fn GC_try_to_collect(stop: extern "C" fn() -> c_int) -> c_int;
    pub(crate) fn GC_add_roots(low: Pointer, high: Pointer);
    pub(crate) fn GC_remove_roots(low: Pointer, high: Pointer);
    pub(crate) fn GC_set_push_other_roots(function: Option<extern "C" fn()>);
    pub(crate) fn GC_get_push_other_roots() -> Option<extern "C" fn()>;
    pub(crate) fn GC_push_all(low: Pointer, high: Pointer);
    pub(crate) fn GC_push_all_eager(low: Pointer, high: Pointer);
    pub(crate) fn GC_set_mark_bit(object: Pointer);
    pub(crate) fn GC_general_register_disappearing_link(link: *mut Pointer, object: Pointer) -> c_int;
    pub(crate) fn GC_unregister_disappearing_link(link: *mut Pointer) -> c_int;
    pub(crate) fn GC_move_disappearing_link(link: *mut Pointer, new: *mut Pointer) -> c_int;
    pub(crate) fn GC_register_long_link(link: *mut Pointer, object: Pointer) -> c_int;
    pub(crate) fn GC_register_finalizer(
        object: Pointer,
        function: Option<Finalizer>,
        data: Pointer,
        old_function: *mut Option<Finalizer>,
        old_data: *mut Pointer,
    );
    pub(crate) fn GC_register_finalizer_no_order(
        object: Pointer,
        function: Option<Finalizer>,
        data: Pointer,
        old_function: *mut Option<Finalizer>,
        old_data: *mut Pointer,
    );
    pub(crate) fn GC_invoke_finalizers() -> c_int;
    pub(crate) fn GC_should_invoke_finalizers() -> c_int;
    pub(crate) fn GC_set_finalize_on_demand(value: c_int);
    pub(crate) fn GC_set_finalizer_notifier(function: Option<extern "C" fn()>);
    pub(crate) fn GC_set_toggleref_func(function: Option<extern "C" fn(Pointer) -> c_int>);
    pub(crate) fn GC_toggleref_add(object: Pointer, is_strong: c_int) -> c_int;
    pub(crate) fn GC_call_with_alloc_lock(function: extern "C" fn(Pointer) -> Pointer, argument: Pointer) -> Pointer;
    pub(crate) fn GC_set_start_callback(function: Option<extern "C" fn()>);
    pub(crate) fn GC_set_on_collection_event(function: Option<extern "C" fn(c_int)>);
    pub(crate) fn GC_get_heap_size() -> usize;
    pub(crate) fn GC_get_total_bytes() -> usize;
    pub(crate) fn GC_get_heap_usage_safe(
        heap: *mut usize,
        free: *mut usize,
        unmapped: *mut usize,
        since: *mut usize,
        total: *mut usize,
    );
    pub(crate) fn GC_get_prof_stats(place: *mut usize, bytes: usize) -> usize;
    pub(crate) fn GC_enumerate_reachable_objects_inner(function: extern "C" fn(Pointer, usize, Pointer), data: Pointer);
    pub(crate) fn GC_do_blocking(function: extern "C" fn(Pointer) -> Pointer, argument: Pointer) -> Pointer;
    pub(crate) fn GC_call_with_gc_active(function: extern "C" fn(Pointer) -> Pointer, argument: Pointer) -> Pointer;
}

/// The functions act on the whole process, so one test at a time calls them.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn collect() {
    // SAFETY: has no precondition.
    unsafe { GC_gcollect() };
}

/// Hides an address from the collector.
pub(crate) fn hide(pointer: Pointer) -> usize {
    !(pointer as usize)
}

pub(crate) fn show(hidden: usize) -> Pointer {
    (!hidden) as Pointer
}

/// Whether there is an object at a hidden address.
pub(crate) fn is_alive(hidden: usize) -> bool {
    // SAFETY: any address is allowed.
    unsafe { !GC_base(show(hidden)).is_null() }
}

/// Calls `make` for each index, in a frame that is left before anything else happens, and returns the hidden results.
#[inline(never)]
pub(crate) fn hidden(count: usize, make: impl Fn(usize) -> Pointer) -> Vec<usize> {
    (0..count).map(|index| hide(make(index))).collect()
}

/// The number of objects that are alive. A word that is left on a stack may keep a few.
pub(crate) fn alive(hidden: &[usize]) -> usize {
    hidden.iter().filter(|&&object| is_alive(object)).count()
}

/// The number of objects of a test of which only few may be left by chance.
pub(crate) const MANY: usize = 1000;
/// As many as may be left.
pub(crate) const FEW: usize = 20;
