//! Who looks at the heap in the stopped world: profiles.
//!
//! A profile is above the collector and the collector knows none. It knows observers, which it calls at three moments:
//!
//! ```text
//!   begin   before the first signal       memory may be mapped; says whether it wants to look
//!   look    between marking and sweep     the world stands: no malloc, no lock (`.stop.no-malloc`, `.stop.locks`)
//!   finish  when the world runs again     names are made, events fired; then, without the lock, the program is told
//! ```
//!
//! One observer belongs to the world. What it knows is guarded by a lock that the collecting thread takes before the
//! first signal, if the observer is armed, and holds until it has finished: no two collections meet in it. Another may come along with
//! the request for one collection, and is the requester's alone.

use std::sync::{Arc, OnceLock};

use super::living::Living;
use super::{Collecting, Collector};
use crate::os::clock::Budget;
use crate::sync::{AtomicBool, HeldBy, LockGuard, Ordering::Relaxed, SharedLock};
use crate::world::Tid;
use crate::world::error::StopError;

/// Whether an observer wants to see this collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attention {
    Looks,
    Passes,
}

/// Somebody who looks at what lives.
pub(crate) trait Observer {
    /// A collection is about to stop the world. It may not come to a look: then `begin` is all that happens.
    fn begin(&self, collector: &Collector) -> Attention;
    /// The world stands, marking is over, the sweep has not begun. Not before `begin` said that it wants to look.
    fn look(&self, living: &Living<'_>);
    /// The world runs again, after a look. What it gives back is called when the observer's lock is free.
    fn finish(&self, collector: &Collector) -> Option<Afterwards>;
}

/// What is to be told to the program, which may do anything then.
pub(crate) type Afterwards = Box<dyn FnOnce()>;

/// The observer that belongs to a world.
pub(crate) struct Observing {
    /// Guards whatever the observer knows.
    pub(crate) lock: SharedLock,
    armed: AtomicBool,
    observer: OnceLock<Arc<dyn Observer + Send + Sync>>,
}

impl Observing {
    pub(super) fn new(lock: SharedLock) -> Observing {
        Observing { lock, armed: AtomicBool::new(false), observer: OnceLock::new() }
    }

    /// Sets the observer, once and for all. It is asked nothing before it is armed.
    pub(crate) fn set(&self, observer: Arc<dyn Observer + Send + Sync>) {
        let _ = self.observer.set(observer);
    }

    /// From now on collections ask the observer, or do not.
    pub(crate) fn arm(&self, armed: bool) {
        self.armed.store(armed, Relaxed);
    }

    /// In a forked child: nobody holds the lock, and what the observer lives by may be gone (`.fork.services`).
    ///
    /// # Safety
    /// The caller is the only thread of the process, and has no guard of the lock.
    pub(crate) unsafe fn forget_in_child(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.lock.reset_in_child() };
        self.arm(false);
    }
}

/// The observers of one collection.
pub(super) struct Observers<'a> {
    looking: [Option<&'a dyn Observer>; 2],
    guard: Option<LockGuard<'a>>,
}

impl Observers<'_> {
    pub(super) fn look(&self, living: &Living<'_>) {
        self.looking.iter().flatten().for_each(|observer| observer.look(living));
    }

    /// Finishes, and lets the lock go; what is to be told to the program then.
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
    /// Asks who wants to look. Before the first signal, with the world's locks held.
    pub(super) fn observers<'a>(
        &'a self,
        who: Collecting<'a>,
        budget: &mut Budget,
    ) -> Result<Observers<'a>, StopError> {
        let looks = |observer: &&dyn Observer| observer.begin(self) == Attention::Looks;
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
