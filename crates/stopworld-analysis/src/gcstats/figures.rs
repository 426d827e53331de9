//! Figures of a collection that need its neighbours: the allocation since the previous collection, and the peak size of the heap.
//!
//! The allocation is the size of a generation's objects before a collection minus their size after the previous one. Only the
//! program allocates into generation 0 and the heaps of large and pinned objects. A collection updates only the figures of the
//! generations that it collects: after a collection of generation 0, the large and pinned objects have no size "after", and their size
//! "before" is used instead. Where histories are missing, and for the first collection of a trace, the allocation ticks are used.
//!
//! The heap peaks when a collection begins. For a background collection, the peak may occur in a collection that runs meanwhile, and that
//! is known only later. So `peaks` processes all collections before `Walk` does.
//!
//! The neighbours of a collection are those of its own world.
//!
//! The sums are added in the same order as in PerfView, so that they agree to the last digit.

use std::io;

use super::Rules;
use super::collection::{Collection, GENERATIONS, HeapHistory, HeapStats, Kind, LARGE, PINNED, megabytes};
use super::store::{self, Store};
use super::worlds::ByWorld;

/// Maximum number of background collections that are considered open. A runtime has one at a time; a trace that claims more loses
/// the peak of the oldest.
const MOST_OPEN: usize = 64;

/// The figures that `Walk` computes for a collection; in MB unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// The allocation in generation 0 since the previous collection.
    pub allocated_young: f64,
    /// The allocation of large objects.
    pub allocated_large: f64,
    /// The allocation of pinned objects.
    pub allocated_pinned: f64,
    /// The total allocation.
    pub allocated: f64,
    /// MB per second since the previous collection.
    pub rate: f64,
    /// The size of each generation when the collection began.
    pub before: [f64; GENERATIONS],
    /// The size of all generations when it began.
    pub heap_before: f64,
    /// The peak size of the heap.
    pub peak: f64,
    /// The peak divided by the size after the collection.
    pub peak_by_after: f64,
    /// The pause as a percentage of the time since the previous collection.
    pub pause_percent: f64,
}

/// Returns the peak size of the heap for each background collection, in order.
pub(super) fn peaks(stores: &[Store], rules: Rules) -> io::Result<Vec<f64>> {
    let mut peaks = Vec::new();
    if !stores.iter().any(Store::has_background) {
        return Ok(peaks);
    }
    let mut walk = Walk::new(rules, &[]);
    // The background collections during which later ones may begin: their world, their index, and the time of their end.
    let mut open: Vec<(u16, usize, f64)> = Vec::new();
    store::for_each(stores, |collection| {
        let before = walk.figures(collection).heap_before;
        open.retain(|&(world, which, until)| {
            let inside = collection.pause_start <= until;
            if inside && world == collection.world {
                peaks[which] = f64::max(peaks[which], before);
            }
            inside
        });
        if collection.kind == Kind::BACKGROUND {
            if collection.complete {
                if open.len() == MOST_OPEN {
                    open.remove(0);
                }
                open.push((collection.world, peaks.len(), collection.pause_start + collection.duration));
            }
            peaks.push(before);
        }
        Ok::<_, io::Error>(())
    })?;
    Ok(peaks)
}

/// Walks over the collections in order and computes their figures.
pub(super) struct Walk<'a> {
    rules: Rules,
    /// The peaks of the background collections still to come.
    peaks: &'a [f64],
    worlds: ByWorld<Before>,
}

/// The data of the earlier collections of a world that are needed for the next.
#[derive(Default)]
struct Before {
    previous: Option<Previous>,
    /// The latest known statistics, except those of the first collection, which PerfView never uses.
    stats: Option<HeapStats>,
}

/// The data of the previous collection that are needed for the next.
struct Previous {
    heaps: Vec<HeapHistory>,
    generation: i32,
    end: f64,
}

impl<'a> Walk<'a> {
    /// Starts before the first collection.
    pub(super) fn new(rules: Rules, peaks: &'a [f64]) -> Walk<'a> {
        Walk { rules, peaks, worlds: ByWorld::default() }
    }

    /// Returns the figures of the next collection.
    pub(super) fn figures(&mut self, collection: &Collection) -> Figures {
        let rules = self.rules;
        let known = self.worlds.get(collection.world, |_| true, |_| Before::default());
        let mut figures = Figures::default();
        figures.before = std::array::from_fn(|generation| known.size_before(collection, generation));
        figures.heap_before = figures.before.iter().fold(0.0, |sum, part| sum + part);
        figures.peak = figures.heap_before;
        if collection.kind == Kind::BACKGROUND
            && let Some((peak, rest)) = self.peaks.split_first()
        {
            figures.peak = *peak;
            self.peaks = rest;
        }
        figures.allocated_young = known.allocated(rules, collection, 0);
        figures.allocated_large = known.allocated(rules, collection, LARGE);
        figures.allocated_pinned = known.allocated(rules, collection, PINNED);
        figures.allocated = figures.allocated_young + figures.allocated_large + figures.allocated_pinned;
        figures.rate = figures.allocated * 1000.0 / collection.since_last;
        let after = collection.after_mb();
        figures.peak_by_after = if after == 0.0 { 0.0 } else { figures.peak / after };
        figures.pause_percent = known.pause_percent(collection);
        known.step(collection);
        if collection.complete { figures } else { Figures { heap_before: figures.heap_before, ..Figures::default() } }
    }
}

impl Before {
    fn step(&mut self, collection: &Collection) {
        if self.previous.is_some() && collection.stats.is_some() {
            self.stats.clone_from(&collection.stats);
        }
        let previous = self.previous.get_or_insert(Previous { heaps: Vec::new(), generation: 0, end: 0.0 });
        previous.heaps.clone_from(&collection.heaps);
        previous.generation = collection.generation;
        previous.end = collection.start + collection.duration;
    }

    /// Returns the size of a generation when the collection began.
    fn size_before(&self, collection: &Collection, generation: usize) -> f64 {
        if collection.has_history_of(generation) {
            return collection.sum_mb(generation, |data| data.size_before);
        }
        let ticked = if generation == 0 { collection.ticked[0] } else { 0.0 };
        if self.previous.is_none() {
            return ticked;
        }
        let Some(last) = &self.stats else { return 0.0 };
        let size = match generation {
            LARGE | PINNED => {
                let now = collection.stats.as_ref().map_or(i64::MIN, |stats| stats.sizes[generation]);
                last.sizes[generation].max(now)
            }
            _ => last.sizes[generation],
        };
        f64::max(megabytes(size), ticked)
    }

    fn allocated(&self, rules: Rules, collection: &Collection, generation: usize) -> f64 {
        let ticked = match (generation, rules) {
            (0, _) => collection.ticked[0],
            // In place of the pinned objects, PerfView counts the large objects a second time.
            (PINNED, Rules::Ours) => collection.ticked[2],
            _ => collection.ticked[1],
        };
        if generation == 0 && collection.kind == Kind::BACKGROUND {
            return ticked;
        }
        let Some(previous) = &self.previous else { return ticked };
        if collection.heaps.is_empty() || previous.heaps.is_empty() {
            return ticked;
        }
        if !collection.has_history_of(generation) {
            return 0.0;
        }
        collection.heaps.iter().enumerate().fold(0.0, |sum, (heap, history)| {
            let now = history.generations.get(generation).map_or(0, |data| data.objects_before());
            sum + now.wrapping_sub(previous.objects(heap, generation)) as f64 / 1_000_000.0
        })
    }

    fn pause_percent(&self, collection: &Collection) -> f64 {
        let Collection { pause, since_last, start, duration, .. } = *collection;
        let time = if collection.kind == Kind::BACKGROUND {
            start + duration - self.previous.as_ref().map_or(start, |previous| previous.end)
        } else {
            pause + since_last
        };
        pause * 100.0 / time
    }
}

impl Previous {
    /// Returns the size of a generation's objects after the previous collection.
    fn objects(&self, heap: usize, generation: usize) -> i64 {
        let Some(data) = self.heaps.get(heap).and_then(|heap| heap.generations.get(generation)) else { return 0 };
        match data.objects_after() {
            0 if generation >= LARGE && self.generation < 1 => data.objects_before(),
            after => after,
        }
    }
}
