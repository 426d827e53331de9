//! Detects code that the collector calls, and enforces what such code must not do (`.stop.no-mutator`).
//!
//! Event sinks and thread vtables are code of the program that the collector calls, while it holds its locks and while the
//! world is stopped. Such code must not use the heap: an object that is allocated after the roots were scanned is swept
//! although it is in use; a reference that is moved from an unscanned object into a scanned one is missed; a wait for a lock
//! that the collecting thread holds never ends. The types cannot prevent such a use: a `Mutator` may be in a thread-local, and
//! a `Root` anywhere.
//!
//! Each thread therefore counts how deep it is in such code, and every public function that uses the heap or the thread list
//! checks this count first. If it is not 0, the function aborts the process with one line that names the function. It does not
//! panic: a panic would format its message, which allocates, and would leave the world stopped in the middle of a collection.
//!
//! The fast path of an allocation does not check. A collecting thread *closes* its allocation cache before it stops the world,
//! so that the next allocation of any size takes the slow path, which checks (`AllocationCache::close` of the collector).
//!
//! Thread-local storage is safe here although its first use may allocate: the collecting thread and the markers use this
//! library's thread-locals before the world stops (for markers: `.mark.start`).

use std::cell::Cell;
use std::marker::PhantomData;

use crate::sabotage::{Guard, removed};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While this exists, the calling thread runs code in which the heap must not be used.
#[must_use = "ends when it is dropped"]
pub struct Callback(PhantomData<*mut ()>);

impl Callback {
    /// Marks the calling thread as running code in which the heap must not be used, until the guard is dropped.
    #[inline]
    pub fn begin() -> Callback {
        // Saturating: any number of forgotten guards cannot wrap the depth to 0.
        DEPTH.set(DEPTH.get().saturating_add(1));
        Callback(PhantomData)
    }
}

impl Drop for Callback {
    #[inline]
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Calls code of the program under locks of a world, or in the stopped world: in it the heap must not be used, and a panic aborts
/// the process. Unwinding would leave the stop, the swap or the fork around it half done.
#[inline]
pub fn call<R>(code: impl FnOnce() -> R) -> R {
    let _callback = Callback::begin();
    or_abort("a thread vtable panicked under the locks of a world", code)
}

/// Runs code in which a panic aborts the process, with a line that says what has happened.
#[inline]
pub fn or_abort<R>(what: &'static str, code: impl FnOnce() -> R) -> R {
    let unwound = AbortsWhenDropped(what);
    let result = code();
    std::mem::forget(unwound);
    result
}

/// Dropped only by a panic.
struct AbortsWhenDropped(&'static str);

impl Drop for AbortsWhenDropped {
    fn drop(&mut self) {
        write(&["stopworld: ", self.0, "; aborting the process\n"]);
        std::process::abort()
    }
}

/// Aborts the process if the calling thread runs code in which `operation`, a function's name, must not be called.
#[inline(always)]
pub fn refuse_inside(operation: &'static str) {
    if DEPTH.get() != 0 && !removed(Guard::StopNoMutator) {
        abort(operation);
    }
}

/// Writes the line with system calls only, and aborts the process.
#[cold]
#[inline(never)]
fn abort(operation: &str) -> ! {
    write(&[
        "stopworld: ",
        operation,
        " was called by an event sink, a thread vtable or a binding, which must not use the heap: keep its data in memory of its own, and \
         use the heap after the callback has returned; aborting the process\n",
    ]);
    std::process::abort()
}

/// Writes to standard error with system calls only.
fn write(parts: &[&str]) {
    for part in parts {
        // SAFETY: a readable string of this length. If the write fails, nothing more can be done.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_nest_and_are_counted_for_each_thread() {
        let outer = Callback::begin();
        drop(Callback::begin());
        assert_eq!(DEPTH.get(), 1);
        assert_eq!(std::thread::spawn(|| DEPTH.get()).join().unwrap(), 0);
        drop(outer);
        refuse_inside("nothing");
    }
}
