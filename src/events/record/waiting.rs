//! Waiting: the writer waits for work, and firing threads wait for room. Threads wait in blocking regions, so that a stop need not wait
//! for them.

use std::sync::{Mutex, PoisonError};

use crate::sync::notify::{EventCount, Notify};
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// Wakes the writer.
pub(super) static WRITER_WAKEUP: Notify = Notify::new();
/// Wakes the threads that wait for room.
pub(super) static ROOM: EventCount = EventCount::new();
/// The number of lossless consumers. If there is none, no thread waits.
pub(super) static LOSSLESS: AtomicU32 = AtomicU32::new(0);

/// Whether `exit` has been called.
pub(super) static ENDING: AtomicBool = AtomicBool::new(false);

/// Returns whether the process is about to exit: the present write may be the last one.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// Functions of the higher modules that decide how a thread may wait. Set by the first world.
#[derive(Debug)]
pub(crate) struct Surroundings {
    /// Returns whether the calling thread may wait for another thread at all: it is not in the stopped world.
    pub(crate) may_wait: fn() -> bool,
    /// Runs a function that waits in such a way that a stop need not wait for it.
    pub(crate) as_blocking: fn(&mut dyn FnMut()),
}

static SURROUNDINGS: AtomicPtr<Surroundings> = AtomicPtr::new(std::ptr::null_mut());

/// Makes waits use these functions from now on.
pub(crate) fn set_surroundings(surroundings: &'static Surroundings) {
    // Release: pairs with the acquire below.
    SURROUNDINGS.store(std::ptr::from_ref(surroundings).cast_mut(), Ordering::Release);
}

fn surroundings() -> Option<&'static Surroundings> {
    // SAFETY: null or a static. Acquire: pairs with the release above.
    unsafe { SURROUNDINGS.load(Ordering::Acquire).as_ref() }
}

/// Runs a function that waits for the recorder's lock, or holds it, as a blocking region: a stop must not suspend a thread that drains.
pub(crate) fn as_blocking<R>(wait: impl FnOnce() -> R) -> R {
    let Some(surroundings) = surroundings() else { return wait() };
    let (mut wait, mut result) = (Some(wait), None);
    (surroundings.as_blocking)(&mut || result = wait.take().map(|wait| wait()));
    result.expect("`as_blocking` calls the function that it is given")
}

/// Runs `wait` in a blocking region, so that a stop does not wait for this thread, if the thread is attached to a world. `wait` is
/// `Send`, which keeps every `Gc` out of it.
pub fn in_blocking_region<R: Send>(wait: impl FnOnce() -> R + Send) -> R {
    as_blocking(wait)
}

/// Runs `f` with what the mutex guards, in a blocking region from before the wait for the lock until after its release. So a stop
/// does not wait for this thread; and if the thread is suspended meanwhile, it parks at the end of the region, without the lock
/// (`.debug.frozen-waiter`). `f` is `Send`, which keeps every `Gc` out of it. A poisoned mutex is locked like any other.
///
/// # Deadlock
/// `f` must not lock the same mutex.
pub fn locked<T: Send, R: Send>(mutex: &Mutex<T>, f: impl FnOnce(&mut T) -> R + Send) -> R {
    as_blocking(|| f(&mut mutex.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Whether the calling thread may wait for another thread at all.
pub(super) fn may_wait() -> bool {
    surroundings().is_none_or(|surroundings| (surroundings.may_wait)())
}
