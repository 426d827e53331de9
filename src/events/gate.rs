//! The gate in front of a listener: which fires may enter, how many are inside, and when it is empty.
//!
//! A *fire*, a call of a fire function whose event is enabled, passes through the gate with its record. The gate makes the final
//! decision whether this listener gets the record. It counts the fires that are inside, that is, that may be calling the listener,
//! so that a listener can be removed while threads fire continuously.
//!
//! ```text
//!   fire:    read the clock ── count in ── read `enabled`, then `since` ── record ── count out
//!   select:  `since` = clock ── change `enabled` ── wait for a limited time until the gate is empty
//! ```
//!
//! Both *count in, then read* and *change, then check whether a fire is inside* use read-modify-writes of one word, `inside`,
//! and these have a total order. If the fire counts in first, `settle` sees it and waits. If `settle` is first, the fire that
//! counts in after it sees everything that was written before it, including the change, and does not enter. So once
//! `settle` has seen the gate empty, no fire is inside and none will be: the sink can be removed.
//!
//! **A record's time is a time at which its event was wanted.** The clock is read first, so a fire that enters although the selection
//! has changed carries a timestamp from before the change: after `select` has returned, no record of an event that it disabled has
//! a later timestamp, however long a thread may have been stopped between reading the clock and recording. If the
//! event was selected again in the meantime, the fire finds that `since` is later than its timestamp. It is
//! [`Entry::Early`] then, reads the clock again and retries.
//!
//! Therefore `settle` may limit its wait. A thread can be suspended inside the gate (by a collection, or by a debugger at its
//! prompt), and no other thread waits for it indefinitely: `settle` gives up after [`PATIENCE`] slices and reports that.
//!
//! A fire takes no lock and never waits, so it may interrupt another fire, or a `select`, on its own thread.
//!
//! This file contains only the protocol, and nothing about particular events: the selection is a few words of bits, and a fire checks
//! one bit.

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, AtomicU64, Ordering, const_new, interrupt_point, port};

/// A thread waits for the gate to be empty.
const WAITED: u32 = 1 << 31;

/// How many slices of [`SLICE_NS`] `settle` waits for the fires inside.
const PATIENCE: u32 = 5;
const SLICE_NS: u64 = 1_000_000;

/// Whether the fires that were under way when a selection changed are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The fires are over: the sink will receive no more records of the disabled events.
    Quiet,
    /// This many fires are under way: new ones of events that are still enabled, or of threads that are stopped in the
    /// middle of one. If these still deliver a record of a disabled event, its timestamp is from before the change.
    Busy(u32),
}

/// The gate of one listener: decides which fires may enter, and counts those inside. See the module documentation.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Gate<const WORDS: usize> {
    enabled: [AtomicU32; WORDS],
    /// The time from which `enabled` applies.
    since: AtomicU64,
    /// The number of fires inside, and [`WAITED`].
    inside: AtomicU32,
}

/// The gate's decision about a fire.
#[derive(Debug)]
pub(super) enum Entry<'gate> {
    /// The listener does not want it.
    Refused,
    /// The listener wants it now, but did not when the clock was read. The caller must read the clock again.
    Early,
    /// The listener gets it.
    Inside(Pass<'gate>),
}

/// The right to use the listener's sink, until dropped.
#[derive(Debug)]
pub(super) struct Pass<'gate>(&'gate AtomicU32);

impl<const WORDS: usize> Gate<WORDS> {
    const_new! {
        /// Creates a gate at which `enabled` has always been selected.
        pub(super) fn new(enabled: [AtomicU32; WORDS]) -> Self {
            Gate { enabled, since: AtomicU64::new(0), inside: AtomicU32::new(0) }
        }
    }

    /// Lets a fire enter if the bit of this word is wanted, and was wanted already when the fire read the clock, at `timestamp`.
    pub(super) fn enter(&self, word: usize, bit: u32, timestamp: u64) -> Entry<'_> {
        let enabled = &self.enabled[word];
        // Most listeners do not want most events. These events should not cost an atomic read-modify-write.
        if enabled.load(Ordering::Relaxed) & bit == 0 {
            return Entry::Refused;
        }
        // Acquire: pairs with the release of `settle`. If that was earlier, the change before it is visible.
        self.inside.fetch_add(1, Ordering::Acquire);
        let pass = Pass(&self.inside);
        interrupt_point();
        // Acquire: pairs with the release of `change`, so that `since` belongs to this selection or to a later one.
        if enabled.load(Ordering::Acquire) & bit == 0 && !removed(Guard::EventGate) {
            return Entry::Refused;
        }
        if timestamp < self.since.load(Ordering::Relaxed) && !removed(Guard::EventExact) {
            return Entry::Early;
        }
        Entry::Inside(pass)
    }

    /// Puts a new selection in force from the time `now` on. A caller that removes bits must call `settle` next.
    pub(super) fn change(&self, enabled: [u32; WORDS], now: u64) {
        self.since.store(now, Ordering::Relaxed);
        interrupt_point();
        // Release: pairs with the acquire of `enter`.
        self.enabled.iter().zip(enabled).for_each(|(word, bits)| word.store(bits, Ordering::Release));
    }

    /// Waits, for a limited time, until the fires inside have left. One caller at a time.
    ///
    /// The gate need only be seen empty once: a fire that enters later sees the change.
    pub(super) fn settle(&self) -> Settled {
        let mut settled = None;
        for _ in 0..PATIENCE {
            // Release: pairs with the acquire of `enter`.
            let seen = self.inside.fetch_or(WAITED, Ordering::Release) | WAITED;
            if seen == WAITED {
                settled = Some(Settled::Quiet);
                break;
            }
            interrupt_point();
            port::wait(&self.inside, seen, Some(SLICE_NS));
            interrupt_point();
        }
        // Acquire: pairs with the release of each dropped `Pass`, whether the gate was seen empty here or above.
        let inside = self.inside.fetch_and(!WAITED, Ordering::Acquire) & !WAITED;
        settled.unwrap_or(if inside == 0 { Settled::Quiet } else { Settled::Busy(inside) })
    }

    /// In a forked child: forgets the fires inside, which were the parent's.
    pub(super) fn forget_who_is_inside(&self) {
        self.inside.store(0, Ordering::Relaxed);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // Release: every use of the sink is complete before `settle` sees the gate empty and the sink is removed.
        if self.0.fetch_sub(1, Ordering::Release) == WAITED | 1 {
            interrupt_point();
            port::wake(self.0, 1);
        }
    }
}
