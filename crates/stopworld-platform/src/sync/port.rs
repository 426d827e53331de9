//! The parking port: how a protocol file sleeps, and how it identifies the current thread.
//!
//! All operations are async-signal-safe, and none allocates. The model checker brings its own port with the same names. The
//! contract that both keep, and on which everything above relies:
//!
//! * [`wait`] compares and falls asleep as one step with respect to [`wake`] on the same word: a waker that first
//!   changes the word and then wakes is never missed.
//! * [`wait`] may return for no reason at all. Callers check the word again.
//! * Neither orders memory for the caller: the atomics on the word do.

#[allow(unused_imports, reason = "the port is complete, even if not all of it is used")]
pub use crate::os::futex::{FutexWait, wait, wake};

/// The kernel's id of the calling thread, by the raw system call (no thread-local storage).
pub fn current_tid() -> u32 {
    crate::os::thread::gettid().0 as u32
}
