//! Helpers for tests of events.

#![allow(dead_code, reason = "each test program uses its part")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use stopworld::events::{
    Categories, Category, Event, EventId, Events, Label, Labels, MemorySink, Record, Selection, Sink,
};
use stopworld::{Paranoid, Stopper, World};

/// Fires one event of each kind, in the order of the table, each field with the next value.
pub fn fire_everything(events: &Events, mut value: impl FnMut() -> u64) {
    events.fire_world_created(value() as usize, value() as usize, value() as usize, value() as usize, value() as usize);
    events.fire_world_closed(value() as usize, value() as usize);
    events.fire_pool_created(value() as usize, value() as u32);
    events.fire_pool_closed(value() as usize, value() as u32);
    events.fire_commit_limit_set(value() as usize);
    events.fire_thread_attached(value() as u32, value() as usize, value());
    events.fire_thread_detached(value() as u32, value() as usize, value());
    events.fire_suspend_begin(value() as u32, value() as u32);
    events.fire_suspend_end(value() as u32, value() as u32, value() as u32);
    events.fire_stop_abandoned(value() as u32, value() as u32);
    events.fire_gc_triggered(value() as u32);
    events.fire_gc_start(value() as u32, value() as u32);
    events.fire_roots_begin(value() as u32);
    events.fire_roots_end(value() as u32, value() as usize, value() as usize);
    events.fire_root_scanned(value() as usize, value() as u32, value() as usize);
    events.fire_area_scanned(value() as usize, value() as usize);
    events.fire_reference_fixed(value() as usize, value() as usize, value() as u32);
    events.fire_mark_begin(value() as u32);
    events.fire_marker_joined(value() as u32, value() as u32);
    events.fire_mark_end(value() as u32, value() as usize, value() as usize);
    events.fire_block_scanned(value() as usize, value() as u32, value() as usize);
    events.fire_weak_end(value() as u32, value() as usize, value() as usize);
    events.fire_sweep_begin(value() as u32);
    events.fire_object_pinned(value() as usize, value() as usize, value() as usize);
    for fire in [Events::fire_heap_before, Events::fire_heap_after] {
        let number = value() as u32;
        let [small, large, pinned, fourth, fifth] = std::array::from_fn(|_| value() as usize);
        fire(events, number, small, large, pinned, fourth, fifth);
    }
    events.fire_sweep_end(value() as u32, value() as usize, value() as usize);
    events.fire_block_reclaimed(value() as usize, value() as u32, value() as usize);
    events.fire_gc_end(value() as u32);
    events.fire_heap_stats(
        value() as u32,
        value() as usize,
        value() as usize,
        value() as usize,
        value() as usize,
        value() as usize,
    );
    events.fire_restart_begin(value() as u32);
    events.fire_restart_end(value() as u32);
    events.fire_collection_discarded(value() as u32, value() as u32);
    events.fire_vtable_swapped(value() as u32, value() as u32);
    events.fire_thread_stopped(value() as u32, value() as u32, value() as u32, value());
    events.fire_segment_created(value() as usize, value() as usize);
    events.fire_segment_freed(value() as usize, value() as usize);
    events.fire_block_acquired(value() as usize, value() as usize, value() as u32);
    events.fire_block_released(value() as usize, value() as usize, value() as u32);
    events.fire_cache_refilled(value() as usize, value() as usize, value() as usize, value() as usize);
    events.fire_allocation_failed(value() as usize, value() as usize, value() as usize);
    events.fire_emergency_set(value() as u32, value() as usize);
    events.fire_allocation_tick(value() as usize, value() as usize, value() as usize, value() as usize, value() as u32);
    events.fire_object_sampled(value() as usize, value() as usize, value() as usize, value() as usize);
    events.fire_allocation_sampled(
        value() as usize,
        value() as usize,
        value() as usize,
        value(),
        value() as u32,
        value() as u32,
    );
    events.fire_large_allocated(value() as usize, value() as usize, value() as usize);
    events.fire_object_allocated(value() as usize, value() as usize);
    events.fire_object_freed(value() as usize, value() as usize);
    events.fire_finalizers_due(value() as u32);
    events.fire_finalizer_begin(value() as u32);
    events.fire_finalizer_end(value() as u32);
    events.fire_finalize_object(value() as usize, value() as usize);
    events.fire_root_created(value() as usize, value() as usize);
    events.fire_root_dropped(value() as usize);
    events.fire_interned(value());
    events.fire_labelled(value() as usize, value());
    events.fire_user_message(value());
    events.fire_user_marker(value());
    events.fire_dump_node(value() as usize, value() as usize, value() as usize, value() as usize);
    events.fire_dump_edge(value() as usize, value() as u32);
    events.fire_dump_stack(value() as u32, value() as u32, value());
    events.fire_dump_root(value() as usize, value() as u32, value() as usize, value() as usize);
    events.fire_dump_end(value() as usize, value() as usize);
    events.fire_census_profile_begin(value(), value() as u32);
    events.fire_census_filter(value() as u32, value());
    events.fire_cost_centre(value() as u32, value(), value(), value(), value() as u32);
    events.fire_census_begin(value(), value());
    events.fire_census_band(value(), value(), value(), value() as u32);
    events.fire_census_end(value());
    events.fire_ticker_begin(value());
    events.fire_tick(value(), value() as u32, value() as u32);
    events.fire_debugger_attached(value());
    events.fire_debugger_detached(value());
    events.fire_debugger_lost(value(), value() as u32);
}

/// Counts object bytes as they are allocated and freed, and records the sum at each collection's end, where the collecting thread fires the
/// statistics in the stopped world. Every other event is counted either completely before or completely after that.
#[derive(Debug, Default)]
pub struct LiveBytes {
    pub allocated: AtomicU64,
    pub freed: AtomicU64,
    /// Live bytes according to the events, and according to the collection. Only the collecting thread and the test take the lock.
    pub ends: Mutex<Vec<(i128, u64)>>,
}

impl Sink for LiveBytes {
    fn record(&self, record: &Record) {
        match record.event() {
            Event::ObjectAllocated(object) => _ = self.allocated.fetch_add(object.bytes as u64, Ordering::Relaxed),
            Event::ObjectFreed(object) => _ = self.freed.fetch_add(object.bytes as u64, Ordering::Relaxed),
            Event::HeapStats(heap) => {
                let live = heap.small_bytes + heap.large_bytes + heap.pinned_bytes;
                self.ends.lock().unwrap().push((self.told(), live as u64));
            }
            _ => {}
        }
    }
}

impl LiveBytes {
    /// Reserves room for all collections of a test: in the stopped world nothing may be allocated.
    pub fn new() -> Arc<LiveBytes> {
        Arc::new(LiveBytes { ends: Mutex::new(Vec::with_capacity(100_000)), ..LiveBytes::default() })
    }

    fn told(&self) -> i128 {
        i128::from(self.allocated.load(Ordering::Relaxed)) - i128::from(self.freed.load(Ordering::Relaxed))
    }
}

/// Records the events of a world from now on.
pub fn listening(world: &World, selection: Selection) -> Arc<MemorySink> {
    let sink = Arc::new(MemorySink::with_capacity(1 << 20).unwrap());
    world.events().listen(sink.clone(), selection).unwrap();
    sink
}

pub fn categories(categories: &[Category]) -> Selection {
    Selection::categories(Categories::of(categories))
}

/// Every event recorded so far.
pub fn told(sink: &MemorySink) -> Vec<Record> {
    assert_eq!(sink.dropped(), 0, "the ring is too small for this test");
    sink.drain().collect()
}

/// Selects the allocation and death of objects, and the statistics at the end of each collection.
pub fn objects() -> Selection {
    let mut wants = categories(&[Category::Object]);
    wants.events.insert(EventId::HeapStats);
    wants
}

/// A world that collects often and checks itself.
pub fn build(markers: usize, stopper: Stopper) -> World {
    World::builder()
        .heap_limit(256 << 20)
        .initial_heap(1 << 20)
        .markers(markers)
        .stopper(stopper)
        .paranoid(Paranoid::On)
        .build()
        .unwrap()
}

/// The names emitted in the User category, each with the address that it names. A text that the process has interned before is not emitted
/// again: readers find it in the store.
pub fn names_emitted(sink: &MemorySink) -> Vec<(usize, &'static str)> {
    let labels = Labels::of_the_process();
    let name = |record: &Record| match record.event() {
        Event::Labelled(named) => {
            let label = Label::from_raw(named.label).expect("a label is never 0");
            Some((named.address, labels.text(label).expect("a label that does not resolve")))
        }
        _ => None,
    };
    told(sink).iter().filter_map(name).collect()
}
