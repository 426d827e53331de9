//! The cells at which a thread's allocations are [sampled](super::sample_points).

use super::cache::AllocationCache;
use super::layout::{CELL_BYTES, CLASSES, HEADER_BYTES};
use super::sample_points::SamplePoints;
use crate::sync::Ordering::Relaxed;

impl AllocationCache {
    /// Whether the thread's allocations are sampled.
    #[inline(always)]
    pub(crate) fn is_sampled(&self) -> bool {
        self.points.is_some()
    }

    /// Returns the payload address of the cell at the bin's cursor if it is to be sampled.
    pub(crate) fn cell_to_sample(&self, bin: usize) -> Option<usize> {
        let cursor = self.runs[bin].cursor.load(Relaxed);
        (self.blocks[bin].sample_at.load(Relaxed) == cursor).then_some(cursor + HEADER_BYTES)
    }

    /// Records that the cell at the bin's cursor was sampled, before the thread makes an object of it, and finds the next cell to sample.
    pub(crate) fn sampled_cell(&self, bin: usize) {
        let Some(points) = &self.points else { return };
        let (cell, cell_bytes) = (self.runs[bin].cursor.load(Relaxed), CELL_BYTES[bin % CLASSES]);
        points.set_latest(cell + HEADER_BYTES, bin);
        let owned = &self.blocks[bin];
        let rest = cell + cell_bytes..owned.end.load(Relaxed);
        owned.sample_at.store(points.first_in(rest, cell_bytes), Relaxed);
    }

    /// Returns whether a large object of this size is sampled.
    pub(crate) fn is_large_sampled(&self, bytes: usize) -> bool {
        self.points.as_ref().is_some_and(|points| points.pass(bytes).is_some())
    }

    /// Returns whether this is the payload address of a cell that was sampled and is not an object yet. For a stopped thread.
    pub(crate) fn is_about_to_be_made(&self, payload: usize) -> bool {
        let Some((latest, bin)) = self.points.as_ref().map(SamplePoints::latest) else { return false };
        latest == payload && self.building(bin) + HEADER_BYTES == payload
    }
}
