//! What a mutator sees: the world, its mutators, and handles.
//!
//! A [`World`] is a heap, the threads that use it, and the way they are stopped. Several may live in one process. A
//! thread becomes a [`Mutator`] by [`World::attach`], whose promise is the only one that a program makes; from then
//! on allocating and following references are safe code.

mod builder;
mod described;
mod finalizer;
mod handles;
mod mutator;
mod profiling;
mod reserve;

pub use crate::collector::CloseError;
pub use builder::{BuildError, Stopper, WorldBuilder};
pub use described::{DescribeError, Described, DescribedType};
pub use handles::{RangeGuard, Root, StackGuard};
pub use mutator::{Mutator, OutOfMemory};
pub use reserve::LimitSetting;

use std::sync::Arc;
use std::time::Duration;

use crate::collector::Observer;
use crate::collector::finalize::Running;
use crate::collector::report::{CollectionReport, Reason};
use crate::collector::{CollectError, Collecting, Collector, cache_of};
use crate::events::{Events, Label, LabelError};
use crate::heap::layout::{BLOCK_BYTES, CHUNK_BYTES, Space};
use crate::heap::verify::Verified;
use crate::os::callback::refuse_inside;
use crate::os::clock::{Budget, now_ns};
use crate::os::signals;
use crate::os::spawn::spawn;
use crate::os::thread::NotCancelled;
use crate::profile::census::profiler::Profiler;
use crate::profile::ticker::Ticker;
use crate::profile::{self, CentreId, TickError, TimeProfile};
use crate::sabotage::{Guard, removed};
use crate::sync::{LockGuard, Ordering};
use crate::world::registry::{Threads, WorldHooks};
use crate::world::stop_info::ThreadStopInfo;
use crate::world::vtable::ThreadVtable;
use crate::world::{AttachError, StopError, ThreadName, Tid};

/// How long a world that is dropped waits for its finalizers.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// What all handles of a world share.
pub(crate) struct Inner {
    pub(crate) collector: Collector,
    pub(crate) profiler: Arc<Profiler>,
    /// Its thread has it too.
    pub(crate) ticker: Arc<Ticker>,
}

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

/// Why a thread could not be spawned.
#[derive(Debug, thiserror::Error)]
#[error("the thread \"{name}\" could not be started: {error}")]
pub struct SpawnError {
    name: String,
    #[source]
    error: std::io::Error,
}

impl World {
    /// Begins to describe a world.
    pub fn builder() -> WorldBuilder {
        WorldBuilder::default()
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

    /// Makes the calling thread a mutator of this world, until the returned guard is dropped.
    ///
    /// # Errors
    /// The thread is attached already, the world is closed, or the system refused.
    ///
    /// # Safety
    /// While attached, the thread keeps every `Gc` of this world that it will use again only where the collector
    /// looks: on its stack or in its registers, in other collected objects, in a [`Root`], or in a registered
    /// range. Not in a `Box`, a `Vec`, a thread-local, or a future. The same holds for references into objects, which
    /// are `Send` where a `Gc` is not (a scoped thread's closure lies in a `Box`), and for the finalizers that the thread
    /// registers. In a [blocking](Mutator::blocking) region, and in code that the collector calls (an event
    /// [sink](crate::events::Sink), a [thread vtable](ThreadVtable)), it uses neither a `Gc` nor the mutator, not even one that is a
    /// thread-local. It uses no `Gc` after it detached, and gives none to another world.
    pub unsafe fn attach(&self, name: &str) -> Result<Mutator, AttachError> {
        Mutator::attach(self.clone(), name)
    }

    /// Starts a thread that is a mutator of this world while it runs `body`.
    ///
    /// It begins in the cost centre stack of the calling thread. What `body` captures and returns lies in ordinary memory and is not scanned; the types see to it that no
    /// `Gc` is among it.
    ///
    /// # Errors
    /// The system gave no thread, or it could not be attached.
    ///
    /// # In the child of a fork
    /// It may hang there: std keeps a lock of its own while a thread of it begins or ends, and if another thread held that when the
    /// process forked, the child can start no thread of std's any more. A thread of libc's (`pthread_create`) that
    /// [`attach`](Self::attach)es always can be started; the collector's own are.
    ///
    /// # Safety
    /// `body` keeps the promise of [`attach`](Self::attach).
    pub unsafe fn spawn<R: Send + 'static>(
        &self,
        name: &str,
        body: impl FnOnce(&Mutator) -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, SpawnError> {
        refuse_inside("World::spawn");
        let world = self.clone();
        let failed = |error| SpawnError { name: name.to_owned(), error };
        let own_name = name.to_owned();
        let cost_stack = profile::current_stack();
        let (attached, attachment) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || match Mutator::attach(world, &own_name) {
                Ok(mutator) => {
                    mutator.set_cost_stack(cost_stack);
                    let _ = attached.send(Ok(()));
                    Some(body(&mutator))
                }
                Err(error) => {
                    let _ = attached.send(Err(error));
                    None
                }
            })
            .map_err(failed)?;
        let threads = Arc::clone(&self.collector().threads);
        // The new thread may have to wait for a collection, which may have to stop us.
        match threads.as_blocking(|| attachment.recv()) {
            Ok(Ok(())) => Ok(JoinHandle { thread, threads }),
            Ok(Err(error)) => Err(failed(std::io::Error::other(error))),
            Err(_) => Err(failed(std::io::Error::other("the thread ended before it was attached"))),
        }
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
    #[cfg(feature = "cli")]
    pub(crate) fn induce_next_collection(&self) {
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

    /// Registers ordinary memory as a root: every word of it is scanned conservatively, until the guard is dropped.
    /// `None` if too many ranges are registered.
    ///
    /// # Safety
    /// The memory is readable until then, and words in it that are references are written as whole words.
    #[must_use]
    pub unsafe fn register_range(&self, start: *const u8, bytes: usize) -> Option<RangeGuard> {
        RangeGuard::new(self, start as usize, bytes)
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

impl Inner {
    /// The first events of a world: itself, its limit, its spaces, and what all of these are called.
    fn tell_of_creation(&self, limit_bytes: usize) {
        let Collector { events, heap, .. } = &self.collector;
        let world = std::ptr::from_ref(self) as usize;
        let (base, reserved) = (heap.blocks.base(), heap.blocks.reserved_bytes());
        events.fire_world_created(world, base, reserved, CHUNK_BYTES, BLOCK_BYTES);
        events.name(world, "world");
        events.fire_commit_limit_set(limit_bytes);
        for space in Space::ALL {
            events.fire_pool_created(heap.pool(space), space as u32);
            events.name(heap.pool(space), space.name());
        }
    }

    fn tell_of_the_end(&self) {
        let Collector { events, heap, .. } = &self.collector;
        for space in Space::ALL {
            events.fire_pool_closed(heap.pool(space), space as u32);
        }
        events.fire_world_closed(std::ptr::from_ref(self) as usize, heap.blocks.base());
    }

    /// A thread has joined, or is about to leave: its record and the label of its name.
    fn tell_of_thread(&self, record: &ThreadStopInfo, what: ThreadNews) {
        let events = &self.collector.events;
        let (tid, address) = (record.tid().0 as u32, std::ptr::from_ref(record) as usize);
        // When nobody listens too: who comes later wants to know what the threads are called.
        let label = events.name(address, record.name().as_str());
        match what {
            ThreadNews::Attached => events.fire_thread_attached(tid, address, label),
            ThreadNews::Detached => events.fire_thread_detached(tid, address, label),
        }
    }

    pub(crate) fn collect_as_anyone(self: &Arc<Self>, reason: Reason) -> Result<CollectionReport, CollectError> {
        self.collect_observed(reason, None)
    }

    /// The same, with somebody who looks at what lives.
    pub(crate) fn collect_observed(
        self: &Arc<Self>,
        reason: Reason,
        observer: Option<&dyn Observer>,
    ) -> Result<CollectionReport, CollectError> {
        // Not attached perhaps, and it fires in the stopped world, where nothing may be allocated on first use
        // (`.stop.no-malloc`): of a library that was loaded late, thread-local storage is.
        crate::events::record::ring::meet();
        let report = self
            .collector
            .threads
            .with_own_stack(|own| self.collector.collect(Collecting { observer, ..Collecting::now(own) }, reason))?;
        finalizer::ensure_started_if_due(self);
        // Only who sets `unless_after` can be told that somebody else has collected.
        report.ok_or(CollectError::Closed)
    }

    fn close(&self, within: Duration) -> Result<(), CloseError> {
        let collector = &self.collector;
        let deadline = now_ns().saturating_add(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX));
        collector.threads.close();
        // Both are told to end before one is waited for.
        collector.finalizers.closing.store(true, Ordering::Relaxed);
        collector.finalizers.announce();
        let has_ticked = self.ticker.stop(&collector.threads, Some(deadline));
        let done = collector.threads.as_blocking(|| finalizer::wait_for_end(&collector.finalizers, deadline));
        if !done {
            let due = collector.finalizers.due(|| collector.threads.lock(&collector.finalizers.lock));
            return Err(match collector.finalizers.running() {
                Some(Running { type_name, since }) => CloseError::Finalizer { within, type_name, running: since, due },
                None => CloseError::Finalizers { within, due },
            });
        }
        if has_ticked { Ok(()) } else { Err(CloseError::Ticks { within }) }
    }

    /// Returns the blocks of a thread to the heap.
    ///
    /// # Safety
    /// The thread is one of this world's, and is the calling one or does not exist any more. `allocation` is the guard of this
    /// world's allocation lock.
    unsafe fn release_cache(&self, allocation: &LockGuard<'_>, record: &ThreadStopInfo) {
        // SAFETY: under the allocation lock.
        if let Some(cache) = unsafe { cache_of(record) } {
            // SAFETY: by the caller. Only a thread that is gone can be in the middle of a sweep.
            unsafe { self.collector.heap.finish_sweep_of(allocation, cache) };
            self.collector.heap.release_cache(allocation, cache);
        }
        record.set_user(std::ptr::null_mut());
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.collector.threads.published().withdraw();
        self.tell_of_the_end();
    }
}

/// What there is to tell of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadNews {
    Attached,
    Detached,
}

impl WorldHooks for Inner {
    fn thread_exits(&self, threads: &Threads, record: &'static ThreadStopInfo) {
        self.ticker.leaves(record, &self.collector.events);
        {
            let allocation = record.lock(&threads.locks().allocation);
            // SAFETY: the calling thread's record, and its world's lock.
            unsafe { self.release_cache(&allocation, record) };
        }
        self.tell_of_thread(record, ThreadNews::Detached);
        crate::events::record::ring::leave();
        threads.detach(record);
    }

    fn thread_lost(&self, record: &'static ThreadStopInfo, allocation: &LockGuard<'_>) {
        // SAFETY: the thread does not exist any more, and `Threads` calls this with its own lock.
        unsafe { self.release_cache(allocation, record) };
    }

    fn centre_defined(&self, number: u32) {
        if let Some(centre) = CentreId::from_raw(number) {
            let [label, module, place] = centre.labels();
            self.collector.events.fire_cost_centre(number, label, module, place, u32::from(centre.is_caf()));
        }
    }

    fn fork_prepare(&self) {
        self.collector.finalizers.lock.acquire();
        self.collector.roots.lock.acquire();
        self.collector.ranges.lock.acquire();
        self.collector.observing.lock.acquire();
        self.ticker.before_fork();
        // Who is in the sweep gate is not waited for, it may be suspended: the child ends what it had begun.
        self.collector.events.before_fork();
    }

    unsafe fn fork_parent(&self) {
        let Collector { events, finalizers, roots, ranges, observing, .. } = &self.collector;
        // SAFETY: the end of `fork_prepare`, which took these without guards.
        unsafe {
            events.after_fork_in_parent();
            self.ticker.after_fork_in_parent();
            for lock in [&*observing.lock, &ranges.lock, &roots.lock, &finalizers.lock] {
                lock.release();
            }
        }
    }

    unsafe fn fork_child(&self) {
        let Collector { events, finalizers, roots, ranges, observing, heap, markers, .. } = &self.collector;
        // SAFETY: the end of `fork_prepare`, which took these locks without guards, on the only thread of the process.
        unsafe {
            events.after_fork_in_child();
            self.profiler.forget_in_child();
            observing.forget_in_child();
            for lock in [&ranges.lock, &roots.lock, &finalizers.lock] {
                lock.reset_in_child();
            }
        }
        heap.forget_sweeps_in_child();
        if !removed(Guard::ForkServices) {
            // SAFETY: as above.
            unsafe { self.ticker.after_fork_in_child(markers.time()) };
        }
        if !removed(Guard::ForkServices) {
            markers.forget_helpers();
        }
        self.collector.finalizers.forget_thread();
    }
}

/// A spawned mutator thread.
pub struct JoinHandle<R> {
    thread: std::thread::JoinHandle<Option<R>>,
    threads: Arc<Threads>,
}

impl<R> JoinHandle<R> {
    /// Waits for the thread's end; a mutator counts as blocking meanwhile.
    ///
    /// # Errors
    /// What the thread panicked with.
    ///
    /// # Panics
    /// Never: a thread that could not attach has no handle.
    pub fn join(self) -> std::thread::Result<R> {
        refuse_inside("JoinHandle::join");
        let Self { thread, threads } = self;
        let result = threads.as_blocking(|| thread.join())?;
        Ok(result.expect("a thread that could not attach has no handle"))
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The thread's handle.
    pub fn thread(&self) -> &std::thread::Thread {
        self.thread.thread()
    }
}
