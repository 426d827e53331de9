//! Threads of POSIX, through the names that `gc.h` gives them. A thread that is created otherwise is attached when it allocates.
//!
//! Between the creation of a thread and its first instruction, its argument is in a table, and so is its result until it is joined: both
//! may be the only pointer to an object.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use crate::environment::SUSPEND_SIGNAL;
use crate::lock::LOCK;
use crate::sync::Ordering;
use crate::tables::objects::KEPT_WORDS;
use crate::thread::{attached, detach, library};

type Routine = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

unsafe extern "C-unwind" {
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        routine: Routine,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_attr_getdetachstate(attributes: *const libc::pthread_attr_t, state: *mut c_int) -> c_int;
    fn pthread_exit(result: *mut c_void) -> !;
    fn pthread_join(thread: libc::pthread_t, result: *mut *mut c_void) -> c_int;
}

/// What a new thread does. Its address is the key of the argument in the table.
struct Start {
    routine: Routine,
    argument: *mut c_void,
}

fn keep(key: usize, word: usize) {
    KEPT_WORDS.get(&LOCK.lock()).insert(key, word);
}

fn forget(key: usize) {
    KEPT_WORDS.get(&LOCK.lock()).remove(&key);
}

/// Whether another thread may join the calling one.
fn is_joinable() -> bool {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut state = libc::PTHREAD_CREATE_JOINABLE;
    // SAFETY: the attributes of the calling thread, which are destroyed if they were made.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) == 0 {
            pthread_attr_getdetachstate(attributes.as_ptr(), &mut state);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
        }
    }
    state == libc::PTHREAD_CREATE_JOINABLE
}

fn keep_result(result: *mut c_void) {
    if !result.is_null() && is_joinable() {
        // SAFETY: has no precondition.
        keep(unsafe { libc::pthread_self() } as usize, result as usize);
    }
}

unsafe extern "C-unwind" fn run(start: *mut c_void) -> *mut c_void {
    attached().is_registered.set(true);
    // SAFETY: made by `GC_pthread_create` for this thread.
    let Start { routine, argument } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    forget(start as usize);
    // SAFETY: the program's function. If it ends the thread, the destructor of the thread's key detaches it.
    let result = unsafe { routine(argument) };
    keep_result(result);
    detach();
    result
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    routine: Routine,
    argument: *mut c_void,
) -> c_int {
    library();
    let start = Box::into_raw(Box::new(Start { routine, argument }));
    keep(start as usize, argument as usize);
    // SAFETY: the program's arguments, and a function that takes the box.
    let error = unsafe { pthread_create(thread, attributes, run, start.cast()) };
    if error != 0 {
        forget(start as usize);
        // SAFETY: no thread was created.
        drop(unsafe { Box::from_raw(start) });
    }
    error
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_pthread_join(thread: libc::pthread_t, result: *mut *mut c_void) -> c_int {
    // The thread waits in libc, where it can be stopped.
    // SAFETY: the program's arguments.
    let error = unsafe { pthread_join(thread, result) };
    if error == 0 {
        forget(thread as usize);
    }
    error
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_pthread_detach(thread: libc::pthread_t) -> c_int {
    // SAFETY: the program's argument.
    let error = unsafe { libc::pthread_detach(thread) };
    if error == 0 {
        forget(thread as usize);
    }
    error
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_pthread_cancel(thread: libc::pthread_t) -> c_int {
    // SAFETY: the program's argument.
    unsafe { libc::pthread_cancel(thread) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_pthread_exit(result: *mut c_void) -> ! {
    keep_result(result);
    // SAFETY: ends the calling thread.
    unsafe { pthread_exit(result) }
}

/// The suspend signal is never blocked.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_pthread_sigmask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    // SAFETY: the program's promise: null, or a set.
    let mut changed = unsafe { set.as_ref() }.copied();
    if let Some(set) = &mut changed
        && how != libc::SIG_UNBLOCK
    {
        // SAFETY: a valid set.
        unsafe { libc::sigdelset(set, SUSPEND_SIGNAL.load(Ordering::Relaxed)) };
    }
    let set = changed.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the program's arguments.
    unsafe { libc::pthread_sigmask(how, set, old) }
}
