//! The cooperative vtable: threads look by themselves.
//!
//! No signal, no interrupted system call, no handler. In return a thread must come to a safepoint (each allocation's slow path is one,
//! `Mutator::safepoint` another) or be in a blocking region; one that computes for a second without either delays the
//! stop by a second, and one that sleeps outside a blocking region makes it fail by name.

use super::ask::{self, Teller, Told};
use super::error::StopError;
use super::stop_info::ThreadStopInfo;
use super::vtable::{StopRequest, ThreadVtable};
use crate::os::thread;

/// Stops threads where they poll. See the module's text.
#[derive(Debug, Default)]
pub struct SafepointStopper;

const NAME: &str = "safepoints";

impl Teller for SafepointStopper {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signal(&self) -> i32 {
        0
    }

    fn tell(&self, thread: &ThreadStopInfo) -> Told {
        if thread::is_alive(thread.tid()) { Told::Maybe } else { Told::Gone }
    }
}

// SAFETY: a thread stands when it has parked at a safepoint or is in a blocking region, after it has pushed its registers and
// published; it goes on only when released.
unsafe impl ThreadVtable for SafepointStopper {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        ask::stop(self, stop)
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        ask::start(stop);
    }

    fn handshake_signal(&self) -> Option<i32> {
        Some(0)
    }
}
