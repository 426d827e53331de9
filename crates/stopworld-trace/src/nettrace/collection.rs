//! One collection as .NET reports it: the figures of the phases, gathered into summary events.
//!
//! GCGlobalHeapHistory, GCPerHeapHistory and GCHeapStats report at the end of a collection what the events of this library report
//! phase by phase. So the figures are collected here and written when they are complete. A collection that began before the trace
//! joined its world is not written at all, so each collection in a trace is complete.
//!
//! **Generations.** The heap has no generations. In a reader's columns, generation 0 is the memory allocated since the last collection in
//! any space; generation 2 is live data in the ordinary space, 3 large objects, 4 pinned objects. Every collection condemns all of them. So
//! before a collection, generation 0 has what was allocated since the previous collection, and generations 2 to 4 have the objects that
//! survived the previous collection. After it, generation 0 is empty, and 2 to 4 have the live data. A survivor, old or new, is counted in
//! the generation where it is afterwards: the collector does not track the ages of objects.

use nettrace::clr::write::{GCGlobalHeapHistory, GCHeapStats, GCPerHeapHistory, HeapGeneration, PhaseTime};
use nettrace::clr::{Mechanisms, PauseMode, Reason};
use stopworld::events::clock::Relation;

/// The .NET generations used here.
const YOUNGEST: usize = 0;
const ORDINARY: usize = 2;
const LARGE: usize = 3;
const PINNED: usize = 4;
/// The condemned generation of a full collection.
pub(super) const CONDEMNED: u32 = 2;

/// Converts the reason of a collection to a .NET reason. The reasons are the budget of the pacing, an explicit request, and the heap limit.
pub(super) fn reason(ours: u32) -> Reason {
    match ours {
        0 => Reason::AllocSmall,
        1 => Reason::Induced,
        _ => Reason::OutOfSpaceSOH,
    }
}

/// Live bytes in each space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spaces {
    pub(super) small: u64,
    pub(super) large: u64,
    pub(super) pinned: u64,
}

/// A stop of the world and the collection in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collection {
    /// The number of the collection for which the world is stopped; 0 while the world runs.
    pub(super) stopped_for: u32,
    /// The number of the collection that has started.
    pub(super) number: u32,
    pub(super) reason: Reason,
    /// The time of its start in the trace.
    pub(super) started_at: u64,
    pub(super) discarded: bool,
    /// The times at which its phases began or ended, in ticks.
    pub(super) roots_begin: u64,
    pub(super) mark_end: u64,
    pub(super) weak_end: u64,
    pub(super) sweep_begin: u64,
    pub(super) sweep_end: u64,
    pub(super) queued: u64,
    pub(super) before: Spaces,
    pub(super) allocated: u64,
    pub(super) budget: u64,
    pub(super) after: Spaces,
    pub(super) pinned_objects: u64,
    pub(super) handles: u64,
}

impl Default for Collection {
    /// No stop, and no collection.
    fn default() -> Collection {
        Collection {
            stopped_for: 0,
            number: 0,
            reason: Reason::Empty,
            started_at: 0,
            discarded: false,
            roots_begin: 0,
            mark_end: 0,
            weak_end: 0,
            sweep_begin: 0,
            sweep_end: 0,
            queued: 0,
            before: Spaces::default(),
            allocated: 0,
            budget: 0,
            after: Spaces::default(),
            pinned_objects: 0,
            handles: 0,
        }
    }
}

impl Collection {
    /// Returns the event about the collection as a whole. `hz` is the frequency of the clock.
    pub(super) fn global_history(&self, hz: u64) -> GCGlobalHeapHistory {
        let us = |from: u64, until: u64| {
            let relation = Relation { ticks: 0, ns: 0, hz };
            u32::try_from(relation.ns_of(until.saturating_sub(from)) / 1_000).unwrap_or(u32::MAX)
        };
        let times = [
            us(self.started_at, self.roots_begin),
            us(self.roots_begin, self.mark_end),
            // Weak references and finalizers are one phase.
            us(self.mark_end, self.weak_end),
            0,
            0,
            0,
            us(self.sweep_begin, self.sweep_end),
        ];
        GCGlobalHeapHistory {
            final_youngest_desired: self.budget,
            num_heaps: 1,
            condemned_generation: CONDEMNED,
            gen0_reduction_count: 0,
            reason: self.reason,
            global_mechanisms: Mechanisms::PROMOTION,
            // Collections are not concurrent.
            pause_mode: PauseMode::Batch,
            // Not measured.
            memory_pressure: 0,
            // The collector does not decide which generation to condemn.
            condemn_reasons0: 0,
            condemn_reasons1: 0,
            rows: times.map(|time| PhaseTime { time }),
        }
    }

    /// Returns the event about the heap. There is only one.
    pub(super) fn heap_history(&self) -> GCPerHeapHistory {
        let mut rows = [EMPTY; _];
        let Spaces { small, large, pinned } = self.before;
        rows[YOUNGEST] = HeapGeneration { size_before: self.allocated, budget: self.budget, ..EMPTY };
        rows[ORDINARY] = old(small, self.after.small);
        rows[LARGE] = old(large, self.after.large);
        let survivors = self.after.pinned;
        rows[PINNED] = HeapGeneration { pinned_survivors: survivors, other_survivors: 0, ..old(pinned, survivors) };
        GCPerHeapHistory {
            free_list_allocated: 0,
            free_list_rejected: 0,
            end_of_seg_allocated: 0,
            condemned_allocated: 0,
            pinned_allocated: 0,
            pinned_allocated_advance: 0,
            running_free_list_efficiency: 0,
            condemn_reasons0: 0,
            condemn_reasons1: 0,
            compact_mechanisms: 0,
            expand_mechanisms: 0,
            heap_index: 0,
            extra_gen0_commit: 0,
            rows,
        }
    }

    /// Returns the event about the heap after the collection.
    pub(super) fn heap_stats(&self) -> GCHeapStats {
        let Spaces { small, large, pinned } = self.after;
        GCHeapStats {
            generation_size0: 0,
            total_promoted_size0: 0,
            generation_size1: 0,
            total_promoted_size1: 0,
            generation_size2: small,
            total_promoted_size2: small,
            generation_size3: large,
            total_promoted_size3: large,
            finalization_promoted_size: 0,
            finalization_promoted_count: self.queued,
            pinned_object_count: self.pinned_objects as u32,
            sink_block_count: 0,
            gc_handle_count: self.handles as u32,
            generation_size4: pinned,
            total_promoted_size4: pinned,
        }
    }
}

/// A generation without objects. Free lists and free objects are 0 in every generation, because free cells belong to none.
const EMPTY: HeapGeneration = HeapGeneration {
    size_before: 0,
    free_list_before: 0,
    free_objects_before: 0,
    size_after: 0,
    free_list_after: 0,
    free_objects_after: 0,
    into: 0,
    pinned_survivors: 0,
    other_survivors: 0,
    budget: 0,
};

/// Returns a generation other than the youngest: everything that lives there afterwards has survived.
fn old(before: u64, after: u64) -> HeapGeneration {
    HeapGeneration { size_before: before, size_after: after, other_survivors: after, ..EMPTY }
}
