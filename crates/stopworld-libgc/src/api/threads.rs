//! Threads and stacks: registration, blocking regions, stacks of the program's own.

use std::ffi::{c_int, c_void};
use std::ptr;

use stopworld::Tid;

use crate::environment::{MARKERS, RESTART_SIGNAL, SUSPEND_SIGNAL};
use crate::lock::LOCK;
use crate::os::thread;
use crate::print::warn;
use crate::sync::Ordering;
use crate::tables::objects::{STACK_ENDS, THREADS};
use crate::thread::{attached, current, detach, library};

use super::finalization::{DUPLICATE, SUCCESS};

/// Where a stack ends.
#[repr(C)]
pub(crate) struct StackBase {
    pub(crate) end: *mut c_void,
}

type Function = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type StackFunction = unsafe extern "C-unwind" fn(*mut StackBase, *mut c_void) -> *mut c_void;

fn own_stack() -> StackBase {
    let end = thread::current_stack().map_or(0, |stack| stack.high);
    StackBase { end: end as *mut c_void }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_get_stack_base(place: *mut StackBase) -> c_int {
    // SAFETY: the program's promise: a place for the result.
    unsafe { place.write(own_stack()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_call_with_stack_base(
    function: StackFunction,
    argument: *mut c_void,
) -> *mut c_void {
    let mut base = own_stack();
    // SAFETY: the program's function.
    unsafe { function(&mut base, argument) }
}

/// Threads may always be registered.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_allow_register_threads() {}

/// The end of the stack is known; a different one is the end of the stack that the thread is on now.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_register_my_thread(base: *const StackBase) -> c_int {
    let thread = attached();
    if thread.is_registered.replace(true) {
        return DUPLICATE;
    }
    let own = own_stack().end;
    // SAFETY: the program's promise: null, or where the stack ends.
    if let Some(base) = unsafe { base.as_ref() }
        && base.end != own
    {
        STACK_ENDS.get(&LOCK.lock()).insert(thread.mutator.tid().0 as usize, base.end as usize);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_unregister_my_thread() -> c_int {
    if let Some(thread) = current() {
        STACK_ENDS.get(&LOCK.lock()).remove(&(thread.mutator.tid().0 as usize));
    }
    detach();
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_thread_is_registered() -> c_int {
    // The main thread counts from the beginning.
    c_int::from(current().is_some_and(|thread| thread.is_registered.get() || thread::is_main()))
}

/// The collector finds the alternate signal stack itself.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_register_altstack(_: *mut c_void, _: usize, _: *mut c_void, _: usize) {}

/// A pointer or a function that the closure of a region uses, on the same thread.
struct Here<T>(T);

// SAFETY: the closure of a blocking region runs on the thread that made it.
unsafe impl<T> Send for Here<T> {}

/// The thread can be stopped at any point of the function, which does not use the collected heap.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_do_blocking(function: Function, argument: *mut c_void) -> *mut c_void {
    let call = Here((function, argument));
    let region = move || {
        let Here((function, argument)) = { call };
        // SAFETY: the program's function.
        Here(unsafe { function(argument) })
    };
    attached().mutator.blocking(region).0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_call_with_gc_active(
    function: Function,
    argument: *mut c_void,
) -> *mut c_void {
    // SAFETY: the program's function.
    attached().mutator.unblocked(|| unsafe { function(argument) })
}

/// Returns a handle of the thread: its kernel's id.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_get_my_stackbottom(place: *mut StackBase) -> *mut c_void {
    let tid = attached().mutator.tid().0 as usize;
    let set = STACK_ENDS.get(&LOCK.lock()).get(&tid).copied();
    let base = set.map_or_else(own_stack, |end| StackBase { end: end as *mut c_void });
    // SAFETY: the program's promise: a place for the result.
    unsafe { place.write(base) };
    ptr::without_provenance_mut(tid)
}

/// `handle` is that of [`GC_get_my_stackbottom`], or null for the calling thread.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_set_stackbottom(handle: *mut c_void, base: *const StackBase) {
    let tid = if handle.is_null() { attached().mutator.tid().0 as usize } else { handle as usize };
    // SAFETY: the program's promise.
    let end = unsafe { (*base).end } as usize;
    STACK_ENDS.get(&LOCK.lock()).insert(tid, end);
}

/// Returns the kernel's id of an attached thread, by its number in libc.
fn tid_of(thread: *mut c_void) -> Option<Tid> {
    THREADS.get(&LOCK.lock()).get(&(thread as usize)).copied().map(Tid)
}

/// A thread that is not attached runs on.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_suspend_thread(thread: *mut c_void) {
    if let Some(tid) = tid_of(thread)
        && let Err(error) = library().world.suspend(tid)
    {
        warn(&format!("GC_suspend_thread({thread:p}): {error}"));
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_resume_thread(thread: *mut c_void) {
    if let Some(tid) = tid_of(thread) {
        library().world.resume(tid);
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_is_thread_suspended(thread: *mut c_void) -> c_int {
    let tid = tid_of(thread);
    c_int::from(library().world.threads().iter().any(|info| Some(info.tid) == tid && info.suspended))
}

/// Markers are started with the library.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_start_mark_threads() {
    attached();
}

/// Has an effect before the library is initialised.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_markers_count(count: u32) {
    MARKERS.store(count.min(64), Ordering::Relaxed);
}

/// Has an effect before the library is initialised.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_suspend_signal(signal: c_int) {
    SUSPEND_SIGNAL.store(signal, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_suspend_signal() -> c_int {
    SUSPEND_SIGNAL.load(Ordering::Relaxed)
}

/// The threads are not resumed by a signal: this only sets what the getter returns.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_thr_restart_signal(signal: c_int) {
    RESTART_SIGNAL.store(signal, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_thr_restart_signal() -> c_int {
    RESTART_SIGNAL.load(Ordering::Relaxed)
}
