//! Waiting on one word of memory.
//!
//! The futexes are private (no other process shares the words). Both calls are async-signal-safe, preserve `errno`
//! (`.stop.errno`) and can be used while the world is stopped: they take no lock outside the kernel.

use crate::os::preserving_errno;
use crate::sync::AtomicU32;

/// Why [`wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexWait {
    /// Woken by another thread, or spuriously: check the word.
    Woken,
    /// The word did not hold the expected value when the kernel looked.
    Changed,
    /// The timeout has expired.
    TimedOut,
    /// A signal handler ran. The kernel does not restart timed waits.
    Interrupted,
}

/// Sleeps while `word` holds `expected`, at most `timeout_ns` nanoseconds (relative, CLOCK_MONOTONIC).
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) -> FutexWait {
    let ts = timeout_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let ts = ts.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    preserving_errno(|| {
        // SAFETY: the word outlives the call (we hold a reference); `ts` is null or points to the live timespec above.
        let r = unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, expected, ts)
        };
        if r == 0 {
            return FutexWait::Woken;
        }
        // SAFETY: errno of this thread, see `preserving_errno`.
        match unsafe { *libc::__errno_location() } {
            libc::EAGAIN => FutexWait::Changed,
            libc::ETIMEDOUT => FutexWait::TimedOut,
            _ => FutexWait::Interrupted,
        }
    })
}

/// Wakes at most `n` threads that wait on `word`. Returns the number of threads woken.
pub fn wake(word: &AtomicU32, n: u32) -> u32 {
    let n = n.min(i32::MAX as u32) as i32;
    preserving_errno(|| {
        // SAFETY: the kernel only uses the address as a key. A stale address causes no wake or a spurious one, never a fault.
        let r =
            unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, n) };
        u32::try_from(r).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn a_changed_word_does_not_wait() {
        assert_eq!(wait(&AtomicU32::new(1), 0, None), FutexWait::Changed);
    }

    #[test]
    fn a_wait_ends_after_its_timeout() {
        assert_eq!(wait(&AtomicU32::new(0), 0, Some(1_000_000)), FutexWait::TimedOut);
    }

    /// `.stop.errno`
    #[test]
    fn errno_survives_a_wait_that_failed() {
        nix::errno::Errno::set_raw(libc::E2BIG);
        wait(&AtomicU32::new(1), 0, None);
        assert_eq!(nix::errno::Errno::last_raw(), libc::E2BIG);
    }

    #[test]
    fn a_waiter_is_woken() {
        let word = AtomicU32::new(0);
        std::thread::scope(|s| {
            s.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    wait(&word, 0, None);
                }
            });
            word.store(1, Ordering::Release);
            wake(&word, 1);
        });
    }
}
