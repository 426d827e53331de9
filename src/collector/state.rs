//! Everything that a collection works on, and its observers, such as profiles.
//!
//! Profiles build on the collector, and the collector does not depend on them. It has observers, which it calls at three moments:
//!
//! ```text
//!   begin   before the first signal       memory may be mapped; returns whether the observer needs the call of `look`
//!   look    between marking and sweep     the world is stopped: no malloc, no lock (`.stop.no-malloc`, `.stop.locks`)
//!   finish  when the world runs again     names are made, events fired; then, without the lock, callbacks run
//! ```
//!
//! One observer belongs to the world. Its data are guarded by a lock. If the observer is armed, the collecting thread takes the
//! lock before the first signal and holds it until the observer has finished: no two collections use it at once. The request for
//! a collection may have a second observer, for this collection only; no other thread uses it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::binding::Binding;
use super::error::CollectError;
use super::figures::Figures;
use super::finalize::Finalizers;
use super::live_heap::LiveHeap;
use super::mutator_time::MutatorTime;
use super::pacing::Pacing;
use super::parallel::Markers;
#[cfg(feature = "check")]
use super::promise::Promise;
use super::report;
use super::roots::Ranges;
use super::samples::Samples;
use super::scopes::Scopes;
use super::tables::HeapTables;
use crate::events::Events;
use crate::heap::Heap;
use crate::heap::slots::SlotTable;
use crate::heap::sweep::SpaceBytes;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, SharedLock};
use crate::world::region::OwnStack;
use crate::world::registry::Threads;

/// The listener that a world calls when a due collection has failed.
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
    pub(crate) scopes: Scopes,
    pub(crate) observing: Observing,
    /// In a world that samples its allocations.
    pub(crate) samples: Option<Samples>,
    pub(crate) stop_timeout: Duration,
    pub(super) mutator_time: MutatorTime,
    /// The number of finished collections.
    pub(crate) collections: AtomicU32,
    /// The bytes alive after the last collection.
    pub(super) live_bytes: AtomicU64,
    /// The bytes alive after the last collection, by space.
    pub(super) live_spaces: LiveSpaces,
    /// The number of unused bytes in the threads' blocks after the last collection.
    pub(super) unused_bytes: AtomicU64,
    /// The number of bytes allocated from the start of the world to the last collection.
    pub(crate) allocated_total: AtomicU64,
    pub(crate) figures: Figures,
    pub(crate) on_collection: Option<report::Listener>,
    pub(crate) on_failure: Option<FailureListener>,
    pub(crate) binding: Option<Arc<dyn Binding>>,
    #[cfg(feature = "check")]
    pub(crate) promise: Option<Promise>,
    /// The first damage that the paranoid mode found. It is kept here because a collection that was started by an allocation has no
    /// caller to which it could return it.
    pub(crate) damage: OnceLock<String>,
    /// Where a reader outside the process finds the heap; set when the world is published to debuggers.
    pub(crate) tables: OnceLock<Box<HeapTables>>,
}

/// The collecting thread: one of the world's threads, with its registers on its stack, or an unattached thread.
#[derive(Clone, Copy)]
pub(crate) struct Collecting<'a> {
    /// The collecting thread's own stack, if it is one of the world's threads.
    pub(crate) own: Option<&'a OwnStack>,
    /// If set, the collection does nothing unless this is still the number of finished collections.
    pub(crate) unless_after: Option<u32>,
    /// An additional observer, for this collection only.
    pub(crate) observer: Option<&'a dyn Observer>,
}

impl<'a> Collecting<'a> {
    /// A collection by this thread that is not skipped if another thread has just collected.
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
            scopes: Scopes::new(),
            observing: Observing::new(parts.observing),
            samples: parts.samples,
            stop_timeout: parts.stop_timeout,
            mutator_time: MutatorTime::new(),
            collections: AtomicU32::new(0),
            live_bytes: AtomicU64::new(0),
            live_spaces: LiveSpaces::default(),
            unused_bytes: AtomicU64::new(0),
            allocated_total: AtomicU64::new(0),
            figures: Figures::new(),
            on_collection: parts.on_collection,
            on_failure: parts.on_failure,
            binding: parts.binding,
            #[cfg(feature = "check")]
            promise: parts.promise,
            damage: OnceLock::new(),
            tables: OnceLock::new(),
        }
    }
}

/// The arguments of [`Collector::new`].
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
    pub(crate) samples: Option<Samples>,
    pub(crate) on_collection: Option<report::Listener>,
    pub(crate) on_failure: Option<FailureListener>,
    pub(crate) binding: Option<Arc<dyn Binding>>,
    #[cfg(feature = "check")]
    pub(crate) promise: Option<Promise>,
}

/// The bytes that the last collection left in each space. Only the collecting thread uses it.
#[derive(Default)]
pub(super) struct LiveSpaces([AtomicU64; 3]);

impl LiveSpaces {
    /// Stores the new values, and returns the previous ones.
    pub(super) fn replace(&self, live: SpaceBytes) -> SpaceBytes {
        let now = [live.small, live.large, live.pinned];
        let [small, large, pinned] = std::array::from_fn(|space| self.0[space].swap(now[space], Ordering::Relaxed));
        SpaceBytes { small, large, pinned }
    }
}

/// Whether an observer wants to see this collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attention {
    Observes,
    Passes,
}

/// An observer of the live objects of a collection.
pub(crate) trait Observer {
    /// Called when a collection is about to stop the world. If the collection fails, no other call follows.
    fn begin(&self, collector: &Collector) -> Attention;
    /// Called in the stopped world, after marking and before the sweep; only if `begin` returned [`Attention::Observes`].
    fn look(&self, live_heap: &LiveHeap<'_>);
    /// Called when the world runs again, after `look`. Returns a callback that the collector calls after it has released the
    /// observer's lock.
    fn finish(&self, collector: &Collector) -> Option<Afterwards>;
}

/// A callback into the program, which may do anything.
pub(crate) type Afterwards = Box<dyn FnOnce()>;

/// The observer that belongs to a world.
pub(crate) struct Observing {
    /// Guards the observer's data.
    pub(crate) lock: SharedLock,
    pub(super) armed: AtomicBool,
    pub(super) observer: OnceLock<Arc<dyn Observer + Send + Sync>>,
}

impl Observing {
    pub(super) fn new(lock: SharedLock) -> Observing {
        Observing { lock, armed: AtomicBool::new(false), observer: OnceLock::new() }
    }

    /// Sets the observer, once and for all. It is not called before it is armed.
    pub(crate) fn set(&self, observer: Arc<dyn Observer + Send + Sync>) {
        let _ = self.observer.set(observer);
    }

    /// Sets whether collections call the observer.
    pub(crate) fn arm(&self, armed: bool) {
        self.armed.store(armed, Ordering::Relaxed);
    }

    /// Called in a forked child: the lock has no holder, and the threads that the observer needs do not exist
    /// (`.fork.services`).
    ///
    /// # Safety
    /// The caller is the only thread of the process, and has no guard of the lock.
    pub(crate) unsafe fn forget_in_child(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.lock.reset_in_child() };
        self.arm(false);
    }
}
