//! One collection as .NET reports it: the figures of the phases, collected into summary events.
//!
//! GCGlobalHeapHistory, GCPerHeapHistory and GCHeapStats report at the end of a collection what the events of this library report
//! phase by phase. So the figures are collected here and written when they are complete. A collection that began before the trace
//! joined its world is not written at all, so each collection in a trace is complete.
//!
//! **Generations.** The heap has no generations. In a reader's columns, generation 0 is what was allocated since the last collection,
//! in any space; 2 is live data in the ordinary space, 3 large objects, 4 pinned objects. Every collection condemns all of them. So
//! before a collection, 0 has what was allocated since the last one, and 2 to 4 have what that one left; after it, 0 is empty, and 2
//! to 4 have the live data. A survivor, old or new, is counted in the generation where it is afterwards: the collector does not
//! track the ages of objects.

use stopworld::events::clock::Relation;
use trace_io::bytes::Bytes;

/// The .NET generations used here.
const YOUNGEST: usize = 0;
const ORDINARY: usize = 2;
const LARGE: usize = 3;
const PINNED: usize = 4;
pub(super) const GENERATIONS: usize = 5;
/// The condemned generation of a full collection.
pub(super) const CONDEMNED: u32 = 2;

/// Converts the reason of a collection to that of .NET. The reasons are the budget of the pacing, an explicit request, the heap
/// limit.
pub(super) fn reason(ours: u64) -> u32 {
    const ALLOC_SMALL: u32 = 0;
    const INDUCED: u32 = 1;
    const OUT_OF_SPACE: u32 = 5;
    match ours {
        0 => ALLOC_SMALL,
        1 => INDUCED,
        _ => OUT_OF_SPACE,
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
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Collection {
    /// The number of the collection for which the world is stopped; 0 while it runs.
    pub(super) stopped_for: u32,
    /// The number of the collection that has started.
    pub(super) number: u32,
    pub(super) reason: u32,
    /// The time of its start in the trace.
    pub(super) started_at: u64,
    pub(super) discarded: bool,
    /// When its phases began or ended, in ticks.
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

impl Collection {
    /// Writes the payload of GCGlobalHeapHistory V4.
    pub(super) fn global_history(&self, to: &mut Bytes, world: u16, hz: u64) {
        const PROMOTION: u32 = 4;
        to.u64(self.budget);
        to.u32(1);
        to.u32(CONDEMNED);
        to.u32(0);
        to.u32(self.reason);
        to.u32(PROMOTION);
        to.u16(world);
        // Pause mode: not concurrent. Memory pressure: not measured. Condemn reasons: there is no such decision.
        [0, 0, 0, 0].into_iter().for_each(|word| to.u32(word));
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
        to.u32(times.len() as u32);
        times.into_iter().for_each(|time| to.u32(time));
    }

    /// Writes the payload of GCPerHeapHistory V3 for the only heap.
    pub(super) fn heap_history(&self, to: &mut Bytes, world: u16) {
        to.u16(world);
        (0..6).for_each(|_| to.u64(0));
        (0..6).for_each(|_| to.u32(0));
        to.u64(0);
        to.u32(GENERATIONS as u32);
        let mut generations = [Generation::default(); GENERATIONS];
        let Spaces { small, large, pinned } = self.before;
        generations[YOUNGEST] = Generation { before: self.allocated, budget: self.budget, ..Generation::default() };
        generations[ORDINARY] = Generation::old(small, self.after.small);
        generations[LARGE] = Generation::old(large, self.after.large);
        let old = Generation::old(pinned, self.after.pinned);
        generations[PINNED] = Generation { pinned_survivors: old.survivors, survivors: 0, ..old };
        for generation in generations {
            let Generation { before, after, pinned_survivors, survivors, budget } = generation;
            // Free lists and free objects are 0, because free cells belong to no generation.
            [before, 0, 0, after, 0, 0, 0, pinned_survivors, survivors, budget]
                .into_iter()
                .for_each(|word| to.u64(word));
        }
    }

    /// Writes the payload of GCHeapStats V2.
    pub(super) fn heap_stats(&self, to: &mut Bytes, world: u16) {
        let Spaces { small, large, pinned } = self.after;
        [0, 0, 0, 0, small, small, large, large].into_iter().for_each(|word| to.u64(word));
        to.u64(0);
        to.u64(self.queued);
        to.u32(self.pinned_objects as u32);
        to.u32(0);
        to.u32(self.handles as u32);
        to.u16(world);
        to.u64(pinned);
        to.u64(pinned);
    }
}

#[derive(Clone, Copy, Default)]
struct Generation {
    before: u64,
    after: u64,
    pinned_survivors: u64,
    survivors: u64,
    budget: u64,
}

impl Generation {
    /// A generation other than the youngest: everything that lives there afterwards has survived.
    fn old(before: u64, after: u64) -> Generation {
        Generation { before, after, survivors: after, ..Generation::default() }
    }
}
