//! What is recorded of a world, decided by who fires, without a lock and without a fence.
//!
//! ```text
//!   fire:    say that a fire is in flight ── (light barrier) ── read the clock ── look at the words, then at `since`
//!            ── write the record, publish it ── say that the fire is over
//!   set:     `since` = clock ── change the words ── (heavy barrier on all threads)
//!   drain:   T = clock ── (heavy barrier on all threads) ── look whose fire is in flight
//! ```
//!
//! **The look after the clock decides.** So a record's time is a time at which it was wanted (`.event.recheck`): not later
//! than the change that took it away, because the clock was read first; not earlier than the change that brought
//! it, because then `since` is younger than the clock and the clock is read again (`.event.exact`). The heavy barrier makes
//! *first* and *then* mean on another processor what they mean here: when `set` returns, each thread is before its
//! clock, and will see the new words, or past it, and its time is earlier. So nobody has to wait for a fire in flight,
//! also not for that of a thread that is frozen for a minute.
//!
//! **What a drain may count on** (`.event.barrier`). Each fire is of one of two kinds when the drain's barrier is over: the drain
//! sees that it is in flight; or it has not read its clock, which will say T or later. So if no fire is in flight, every
//! record from before T is published, and the drain can hand on everything up to T in order of time.
//!
//! The light barrier costs no instruction: the two accesses around it stay in program order for the compiler, and the
//! heavy one (membarrier) does the rest for both.
//!
//! A signal handler that interrupts a fire finds it in flight, and records elsewhere.
//!
//! This file is a protocol and knows no events: what is wanted is a few words of bits, and a fire asks for one bit.

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, AtomicU64, Ordering, const_new, interrupt_point, light_barrier};

/// What is recorded of a world. On a cache line that is written only when that changes.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Wanted<const WORDS: usize> {
    words: [AtomicU32; WORDS],
    /// When the words came into force.
    since: AtomicU64,
}

impl<const WORDS: usize> Wanted<WORDS> {
    const_new! {
        /// These have always been wanted.
        pub(super) fn new(words: [AtomicU32; WORDS]) -> Self {
            Wanted { words, since: AtomicU64::new(0) }
        }
    }

    /// What seems to be wanted of this word. A hint: [`decide`](Self::decide) decides.
    #[inline(always)]
    pub(super) fn guess(&self, word: usize) -> u32 {
        self.words[word].load(Ordering::Relaxed)
    }

    /// Whether a bit is wanted, by a fire in flight: at what time, by this clock, if it is.
    #[inline(always)]
    pub(super) fn decide(&self, word: usize, bit: u32, clock: impl Fn() -> u64) -> Option<u64> {
        if removed(Guard::EventRecheck) && self.guess(word) & bit != 0 {
            return Some(clock());
        }
        loop {
            let ticks = clock();
            interrupt_point();
            // Acquire: pairs with the release of `change`, so that `since` is of these words or of younger ones.
            if self.words[word].load(Ordering::Acquire) & bit == 0 {
                return None;
            }
            // The other case is that of a fire that is overtaken by a change, and comes round once.
            if ticks >= self.since.load(Ordering::Relaxed) || removed(Guard::EventExact) {
                return Some(ticks);
            }
        }
    }

    /// From `now` on these are wanted. The caller orders its changes, and has a heavy barrier follow.
    pub(super) fn change(&self, words: [u32; WORDS], now: u64) {
        self.since.store(now, Ordering::Relaxed);
        interrupt_point();
        // Release: pairs with the acquire of `decide`.
        self.words.iter().zip(words).for_each(|(word, bits)| word.store(bits, Ordering::Release));
        interrupt_point();
    }
}

/// Whether a thread's fire is in flight. Odd while one is; each fire has another number.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Flight(AtomicU32);

/// The number of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlightNumber(u32);

impl FlightNumber {
    /// Whether it was under way when it was looked at.
    pub(super) fn is_under_way(self) -> bool {
        self.0 & 1 != 0
    }
}

impl Flight {
    const_new! {
        /// None is in flight.
        pub(super) fn new() -> Self {
            Flight(AtomicU32::new(0))
        }
    }

    /// A fire of the calling thread begins; false if it has interrupted one. Only for the thread that owns it.
    #[inline(always)]
    pub(super) fn begin(&self) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        if seen & 1 != 0 {
            return false;
        }
        self.0.store(seen.wrapping_add(1), Ordering::Relaxed);
        // Pairs with the heavy barrier of a drain, or of a change.
        if !removed(Guard::EventBarrier) {
            light_barrier();
        }
        interrupt_point();
        true
    }

    /// The fire that began last is over.
    #[inline(always)]
    pub(super) fn end(&self) {
        let seen = self.0.load(Ordering::Relaxed);
        // Release: pairs with the acquire of `look`. Who sees that it is over sees what it has published.
        self.0.store(seen.wrapping_add(1), Ordering::Release);
    }

    /// What is in flight, to be asked after a heavy barrier.
    pub(super) fn look(&self) -> FlightNumber {
        // Acquire: pairs with the release of `end`.
        FlightNumber(self.0.load(Ordering::Acquire))
    }

    /// The calling thread is the only one there is: nothing of this one is in flight.
    pub(super) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
