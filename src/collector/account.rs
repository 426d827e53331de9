//! Allocated and live bytes, readable while the program runs.

use std::time::Duration;

use super::caches::cache_of;
use super::state::Collector;
use crate::heap::cache::AllocationCache;
use crate::os::clock::Budget;
use crate::os::thread::sleep_ns;
use crate::sync::Ordering;
use crate::world::stop_info::ThreadStopInfo;

impl Collector {
    /// Returns the number of bytes allocated so far, with or without collections. Exact for the calling thread, and for all threads
    /// that are stopped, in a blocking region or detached; for a thread that is allocating now, wrong by up to a block of 16 KiB.
    /// Returns the value of the last collection if a thread holds the heap's lock for longer than a second (it may be suspended), or
    /// if the caller holds that lock (a vtable that is being notified of a thread).
    pub(crate) fn allocated_bytes(&self) -> u64 {
        let Self { threads, heap, .. } = self;
        let up_to_the_last = || self.allocated_total.load(Ordering::Relaxed);
        let mut allocated = None;
        threads.as_blocking(|| {
            let allocation = &threads.locks().allocation;
            let mut budget = Budget::new(Duration::from_secs(1));
            if allocation.is_mine() {
                return;
            }
            let Ok(held) = allocation.lock_within(&mut budget) else { return };
            let mut look = |live: &[&'static ThreadStopInfo]| {
                // SAFETY: the allocation lock is held.
                let caches = live.iter().filter_map(|record| unsafe { cache_of(record) });
                let unused = caches.map(AllocationCache::unused_by_now).sum::<usize>() as u64;
                let state = heap.state(&held);
                let acquired = state.acquired_bytes + self.unused_bytes.load(Ordering::Relaxed);
                allocated = Some(up_to_the_last() + acquired.saturating_sub(unused + state.returned_bytes));
            };
            // Other threads hold the list lock only briefly.
            while !threads.look_now(&mut look) && budget.slice(1_000_000, sleep_ns).is_some() {}
        });
        allocated.unwrap_or_else(up_to_the_last)
    }

    /// Returns the number of bytes handed to threads since the last collection. `None` while another thread holds the allocation lock.
    pub(crate) fn acquired_bytes(&self) -> Option<u64> {
        let held = self.threads.locks().allocation.try_lock().ok()?;
        Some(self.heap.state(&held).acquired_bytes)
    }

    /// Sets the minimum size of the heap, and raises the budget of the time up to the next collection accordingly.
    pub(crate) fn set_minimum_heap(&self, bytes: u64) {
        let Self { threads, heap, pacing, .. } = self;
        heap.set_minimum(bytes);
        // A stress test's fixed budget remains.
        if pacing.every.is_none() {
            let held = threads.lock(&threads.locks().allocation);
            // No collection ends as long as the lock is held, so the budget fits the live bytes.
            heap.raise_budget(&held, pacing.budget(self.live_bytes(), 1, heap.limit_bytes(), bytes));
        }
    }

    /// Returns the number of bytes that were alive after the last collection.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }
}
