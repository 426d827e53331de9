//! Waits for the end of the finalizer thread when a world closes.

use crate::collector::finalize::Finalizers;
use crate::os::clock::now_ns;
use crate::os::{self, futex};
use crate::sync::Ordering;

/// Reports the thread's end to `wait_for_end` when dropped, also by a panic.
pub(super) struct EndOfThread<'a>(pub(super) &'a Finalizers);

impl Drop for EndOfThread<'_> {
    fn drop(&mut self) {
        let Finalizers { ended, thread, .. } = self.0;
        thread.store(0, Ordering::Relaxed);
        // Release pairs with the Acquire in `wait_for_end`, which then sees everything that the finalizers did.
        ended.store(1, Ordering::Release);
        futex::wake(ended, u32::MAX);
    }
}

/// Waits until the thread has ended, or until `deadline`, and returns whether it has ended. If a finalizer or a drop calls this, on
/// the finalizer thread itself, it returns `true` at once: the thread runs the rest of its queue afterwards.
pub(super) fn wait_for_end(finalizers: &Finalizers, deadline: u64) -> bool {
    if finalizers.thread.load(Ordering::Relaxed) == os::thread::gettid().0 as u32 {
        return true;
    }
    loop {
        // Acquire pairs with the Release in `EndOfThread`.
        if finalizers.ended.load(Ordering::Acquire) == 1 {
            return true;
        }
        let now = now_ns();
        if now >= deadline {
            return false;
        }
        futex::wait(&finalizers.ended, 0, Some(deadline - now));
    }
}
