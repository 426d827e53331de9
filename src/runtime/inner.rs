//! The state that all handles of a world share: the collector, the profilers, and the start of the finalizer thread.
//!
//! [`World`](super::World) is a handle to it; [`Mutator`](super::Mutator) and the service threads hold it too. This module
//! depends on none of them.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use super::finalizer_end;
use crate::collector::finalize::Running;
use crate::collector::report::{CollectionReport, Reason};
use crate::collector::{CloseError, CollectError, Collecting, Collector, Observer, cache_of};
use crate::heap::layout::{BLOCK_BYTES, CHUNK_BYTES, Space};
use crate::os::callback::refuse_inside;
use crate::os::clock::now_ns;
use crate::os::spawn::spawn;
use crate::profile::census::profiler::Profiler;
use crate::profile::ticker::Ticker;
use crate::sync::{LockGuard, Ordering};
use crate::world::AttachError;
use crate::world::stop_info::ThreadStopInfo;

/// The state that all handles of a world share.
pub(crate) struct Inner {
    pub(crate) collector: Collector,
    pub(crate) profiler: Arc<Profiler>,
    /// The ticker. It is shared with the ticker's thread.
    pub(crate) ticker: Arc<Ticker>,
    /// The function that runs on the finalizer thread: attaches it, reports the result, and runs finalizers until the world closes. It is
    /// a function pointer, because the finalizer thread is a mutator, and this module must not depend on mutators.
    pub(super) finalizer_thread: FinalizerThread,
}

/// The function of the finalizer thread. Sends one result: `Ok` once the thread is attached.
pub(super) type FinalizerThread = fn(Arc<Inner>, SyncSender<Result<(), AttachError>>);

/// A change of a thread that is reported as an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadNews {
    Attached,
    Detached,
}

impl Inner {
    /// Fires the first events of a world: the world, its limit, its spaces, and the names of all of these.
    pub(super) fn report_creation(&self, limit_bytes: usize) {
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

    fn report_end(&self) {
        let Collector { events, heap, .. } = &self.collector;
        for space in Space::ALL {
            events.fire_pool_closed(heap.pool(space), space as u32);
        }
        events.fire_world_closed(std::ptr::from_ref(self) as usize, heap.blocks.base());
    }

    /// Reports that a thread has attached, or is about to detach, with its record and the label of its name.
    pub(super) fn report_thread(&self, record: &ThreadStopInfo, what: ThreadNews) {
        let events = &self.collector.events;
        let (tid, address) = (record.tid().0 as u32, std::ptr::from_ref(record) as usize);
        // The name is stored even without a consumer: a consumer that starts later needs the names of the threads.
        let label = events.name(address, record.name().as_str());
        match what {
            ThreadNews::Attached => events.fire_thread_attached(tid, address, label),
            ThreadNews::Detached => events.fire_thread_detached(tid, address, label),
        }
    }

    pub(crate) fn collect_as_anyone(self: &Arc<Self>, reason: Reason) -> Result<CollectionReport, CollectError> {
        self.collect_observed(reason, None)
    }

    /// Collects, with an observer that sees the live objects.
    pub(crate) fn collect_observed(
        self: &Arc<Self>,
        reason: Reason,
        observer: Option<&dyn Observer>,
    ) -> Result<CollectionReport, CollectError> {
        // The calling thread may not be attached, and it fires events in the stopped world, where nothing may be allocated on
        // first use (`.stop.no-malloc`). The thread-local storage of a library that was loaded late is allocated on first use.
        crate::events::record::ring::allocate_thread_local();
        let collected = self
            .collector
            .threads
            .with_own_stack(|own| self.collector.collect(Collecting { observer, ..Collecting::now(own) }, reason))?;
        self.start_finalizers_if_due();
        // `None` would mean that another thread has collected, which is only possible with `unless_after`.
        Ok(collected.ok_or(CollectError::Closed)?.end())
    }

    pub(super) fn close(&self, within: Duration) -> Result<(), CloseError> {
        let collector = &self.collector;
        let deadline = now_ns().saturating_add(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX));
        collector.threads.close();
        // Both threads are requested to end before this thread waits for one of them.
        collector.finalizers.closing.store(true, Ordering::Relaxed);
        collector.finalizers.announce();
        let has_ticked = self.ticker.stop(&collector.threads, Some(deadline));
        let done = collector.threads.as_blocking(|| finalizer_end::wait_for_end(&collector.finalizers, deadline));
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
    /// The thread is one of this world's, and is the calling thread or does not exist any more. `allocation` is the guard of
    /// this world's allocation lock.
    pub(super) unsafe fn release_cache(&self, allocation: &LockGuard<'_>, record: &ThreadStopInfo) {
        // SAFETY: under the allocation lock.
        if let Some(cache) = unsafe { cache_of(record) } {
            // SAFETY: the caller's promise. Only a thread that does not exist any more can be in the middle of a sweep.
            unsafe { self.collector.heap.finish_sweep_of(allocation, cache) };
            self.collector.heap.release_cache(allocation, cache);
        }
        record.set_user(std::ptr::null_mut());
    }
}

impl Inner {
    /// Starts the finalizer thread unless it is running, and waits until it is attached, so that a later close finds it and the
    /// finalizers that are due. Never called inside a stop.
    pub(super) fn start_finalizers(self: &Arc<Self>) -> io::Result<()> {
        let finalizers = &self.collector.finalizers;
        if finalizers.started.swap(true, Ordering::Relaxed) || finalizers.closing.load(Ordering::Relaxed) {
            return Ok(());
        }
        finalizers.ended.store(0, Ordering::Relaxed);
        // The padding of what is moved to a block may contain what was on this stack, such as the object that needs the thread.
        #[cfg(feature = "check")]
        let own_memory = crate::check::OwnMemory::begin();
        let (attached, attachment) = mpsc::sync_channel(1);
        let inner = Arc::clone(self);
        let spawned = spawn("finalizer", move || (inner.finalizer_thread)(Arc::clone(&inner), attached));
        #[cfg(feature = "check")]
        drop(own_memory);
        let outcome = spawned.and_then(|_| {
            // The new thread may have to wait for a collection, which may have to stop the calling thread.
            let attached = self.collector.threads.as_blocking(|| attachment.recv());
            attached.map_err(io::Error::other)?.map_err(io::Error::other)
        });
        if outcome.is_err() {
            finalizers.started.store(false, Ordering::Relaxed);
            finalizers.ended.store(1, Ordering::Relaxed);
        }
        outcome
    }

    /// Called after a collection: starts the thread if finalizers are due and it is not running, as in a forked child
    /// (`.fork.services`).
    pub(super) fn start_finalizers_if_due(self: &Arc<Self>) {
        let Collector { finalizers, threads, .. } = &self.collector;
        if !finalizers.started.load(Ordering::Relaxed) && finalizers.due(|| threads.lock(&finalizers.lock)) > 0 {
            // If it cannot be started, the finalizers wait for the next collection.
            let _ = self.start_finalizers();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // This may also be the drop of a handle that does not keep the world open (`WeakWorld`): it waits for locks and frees memory.
        refuse_inside("the last drop of a World");
        self.collector.threads.published().withdraw();
        self.report_end();
    }
}
