//! The notifiers that wake the writer and the threads that wait for room.
//!
//! Firing threads use both at full speed, so neither makes a system call unless a thread sleeps.
//!
//! A [`Bell`] has one sleeper. Its word says whether it has been rung, and whether the sleeper is asleep. `ring` swaps
//! *rung* in and sees in the same step whether the sleeper must be woken.
//!
//! A [`Turnstile`] is an event count: many threads wait for a condition that each of them checks itself. A thread takes a ticket, checks
//! the condition, and waits with the ticket. A thread that has made the condition true changes the word and sees in the same step whether
//! there is a ticket. A ticket taken before the change no longer matches the word; a thread that takes its ticket after the change sees the
//! condition.

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, Ordering, const_new, interrupt_point, port};

const QUIET: u32 = 0;
const RUNG: u32 = 1;
const ASLEEP: u32 = 2;

/// Wakes one sleeper. See the module documentation.
#[derive(Debug)]
pub struct Bell(AtomicU32);

impl Bell {
    const_new! {
        /// Creates a bell that has not been rung.
        pub fn new() -> Self {
            Bell(AtomicU32::new(QUIET))
        }
    }

    /// Wakes the sleeper, or keeps it from falling asleep.
    pub fn ring(&self) {
        // Release: pairs with the Acquire in `wait`, so that the sleeper sees the change that it was woken for.
        if self.0.swap(RUNG, Ordering::Release) == ASLEEP {
            interrupt_point();
            port::wake(&self.0, 1);
        }
    }

    /// Sleeps until the bell is rung, or for `ns` nanoseconds; may also return early without a reason. Returns whether the bell was
    /// rung since the last call.
    pub fn wait(&self, ns: Option<u64>) -> bool {
        if removed(Guard::EventBell) {
            // The known-bad variant: the bell may be rung between the check and the sleep, and then never again.
            if self.0.load(Ordering::Relaxed) != RUNG {
                self.0.store(ASLEEP, Ordering::Relaxed);
                port::wait(&self.0, ASLEEP, ns);
            }
        } else if self.0.compare_exchange(QUIET, ASLEEP, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            interrupt_point();
            port::wait(&self.0, ASLEEP, ns);
        }
        // Acquire: pairs with the release of `ring`.
        self.0.swap(QUIET, Ordering::Acquire) == RUNG
    }

    /// Resets the bell in a forked child, where the sleeper does not exist.
    pub fn forget(&self) {
        self.0.store(QUIET, Ordering::Relaxed);
    }
}

/// Set while a thread holds a ticket.
const AWAITED: u32 = 1;
/// The increment of the word by each call of [`Turnstile::turn`].
const TURN: u32 = 2;

/// Wakes all waiting threads. See the module documentation.
#[derive(Debug)]
pub struct Turnstile(AtomicU32);

/// The right to wait until the next call of [`Turnstile::turn`].
#[derive(Clone, Copy, Debug)]
pub struct Ticket(u32);

impl Turnstile {
    const_new! {
        /// Creates a turnstile on which no thread waits.
        pub fn new() -> Self {
            Turnstile(AtomicU32::new(0))
        }
    }

    /// Returns a ticket. A thread takes it before it checks its condition for the last time.
    pub fn ticket(&self) -> Ticket {
        // Acquire: pairs with the Release in `turn`. If the turn was earlier, the check of the condition sees what the turning
        // thread wrote before it.
        Ticket(self.0.fetch_or(AWAITED, Ordering::Acquire) | AWAITED)
    }

    /// Sleeps until the next call of [`turn`](Self::turn), or for `ns` nanoseconds; may also return early without a reason.
    pub fn wait(&self, ticket: Ticket, ns: Option<u64>) {
        interrupt_point();
        port::wait(&self.0, ticket.0, ns);
    }

    /// Wakes all waiting threads. Called after the condition has become true.
    pub fn turn(&self) {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let next = (seen & !AWAITED).wrapping_add(TURN);
            // Release: pairs with the acquire of `ticket`.
            match self.0.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        if seen & AWAITED != 0 {
            interrupt_point();
            port::wake(&self.0, u32::MAX);
        }
    }
}
