//! Everything that a collection works on, and those who look at it: profiles.
//!
//! A profile is above the collector and the collector knows none. It knows observers, which it calls at three moments:
//!
//! ```text
//!   begin   before the first signal       memory may be mapped; says whether it wants to look
//!   look    between marking and sweep     the world stands: no malloc, no lock (`.stop.no-malloc`, `.stop.locks`)
//!   finish  when the world runs again     names are made, events fired; then, without the lock, callbacks run
//! ```
//!
//! One observer belongs to the world. What it knows is guarded by a lock that the collecting thread takes before the
//! first signal, if the observer is armed, and holds until it has finished: no two collections meet in it. Another may come along with
//! the request for one collection, and is the requester's alone.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::error::CollectError;
use super::figures::Figures;
use super::finalize::Finalizers;
use super::living::Living;
use super::pacing::Pacing;
use super::parallel::Markers;
use super::report;
use super::roots::Ranges;
use crate::events::Events;
use crate::heap::Heap;
use crate::heap::slots::SlotTable;
use crate::heap::sweep::SpaceBytes;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, SharedLock};
use crate::world::region::OwnStack;
use crate::world::registry::Threads;

/// What a world calls when a collection that was due could not happen.
pub(crate) type FailureListener = Box<dyn Fn(&CollectError) + Send + Sync>;

/// Everything that a collection works on.
pub(crate) struct Collector {
    pub(crate) heap: Heap,
    pub(crate) threads: Arc<Threads>,
    pub(crate) events: Events,
    pub(crate) roots: SlotTable,
    pub(crate) ranges: Ranges,
    pub(crate) finalizers: Finalizers,
    pub(crate) markers: Markers,
    pub(crate) pacing: Pacing,
    pub(crate) observing: Observing,
    pub(crate) stop_timeout: Duration,
    /// Finished collections.
    pub(crate) collections: AtomicU32,
    /// What was alive after the last one, and what was then unused in the threads' blocks.
    pub(super) live_bytes: AtomicU64,
    /// The former, by space.
    pub(super) live_spaces: LiveSpaces,
    pub(super) unused_bytes: AtomicU64,
    /// Bytes allocated up to the last collection.
    pub(crate) allocated_total: AtomicU64,
    pub(crate) figures: Figures,
    pub(crate) on_collection: Option<report::Listener>,
    pub(crate) on_failure: Option<FailureListener>,
    /// The first damage that the paranoid mode found. A collection that an allocation started has no caller to return it to.
    pub(crate) damage: OnceLock<String>,
}

/// Who collects: one of the world's threads, with its registers on its stack, or a stranger.
#[derive(Clone, Copy)]
pub(crate) struct Collecting<'a> {
    /// Its own stack, if it is one of the world's threads.
    pub(crate) own: Option<&'a OwnStack>,
    /// Do nothing if a collection has finished since this one was.
    pub(crate) unless_after: Option<u32>,
    /// Who looks at what lives, this time.
    pub(crate) observer: Option<&'a dyn Observer>,
}

impl<'a> Collecting<'a> {
    /// This thread, whatever others have done.
    pub(crate) fn now(own: Option<&'a OwnStack>) -> Collecting<'a> {
        Collecting { own, unless_after: None, observer: None }
    }
}

impl Collector {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            heap: parts.heap,
            threads: parts.threads,
            events: Events::new(),
            roots: parts.handles,
            ranges: parts.ranges,
            finalizers: parts.finalizers,
            markers: parts.markers,
            pacing: parts.pacing,
            observing: Observing::new(parts.observing),
            stop_timeout: parts.stop_timeout,
            collections: AtomicU32::new(0),
            live_bytes: AtomicU64::new(0),
            live_spaces: LiveSpaces::default(),
            unused_bytes: AtomicU64::new(0),
            allocated_total: AtomicU64::new(0),
            figures: Figures::new(),
            on_collection: parts.on_collection,
            on_failure: parts.on_failure,
            damage: OnceLock::new(),
        }
    }
}

/// What [`Collector::new`] is made of.
pub(crate) struct Parts {
    pub(crate) heap: Heap,
    pub(crate) threads: Arc<Threads>,
    pub(crate) markers: Markers,
    pub(crate) handles: SlotTable,
    pub(crate) ranges: Ranges,
    pub(crate) finalizers: Finalizers,
    pub(crate) pacing: Pacing,
    pub(crate) stop_timeout: Duration,
    /// The lock of the world's own observer.
    pub(crate) observing: SharedLock,
    pub(crate) on_collection: Option<report::Listener>,
    pub(crate) on_failure: Option<FailureListener>,
}

/// What the last collection left in each space. The collecting thread's alone.
#[derive(Default)]
pub(super) struct LiveSpaces([AtomicU64; 3]);

impl LiveSpaces {
    /// What it was until now.
    pub(super) fn replace(&self, live: SpaceBytes) -> SpaceBytes {
        let now = [live.small, live.large, live.pinned];
        let [small, large, pinned] = std::array::from_fn(|space| self.0[space].swap(now[space], Ordering::Relaxed));
        SpaceBytes { small, large, pinned }
    }
}

/// Whether an observer wants to see this collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attention {
    Looks,
    Passes,
}

/// Sees the live objects of a collection.
pub(crate) trait Observer {
    /// A collection is about to stop the world. It may not come to a look: then `begin` is all that happens.
    fn begin(&self, collector: &Collector) -> Attention;
    /// The world stands, marking is over, the sweep has not begun. Not before `begin` said that it wants to look.
    fn look(&self, living: &Living<'_>);
    /// The world runs again, after a look. What it gives back is called when the observer's lock is free.
    fn finish(&self, collector: &Collector) -> Option<Afterwards>;
}

/// A callback into the program, which may do anything.
pub(crate) type Afterwards = Box<dyn FnOnce()>;

/// The observer that belongs to a world.
pub(crate) struct Observing {
    /// Guards whatever the observer knows.
    pub(crate) lock: SharedLock,
    pub(super) armed: AtomicBool,
    pub(super) observer: OnceLock<Arc<dyn Observer + Send + Sync>>,
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
        self.armed.store(armed, Ordering::Relaxed);
    }

    /// In a forked child: the lock has no holder, and the threads that the observer needs do not exist (`.fork.services`).
    ///
    /// # Safety
    /// The caller is the only thread of the process, and has no guard of the lock.
    pub(crate) unsafe fn forget_in_child(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.lock.reset_in_child() };
        self.arm(false);
    }
}
