//! What all handles of a world share: the collector, the profilers, and the start of the finalizer thread.
//!
//! [`World`](super::World) is a handle to this; [`Mutator`](super::Mutator) and the service threads hold it too. It knows none of them.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use super::finalizer_end;
use crate::collector::finalize::Running;
use crate::collector::report::{CollectionReport, Reason};
use crate::collector::{CloseError, CollectError, Collecting, Collector, Observer, cache_of};
use crate::heap::layout::{BLOCK_BYTES, CHUNK_BYTES, Space};
use crate::os::clock::now_ns;
use crate::os::spawn::spawn;
use crate::profile::census::profiler::Profiler;
use crate::profile::ticker::Ticker;
use crate::sync::{LockGuard, Ordering};
use crate::world::AttachError;
use crate::world::stop_info::ThreadStopInfo;

/// What all handles of a world share.
pub(crate) struct Inner {
    pub(crate) collector: Collector,
    pub(crate) profiler: Arc<Profiler>,
    /// Its thread has it too.
    pub(crate) ticker: Arc<Ticker>,
    /// Runs on the finalizer thread: attaches it, reports how that went, and runs finalizers until the world closes. A field,
    /// because the finalizer thread is a mutator, and what is here knows no mutators.
    pub(super) finalizer_thread: FinalizerThread,
}

/// What the finalizer thread runs. Sends one result: `Ok` once the thread is attached.
pub(super) type FinalizerThread = fn(Arc<Inner>, SyncSender<Result<(), AttachError>>);

/// What there is to tell of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadNews {
    Attached,
    Detached,
}

impl Inner {
    /// The first events of a world: itself, its limit, its spaces, and what all of these are called.
    pub(super) fn tell_of_creation(&self, limit_bytes: usize) {
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
    pub(super) fn tell_of_thread(&self, record: &ThreadStopInfo, what: ThreadNews) {
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
        self.start_finalizers_if_due();
        // Only who sets `unless_after` can be told that somebody else has collected.
        report.ok_or(CollectError::Closed)
    }

    pub(super) fn close(&self, within: Duration) -> Result<(), CloseError> {
        let collector = &self.collector;
        let deadline = now_ns().saturating_add(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX));
        collector.threads.close();
        // Both are told to end before one is waited for.
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
    /// The thread is one of this world's, and is the calling one or does not exist any more. `allocation` is the guard of this
    /// world's allocation lock.
    pub(super) unsafe fn release_cache(&self, allocation: &LockGuard<'_>, record: &ThreadStopInfo) {
        // SAFETY: under the allocation lock.
        if let Some(cache) = unsafe { cache_of(record) } {
            // SAFETY: by the caller. Only a thread that is gone can be in the middle of a sweep.
            unsafe { self.collector.heap.finish_sweep_of(allocation, cache) };
            self.collector.heap.release_cache(allocation, cache);
        }
        record.set_user(std::ptr::null_mut());
    }
}

impl Inner {
    /// Starts the finalizer thread unless it runs, and waits until it is attached, so that a later close finds it with the finalizers that
    /// are due. Never called inside a stop.
    pub(super) fn start_finalizers(self: &Arc<Self>) -> io::Result<()> {
        let finalizers = &self.collector.finalizers;
        if finalizers.started.swap(true, Ordering::Relaxed) || finalizers.closing.load(Ordering::Relaxed) {
            return Ok(());
        }
        finalizers.ended.store(0, Ordering::Relaxed);
        let (attached, attachment) = mpsc::sync_channel(1);
        let inner = Arc::clone(self);
        let spawned = spawn("finalizer", move || (inner.finalizer_thread)(Arc::clone(&inner), attached));
        let outcome = spawned.and_then(|_| {
            // The new thread may have to wait for a collection, which may have to stop this one.
            let attached = self.collector.threads.as_blocking(|| attachment.recv());
            attached.map_err(io::Error::other)?.map_err(io::Error::other)
        });
        if outcome.is_err() {
            finalizers.started.store(false, Ordering::Relaxed);
            finalizers.ended.store(1, Ordering::Relaxed);
        }
        outcome
    }

    /// After a collection: starts the thread if finalizers are due and it does not run, as in a forked child (`.fork.services`).
    pub(super) fn start_finalizers_if_due(self: &Arc<Self>) {
        let Collector { finalizers, threads, .. } = &self.collector;
        if !finalizers.started.load(Ordering::Relaxed) && finalizers.due(|| threads.lock(&finalizers.lock)) > 0 {
            // Without a thread the finalizers wait for the next collection.
            let _ = self.start_finalizers();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.collector.threads.published().withdraw();
        self.tell_of_the_end();
    }
}
