//! The observers of one collection.

use super::live_heap::LiveHeap;
use super::state::{Afterwards, Attention, Collecting, Collector, Observer};
use crate::os::clock::Budget;
use crate::sync::{HeldBy, LockGuard, Ordering::Relaxed};
use crate::world::Tid;
use crate::world::error::StopError;

/// The observers of one collection.
pub(super) struct Observers<'a> {
    looking: [Option<&'a dyn Observer>; 2],
    guard: Option<LockGuard<'a>>,
}

impl Observers<'_> {
    pub(super) fn look(&self, live_heap: &LiveHeap<'_>) {
        self.looking.iter().flatten().for_each(|observer| observer.look(live_heap));
    }

    /// Finishes the observers and releases the lock. Returns the callbacks to call after the collection.
    pub(super) fn finish(self, collector: &Collector) -> impl Iterator<Item = Afterwards> + use<> {
        let afterwards = self.looking.map(|observer| observer.and_then(|observer| observer.finish(collector)));
        drop(self.guard);
        afterwards.into_iter().flatten()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.looking.iter().flatten().next().is_none()
    }
}

impl Collector {
    /// Collects the observers that want this collection. Called before the first signal, with the world's locks held.
    pub(super) fn observers<'a>(
        &'a self,
        who: Collecting<'a>,
        budget: &mut Budget,
    ) -> Result<Observers<'a>, StopError> {
        let looks = |observer: &&dyn Observer| observer.begin(self) == Attention::Observes;
        let mut guard = None;
        let mut own = None;
        if self.observing.armed.load(Relaxed)
            && let Some(observer) = self.observing.observer.get()
        {
            let within = budget.total();
            let held = |HeldBy(tid)| self.threads.lock_denied("heap profile", Tid(tid as i32), within);
            let taken = self.observing.lock.lock_within(budget);
            guard = Some(taken.map_err(held)?);
            let observer: &dyn Observer = &**observer;
            own = Some(observer).filter(looks);
        }
        if own.is_none() {
            guard = None;
        }
        Ok(Observers { looking: [own, who.observer.filter(looks)], guard })
    }
}
