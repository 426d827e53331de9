//! A counting semaphore on one futex word.
//!
//! ```text
//!   31           16 15            0
//!  +---------------+---------------+
//!  |   sleepers    |    permits    |
//!  +---------------+---------------+
//! ```
//!
//! Permits and sleepers share one word so that one atomic access reads both. With two words a poster could read "no sleeper" while
//! the sleeper reads "no permit" (both stores still in their store buffers), and the wake would be lost. With one word this cannot
//! happen, and no fence is needed.
//!
//! A thread counts itself as a sleeper before its last check for a permit, and stays counted until it takes one. So a poster
//! wakes no thread, and makes no system call, unless a thread may really be asleep.
//!
//! [`post`](Semaphore::post) is async-signal-safe: in the stopping protocol, a handler calls it. A handler must not *wait* on a
//! semaphore on which the code that it interrupted waits: it could take the permit meant for that code.
//! The number of permits stays at 65535 when more are posted, so it does not overflow into the other half of the word, the number of
//! sleepers. The number of sleepers does not overflow either: each is a thread that waits on this word, and a process has fewer
//! threads than that.
//!
//! All zero bytes are a valid semaphore without permits.

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, Ordering, const_new, interrupt_point, port};

const PERMIT: u32 = 1;
const PERMITS: u32 = 0xffff;
const SLEEPER: u32 = 1 << 16;

/// A counting semaphore. See the module's text.
#[derive(Debug)]
#[repr(transparent)]
pub struct Semaphore {
    word: AtomicU32,
}

impl Semaphore {
    const_new! {
        /// Creates a semaphore without permits.
        pub fn new() -> Self {
            Self { word: AtomicU32::new(0) }
        }
    }

    /// Adds a permit and wakes one sleeper if there may be one.
    pub fn post(&self) {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if seen & PERMITS == PERMITS {
                return;
            }
            // Release: pairs with the Acquire of `take`; what the poster did happens before what the waiter does.
            match self.word.compare_exchange_weak(seen, seen + PERMIT, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        interrupt_point();
        if seen >= SLEEPER {
            port::wake(&self.word, 1);
        }
    }

    /// Takes a permit if there is one.
    pub fn try_wait(&self) -> bool {
        self.take(0).is_ok()
    }

    /// Takes a permit, sleeping until there is one.
    pub fn wait(&self) {
        if self.try_wait() {
            return;
        }
        self.word.fetch_add(SLEEPER, Ordering::Relaxed);
        interrupt_point();
        while let Err(empty) = self.take(SLEEPER) {
            // The word as seen without a permit. A permit posted since then has changed it, and the port does not sleep.
            // Reading the word again here could mean sleeping although there is a permit.
            let expected = if removed(Guard::SyncLostWake) { self.word.load(Ordering::Relaxed) } else { empty };
            port::wait(&self.word, expected, None);
            interrupt_point();
        }
    }

    /// Takes a permit, sleeping at most once and at most `ns` nanoseconds. It may return `false` earlier (a signal, a race for
    /// the permit): the caller accounts for its time and tries again.
    pub fn wait_slice(&self, ns: u64) -> bool {
        if self.try_wait() {
            return true;
        }
        self.word.fetch_add(SLEEPER, Ordering::Relaxed);
        interrupt_point();
        if let Err(empty) = self.take(SLEEPER) {
            port::wait(&self.word, empty, Some(ns));
            interrupt_point();
            // The last check: a permit that was posted as the slice ended is not missed.
            if self.take(SLEEPER).is_err() {
                self.word.fetch_sub(SLEEPER, Ordering::Relaxed);
                return self.try_wait();
            }
        }
        true
    }

    /// Removes all permits and sleepers, in the child of a `fork`, where none of the sleepers exists.
    pub fn reset_in_child(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// Takes a permit and `also` (the caller's count as a sleeper) in one step, or returns the word without permits that it
    /// saw.
    fn take(&self, also: u32) -> Result<(), u32> {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen & PERMITS != 0 {
            // Acquire: pairs with the Release of `post`.
            let taken = seen - PERMIT - also;
            match self.word.compare_exchange_weak(seen, taken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        Err(seen)
    }
}
