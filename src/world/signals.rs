//! The default vtable: sends a signal to each thread that is not stopped already.
//!
//! It works as Boehm's collector under Mono: each thread's handler stores its stack pointer in the thread's record, acknowledges,
//! and waits on the thread's semaphore. There are four differences. Everything is stored before the acknowledgement; a restart is
//! not acknowledged; threads in blocking regions are not signalled at all; and a thread that does not acknowledge is named in an
//! error, where Boehm's collector aborts.
//!
//! A system call that the signal interrupts is restarted (SA_RESTART). Those that Linux never restarts (nanosleep, poll,
//! epoll_wait, select …) return EINTR, as POSIX specifies (`.stop.eintr`). In a blocking region they are not interrupted.

use crate::os::{Errno, Tid};

use super::capabilities::ByHandshake;
use super::error::StopError;
use super::handler;
use super::handshake_stop::{self, Notifier, NotifyOutcome};
use super::setup_error::SetupError;
use super::stop_info::{Slot, ThreadStopInfo};
use super::stop_request::StopRequest;
use super::vtable::ThreadVtable;

/// The default [`ThreadVtable`]: stops each running thread with a signal, at any instruction.
///
/// The handler stores the thread's stack pointer in its [`ThreadStopInfo`], acknowledges, and waits until the restart. Threads in
/// [blocking](crate::Mutator::blocking) regions are not signalled. The signal interrupts system calls: most are restarted, but
/// nanosleep, poll, epoll_wait, select and others return EINTR.
#[derive(Debug)]
pub struct SignalStopper {
    signal: i32,
}

impl SignalStopper {
    /// Installs the handler for the signal number `signal` in the process, unless it is installed already. The handler stays
    /// installed when the stopper is dropped. It passes other uses of the signal on to the previous handler.
    ///
    /// # Errors
    /// `signal` cannot suspend threads, the process already uses another suspend signal, or the system refused.
    pub fn new(signal: i32) -> Result<Self, SetupError> {
        handler::install(signal)?;
        Ok(Self { signal })
    }
}

const NAME: &str = "signals";

impl Notifier for SignalStopper {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signal(&self) -> i32 {
        self.signal
    }

    fn notify(&self, thread: &ThreadStopInfo) -> NotifyOutcome {
        match handler::send(thread, self.signal) {
            Err(Errno::ESRCH) => NotifyOutcome::Gone,
            // EAGAIN: the queue of real-time signals is full. The signal is sent again later (`.stop.lost`).
            _ => NotifyOutcome::Maybe,
        }
    }
}

// SAFETY: the handler acknowledges after it has published, and returns only when released. `stop` returns Ok only when all
// have acknowledged. Nothing here allocates before the threads are released.
unsafe impl ThreadVtable for SignalStopper {
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

impl ByHandshake for SignalStopper {
    fn signal(&self) -> Option<i32> {
        Some(self.signal)
    }

    fn request_check(&self, thread: &ThreadStopInfo) {
        self.notify(thread);
    }
}
