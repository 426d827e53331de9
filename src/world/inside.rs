//! Tracks the threads that are inside the stopped world.
//!
//! From the first signal of a stop to the last release, the collecting thread and the markers that it waits for may
//! not allocate from malloc, print, or take a lock of libc: a stopped thread may hold it (`.stop.no-malloc`,
//! `.stop.locks`). The types do not show this rule, so it is checked at run time: a thread is noted here while it is inside,
//! and the project's tests install an allocator and interpose malloc; both call [`is_inside`] and
//! abort (`tests/no_malloc.rs`).
//!
//! This is a few words per process, written twice per collection; mutators do not use it. It is not thread-local storage, whose
//! first use would allocate in a library that was loaded late.

use crate::os::thread;
use crate::sync::{AtomicI32, AtomicU32, Ordering};

/// The largest number of threads that are tracked at a time. For any further thread, [`is_inside`] returns false.
const WATCHED: usize = 64;

static COUNT: AtomicU32 = AtomicU32::new(0);
static THREADS: [AtomicI32; WATCHED] = [const { AtomicI32::new(0) }; WATCHED];

/// Notes that the calling thread is inside from now on.
pub(crate) fn enter() {
    let me = thread::gettid().0;
    // Relaxed here and below: a thread only looks for itself.
    for slot in &THREADS {
        if slot.load(Ordering::Relaxed) == 0
            && slot.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            COUNT.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
}

/// Notes that the calling thread is outside from now on. Does nothing if it was not inside.
pub(crate) fn leave() {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    let me = thread::gettid().0;
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

/// In the child of a fork: no thread is inside.
pub(crate) fn reset_in_child() {
    THREADS.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
    COUNT.store(0, Ordering::Relaxed);
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
}
