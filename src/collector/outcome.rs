//! The results of a collection, the times of its phases, and the report made from them.

use super::report::{CollectionReport, Reason};
use super::state::Collector;
use crate::heap::sweep::SpaceBytes;
use crate::world::LostStop;
use crate::world::name::ThreadName;
use crate::world::stop::StopSummary;
use crate::world::stop_info::ThreadStopInfo;

/// The results of the stopped part of a collection.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) roots_ns: u64,
    pub(super) mark_ns: u64,
    pub(super) weak_ns: u64,
    pub(super) sweep_ns: u64,
    pub(super) stack_bytes: u64,
    pub(super) roots: u64,
    pub(super) handles: u64,
    /// Objects marked at the end of marking, before finalizers resurrect any.
    pub(super) marked: u64,
    pub(super) live: SpaceBytes,
    pub(super) live_objects: u64,
    pub(super) pinned_objects: u64,
    /// The bytes that the previous collection left alive.
    pub(super) before: SpaceBytes,
    pub(super) allocated: u64,
    pub(super) freed: u64,
    pub(super) cleared: u32,
    pub(super) queued: u32,
    pub(super) mark_stack_high: usize,
    /// The reason, if the collection was discarded.
    pub(super) lost: Option<LostStop>,
    /// The bytes that may stay resident, if memory is to be returned to the kernel.
    pub(super) surplus: Option<u64>,
}

/// Measurements of the stop itself.
#[derive(Default)]
pub(super) struct StopFacts {
    pub(super) stop_ns: u64,
    pub(super) restart_ns: u64,
    pub(super) pause_ns: u64,
    pub(super) summary: StopSummary,
}

impl Collector {
    /// Fires the events with the heap's sizes before and after the collection.
    pub(super) fn fire_heap_figures(&self, number: u32, budget: u64, outcome: &Outcome) {
        let [before, after] = [outcome.before, outcome.live]
            .map(|spaces| [spaces.small as usize, spaces.large as usize, spaces.pinned as usize]);
        let [small, large, pinned] = before;
        self.events.fire_heap_before(number, small, large, pinned, outcome.allocated as usize, budget as usize);
        let [small, large, pinned] = after;
        let (pinned_objects, handles) = (outcome.pinned_objects as usize, outcome.handles as usize);
        self.events.fire_heap_after(number, small, large, pinned, pinned_objects, handles);
    }

    pub(super) fn fire_heap_stats(&self, number: u32, outcome: &Outcome) {
        self.events.fire_heap_stats(
            number,
            outcome.live.small as usize,
            outcome.live.large as usize,
            outcome.live.pinned as usize,
            self.heap.committed_bytes() as usize,
            outcome.live_objects as usize,
        );
    }

    pub(super) fn report(
        &self,
        number: u32,
        reason: Reason,
        collecting: Option<&ThreadStopInfo>,
        stop: &StopFacts,
        outcome: &Outcome,
    ) -> CollectionReport {
        let by = collecting.map_or_else(|| ThreadName::new("(not attached)"), ThreadStopInfo::name);
        let slowest = stop.summary.slowest;
        CollectionReport {
            number,
            reason,
            by,
            stop_ns: stop.stop_ns,
            roots_ns: outcome.roots_ns,
            mark_ns: outcome.mark_ns,
            weak_ns: outcome.weak_ns,
            sweep_ns: outcome.sweep_ns,
            restart_ns: stop.restart_ns,
            pause_ns: stop.pause_ns,
            live: outcome.live,
            live_objects: outcome.live_objects,
            freed_bytes: outcome.freed,
            allocated_bytes: outcome.allocated,
            committed_bytes: self.heap.committed_bytes(),
            stack_bytes: outcome.stack_bytes,
            threads_stopped: stop.summary.threads - u32::from(collecting.is_some()),
            threads_blocking: stop.summary.blocking,
            slowest: slowest.map_or(ThreadName::EMPTY, |slowest| slowest.name),
            slowest_ns: slowest.map_or(0, |slowest| slowest.ns),
            mark_stack_high: outcome.mark_stack_high,
            weak_cleared: outcome.cleared,
            finalizers_queued: outcome.queued,
        }
    }
}
