//! What tests of events share.

use stopworld::events::Events;

/// Fires one of everything, in the order of the table, each field with the next value.
pub fn fire_everything(events: &Events, mut value: impl FnMut() -> u64) {
    events.fire_world_created(value() as usize, value() as usize, value() as usize, value() as usize, value() as usize);
    events.fire_world_closed(value() as usize, value() as usize);
    events.fire_pool_created(value() as usize, value() as u32);
    events.fire_pool_closed(value() as usize, value() as u32);
    events.fire_commit_limit_set(value() as usize);
    events.fire_records_dropped(value());
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
    events.fire_mark_end(value() as u32, value() as usize, value() as usize);
    events.fire_block_scanned(value() as usize, value() as u32, value() as usize);
    events.fire_weak_end(value() as u32, value() as usize, value() as usize);
    events.fire_sweep_begin(value() as u32);
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
    events.fire_segment_created(value() as usize, value() as usize);
    events.fire_segment_freed(value() as usize, value() as usize);
    events.fire_block_acquired(value() as usize, value() as usize, value() as u32);
    events.fire_block_released(value() as usize, value() as usize, value() as u32);
    events.fire_cache_refilled(value() as usize, value() as usize, value() as usize, value() as usize);
    events.fire_allocation_failed(value() as usize, value() as usize, value() as usize);
    events.fire_emergency_set(value() as u32, value() as usize);
    events.fire_allocation_tick(value() as usize, value() as usize, value() as usize);
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
    events.fire_dump_type(value() as usize, value());
    events.fire_dump_node(value() as usize, value() as usize, value() as usize, value() as usize);
    events.fire_dump_edge(value() as usize, value() as u32);
    events.fire_dump_root(value() as usize, value() as u32, value() as usize);
    events.fire_census_profile_begin(value(), value() as u32);
    events.fire_cost_centre(value() as u32, value(), value(), value(), value() as u32);
    events.fire_census_begin(value(), value());
    events.fire_census_band(value(), value(), value(), value() as u32);
    events.fire_census_end(value());
    events.fire_ticker_begin(value());
    events.fire_tick(value(), value() as u32, value() as u32);
}
