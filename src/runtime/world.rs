//! [`World`], the handle to a world.

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

/// How long the drop of a world's last handle waits for finalizers.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// Closes the world when the program drops its last handle.
struct CloseOnDrop(Arc<Inner>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        refuse_inside("the last drop of a World");
        let _whole = NotCancelled::begin();
        // An error of the profile's last census is lost here: a drop has no result. `end_profile` returns it.
        let _ = self.0.end_profile();
        if let Err(error) = self.0.close(CLOSE_WITHIN)
            && let Some(listener) = &self.0.collector.on_failure
        {
            listener(&CollectError::NotClosed(error));
        }
    }
}

/// A collected heap, the threads attached to it, and the mechanism that stops them. Several worlds can live in one process.
///
/// A `World` is a handle. Cloning it is cheap (two reference counts). [`Mutator`](crate::Mutator)s,
/// [`RangeGuard`](crate::RangeGuard)s and [`StackGuard`](crate::StackGuard)s contain a handle too; [`Root`](crate::Root)s do not.
/// The drop of the last handle closes the world as [`close`](Self::close) does, and waits at most 5 s for finalizers.
///
/// ```
/// use stopworld::World;
///
/// let world = World::builder().heap_limit(64 << 20).build()?;
/// // SAFETY: the closure keeps no `Gc` outside its local variables.
/// let worker = unsafe {
///     world.spawn("worker", |mutator| {
///         let arrays = (0..1000).map(|_| mutator.alloc_array(100, |i| i as u64));
///         arrays.filter(|array| array.as_ref().is_ok_and(|array| array[99] == 99)).count()
///     })
/// }?;
/// let report = world.collect()?; // stops the worker, or finds that it has ended
/// assert_eq!(worker.join().unwrap(), 1000);
/// assert!(world.totals().collections >= report.number);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Aborts
/// An event [sink](crate::events::Sink) or a [`ThreadVtable`](crate::ThreadVtable) must not call functions that use the heap or
/// the thread list: such a call prints one line that names the function, and aborts the process.
#[derive(Clone)]
pub struct World {
    inner: Arc<Inner>,
    /// Keeps the world open. `None` in the handles of the world's own service threads, which do not keep it open.
    handle: Option<Arc<CloseOnDrop>>,
}

/// Counters of a world, returned by [`World::totals`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of finished collections.
    pub collections: u32,
    /// Bytes allocated since the world was built. Exact for the calling thread and for threads that are stopped, in a blocking
    /// region or detached. Each thread that is allocating at this moment adds an error of up to 16 KiB. If a thread holds the
    /// heap's lock for more than 1 s (it may be suspended), this is the value at the last collection.
    pub allocated_bytes: u64,
    /// Bytes of live objects after the last collection; 0 before the first.
    pub live_bytes: u64,
    /// Bytes of memory that the heap has committed.
    pub committed_bytes: u64,
    /// The number of finalizers that are due and have not run yet.
    pub finalizers_due: u64,
    /// The number of finalizers that have run, including those that panicked.
    pub finalizers_run: u64,
    /// The number of finalizers that panicked.
    pub finalizers_panicked: u64,
}

/// A snapshot of one attached thread, from [`World::threads`].
#[derive(Clone, Copy, Debug)]
pub struct ThreadInfo {
    /// The name given at attach, cut to 31 bytes.
    pub name: ThreadName,
    /// The kernel's thread id.
    pub tid: Tid,
    /// Whether the thread was in a [blocking](crate::Mutator::blocking) region.
    pub blocking: bool,
    /// Whether the thread was suspended by [`World::suspend`] or a debugger.
    pub suspended: bool,
    /// The value of the thread's `stack_ptr` slot, from the latest stop; 0 if no stop has written it.
    pub stack_ptr: usize,
    /// The label of the thread's name, which events use, if there was room for a label.
    pub label: Option<Label>,
}

impl World {
    /// Registers the library's handlers of forks (`pthread_atfork`), which the first world of the process does otherwise. libc calls handlers
    /// that were registered before them while the locks of all worlds are held: they must not use a world. A library can call this
    /// when it is loaded, before the program registers any.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn handle_forks() -> std::io::Result<()> {
        crate::world::fork::register()
    }

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

    /// Runs a full collection on the calling thread and returns its report.
    ///
    /// Any thread may call this, attached or not. The stack of an attached caller is scanned like those of the other threads.
    /// The pause grows with the amount of live data.
    ///
    /// If a collection has just stopped other threads, the call first lets them run for as long as that pause was (0.2 to 1 ms). So a thread
    /// that collects in a loop does not starve the others.
    ///
    /// # Errors
    /// The world could not be stopped, the paranoid mode found the heap damaged, or a thread did not leave a scope of an
    /// [`Arena`](crate::Arena) in time; in a scope of the calling thread it always fails. The world continues to run.
    pub fn collect(&self) -> Result<CollectionReport, CollectError> {
        self.inner.collect_as_anyone(Reason::Explicit)
    }

    /// Makes [`Reason::Explicit`] the reason of the next collection that pacing causes. Readers of .NET heap dumps expect a dump in
    /// a requested collection. With this function they get such a dump of the program's own data, without an extra pause.
    pub fn induce_next_collection(&self) {
        self.collector().heap.induce_next_collection();
    }

    /// Stops the world, checks every invariant of the heap, and returns what was checked. Reads the whole heap; frees nothing.
    ///
    /// # Errors
    /// The world could not be stopped, or the heap is damaged. The world continues to run.
    pub fn verify(&self) -> Result<Verified, CollectError> {
        let collector = self.collector();
        collector.threads.with_own_stack(|own| collector.verify(Collecting::now(own)))
    }

    /// Returns the heap limit in bytes: the value of [`WorldBuilder::heap_limit`](crate::WorldBuilder::heap_limit), rounded to
    /// whole blocks, or the limit that the world chose.
    pub fn heap_limit(&self) -> u64 {
        self.collector().heap.limit_bytes()
    }

    /// Returns the world's counters. Waits at most 1 s for the heap's lock; see [`Totals::allocated_bytes`].
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

    /// Returns the first damage that the paranoid mode found in the heap, as text; `None` if it found none. This includes
    /// collections caused by allocation, whose errors reach only the failure listener.
    pub fn damage(&self) -> Option<&str> {
        self.collector().damage.get().map(String::as_str)
    }

    /// Returns a snapshot of all attached threads. Takes the thread list lock, so it waits for a running collection.
    pub fn threads(&self) -> Vec<ThreadInfo> {
        refuse_inside("World::threads");
        self.with_threads(<[ThreadInfo]>::to_vec)
    }

    /// Starts a time profile: from now on every interval of time fires a [`Tick`](crate::events::EventId::Tick) event, which names
    /// the cost centre stack that a thread was in. [`TickClock`](crate::profile::TickClock) selects which time counts.
    ///
    /// # Errors
    /// A time profile is already running, or the system could not create its thread.
    pub fn start_ticking(&self, profile: TimeProfile) -> Result<(), TickError> {
        refuse_inside("World::start_ticking");
        let spawn = || {
            let (ticker, inner) = (Arc::clone(&self.inner.ticker), Arc::downgrade(&self.inner));
            // The new thread inherits the signal mask of this one, from its first instruction on.
            let _blocked = signals::block_all();
            let thread = spawn("stopworld-ticks", move || {
                ticker.run(|look| inner.upgrade().map(|inner| look(&inner.collector)).is_some());
            });
            thread.map(drop)
        };
        self.inner.ticker.start(profile, self.collector(), spawn)
    }

    /// Returns whether cost centres are in use now: allocations are charged to them, or a time profile is running. An interpreter
    /// can skip entering cost centres otherwise.
    pub fn is_profiled(&self) -> bool {
        self.collector().heap.charges().is_some() || self.inner.ticker.is_on()
    }

    /// Stops the time profile, if one is running. Ticks that are due are fired before this returns.
    pub fn stop_ticking(&self) {
        refuse_inside("World::stop_ticking");
        self.inner.ticker.stop(&self.collector().threads, None);
    }

    /// Suspends one attached thread until [`resume`](Self::resume). Collections in between leave it suspended. Has no effect on a
    /// thread that is suspended already.
    ///
    /// Waits until the thread has stopped, at most [`stop_timeout`](crate::WorldBuilder::stop_timeout). A thread in a blocking
    /// region continues there, and stops when it leaves the region.
    ///
    /// # Errors
    /// `tid` is no thread of this world or is the calling thread, a lock of the world could not be taken in time, or the thread
    /// did not stop in time. The thread then is not suspended.
    pub fn suspend(&self, tid: Tid) -> Result<(), StopError> {
        refuse_inside("World::suspend");
        self.collector().threads.suspend(tid, Budget::new(self.collector().stop_timeout))
    }

    /// Resumes a suspended thread. Returns `false` if it was not suspended.
    pub fn resume(&self, tid: Tid) -> bool {
        refuse_inside("World::resume");
        self.collector().threads.resume(tid)
    }

    /// Installs another thread vtable, which stops the world from now on, and returns the previous one. If `vtable` is installed
    /// already, nothing changes and it is returned.
    ///
    /// Waits for a running collection, at most [`stop_timeout`](crate::WorldBuilder::stop_timeout): the vtable that stopped the
    /// world also restarts it.
    ///
    /// # Errors
    /// The world's locks could not be taken in time, the previous vtable was still in use, or `vtable` refuses this world. The
    /// previous vtable then remains installed.
    pub fn set_thread_vtable(&self, vtable: Arc<dyn ThreadVtable>) -> Result<Arc<dyn ThreadVtable>, StopError> {
        refuse_inside("World::set_thread_vtable");
        let collector = self.collector();
        let new_kind = vtable_kind(vtable.name());
        let outgoing = collector.threads.set_vtable(vtable, Budget::new(collector.stop_timeout))?;
        collector.events.fire_vtable_swapped(vtable_kind(outgoing.name()), new_kind);
        Ok(outgoing)
    }

    /// Sets the heap limit in bytes, to at most the limit with which the world was built. Memory that is in use beyond a lower limit stays
    /// in use.
    pub fn set_heap_limit(&self, bytes: usize) {
        self.collector().heap.set_limit(bytes);
    }

    /// Sets the minimum size of the heap in bytes, as `-Xms` does for Java: no collection is due before the live objects and those
    /// allocated since fill seven eighths of it. The heap's memory up to this size is not returned to the kernel. Memory is still
    /// committed only as the heap grows, and [the limit](Self::heap_limit) still holds. 0, the default, lets the world decide by
    /// [`initial_heap`](crate::WorldBuilder::initial_heap) and [`growth`](crate::WorldBuilder::growth) alone.
    ///
    /// A larger minimum has an effect at once, a smaller one from the next collection on. Waits for the heap's lock, so for a
    /// running collection.
    pub fn set_minimum_heap(&self, bytes: usize) {
        refuse_inside("World::set_minimum_heap");
        self.collector().set_minimum_heap(bytes as u64);
    }

    /// Returns the minimum size of the heap in bytes.
    pub fn minimum_heap(&self) -> u64 {
        self.collector().heap.minimum_bytes()
    }

    /// Returns the world's events, with which the program listens, records and fires events of its own.
    pub fn events(&self) -> &Events {
        &self.collector().events
    }

    /// Stores a text and returns its label, a number by which events refer to the text. Each call returns a new label. The text
    /// is never freed.
    ///
    /// # Errors
    /// The text is longer than 255 bytes or contains a 0 byte, or the store of labels is full.
    pub fn telemetry_intern(&self, text: &str) -> Result<Label, LabelError> {
        self.events().telemetry_intern(text)
    }

    /// Names an address in the trace: that of an object, of a data structure, or of anything else that events mention.
    ///
    /// # Errors
    /// The label was never interned, the address is 0, or the store of labels is full.
    pub fn telemetry_label(&self, address: usize, label: Label) -> Result<(), LabelError> {
        self.events().telemetry_label(address, label)
    }

    /// Closes the world: ends its heap profile, lets no further thread attach, and runs the finalizers that are due, for at most
    /// `within`. Attached threads stay attached.
    ///
    /// Called in a finalizer, this does not wait: the other finalizers run after that finalizer has returned.
    ///
    /// # Errors
    /// A finalizer or a listener to the last ticks did not return in time.
    pub fn close(&self, within: Duration) -> Result<(), CloseError> {
        refuse_inside("World::close");
        // An error of the profile's last census is dropped. A caller that wants it calls `end_profile` before.
        let _ = self.inner.end_profile();
        self.inner.close(within)
    }
}

/// Returns the number by which events identify a vtable: 3 for one that is not built in.
fn vtable_kind(name: &str) -> u32 {
    ["signals", "safepoints", "mock-debugger"].iter().position(|known| *known == name).map_or(3, |kind| kind as u32)
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("totals", &self.totals()).field("open", &self.handle.is_some()).finish()
    }
}
