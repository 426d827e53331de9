//! One collection, as .NET tells of it: what our phases say one by one, said in two summaries.
//!
//! GCGlobalHeapHistory, GCPerHeapHistory and GCHeapStats tell at the end of a collection what ours tells as it goes. So what
//! comes is noted here, and written when the collection's figures are complete; and what began before the trace did is not
//! written at all, so that each collection in a trace is whole.
//!
//! **Generations.** The heap has none. What a reader's columns mean: generation 0 is what was allocated since the last
//! collection, wherever it lies; 2 is what lives in the ordinary spaces, 3 large objects, 4 pinned ones. All are condemned
//! each time. So before a collection: 0 has what was allocated, 2 to 4 have what the last one left; after it 0 is empty, and 2 to 4 have what
//! lives. A survivor is counted where it is afterwards, old or new: the collector marks objects, and does not ask how
//! old they are.

use crate::events::clock::Relation;
use trace_io::bytes::Bytes;

/// .NET's generations that are ours.
const YOUNGEST: usize = 0;
const ORDINARY: usize = 2;
const LARGE: usize = 3;
const PINNED: usize = 4;
pub(super) const GENERATIONS: usize = 5;
/// The generation that is condemned: everything.
pub(super) const CONDEMNED: u32 = 2;

/// Our reasons in .NET's words: the pacing's budget, somebody's wish, the heap limit.
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

/// What lives in each space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spaces {
    pub(super) small: u64,
    pub(super) large: u64,
    pub(super) pinned: u64,
}

/// A stop of the world and the collection in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Collection {
    /// Which collection the world was stopped for; 0 when it runs.
    pub(super) stopped_for: u32,
    /// Which one has started.
    pub(super) number: u32,
    pub(super) reason: u32,
    /// The time that its start has in the trace.
    pub(super) started_at: u64,
    pub(super) discarded: bool,
    /// When each phase ended, in ticks.
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
    /// GCGlobalHeapHistory V4.
    pub(super) fn global_history(&self, to: &mut Bytes, world: u16, hz: u64) {
        const PROMOTION: u32 = 4;
        to.u64(self.budget);
        to.u32(1);
        to.u32(CONDEMNED);
        to.u32(0);
        to.u32(self.reason);
        to.u32(PROMOTION);
        to.u16(world);
        // Pause mode: not concurrent. Pressure and the reasons for what was condemned: nobody measures, nobody decides.
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

    /// GCPerHeapHistory V3, of the one heap.
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
            // Cells that nobody uses belong to no generation: neither free lists nor free objects.
            [before, 0, 0, after, 0, 0, 0, pinned_survivors, survivors, budget]
                .into_iter()
                .for_each(|word| to.u64(word));
        }
    }

    /// GCHeapStats V2.
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
    /// What lives there afterwards has survived.
    fn old(before: u64, after: u64) -> Generation {
        Generation { before, after, survivors: after, ..Generation::default() }
    }
}
