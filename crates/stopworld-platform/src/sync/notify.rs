//! The notifiers that wake the writer and the threads that wait for room.
//!
//! Firing threads use both at full speed, so neither makes a system call unless a thread sleeps.
//!
//! A [`Notify`] has one sleeper. Its word says whether a notification is pending, and whether the sleeper is asleep. `notify` swaps
//! *notified* in and sees in the same step whether the sleeper must be woken.
//!
//! An [`EventCount`] has many sleepers: the threads wait for a condition that each of them checks itself. A thread takes a ticket, checks
//! the condition, and waits with the ticket. A thread that has made the condition true changes the word and sees in the same step whether
//! there is a ticket. A ticket taken before the change no longer matches the word; a thread that takes its ticket after the change sees the
//! condition.

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, Ordering, const_new, interrupt_point, port};

const IDLE: u32 = 0;
const NOTIFIED: u32 = 1;
const ASLEEP: u32 = 2;

/// Wakes one sleeper. See the module documentation.
#[derive(Debug)]
pub struct Notify(AtomicU32);

impl Notify {
    const_new! {
        /// Creates a notifier without a pending notification.
        pub fn new() -> Self {
            Notify(AtomicU32::new(IDLE))
        }
    }

    /// Wakes the sleeper, or keeps it from falling asleep.
    pub fn notify(&self) {
        // Release: pairs with the Acquire in `wait`, so that the sleeper sees the change that it was woken for.
        if self.0.swap(NOTIFIED, Ordering::Release) == ASLEEP {
            interrupt_point();
            port::wake(&self.0, 1);
        }
    }

    /// Sleeps until the next notification, or for `ns` nanoseconds; may also return early without a reason. Returns whether there was a
    /// notification since the last call.
    pub fn wait(&self, ns: Option<u64>) -> bool {
        if removed(Guard::EventNotify) {
            // The known-bad variant: the notification may come between the check and the sleep, and then never again.
            if self.0.load(Ordering::Relaxed) != NOTIFIED {
                self.0.store(ASLEEP, Ordering::Relaxed);
                port::wait(&self.0, ASLEEP, ns);
            }
        } else if self.0.compare_exchange(IDLE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            interrupt_point();
            port::wait(&self.0, ASLEEP, ns);
        }
        // Acquire: pairs with the release of `notify`.
        self.0.swap(IDLE, Ordering::Acquire) == NOTIFIED
    }

    /// Resets the word in a forked child, where the sleeper does not exist.
    pub fn forget(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }
}

/// Set while a thread holds a ticket.
const HAS_WAITERS: u32 = 1;
/// The increment of the word by each call of [`EventCount::notify_all`].
const STEP: u32 = 2;

/// Wakes all waiting threads. See the module documentation.
#[derive(Debug)]
pub struct EventCount(AtomicU32);

/// The right to wait until the next call of [`EventCount::notify_all`].
#[derive(Clone, Copy, Debug)]
pub struct Ticket(u32);

impl EventCount {
    const_new! {
        /// Creates an event count on which no thread waits.
        pub fn new() -> Self {
            EventCount(AtomicU32::new(0))
        }
    }

    /// Returns a ticket. A thread takes it before it checks its condition for the last time.
    pub fn ticket(&self) -> Ticket {
        // Acquire: pairs with the Release in `notify_all`. If the change was earlier, the check of the condition sees what the notifying
        // thread wrote before it.
        Ticket(self.0.fetch_or(HAS_WAITERS, Ordering::Acquire) | HAS_WAITERS)
    }

    /// Sleeps until the next call of [`notify_all`](Self::notify_all), or for `ns` nanoseconds; may also return early without a reason.
    pub fn wait(&self, ticket: Ticket, ns: Option<u64>) {
        interrupt_point();
        port::wait(&self.0, ticket.0, ns);
    }

    /// Wakes all waiting threads. Called after the condition has become true.
    pub fn notify_all(&self) {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let next = (seen & !HAS_WAITERS).wrapping_add(STEP);
            // Release: pairs with the acquire of `ticket`.
            match self.0.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        if seen & HAS_WAITERS != 0 {
            interrupt_point();
            port::wake(&self.0, u32::MAX);
        }
    }
}
