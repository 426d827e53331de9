//! The gate in front of a listener: who may pass, who is inside, and when nobody is.
//!
//! A fire that found its event enabled comes here with its record. The gate decides for good whether this listener gets
//! it, and counts those who are inside, so that a listener can be taken away under threads that fire all the time.
//!
//! ```text
//!   fire:    clock ── count in ── look at `wanted` ── record ── count out
//!   select:  change `wanted` ── wait until nobody is inside, for a while
//! ```
//!
//! *Counting in, then looking* against *changing, then counting who is inside*, all sequentially consistent: whoever
//! `select` did not see inside will see what `select` wrote. And since the clock is read first, a fire that still passes
//! after the change carries a timestamp from before it: after `select` has returned, **no record of an event that it
//! disabled has a later timestamp**, however long a thread may have been stopped between its clock and its record.
//!
//! That is why waiting may be bounded. A thread can be frozen inside (by a collection, by a debugger at its prompt), and
//! nobody waits for it: `settle` gives up after [`PATIENCE`] slices and says so.
//!
//! A fire takes no lock and waits for nobody, so it may interrupt another fire, or a `select`, on its own thread.
//!
//! This file is a protocol and knows no events: what is wanted is a few words of bits, and a fire asks for one bit.

use crate::sync::{AtomicU32, Ordering, const_new, interrupt_point, port};

/// Somebody waits for the gate to be empty.
const WAITED: u32 = 1 << 31;

/// How often a slice of [`SLICE_NS`] is waited for those who are inside.
const PATIENCE: u32 = 5;
const SLICE_NS: u64 = 1_000_000;

/// Whether the fires that were under way when a selection changed are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// No fire is under way: the sink has seen everything that it will see of what was disabled.
    Quiet,
    /// So many fires are under way: new ones of events that are still enabled, or threads that are stopped in the middle
    /// of one. If those bring something more, it has a timestamp from before the change.
    Busy(u32),
}

/// The gate of one listener.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Gate<const WORDS: usize> {
    wanted: [AtomicU32; WORDS],
    /// How many fires are inside, and [`WAITED`].
    inside: AtomicU32,
}

/// The right to use the listener's sink, until dropped.
#[derive(Debug)]
pub(super) struct Pass<'gate>(&'gate AtomicU32);

impl<const WORDS: usize> Gate<WORDS> {
    const_new! {
        /// A gate that lets pass what `wanted` says.
        pub(super) fn new(wanted: [AtomicU32; WORDS]) -> Self {
            Gate { wanted, inside: AtomicU32::new(0) }
        }
    }

    /// Passes if this bit of this word is wanted.
    pub(super) fn enter(&self, word: usize, bit: u32) -> Option<Pass<'_>> {
        let wanted = &self.wanted[word];
        // Most listeners do not want most events: those should cost no atomic read-modify-write.
        if wanted.load(Ordering::Relaxed) & bit == 0 {
            return None;
        }
        // SeqCst, here and in the load, with the store in `change` and the count in `settle`: see the module's head.
        self.inside.fetch_add(1, Ordering::SeqCst);
        let pass = Pass(&self.inside);
        interrupt_point();
        (wanted.load(Ordering::SeqCst) & bit != 0).then_some(pass)
    }

    /// From now on these are wanted.
    pub(super) fn change(&self, wanted: [u32; WORDS]) {
        // SeqCst: pairs with `enter`.
        self.wanted.iter().zip(wanted).for_each(|(word, bits)| word.store(bits, Ordering::SeqCst));
    }

    /// Waits, but not for ever, until nobody is inside. One caller at a time.
    pub(super) fn settle(&self) -> Settled {
        for _ in 0..PATIENCE {
            // SeqCst: pairs with `enter`; as an acquire, with the release of the `Pass` that left last.
            let seen = self.inside.fetch_or(WAITED, Ordering::SeqCst) | WAITED;
            if seen == WAITED {
                break;
            }
            interrupt_point();
            port::wait(&self.inside, seen, Some(SLICE_NS));
        }
        // SeqCst: as above.
        match self.inside.fetch_and(!WAITED, Ordering::SeqCst) & !WAITED {
            0 => Settled::Quiet,
            inside => Settled::Busy(inside),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const A: u32 = 1;
    const B: u32 = 2;

    fn gate() -> Gate<2> {
        Gate::new([AtomicU32::new(0), AtomicU32::new(0)])
    }

    #[test]
    fn only_what_is_wanted_passes() {
        let gate = gate();
        assert!(gate.enter(0, A).is_none());
        gate.change([A, B]);
        assert!(gate.enter(0, A).is_some());
        assert!(gate.enter(1, B).is_some());
        assert!(gate.enter(0, B).is_none());
        assert!(gate.enter(1, A).is_none());
        assert_eq!(gate.settle(), Settled::Quiet);
    }

    #[test]
    fn a_fire_that_is_frozen_inside_is_not_waited_for() {
        let gate = gate();
        gate.change([A, 0]);
        let frozen = gate.enter(0, A);
        gate.change([0, 0]);
        let began = std::time::Instant::now();
        assert_eq!(gate.settle(), Settled::Busy(1));
        assert!(began.elapsed() < std::time::Duration::from_secs(2));
        drop(frozen);
        assert_eq!(gate.settle(), Settled::Quiet);
    }

    #[test]
    fn whoever_settles_is_woken_by_the_last_one_out() {
        let gate = gate();
        gate.change([A | B, A | B]);
        std::thread::scope(|scope| {
            let passes = [gate.enter(0, A), gate.enter(0, B), gate.enter(1, A)];
            assert!(passes.iter().all(Option::is_some));
            scope.spawn(|| drop(passes));
            while gate.settle() != Settled::Quiet {}
        });
    }

    #[test]
    fn a_child_starts_with_nobody_inside() {
        let gate = gate();
        gate.change([A, 0]);
        std::mem::forget(gate.enter(0, A));
        gate.forget_who_is_inside();
        assert_eq!(gate.settle(), Settled::Quiet);
    }
}
