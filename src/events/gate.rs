//! The gate in front of a listener: who may pass, who is inside, and when nobody is.
//!
//! A fire that found its event enabled comes here with its record. The gate decides for good whether this listener gets
//! it, and counts those who are inside, so that a listener can be taken away under threads that fire all the time.
//!
//! ```text
//!   fire:    read the clock ── count in ── look at `wanted`, then at `since` ── record ── count out
//!   select:  `since` = clock ── change `wanted` ── wait until nobody is inside, for a while
//! ```
//!
//! Both *count in, then look* and *change, then see who is inside* turn on one word, `inside`, by read-modify-writes,
//! which come one after the other. If the count comes first, `settle` sees it and waits; if `settle` comes first, who
//! counts after it has everything that was written before it, the change included, and looks in vain. So when
//! `settle` has seen nobody, nobody is inside and nobody will be: the sink can be taken away.
//!
//! **A record's time is a time at which it was wanted.** The clock is read first, so a fire that passes after the
//! change carries a timestamp from before it: after `select` has returned, no record of an event that it disabled has
//! a later timestamp, however long a thread may have been stopped between its clock and its record. And when the
//! event has been wanted again meanwhile, the fire finds a `since` that is younger than its timestamp; it is
//! [`Entry::Early`] then, reads the clock once more and comes again.
//!
//! That is why waiting may be bounded. A thread can be frozen inside (by a collection, by a debugger at its prompt),
//! and nobody waits for it: `settle` gives up after [`PATIENCE`] slices and says so.
//!
//! A fire takes no lock and waits for nobody, so it may interrupt another fire, or a `select`, on its own thread.
//!
//! This file is a protocol and knows no events: what is wanted is a few words of bits, and a fire asks for one bit.

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, AtomicU64, Ordering, const_new, interrupt_point, port};

/// Somebody waits for the gate to be empty.
const WAITED: u32 = 1 << 31;

/// How often a slice of [`SLICE_NS`] is waited for those who are inside.
const PATIENCE: u32 = 5;
const SLICE_NS: u64 = 1_000_000;

/// Whether the fires that were under way when a selection changed are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// They are over: the sink has seen everything that it will see of what was disabled.
    Quiet,
    /// So many fires are under way: new ones of events that are still enabled, or threads that are stopped in the
    /// middle of one. If those bring something more, it has a timestamp from before the change.
    Busy(u32),
}

/// The gate of one listener.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Gate<const WORDS: usize> {
    wanted: [AtomicU32; WORDS],
    /// When `wanted` came into force.
    since: AtomicU64,
    /// How many fires are inside, and [`WAITED`].
    inside: AtomicU32,
}

/// What a fire finds at the gate.
#[derive(Debug)]
pub(super) enum Entry<'gate> {
    /// The listener does not want it.
    Refused,
    /// The listener wants it, but did not yet when the clock was read. Read it again.
    Early,
    /// The listener gets it.
    Inside(Pass<'gate>),
}

/// The right to use the listener's sink, until dropped.
#[derive(Debug)]
pub(super) struct Pass<'gate>(&'gate AtomicU32);

impl<const WORDS: usize> Gate<WORDS> {
    const_new! {
        /// A gate that has always let pass what `wanted` says.
        pub(super) fn new(wanted: [AtomicU32; WORDS]) -> Self {
            Gate { wanted, since: AtomicU64::new(0), inside: AtomicU32::new(0) }
        }
    }

    /// Lets pass whoever asks for a wanted bit of this word, and has read the clock, at `timestamp`, while it was
    /// wanted.
    pub(super) fn enter(&self, word: usize, bit: u32, timestamp: u64) -> Entry<'_> {
        let wanted = &self.wanted[word];
        // Most listeners do not want most events: those should cost no atomic read-modify-write.
        if wanted.load(Ordering::Relaxed) & bit == 0 {
            return Entry::Refused;
        }
        // Acquire: pairs with the release of `settle`. If that was earlier, so was the change that it follows.
        self.inside.fetch_add(1, Ordering::Acquire);
        let pass = Pass(&self.inside);
        interrupt_point();
        // Acquire: pairs with the release of `change`, so that `since` is of this selection or of a younger one.
        if wanted.load(Ordering::Acquire) & bit == 0 && !removed(Guard::EventGate) {
            return Entry::Refused;
        }
        if timestamp < self.since.load(Ordering::Relaxed) && !removed(Guard::EventExact) {
            return Entry::Early;
        }
        Entry::Inside(pass)
    }

    /// From `now` on these are wanted. Whoever takes something away settles next.
    pub(super) fn change(&self, wanted: [u32; WORDS], now: u64) {
        self.since.store(now, Ordering::Relaxed);
        interrupt_point();
        // Release: pairs with the acquire of `enter`.
        self.wanted.iter().zip(wanted).for_each(|(word, bits)| word.store(bits, Ordering::Release));
    }

    /// Waits, but not for ever, until those who were inside have left. One caller at a time.
    ///
    /// The gate need only be seen empty once: whoever comes after that comes after the change.
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
        // Acquire: pairs with the release of each `Pass` that has left, whether it was seen to leave here or above.
        let inside = self.inside.fetch_and(!WAITED, Ordering::Acquire) & !WAITED;
        settled.unwrap_or(if inside == 0 { Settled::Quiet } else { Settled::Busy(inside) })
    }

    /// In a forked child: those who were inside belong to the parent.
    pub(super) fn forget_who_is_inside(&self) {
        self.inside.store(0, Ordering::Relaxed);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // Release: what was done with the sink is done before `settle` sees the gate empty and takes the sink away.
        if self.0.fetch_sub(1, Ordering::Release) == WAITED | 1 {
            interrupt_point();
            port::wake(self.0, 1);
        }
    }
}
