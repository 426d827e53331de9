//! Settings that have no effect here, and what is left of the interface.

use std::ffi::{c_int, c_ulong, c_void};

use crate::data::{GC_find_leak, GC_time_limit};
use crate::environment::NOT_AUTOMATIC;
use crate::hook::Hook;
use crate::sync::{AtomicUsize, Ordering};

/// A setting that the program can read back, and that changes nothing: the collector has nothing of the kind, or decides itself.
macro_rules! settings {
    ($($(#[$attribute:meta])* $kind:ty, $initial:expr, $get:ident, $set:ident;)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $get() -> $kind {
            value_of(&$set::VALUE) as $kind
        }

        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $set(value: $kind) {
            $set::VALUE.store(value as usize, Ordering::Relaxed);
        }

        mod $set {
            use super::*;
            pub(super) static VALUE: AtomicUsize = AtomicUsize::new($initial);
        }
    )*};
}

fn value_of(setting: &AtomicUsize) -> usize {
    setting.load(Ordering::Relaxed)
}

settings! {
    /// Finalizers do not make collections more frequent.
    usize, 10_000, GC_get_allocd_bytes_per_finalizer, GC_set_allocd_bytes_per_finalizer;
    /// Surplus memory is always returned to the kernel.
    c_int, 0, GC_get_force_unmap_on_gcollect, GC_set_force_unmap_on_gcollect;
    /// Pages are not watched for writes.
    c_int, 0, GC_get_manual_vdb_allowed, GC_set_manual_vdb_allowed;
    /// Collections are not incremental.
    c_int, 1, GC_get_max_prior_attempts, GC_set_max_prior_attempts;
    /// The pacing decides.
    usize, 1, GC_get_min_bytes_allocd, GC_set_min_bytes_allocd;
    /// The heap is never executable.
    c_int, 0, GC_get_pages_executable, GC_set_pages_executable;
    /// Collections are not incremental.
    c_int, 10, GC_get_rate, GC_set_rate;
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_disable_automatic_collection() -> c_int {
    NOT_AUTOMATIC.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_disable_automatic_collection(value: c_int) {
    NOT_AUTOMATIC.store(value, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_find_leak() -> c_int {
    GC_find_leak.load(Ordering::Relaxed)
}

/// Lets collections report the objects that they find dead, which the program should have freed. They are freed all the same. The process then
/// collects once more when it exits.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_find_leak(value: c_int) {
    GC_find_leak.store(value, Ordering::Relaxed);
}

/// `struct GC_timeval_s`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct TimeLimit {
    milliseconds: c_ulong,
    nanoseconds: c_ulong,
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_time_limit_tv(limit: TimeLimit) {
    GC_time_limit.store(limit.milliseconds as usize, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_time_limit_tv() -> TimeLimit {
    TimeLimit { milliseconds: GC_time_limit.load(Ordering::Relaxed) as c_ulong, nanoseconds: 0 }
}

type ThreadEventFunction = unsafe extern "C-unwind" fn(c_int, *mut c_void);
type DescribeFunction = unsafe extern "C-unwind" fn(*mut c_void, *mut std::ffi::c_char);

static ON_THREAD_EVENT: Hook<ThreadEventFunction> = Hook::new(std::ptr::null());

/// Not called: the handler of the suspend signal runs no code of the program. Events of stopworld say when each thread stopped.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_on_thread_event(function: Option<ThreadEventFunction>) {
    ON_THREAD_EVENT.set(function);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_on_thread_event() -> Option<ThreadEventFunction> {
    ON_THREAD_EVENT.get()
}

/// Not called: it is for bdwgc's own lists of leaks.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_register_describe_type_fn(_: c_int, _: Option<DescribeFunction>) {}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_noop1(_: usize) {}

/// Stacks are scanned from the stack pointer; what is below it keeps nothing alive.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_clear_stack(argument: *mut c_void) -> *mut c_void {
    argument
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_change_stubborn(_: *const c_void) {}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_end_stubborn_change(_: *const c_void) {}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_ptr_store_and_dirty(place: *mut *mut c_void, value: *mut c_void) {
    // SAFETY: the program's promise: a place for a pointer.
    unsafe { place.write(value) };
}

/// The program's own bytes are not counted.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_incr_bytes_allocd(_: usize) {}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_incr_bytes_freed(_: usize) {}

/// Free cells are not in lists of sizes.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_print_free_list(kind: c_int, size: usize) {
    crate::print::log(&format!("kind {kind}, size {size}: free cells are in runs in their blocks\n"));
}
