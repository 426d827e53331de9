//! Sampling the allocations of a thread: the slow path that takes the call stack.

use super::Mutator;
use crate::collector::samples::Site;
use crate::heap::layout::{CELL_BYTES, CLASSES};
use crate::heap::trace::TypeInfo;
use crate::profile::allocations::CallStack;

impl Mutator {
    /// Samples the allocation that is about to use the cell at the bin's cursor, if this cell was chosen.
    #[inline]
    pub(super) fn sample_cell_if_due(&self, bin: usize, info: &'static TypeInfo) {
        if let Some(payload) = self.cache.cell_to_sample(bin) {
            self.sample(payload, CELL_BYTES[bin % CLASSES], info, || self.cache.sampled_cell(bin));
        }
    }

    /// Samples a new large object, if it was chosen.
    #[inline]
    pub(super) fn sample_large_if_due(&self, payload: usize, footprint: usize, info: &'static TypeInfo) {
        if self.cache.is_large_sampled(footprint) {
            self.sample(payload, footprint, info, || {});
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

    /// Adds a sample. `added` is called before a collection can search the table.
    #[cold]
    #[inline(never)]
    fn sample(&self, payload: usize, bytes: usize, info: &'static TypeInfo, added: impl FnOnce()) {
        let Some(samples) = &self.world().collector().samples else { return };
        let stack = self.walker.call_stack(&self.world().collector().threads, self.record).map_or(0, CallStack::get);
        let mut held = self.lock(samples.lock());
        samples.add(&mut held, payload, Site { stack, type_info: info, object_bytes: bytes as u64 });
        added();
    }
}
