//! Sampling the allocations of a thread: the slow path that takes the call stack.

use std::ptr;

use super::Mutator;
use crate::collector::Collector;
use crate::collector::samples::Site;
use crate::events::EventId;
use crate::heap::layout::Space;
use crate::heap::layout::{CELL_BYTES, CLASSES};
use crate::heap::trace::TypeInfo;
use crate::profile::allocations::{CallStack, bytes_per_sample};

impl Mutator {
    /// Samples the allocation that is about to use the cell at the bin's cursor, if this cell was chosen.
    #[inline]
    pub(super) fn sample_cell_if_due(&self, bin: usize, info: &'static TypeInfo) {
        if let Some(payload) = self.cache.cell_to_sample(bin) {
            let space = if bin < CLASSES { Space::Small } else { Space::Pinned };
            self.sample(payload, CELL_BYTES[bin % CLASSES], space, info, || self.cache.sampled_cell(bin));
        }
    }

    /// Samples a new large object, if it was chosen.
    #[inline]
    pub(super) fn sample_large_if_due(&self, payload: usize, footprint: usize, info: &'static TypeInfo) {
        if self.cache.is_large_sampled(footprint) {
            self.sample(payload, footprint, Space::Large, info, || {});
        }
    }

    /// Notes that an object which may have been sampled is freed.
    pub(super) fn sampled_freed(&self, payload: usize) {
        if let Some(samples) = &self.world().collector().samples
            && samples.may_contain(payload)
        {
            samples.freed(&mut self.lock(samples.lock()), payload);
        }
    }

    /// Adds a sample, and reports it. `added` is called before a collection can search the table.
    #[cold]
    #[inline(never)]
    fn sample(&self, payload: usize, bytes: usize, space: Space, info: &'static TypeInfo, added: impl FnOnce()) {
        let Collector { threads, samples, events, .. } = self.world().collector();
        let Some(samples) = samples else { return };
        let stack = self.walker.call_stack(threads, self.record).map_or(0, CallStack::get);
        let mut held = self.lock(samples.lock());
        let cost_stack = self.record.cost_stack();
        let site = Site { stack, cost_stack, type_info: info, object_bytes: bytes as u64 };
        samples.add(&mut held, payload, site);
        added();
        // A stop takes the lock first, so it must not be held while this thread waits for room for the event.
        drop(held);
        if events.is_enabled(EventId::AllocationSampled) {
            let stands_for = bytes_per_sample(bytes as u64, samples.interval_bytes);
            let of_type = ptr::from_ref(info) as usize;
            events.fire_allocation_sampled(payload, of_type, bytes, stands_for, stack, space as u32);
        }
    }
}
