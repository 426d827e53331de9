//! Which threads run code that the collector calls, and what such code may not do (`.stop.no-mutator`).
//!
//! An event sink and a thread vtable are the program's code, but the collector calls them: while it holds its locks, and while
//! the world is stopped. An object that is allocated there after the roots were scanned is swept although it is in use; a
//! reference that is moved from an object that has not been scanned into one that has is missed; a lock that the collecting
//! thread holds is waited for until the end of the world. None of this shows in the types: a `Mutator` may lie in a
//! thread-local, and a `Root` anywhere.
//!
//! So a thread counts here how deep it is in such code, and every function of the interface that uses the heap or the list
//! of threads asks before it does anything. The answer to a caller in such code is the end of the process with one line that names the function:
//! a panic would format its message, which allocates, and would leave the world stopped in the middle of a collection.
//!
//! The fast path of an allocation does not ask. A collecting thread *closes* its allocation cache before it stops the
//! world, so that the next allocation of any size takes the slow path, which asks
//! (`AllocationCache::close` of the collector).
//!
//! Thread-local storage is safe here although its first use may allocate: the collecting thread and the markers have used
//! that of this library before the world stops.

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
    /// Begins.
    #[inline]
    pub fn begin() -> Callback {
        // Saturating: guards that are forgotten, however many, never bring the depth back to 0.
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

/// Aborts the process if the calling thread runs code in which `operation`, a function's name, must not be called.
#[inline(always)]
pub fn refuse_inside(operation: &'static str) {
    if DEPTH.get() != 0 && !removed(Guard::StopNoMutator) {
        abort(operation);
    }
}

/// Writes the line with system calls only, and ends the process.
#[cold]
#[inline(never)]
fn abort(operation: &str) -> ! {
    let parts = [
        "stopworld: ",
        operation,
        " was called by an event sink or a thread vtable, which must not use the heap: keep what it needs in memory of its own, and \
         use the heap when the event is over; the process is aborted\n",
    ];
    for part in parts {
        // SAFETY: a readable string of this length. A failed write leaves nothing that could be done better.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
    std::process::abort()
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
