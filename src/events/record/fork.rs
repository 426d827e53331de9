//! The recorder and a fork of the process (`.fork.services`).

use super::lock::{DRAIN, Held};
use super::waiting::WRITER_WAKEUP;
use super::worlds::{self, MAX_CONSUMERS};
use super::{ring, writer};
use crate::events::sink::AfterFork;
use crate::os::barrier;
use crate::sabotage::{Guard, removed};

/// Before a fork, with the locks of all worlds held: takes the recorder's lock, so that no thread drains or changes the consumers.
pub(crate) fn before_fork() {
    DRAIN.lock().acquire();
}

/// After the fork, in the parent.
///
/// # Safety
/// This thread has called [`before_fork`], and the fork is over.
pub(crate) unsafe fn after_fork_in_parent() {
    // SAFETY: the caller's promise.
    unsafe { DRAIN.lock().release() };
}

/// After the fork, in the child (`.fork.services`).
///
/// # Safety
/// The calling thread, which called [`before_fork`] before the fork, is the only one of the process.
pub(crate) unsafe fn after_fork_in_child() {
    // SAFETY: the caller's promise.
    unsafe { DRAIN.lock().reset_in_child() };
    ring::after_fork_in_child();
    writer::forget();
    WRITER_WAKEUP.forget();
    // The registration is inherited. If it is not, there is no other thread yet that a barrier would order.
    let _ = barrier::register();
    let mut held = Held::take();
    if removed(Guard::ForkServices) {
        return;
    }
    // The records in the rings were fired by the parent, which delivers them itself.
    let mut silent = [false; MAX_CONSUMERS];
    for (slot, silent) in held.routes.consumers.iter_mut().zip(&mut silent) {
        if slot.as_ref().is_some_and(|slot| slot.consumer.forked() == AfterFork::Silence) {
            *silent = true;
            // The consumer is neither flushed nor dropped: its file and the content of its buffers belong to the parent.
            std::mem::forget(slot.take());
        }
    }
    held.discard();
    worlds::silence(&mut held.routes.histories, |slot| silent[slot]);
    held.count_lossless();
}
