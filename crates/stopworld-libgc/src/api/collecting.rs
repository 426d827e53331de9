//! The beginning of the library, collections, and the functions of the program that they call.

use std::ffi::{c_int, c_void};
use std::sync::Once;

use crate::binding::{ON_COLLECTION_EVENT, PENDING, START_CALLBACK, StageFunction};
use crate::data::{GC_dont_gc, Procedure, is_on};
use crate::hook::Hook;
use crate::library::if_initialised;
use crate::lock::LOCK;
use crate::os;
use crate::print;
use crate::sync::{AtomicBool, Ordering};
use crate::tables::leaks;
use crate::thread::attached;

use super::finalization;

/// Asked before each requested collection; another result than 0 prevents it.
type StopFunction = unsafe extern "C-unwind" fn() -> c_int;
type LockedFunction = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

static STOP: Hook<StopFunction> = Hook::new(never as *const ());

unsafe extern "C-unwind" fn never() -> c_int {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_init() {
    static ONCE: Once = Once::new();
    attached();
    // Handlers run in reverse order: this one before the world's recordings are closed, so that they contain the collection.
    ONCE.call_once(|| search_for_leaks_at_exit());
}

/// Lets the process collect when it exits, if it searches for leaks then. Called first when the library is loaded: a program need not call
/// `GC_init`, and may begin to search at any time.
extern "C" fn search_for_leaks_at_exit() {
    static HAS_SEARCHED: AtomicBool = AtomicBool::new(false);
    extern "C" fn at_exit() {
        // Relaxed: handlers run one after the other.
        if leaks::are_wanted() && if_initialised().is_some() && !HAS_SEARCHED.swap(true, Ordering::Relaxed) {
            collect();
        }
    }
    // If there is no room for the handler, the last search is missing.
    _ = os::at_exit(at_exit);
}

/// Called by the loader.
#[used]
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = search_for_leaks_at_exit;

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_is_init_called() -> c_int {
    c_int::from(if_initialised().is_some())
}

/// The library ends with the process.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_deinit() {}

/// Collects, unless the program has disabled that. Returns whether it did.
fn collect() -> bool {
    if is_on(&GC_dont_gc) {
        return false;
    }
    if LOCK.is_mine() {
        print::abort("a collection was requested by a function that holds the allocation lock: request it afterwards");
    }
    let collected = attached().mutator.collect();
    if PENDING.load(Ordering::Relaxed) {
        finalization::after_collection();
    }
    collected.is_ok()
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_gcollect() {
    // SAFETY: the program's function, or `never`.
    if STOP.get().is_none_or(|function| unsafe { function() } == 0) {
        collect();
    }
}

/// The collector returns surplus memory to the kernel after each collection.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_gcollect_and_unmap() {
    GC_gcollect();
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_try_to_collect(stop: Option<StopFunction>) -> c_int {
    // SAFETY: the program's function.
    let may = stop.is_none_or(|function| unsafe { function() } == 0);
    c_int::from(may && collect())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_stop_func(function: Option<StopFunction>) {
    STOP.set(function);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_stop_func() -> Option<StopFunction> {
    STOP.get()
}

/// Collections are not incremental: nothing is left to do.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_collect_a_little() -> c_int {
    if PENDING.load(Ordering::Relaxed) {
        finalization::after_collection();
    }
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_start_incremental_collection() {}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_enable_incremental() {
    GC_init();
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_is_incremental_mode() -> c_int {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_incremental_protection_needs() -> c_int {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_disable() {
    GC_dont_gc.fetch_add(1, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_enable() {
    GC_dont_gc.fetch_sub(1, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_is_disabled() -> c_int {
    c_int::from(is_on(&GC_dont_gc))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_start_callback(function: Option<Procedure>) {
    START_CALLBACK.set(function);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_start_callback() -> Option<Procedure> {
    START_CALLBACK.get()
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_on_collection_event(function: Option<StageFunction>) {
    ON_COLLECTION_EVENT.set(function);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_on_collection_event() -> Option<StageFunction> {
    ON_COLLECTION_EVENT.get()
}

/// No collection and no clearing of links happens while the function runs. It must not allocate.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_call_with_alloc_lock(
    function: LockedFunction,
    argument: *mut c_void,
) -> *mut c_void {
    let _held = LOCK.lock();
    // SAFETY: the program's function.
    unsafe { function(argument) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_alloc_lock() {
    LOCK.acquire();
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_alloc_unlock() {
    LOCK.release();
}

unsafe extern "C-unwind" fn abort_for_memory(bytes: usize) -> *mut c_void {
    print::abort(&format!("an allocation of {bytes} bytes failed, and the program has called GC_abort_on_oom"))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_abort_on_oom() {
    crate::data::GC_set_oom_fn(Some(abort_for_memory));
}

/// The handlers of forks are always installed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_handle_fork(_: c_int) {}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_atfork_prepare() {}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_atfork_parent() {}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_atfork_child() {}
