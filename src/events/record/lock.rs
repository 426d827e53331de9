//! The recorder's lock, and the process's drain, which is accessible only under it.

use super::drain::{Drain, PATIENCE_NS};
use super::waiting::is_ending;
use crate::os::clock::now_ns;
use crate::os::signals::FailingWrites;
use crate::sync::{LockGuard, Locked, fence_past_the_caches};

/// The drain, and the recorder's lock.
// SAFETY: there is no other drain of the threads' rings.
pub(super) static DRAIN: Locked<Drain> = Locked::new(unsafe { Drain::new() });

/// The recorder's lock, held. While it is held, a failing file is reported only by an error, not by a signal (`.event.full-disk`): the
/// draining thread may be any thread of the program.
pub(super) struct Held {
    _failing_writes: FailingWrites,
    lock: LockGuard<'static>,
}

impl Held {
    /// Waits for the lock. To be called only inside [`as_blocking`](super::waiting::as_blocking).
    pub(super) fn take() -> Held {
        Held::with(DRAIN.lock().lock())
    }

    pub(super) fn try_take() -> Option<Held> {
        DRAIN.lock().try_lock().ok().map(Held::with)
    }

    fn with(lock: LockGuard<'static>) -> Held {
        Held { _failing_writes: FailingWrites::are_errors(), lock }
    }

    /// Waits for the lock for up to `ns` nanoseconds.
    pub(super) fn take_within(ns: u64) -> Option<Held> {
        let end = now_ns() + ns;
        loop {
            match DRAIN.lock().lock_slice(end.saturating_sub(now_ns())) {
                Ok(lock) => return Some(Held::with(lock)),
                Err(_) if now_ns() >= end => return None,
                Err(_) => {}
            }
        }
    }
}

/// Consumers may have written past the caches, and may continue on another thread.
impl Drop for Held {
    fn drop(&mut self) {
        fence_past_the_caches();
    }
}

impl std::ops::Deref for Held {
    type Target = Drain;

    fn deref(&self) -> &Drain {
        DRAIN.get(&self.lock)
    }
}

impl std::ops::DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Drain {
        DRAIN.get_mut(&mut self.lock)
    }
}

/// Drains if no other thread holds the lock. For a thread that has waited for room and has got none.
pub(super) fn drain_if_nobody_does() {
    if let Some(mut held) = Held::try_take().filter(|_| !is_ending()) {
        held.drain(PATIENCE_NS);
        held.count_lossless();
    }
}
