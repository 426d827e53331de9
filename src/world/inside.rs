//! Which threads are inside the stopped world right now.
//!
//! From the first signal of a stop to the last release, the collecting thread and the markers that it waits for may
//! not allocate from malloc, print, or take a lock of libc: a stopped thread may hold it (`.stop.no-malloc`,
//! `.stop.locks`). The rule can't be seen in the types, so it is watched: a thread is noted here while it is inside,
//! and the project's tests put an allocator and an interposed malloc under themselves which ask [`is_inside`] and
//! abort (`tests/no_malloc.rs`).
//!
//! A few words per process, written twice per collection; mutators never come here. No thread-local storage: in a
//! library that was loaded late its first use would allocate.

use crate::os::thread;
use crate::sync::{AtomicI32, AtomicU32, Ordering};

/// How many threads are watched at a time. Those beyond are not: this is a lens, not a guard.
const WATCHED: usize = 64;

static COUNT: AtomicU32 = AtomicU32::new(0);
static THREADS: [AtomicI32; WATCHED] = [const { AtomicI32::new(0) }; WATCHED];

/// The calling thread is inside from now on.
pub(crate) fn enter() {
    let me = thread::gettid().0;
    // Relaxed here and below: a thread only ever looks for itself.
    for slot in &THREADS {
        if slot.load(Ordering::Relaxed) == 0
            && slot.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            COUNT.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
}

/// The calling thread is outside from now on. Does nothing if it was not inside.
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

/// Whether the calling thread is inside. Async-signal-safe, no allocation: for use inside malloc.
pub fn is_inside() -> bool {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let me = thread::gettid().0;
    THREADS.iter().any(|slot| slot.load(Ordering::Relaxed) == me)
}

/// In a fork's child: nobody is stopping anything.
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
