//! The data that a recording needs about a world besides its events: its fixed properties, its present state, and its counters. All
//! of them are returned as values.
//!
//! A recording that joins a running world has missed the events that report its blocks and its threads.
//! [`World::with_held_blocks`] and [`World::with_threads`] describe them, under the locks that keep them from changing until the
//! recording has selected its events.

use std::time::Duration;

use super::World;
use super::world::ThreadInfo;
use crate::events::Labels;
use crate::heap::layout::{BLOCK_BYTES, CHUNK_BYTES, MAX_SMALL, Space};
use crate::heap::sweep::SpaceBytes;
use crate::os::callback::refuse_inside;
use crate::sync::Ordering;
use crate::world::stop_info::ThreadStopInfo;

/// The properties of a world that never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorldFacts {
    /// The world's number in this process; never used twice. Debuggers and `stopworld core` show it.
    pub number: u64,
    /// The address by which events name the world.
    pub address: usize,
    /// The start address of the heap.
    pub heap_base: usize,
    /// The address space reserved for the heap, in bytes.
    pub reserved_bytes: usize,
    /// The heap limit, in bytes.
    pub limit_bytes: u64,
    /// The addresses by which events name the spaces: small, pinned, large.
    pub pools: [usize; 3],
    /// The number of threads that mark.
    pub markers: u32,
}

/// A block of the heap that is in use, or the blocks of a large object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBlock {
    /// The block's start address.
    pub address: usize,
    /// The block's size in bytes.
    pub bytes: usize,
    /// The space that holds it.
    pub space: Space,
}

/// The counters of a world. The counters of the last collection are 0 before the first collection. All are read without waiting: during
/// a collection some may still be those of the previous collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorldCounters {
    /// The number of finished collections.
    pub collections: u32,
    /// Bytes allocated up to the last collection.
    pub allocated_bytes: u64,
    /// Bytes handed to threads since the last collection. `None` if the allocation lock is held by another thread.
    pub acquired_bytes: Option<u64>,
    /// The sum of all pauses, in nanoseconds.
    pub pause_total_ns: u64,
    /// The pause of the last collection, in nanoseconds.
    pub pause_ns: u64,
    /// The time from the end of the last pause but one to the end of the last pause, in nanoseconds.
    pub period_ns: u64,
    /// Bytes that the last collection left alive.
    pub live: SpaceBytes,
    /// Bytes of memory that the heap holds now.
    pub committed_bytes: u64,
    /// Bytes of memory that the heap held after the last collection.
    pub committed_after_collection: u64,
    /// The number of attached threads. `None` if the list of threads is in use.
    pub threads: Option<usize>,
}

impl World {
    /// The size of a block of the heap, in bytes.
    pub const BLOCK_BYTES: usize = BLOCK_BYTES;
    /// The unit in which a heap commits memory, in bytes.
    pub const CHUNK_BYTES: usize = CHUNK_BYTES;
    /// The size of the largest object that is not a large object, in bytes.
    pub const MOST_SMALL_BYTES: usize = MAX_SMALL;

    /// Returns the properties of the world that never change. Costs a few loads.
    pub fn facts(&self) -> WorldFacts {
        let collector = self.collector();
        let heap = &collector.heap;
        WorldFacts {
            number: collector.threads.published().number(),
            address: std::ptr::from_ref(&**self.inner()) as usize,
            heap_base: heap.blocks.base(),
            reserved_bytes: heap.blocks.reserved_bytes(),
            limit_bytes: heap.limit_bytes(),
            pools: Space::ALL.map(|space| heap.pool(space)),
            markers: collector.markers.count(),
        }
    }

    /// Returns the counters of the world. Takes no lock that is in use, so it does not wait.
    pub fn counters(&self) -> WorldCounters {
        let collector = self.collector();
        let seen = collector.figures.see();
        WorldCounters {
            collections: collector.collections.load(Ordering::Relaxed),
            allocated_bytes: collector.allocated_total.load(Ordering::Relaxed),
            acquired_bytes: collector.acquired_bytes(),
            pause_total_ns: seen.pause_total_ns,
            pause_ns: seen.pause_ns,
            period_ns: seen.period_ns,
            live: seen.live,
            committed_bytes: collector.heap.committed_bytes(),
            committed_after_collection: seen.committed_bytes,
            threads: collector.threads.count_now(),
        }
    }

    /// Returns the time between two ticks, if the world's time is being profiled. Waits for a thread that starts or stops the
    /// ticks.
    pub fn tick_interval(&self) -> Option<Duration> {
        refuse_inside("World::tick_interval");
        self.inner().ticker.interval_ns(&self.collector().threads).map(Duration::from_nanos)
    }

    /// Calls `look` with the blocks in use, in order of address, under the allocation lock: no block is acquired or released until
    /// `look` returns. Waits for the lock; then visits each block of the heap once, and allocates memory for the list.
    ///
    /// # Deadlock
    /// `look` must not allocate in this world, collect, or wait for a thread that does.
    pub fn with_held_blocks<R>(&self, look: impl FnOnce(&[HeldBlock]) -> R) -> R {
        refuse_inside("World::with_held_blocks");
        let collector = self.collector();
        let threads = &collector.threads;
        let allocation = threads.lock(&threads.locks().allocation);
        let mut held = Vec::new();
        collector.heap.for_each_held(&allocation, |address, bytes, space| {
            held.push(HeldBlock { address, bytes, space });
        });
        look(&held)
    }

    /// Calls `look` with the attached threads, under the lock of their list: no thread attaches or detaches until `look` returns.
    /// Waits for the lock, and allocates memory for the list.
    ///
    /// # Deadlock
    /// `look` must not attach or detach a thread, collect, or wait for a thread that does.
    pub fn with_threads<R>(&self, look: impl FnOnce(&[ThreadInfo]) -> R) -> R {
        refuse_inside("World::with_threads");
        self.collector().threads.with_live(|live| look(&described(live)))
    }

    /// Does the same as [`with_threads`](Self::with_threads) without waiting: returns `None` if the list is in use. For a thread that may
    /// itself hold the list's lock, as in a panic hook.
    pub fn try_with_threads<R>(&self, look: impl FnOnce(&[ThreadInfo]) -> R) -> Option<R> {
        let mut result = None;
        self.collector().threads.look_now(|live| result = Some(look(&described(live))));
        result
    }
}

fn described(live: &[&'static ThreadStopInfo]) -> Vec<ThreadInfo> {
    let labels = Labels::of_the_process();
    let describe = |record: &&'static ThreadStopInfo| ThreadInfo {
        label: labels.label_with(std::ptr::from_ref(*record) as usize, record.name().as_str()),
        name: record.name(),
        tid: record.tid(),
        blocking: record.is_blocking(),
        suspended: record.is_suspended(),
        stack_ptr: record.stack_ptr(),
    };
    live.iter().map(describe).collect()
}
