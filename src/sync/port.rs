//! The parking port: how a protocol file sleeps, and who it is.
//!
//! Four operations, all async-signal-safe, none allocating. The model checker brings its own port with the same
//! names. The contract that both keep, and that everything above relies on:
//!
//! * [`wait`] compares and falls asleep as one step with respect to [`wake`] on the same word: a waker that first
//!   changes the word and then wakes is never missed.
//! * [`wait`] may return for no reason at all. Callers look at the word again.
//! * Neither orders memory for the caller: the atomics on the word do.

use crate::sync::AtomicU32;

/// Why [`wait`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FutexWait {
    /// Somebody woke us (or the kernel did for no reason: look at the word).
    Woken,
    /// The word did not hold the expected value when the kernel looked.
    Changed,
    /// The time is over.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

/// Sleeps while `word` holds `expected`, at most `timeout_ns`.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) -> FutexWait {
    let timeout = timeout_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: errno is this thread's own word.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word outlives the call (we hold a reference); `timeout` is null or points to the live timespec.
    let result = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, timeout) };
    if result == 0 {
        return FutexWait::Woken;
    }
    // SAFETY: as above. The handler calls this: it must leave errno as it was (`.stop.eintr`).
    let failed = unsafe { errno.replace(before) };
    match failed {
        libc::EAGAIN => FutexWait::Changed,
        libc::ETIMEDOUT => FutexWait::TimedOut,
        _ => FutexWait::Interrupted,
    }
}

/// Wakes at most `n` threads that sleep on `word`; says how many.
pub(crate) fn wake(word: &AtomicU32, n: u32) -> u32 {
    let n = n.min(i32::MAX as u32);
    // SAFETY: the kernel uses the address as a key only. It can't fail for a valid private futex, so errno stays.
    let woken =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, n) };
    u32::try_from(woken).unwrap_or(0)
}

/// The kernel's number of the calling thread, by the raw system call (no thread-local storage).
pub(crate) fn current_tid() -> u32 {
    // SAFETY: gettid has no preconditions and always succeeds.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    tid as u32
}
