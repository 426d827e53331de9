//! The cooperative vtable: threads poll.
//!
//! There is no signal, no interrupted system call, and no handler. In return every thread must reach a safepoint (the slow path of
//! an allocation is one, `Mutator::safepoint` another) or be in a blocking region. A thread that computes for a second without
//! reaching a safepoint delays the stop by a second. A thread that sleeps outside a blocking region makes the stop fail, with an
//! error that names it.

use super::capabilities::ByHandshake;
use super::error::StopError;
use super::handshake_stop::{self, Notifier, NotifyOutcome};
use super::stop_info::{Slot, ThreadStopInfo};
use super::stop_request::StopRequest;
use super::vtable::ThreadVtable;
use crate::os::{Tid, thread};

/// The cooperative [`ThreadVtable`]: a thread stops at its next [safepoint](crate::Mutator::safepoint) or slow allocation.
///
/// It sends no signal, so it interrupts no system call. A thread in a [blocking](crate::Mutator::blocking) region counts as
/// stopped. A thread that runs or sleeps elsewhere delays the stop until it reaches a safepoint, or makes it fail with a
/// [`StopError`] that names the thread.
#[derive(Debug, Default)]
pub struct SafepointStopper;

const NAME: &str = "safepoints";

impl Notifier for SafepointStopper {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signal(&self) -> i32 {
        0
    }

    fn notify(&self, thread: &ThreadStopInfo) -> NotifyOutcome {
        if thread::is_alive(thread.tid()) { NotifyOutcome::Maybe } else { NotifyOutcome::Gone }
    }
}

// SAFETY: a thread counts as stopped when it has parked at a safepoint or is in a blocking region, after it has pushed its
// registers and published its stack pointer. It continues only when released.
unsafe impl ThreadVtable for SafepointStopper {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        handshake_stop::stop(self, stop)
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        handshake_stop::start(stop);
    }

    // The handshake is in each thread's record: this stopper keeps no data about threads.
    fn thread_created(&self, _: Tid, _: Slot) {}

    fn thread_exited(&self, _: Tid, _: Slot) {}

    fn by_handshake(&self) -> Option<&dyn ByHandshake> {
        Some(self)
    }
}

impl ByHandshake for SafepointStopper {
    fn signal(&self) -> Option<i32> {
        None
    }

    /// Nothing: the thread polls.
    fn request_check(&self, _: &ThreadStopInfo) {}
}
