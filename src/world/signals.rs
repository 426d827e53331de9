//! The default vtable: a signal to each thread that does not stand already.
//!
//! As in Boehm's collector under Mono: each thread's handler stores its stack pointer in the thread's record, says that it is
//! ready and waits on a semaphore of its own. Other than there, everything is stored before the acknowledgement, nobody acknowledges
//! the restart, threads in blocking regions are not signalled at all, and a thread that can't answer is named instead of aborting.
//!
//! A system call that the signal interrupts is restarted (SA_RESTART), but those that Linux never restarts (nanosleep, poll,
//! epoll_wait, select …) return EINTR, as POSIX says (`.stop.eintr`). In a blocking region they are not interrupted.

use crate::os::Errno;

use super::ask::{self, Teller, Told};
use super::error::StopError;
use super::handler;
use super::setup_error::SetupError;
use super::stop_info::ThreadStopInfo;
use super::vtable::{StopRequest, ThreadVtable};

/// Stops threads by a signal. See the module's text.
#[derive(Debug)]
pub struct SignalStopper {
    signal: i32,
}

impl SignalStopper {
    /// Installs the process-wide handler for `signal`, unless it is there already.
    pub fn new(signal: i32) -> Result<Self, SetupError> {
        handler::install(signal)?;
        Ok(Self { signal })
    }
}

const NAME: &str = "signals";

impl Teller for SignalStopper {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signal(&self) -> i32 {
        self.signal
    }

    fn tell(&self, thread: &ThreadStopInfo) -> Told {
        match handler::send(thread, self.signal) {
            Err(Errno::ESRCH) => Told::Gone,
            // EAGAIN: the queue of real-time signals is full; told again later (`.stop.lost`).
            _ => Told::Maybe,
        }
    }
}

// SAFETY: the handler acknowledges after it has published, and runs on only when released; `ask` returns Ok only when all
// have acknowledged. Nothing there allocates before the threads are let go.
unsafe impl ThreadVtable for SignalStopper {
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
        Some(self.signal)
    }

    fn nudge(&self, thread: &ThreadStopInfo) {
        self.tell(thread);
    }
}
