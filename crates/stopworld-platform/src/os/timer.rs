//! Timers that interrupt the thread that made them, for the `hammer` workload.

use std::io;

use super::signals::{self, HandlerStack};
use super::thread::gettid;

/// The signal of a timer.
const SIGNAL: i32 = libc::SIGALRM;

/// A periodic timer of the calling thread: it sends a signal to this thread until it is dropped.
pub struct OwnTimer(libc::timer_t);

impl OwnTimer {
    /// Interrupts the calling thread every `period_ns` of real time. The process's action for SIGALRM becomes an empty handler (after
    /// which the kernel restarts the interrupted system call). The handler stays installed: a last signal may still be pending when a
    /// timer is dropped.
    pub fn start(period_ns: i64) -> io::Result<OwnTimer> {
        // SAFETY: a handler that does nothing; SIGALRM becomes this timer's, as documented above.
        unsafe { signals::install(SIGNAL, nothing, HandlerStack::Own) }?;
        // SAFETY: all-zero is a valid sigevent, whose fields are then filled in.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNAL;
        event.sigev_notify_thread_id = gettid().0;
        let mut timer = std::ptr::null_mut();
        // SAFETY: the event is complete and the thread exists: it is this one.
        if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let timer = OwnTimer(timer);
        let period = libc::timespec { tv_sec: period_ns / 1_000_000_000, tv_nsec: period_ns % 1_000_000_000 };
        let setting = libc::itimerspec { it_interval: period, it_value: period };
        // SAFETY: a timer that was just made, and a valid setting.
        match unsafe { libc::timer_settime(timer.0, 0, &setting, std::ptr::null_mut()) } {
            0 => Ok(timer),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for OwnTimer {
    fn drop(&mut self) {
        // SAFETY: made by timer_create, deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

extern "C" fn nothing(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}
