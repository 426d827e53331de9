//! Who waits for whom: the writer for work, threads that fire for room, and both so that a stop need not wait for them.

use std::sync::{Mutex, PoisonError};

use super::bell::{Bell, Turnstile};
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// Wakes the writer.
pub(super) static BELL: Bell = Bell::new();
/// Wakes those who wait for room.
pub(super) static ROOM: Turnstile = Turnstile::new();
/// How many consumers are lossless: if none is, nobody waits.
pub(super) static LOSSLESS: AtomicU32 = AtomicU32::new(0);

/// `exit` has been called.
pub(super) static ENDING: AtomicBool = AtomicBool::new(false);

/// Whether the process is about to end: what is written now may be the last.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// What the rooms above know about waiting: set by the first world.
#[derive(Debug)]
pub(crate) struct Surroundings {
    /// Whether the calling thread may wait for another thread at all: it is not in the stopped world.
    pub(crate) may_wait: fn() -> bool,
    /// Runs what waits so that a stop need not wait for it.
    pub(crate) as_blocking: fn(&mut dyn FnMut()),
}

static SURROUNDINGS: AtomicPtr<Surroundings> = AtomicPtr::new(std::ptr::null_mut());

/// From now on waits are made as these say.
pub(crate) fn set_surroundings(surroundings: &'static Surroundings) {
    // Release: pairs with the acquire below.
    SURROUNDINGS.store(std::ptr::from_ref(surroundings).cast_mut(), Ordering::Release);
}

fn surroundings() -> Option<&'static Surroundings> {
    // SAFETY: null or a static. Acquire: pairs with the release above.
    unsafe { SURROUNDINGS.load(Ordering::Acquire).as_ref() }
}

/// Runs what waits for the recorder's lock, or holds it, as a blocking region: a stop must not freeze who drains.
pub(crate) fn as_blocking<R>(wait: impl FnOnce() -> R) -> R {
    let Some(surroundings) = surroundings() else { return wait() };
    let (mut wait, mut result) = (Some(wait), None);
    (surroundings.as_blocking)(&mut || result = wait.take().map(|wait| wait()));
    result.expect("the surroundings call what they are given")
}

/// Runs `f` with what the lock guards, all of it as a blocking region: a stop need not wait for it, and who is suspended
/// meanwhile stands when it is over, with no lock (`.debug.frozen-waiter`).
pub(crate) fn locked<T, R>(mutex: &Mutex<T>, f: impl FnOnce(&mut T) -> R) -> R {
    as_blocking(|| f(&mut mutex.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Whether the calling thread may wait for another thread at all.
pub(super) fn may_wait() -> bool {
    surroundings().is_none_or(|surroundings| (surroundings.may_wait)())
}
