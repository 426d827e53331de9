//! The handle of a world.

use std::sync::Arc;
use std::time::Duration;

use super::inner::Inner;
use crate::collector::report::{CollectionReport, Reason};
use crate::collector::{CloseError, CollectError, Collecting, Collector};
use crate::events::{Events, Label, LabelError};
use crate::heap::verify::Verified;
use crate::os::callback::refuse_inside;
use crate::os::clock::Budget;
use crate::os::signals;
use crate::os::spawn::spawn;
use crate::os::thread::NotCancelled;
use crate::profile::{TickError, TimeProfile};
use crate::sync::Ordering;
use crate::world::vtable::ThreadVtable;
use crate::world::{StopError, ThreadName, Tid};

/// How long a world that is dropped waits for its finalizers.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// Closes the world when the last handle that a program holds goes.
struct CloseOnDrop(Arc<Inner>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        refuse_inside("the last drop of a World");
        let _whole = NotCancelled::begin();
        // A profile that can't be written in full is an error of `end_profile`; a drop has no result to return it in.
        let _ = self.0.end_profile();
        if let Err(error) = self.0.close(CLOSE_WITHIN)
            && let Some(listener) = &self.0.collector.on_failure
        {
            listener(&CollectError::NotClosed(error));
        }
    }
}

/// A heap, the threads that use it, and the way they are stopped. Cheap to clone; the last clone to go, mutators
/// included, closes the world.
#[derive(Clone)]
pub struct World {
    inner: Arc<Inner>,
    /// The world's own service threads have none: they do not keep it open.
    handle: Option<Arc<CloseOnDrop>>,
}

/// What a world has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Finished collections.
    pub collections: u32,
    /// Bytes allocated so far. Exact for the calling thread and for threads that stand, are in a blocking region or have
    /// detached; a thread that is allocating at this moment adds or lacks up to 16 KiB. As of the last collection if a
    /// suspended thread holds the heap's lock.
    pub allocated_bytes: u64,
    /// Bytes that were alive after the last collection; 0 before the first.
    pub live_bytes: u64,
    /// Bytes of memory that the heap holds.
    pub committed_bytes: u64,
    /// Finalizers that are due and wait for their turn.
    pub finalizers_due: u64,
    /// Finalizers that have run.
    pub finalizers_run: u64,
    /// Finalizers that panicked.
    pub finalizers_panicked: u64,
}

/// One thread of a world, as it was when somebody asked.
#[derive(Clone, Copy, Debug)]
pub struct ThreadInfo {
    /// The name given at attach.
    pub name: ThreadName,
    /// The kernel's id.
    pub tid: Tid,
    /// Whether it was in a blocking region.
    pub blocking: bool,
    /// Whether a user had suspended it.
    pub suspended: bool,
    /// The value of its `stack_ptr` slot: 0 unless a stop has written it.
    pub stack_ptr: usize,
}

impl World {
    pub(crate) fn of(inner: Arc<Inner>, keeps_open: bool) -> Self {
        let handle = keeps_open.then(|| Arc::new(CloseOnDrop(Arc::clone(&inner))));
        Self { inner, handle }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(crate) fn collector(&self) -> &Collector {
        &self.inner.collector
    }

    /// Collects now. From a mutator, its own stack is a root like the others'.
    ///
    /// # Errors
    /// The world could not be stopped; it runs on.
    pub fn collect(&self) -> Result<CollectionReport, CollectError> {
        self.inner.collect_as_anyone(Reason::Explicit)
    }

    /// Makes [`Reason::Explicit`] the reason of the next collection that pacing causes. The readers of .NET heap dumps want the
    /// dump of a collection that was requested; this gives them one with the program's own data, at no extra pause.
    pub fn induce_next_collection(&self) {
        self.collector().heap.induce_next_collection();
    }

    /// Stops the world and checks every invariant of the heap.
    ///
    /// # Errors
    /// The world could not be stopped, or the heap is damaged.
    pub fn verify(&self) -> Result<Verified, CollectError> {
        let collector = self.collector();
        collector.threads.with_own_stack(|own| collector.verify(Collecting::now(own)))
    }

    /// The most memory that the heap takes, in bytes: what [`WorldBuilder::heap_limit`] set, in whole blocks, or what the world
    /// chose.
    pub fn heap_limit(&self) -> u64 {
        self.collector().heap.limit_bytes()
    }

    /// What the world has done so far.
    pub fn totals(&self) -> Totals {
        refuse_inside("World::totals");
        let collector = self.collector();
        Totals {
            collections: collector.collections.load(Ordering::Relaxed),
            allocated_bytes: collector.allocated_bytes(),
            live_bytes: collector.live_bytes(),
            committed_bytes: collector.heap.committed_bytes(),
            finalizers_due: collector.finalizers.due(|| collector.threads.lock(&collector.finalizers.lock)),
            finalizers_run: collector.finalizers.run.load(Ordering::Relaxed),
            finalizers_panicked: collector.finalizers.panicked.load(Ordering::Relaxed),
        }
    }

    /// What the paranoid mode found wrong with the heap first, if it ever did: also in collections that nobody asked for,
    /// whose result nobody saw.
    pub fn damage(&self) -> Option<&str> {
        self.collector().damage.get().map(String::as_str)
    }

    /// The world's threads at this moment.
    pub fn threads(&self) -> Vec<ThreadInfo> {
        refuse_inside("World::threads");
        self.collector().threads.with_live(|live| {
            live.iter()
                .map(|record| ThreadInfo {
                    name: record.name(),
                    tid: record.tid(),
                    blocking: record.is_blocking(),
                    suspended: record.is_suspended(),
                    stack_ptr: record.stack_ptr(),
                })
                .collect()
        })
    }

    /// Begins to profile the time: from now on each interval of it is a [`Tick`](crate::events::EventId::Tick) event, which says
    /// where a thread was. The text of [`TickClock`](crate::profile::TickClock) and of its module says what counts.
    ///
    /// # Errors
    /// The world ticks already, or the system gave no thread.
    pub fn start_ticking(&self, profile: TimeProfile) -> Result<(), TickError> {
        refuse_inside("World::start_ticking");
        let spawn = || {
            let (ticker, inner) = (Arc::clone(&self.inner.ticker), Arc::downgrade(&self.inner));
            // The new thread has this one's mask from its first instruction on.
            let _blocked = signals::block_all();
            let thread = spawn("stopworld-ticks", move || {
                ticker.run(|look| inner.upgrade().map(|inner| look(&inner.collector)).is_some());
            });
            thread.map(drop)
        };
        self.inner.ticker.start(profile, self.collector(), spawn)
    }

    /// Whether it matters now in which cost centre stack a thread is: allocations are charged, or the time is profiled. For
    /// interpreters, which enter cost centres only then.
    pub fn is_profiled(&self) -> bool {
        self.collector().heap.charges().is_some() || self.inner.ticker.is_on()
    }

    /// Ends the ticks, if there are any. Those that are due come before this returns.
    pub fn stop_ticking(&self) {
        refuse_inside("World::stop_ticking");
        self.inner.ticker.stop(&self.collector().threads, None);
    }

    /// Suspends one thread until [`resume`](Self::resume), across any number of collections.
    ///
    /// # Errors
    /// There is no such thread, or it did not answer.
    pub fn suspend(&self, tid: Tid) -> Result<(), StopError> {
        refuse_inside("World::suspend");
        self.collector().threads.suspend(tid, Budget::new(self.collector().stop_timeout))
    }

    /// Lets a suspended thread go on. `false` if it was not suspended.
    pub fn resume(&self, tid: Tid) -> bool {
        refuse_inside("World::resume");
        self.collector().threads.resume(tid)
    }

    /// Changes how the world is stopped, and returns the outgoing way. Waits for a collection that is under way: the
    /// vtable that stopped is the one that starts.
    ///
    /// # Errors
    /// The world's locks were not to be had in time, or the present vtable is still in use; nothing has changed.
    pub fn set_thread_vtable(&self, vtable: Arc<dyn ThreadVtable>) -> Result<Arc<dyn ThreadVtable>, StopError> {
        refuse_inside("World::set_thread_vtable");
        let collector = self.collector();
        let new_kind = vtable_kind(vtable.name());
        let outgoing = collector.threads.set_vtable(vtable, Budget::new(collector.stop_timeout))?;
        collector.events.fire_vtable_swapped(vtable_kind(outgoing.name()), new_kind);
        Ok(outgoing)
    }

    /// The world's events: who listens, and to what.
    pub fn events(&self) -> &Events {
        &self.collector().events
    }

    /// Gives a text a number, by which events can name it. Each call gives a new one.
    ///
    /// # Errors
    /// The text is longer than 255 bytes or holds a 0, or the store of labels is full.
    pub fn telemetry_intern(&self, text: &str) -> Result<Label, LabelError> {
        self.events().telemetry_intern(text)
    }

    /// Gives an address a name: an object, a data structure, whatever events may speak of.
    ///
    /// # Errors
    /// Nobody interned the label, the address is 0, or the store of labels is full.
    pub fn telemetry_label(&self, address: usize, label: Label) -> Result<(), LabelError> {
        self.events().telemetry_label(address, label)
    }

    /// Closes the world: its heap profile ends, no thread attaches any more, and the finalizers that are due run, for at most `within`. In a
    /// finalizer this does not wait: the others run when it returns.
    ///
    /// # Errors
    /// A finalizer, or who listens to the last ticks, did not come to an end in time.
    pub fn close(&self, within: Duration) -> Result<(), CloseError> {
        refuse_inside("World::close");
        // What it can't tell for want of a last collection, its caller could have asked of `end_profile`.
        let _ = self.inner.end_profile();
        self.inner.close(within)
    }
}

/// What events call a way of stopping.
fn vtable_kind(name: &str) -> u32 {
    ["signals", "safepoints", "mock-debugger"].iter().position(|known| *known == name).map_or(3, |kind| kind as u32)
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("totals", &self.totals()).field("open", &self.handle.is_some()).finish()
    }
}
