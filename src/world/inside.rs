//! Tracks the threads that are inside the stopped world.
//!
//! From the first signal of a stop to the last release, the collecting thread and the markers that it waits for may
//! not allocate from malloc, print, or take a lock of libc: a stopped thread may hold it (`.stop.no-malloc`,
//! `.stop.locks`). The types do not show this rule, so it is checked at run time: a thread is noted here while it is inside,
//! and the project's tests install an allocator and interpose malloc; both call [`is_inside`] and
//! abort (`tests/no_malloc.rs`).
//!
//! The table of tracked threads is a few words per process, written twice per collection by the collecting thread, and twice per phase by
//! each marker; mutators do not use it. It is not in thread-local storage, whose first use would allocate in a library that was loaded late.

use crate::os::{Tid, thread};
use crate::sync::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// The largest number of threads that are tracked at a time, in all worlds: collecting threads and markers. For any further thread,
/// [`is_inside`] returns false, and from then on [`may_be_inside`] returns true for every thread.
const TRACKED: usize = 1024;

static COUNT: AtomicU32 = AtomicU32::new(0);
static THREADS: [AtomicI32; TRACKED] = [const { AtomicI32::new(0) }; TRACKED];
/// Whether a thread found no slot.
static WAS_FULL: AtomicBool = AtomicBool::new(false);

/// Notes that the calling thread is inside from now on.
pub(crate) fn enter() {
    enter_as(thread::gettid());
}

/// [`enter`] without the system call, for a caller that knows its id.
pub(crate) fn enter_as(Tid(me): Tid) {
    // Relaxed here and below: a thread only looks for itself.
    for slot in &THREADS {
        if slot.load(Ordering::Relaxed) == 0
            && slot.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            COUNT.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
    WAS_FULL.store(true, Ordering::Relaxed);
}

/// Notes that the calling thread is outside from now on. Does nothing if it was not inside.
pub(crate) fn leave() {
    if COUNT.load(Ordering::Relaxed) != 0 {
        leave_as(thread::gettid());
    }
}

/// [`leave`] without the system call, for a caller that knows its id.
pub(crate) fn leave_as(Tid(me): Tid) {
    if let Some(slot) = THREADS.iter().find(|slot| slot.load(Ordering::Relaxed) == me) {
        slot.store(0, Ordering::Relaxed);
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether the calling thread is inside. Async-signal-safe, without allocation: for use inside malloc.
pub fn is_inside() -> bool {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let me = thread::gettid().0;
    THREADS.iter().any(|slot| slot.load(Ordering::Relaxed) == me)
}

/// Returns whether the calling thread is inside, or may be because the table was full at some time. A thread for which this is false may
/// wait for another one. Async-signal-safe, without allocation.
pub(crate) fn may_be_inside() -> bool {
    WAS_FULL.load(Ordering::Relaxed) || is_inside()
}

/// In the child of a fork: no thread is inside.
pub(crate) fn reset_in_child() {
    THREADS.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
    COUNT.store(0, Ordering::Relaxed);
    WAS_FULL.store(false, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_inside_from_enter_to_leave_and_others_are_not() {
        assert!(!is_inside());
        enter();
        assert!(is_inside());
        assert!(!std::thread::spawn(is_inside).join().unwrap());
        leave();
        leave();
        assert!(!is_inside());
    }

    /// A thread that is not tracked must not wait in the stopped world (`.event.no-block-in-handler`). In a child process, because the
    /// other tests' threads use the same table.
    #[test]
    fn a_thread_that_finds_the_table_full_may_be_inside() {
        // SAFETY: the child runs code without locks or allocation on its one thread, and exits.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            reset_in_child();
            let before = may_be_inside();
            THREADS.iter().for_each(|slot| slot.store(i32::MAX, Ordering::Relaxed));
            enter();
            let right = !before && !is_inside() && may_be_inside();
            // SAFETY: ends the child without the destructors of its parent.
            unsafe { libc::_exit(if right { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: a child of this process, and a valid place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child's exit status");
    }
}
