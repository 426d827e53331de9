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

use super::platform;
use super::state::EventSet;
use super::table::{EventId, GROUPS};
use crate::sync::{AtomicU32, Ordering};

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
pub(super) struct Gate {
    wanted: [AtomicU32; GROUPS],
    /// How many fires are inside, and [`WAITED`].
    inside: AtomicU32,
}

/// The right to use the listener's sink, until dropped.
#[derive(Debug)]
pub(super) struct Pass<'gate>(&'gate Gate);

impl Gate {
    pub(super) const fn new() -> Gate {
        Gate { wanted: [const { AtomicU32::new(0) }; GROUPS], inside: AtomicU32::new(0) }
    }

    /// Passes if the listener wants this event.
    pub(super) fn enter(&self, id: EventId) -> Option<Pass<'_>> {
        let wanted = &self.wanted[id.group() as usize];
        // Most listeners do not want most events: those should cost no atomic read-modify-write.
        if wanted.load(Ordering::Relaxed) & id.mask() == 0 {
            return None;
        }
        // SeqCst, here and in the load, with the store in `change` and the count in `settle`: see the module's head.
        self.inside.fetch_add(1, Ordering::SeqCst);
        let pass = Pass(self);
        (wanted.load(Ordering::SeqCst) & id.mask() != 0).then_some(pass)
    }

    /// From now on the listener wants these.
    pub(super) fn change(&self, events: EventSet) {
        // SeqCst: pairs with `enter`.
        self.wanted.iter().zip(events.words()).for_each(|(word, bits)| word.store(bits, Ordering::SeqCst));
    }

    /// Waits, but not for ever, until nobody is inside. One caller at a time.
    pub(super) fn settle(&self) -> Settled {
        for _ in 0..PATIENCE {
            // SeqCst: pairs with `enter`; as an acquire, with the release of the `Pass` that left last.
            let seen = self.inside.fetch_or(WAITED, Ordering::SeqCst) | WAITED;
            if seen == WAITED {
                break;
            }
            platform::futex_wait(&self.inside, seen, SLICE_NS);
        }
        // SeqCst: as above.
        match self.inside.fetch_and(!WAITED, Ordering::SeqCst) & !WAITED {
            0 => Settled::Quiet,
            inside => Settled::Busy(inside),
        }
    }

    /// In a forked child: those who were inside belong to the parent.
    pub(super) fn forget_who_is_inside(&self) {
        self.inside.store(0, Ordering::SeqCst);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // Release: what was done with the sink is done before `settle` sees the gate empty and takes the sink away.
        if self.0.inside.fetch_sub(1, Ordering::Release) == WAITED | 1 {
            platform::futex_wake_all(&self.0.inside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(id: EventId) -> EventSet {
        [id].into_iter().collect()
    }

    #[test]
    fn only_what_is_wanted_passes() {
        let gate = Gate::new();
        assert!(gate.enter(EventId::GcStart).is_none());
        gate.change(only(EventId::GcStart));
        assert!(gate.enter(EventId::GcStart).is_some());
        assert!(gate.enter(EventId::GcEnd).is_none());
        assert_eq!(gate.settle(), Settled::Quiet);
    }

    #[test]
    fn a_fire_that_is_frozen_inside_is_not_waited_for() {
        let gate = Gate::new();
        gate.change(only(EventId::GcStart));
        let frozen = gate.enter(EventId::GcStart);
        gate.change(EventSet::NONE);
        let began = std::time::Instant::now();
        assert_eq!(gate.settle(), Settled::Busy(1));
        assert!(began.elapsed() < std::time::Duration::from_secs(2));
        drop(frozen);
        assert_eq!(gate.settle(), Settled::Quiet);
    }

    #[test]
    fn whoever_settles_is_woken_by_the_last_one_out() {
        let gate = Gate::new();
        gate.change(EventSet::all());
        std::thread::scope(|scope| {
            let passes: Vec<_> = EventId::all().filter_map(|id| gate.enter(id)).collect();
            assert_eq!(passes.len(), EventId::COUNT);
            scope.spawn(|| drop(passes));
            while gate.settle() != Settled::Quiet {}
        });
    }
}
