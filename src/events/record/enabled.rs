//! Which events of a world are recorded. Each fire decides this without a lock and without a fence.
//!
//! ```text
//!   fire:    mark the fire as in flight ── (light barrier) ── read the clock ── read the words, then `since`
//!            ── write the record, publish it ── mark the fire as over
//!   set:     `since` = clock ── change the words ── (heavy barrier on all threads)
//!   drain:   T = clock ── (heavy barrier on all threads) ── check which threads have a fire in flight
//! ```
//!
//! **The check after reading the clock decides.** So a record's time is a time at which its event was wanted (`.event.recheck`). It is not
//! later than the change that disabled the event, because the clock was read first. It is not earlier than the change that enabled
//! it, because then `since` is later than the time read, and the clock is read again (`.event.exact`). The heavy barrier makes
//! this order valid on the other processors too: when `set` returns, each firing thread either has not read its
//! clock yet, and will see the new words, or has read it, and its time is earlier. So no thread has to wait for a fire in flight,
//! not even for that of a thread that is suspended for a minute.
//!
//! **The guarantee for a drain** (`.event.barrier`). After the drain's barrier, each fire is of one of two kinds: the drain
//! sees that it is in flight, or it has not read its clock yet, and will read T or later. So if no fire is in flight, every
//! record from before T is published, and the drain can deliver everything up to T in order of time.
//!
//! The light barrier costs no instruction: it keeps the compiler from reordering the two accesses around it, and the
//! heavy barrier (membarrier) does the rest for both.
//!
//! A signal handler that interrupts a fire of its own thread sees that this fire has not ended, and records in another ring.
//!
//! This file contains only the protocol, and nothing about particular events: the selection is a few words of bits, and a fire checks
//! one bit.

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, AtomicU64, Ordering, const_new, interrupt_point, light_barrier};

/// Which events of a world are recorded. On a cache line that is written only when the selection changes.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct EnabledEvents<const WORDS: usize> {
    words: [AtomicU32; WORDS],
    /// The time from which on the words apply.
    since: AtomicU64,
}

impl<const WORDS: usize> EnabledEvents<WORDS> {
    const_new! {
        /// Creates a selection in which these bits have always been wanted.
        pub(super) fn new(words: [AtomicU32; WORDS]) -> Self {
            EnabledEvents { words, since: AtomicU64::new(0) }
        }
    }

    /// Returns the bits of this word that seem to be wanted. A hint: [`decide`](Self::decide) decides.
    #[inline(always)]
    pub(super) fn guess(&self, word: usize) -> u32 {
        self.words[word].load(Ordering::Relaxed)
    }

    /// Decides for a fire in flight whether a bit is wanted. If so, returns the time of the record, by this clock.
    #[inline(always)]
    pub(super) fn decide(&self, word: usize, bit: u32, clock: impl Fn() -> u64) -> Option<u64> {
        if removed(Guard::EventRecheck) && self.guess(word) & bit != 0 {
            return Some(clock());
        }
        loop {
            let ticks = clock();
            interrupt_point();
            // Acquire: pairs with the release of `change`, so that `since` belongs to these words or to later ones.
            if self.words[word].load(Ordering::Acquire) & bit == 0 {
                return None;
            }
            // If `since` is later, a change was made after this fire had read the clock. Then the fire retries once.
            if ticks >= self.since.load(Ordering::Relaxed) || removed(Guard::EventExact) {
                return Some(ticks);
            }
        }
    }

    /// Puts a new selection in force from the time `now` on. The caller makes one change at a time, and must execute a heavy barrier
    /// afterwards.
    pub(super) fn change(&self, words: [u32; WORDS], now: u64) {
        self.since.store(now, Ordering::Relaxed);
        interrupt_point();
        // Release: pairs with the acquire of `decide`.
        self.words.iter().zip(words).for_each(|(word, bits)| word.store(bits, Ordering::Release));
        interrupt_point();
    }
}

/// Shows whether a thread has a fire in flight. The value is odd while it has; each fire has a different number.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Flight(AtomicU32);

/// The value of a [`Flight`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlightNumber(u32);

impl FlightNumber {
    /// Whether a fire was in flight when the value was read.
    pub(super) fn is_under_way(self) -> bool {
        self.0 & 1 != 0
    }
}

impl Flight {
    const_new! {
        /// Creates a flight word with no fire in flight.
        pub(super) fn new() -> Self {
            Flight(AtomicU32::new(0))
        }
    }

    /// Marks the start of a fire of the calling thread. Returns false if it has interrupted another fire. Only for the thread that owns it.
    #[inline(always)]
    pub(super) fn begin(&self) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        if seen & 1 != 0 {
            return false;
        }
        self.0.store(seen.wrapping_add(1), Ordering::Relaxed);
        // Pairs with the heavy barrier of a drain or of a change.
        if !removed(Guard::EventBarrier) {
            light_barrier();
        }
        interrupt_point();
        true
    }

    /// Marks the end of the fire that is in flight.
    #[inline(always)]
    pub(super) fn end(&self) {
        let seen = self.0.load(Ordering::Relaxed);
        // Release: pairs with the acquire of `look`. A thread that sees that the fire is over sees what it has published.
        self.0.store(seen.wrapping_add(1), Ordering::Release);
    }

    /// Returns the current value. The caller has executed a heavy barrier before.
    pub(super) fn look(&self) -> FlightNumber {
        // Acquire: pairs with the release of `end`.
        FlightNumber(self.0.load(Ordering::Acquire))
    }

    /// Resets the word when its thread does not exist any more: the calling thread is the only one of the process.
    pub(super) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
