//! A collection, as its events told of it.

use nettrace::clr::gc::CommittedUsage;
use nettrace::clr::history::{FitBucket, GenerationData, LohCompaction};

/// Generations in the runtime's numbering: 0, 1, 2, then large objects, then pinned ones.
pub const GENERATIONS: usize = 5;
/// Large objects.
pub const LARGE: usize = 3;
/// Pinned objects.
pub const PINNED: usize = 4;

/// The most heaps, marks or other rows that are kept of one collection: more than the runtime has.
pub(super) const MOST_ROWS: usize = 1024;

/// Bytes in the unit of the reports.
pub(super) fn megabytes(bytes: i64) -> f64 {
    bytes as f64 / 1_000_000.0
}

/// How a collection runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind(pub i32);

impl Kind {
    /// The world stands all the while.
    pub const BLOCKING: Kind = Kind(0);
    /// Beside the program, with short pauses.
    pub const BACKGROUND: Kind = Kind(1);
    /// Of the young, while one runs in the background.
    pub const FOREGROUND: Kind = Kind(2);
}

/// Why a collection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reason(pub i32);

impl Reason {
    /// The program asked for it.
    pub const INDUCED: Reason = Reason(1);
    /// The program asked for it, and left it to the collector.
    pub const INDUCED_NOT_FORCED: Reason = Reason(7);
    /// A young collection found in provisional mode that all must be collected.
    pub const PROVISIONAL_FULL: Reason = Reason(12);
}

/// A collection. Times are milliseconds since the trace began, or spans of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collection {
    /// Its place among those of the process, from 0; collections that never ended count too.
    pub index: u64,
    /// Its number, as the runtime counts.
    pub number: i32,
    /// How it ran.
    pub kind: Kind,
    /// Why it began.
    pub reason: Reason,
    /// The oldest generation that was collected.
    pub generation: i32,
    /// When the threads were asked to stop.
    pub pause_start: f64,
    /// When it began, the threads standing.
    pub start: f64,
    /// From its begin to its end, without stopping and restarting the threads.
    pub duration: f64,
    /// How long threads stood because of it.
    pub pause: f64,
    /// How long it took until all stood.
    pub suspend: f64,
    /// The last pause of a background collection.
    pub final_pause: f64,
    /// Since the collection before.
    pub since_last: f64,
    /// Whether all was seen that belongs to it; others are not counted.
    pub complete: bool,
    /// Allocated since the collection before as the allocation's ticks say, in MB: small, large, pinned.
    pub ticked: [f64; 3],
    /// The heap after it.
    pub stats: Option<HeapStats>,
    /// What it was in whole.
    pub global: Option<GlobalHistory>,
    /// What it did to each heap.
    pub heaps: Vec<HeapHistory>,
    /// Marks, by the number of the heap.
    pub marks: Vec<Marks>,
    /// Whether the histories came after the end, and count only if the process turns out to have the server collector.
    pub(super) is_provisional: bool,
    /// Memory from the system, before.
    pub committed_before: Option<CommittedUsage>,
    /// Memory from the system, after.
    pub committed_after: Option<CommittedUsage>,
    /// How large objects were moved.
    pub loh: Vec<LohCompaction>,
    /// The largest free places.
    pub free_buckets: Vec<FitBucket>,
    /// What wanted to be placed.
    pub plug_buckets: Vec<FitBucket>,
    /// Bytes of the objects that were reported as pinned.
    pub pinned_bytes: i64,
    /// Bytes of the stretches that could not move because of them.
    pub plug_bytes: i64,
}

impl Collection {
    /// Whether the program asked for it.
    pub fn is_induced(&self) -> bool {
        matches!(self.reason, Reason::INDUCED | Reason::INDUCED_NOT_FORCED)
    }

    /// The generation, how it ran, and whether the program asked for it: `2NI`.
    pub fn generation_name(&self) -> String {
        let kind = match self.kind {
            Kind::BLOCKING => "N",
            Kind::BACKGROUND => "B",
            Kind::FOREGROUND => "F",
            _ => "",
        };
        let induced = match self.reason {
            Reason::INDUCED => "I",
            Reason::INDUCED_NOT_FORCED => "i",
            _ => "",
        };
        format!("{}{kind}{induced}", self.generation)
    }

    /// MB of the heap after it, with what is free in it; −1 if nobody told.
    pub fn after_mb(&self) -> f64 {
        self.stats.as_ref().map_or(-1.0, |stats| megabytes(sum(stats.sizes)))
    }

    /// MB that it promoted; −1 if nobody told.
    pub fn promoted_mb(&self) -> f64 {
        self.stats.as_ref().map_or(-1.0, |stats| megabytes(sum(stats.promoted)))
    }

    /// MB of a generation after it.
    pub fn size_after_mb(&self, generation: usize) -> f64 {
        self.stats.as_ref().map_or(f64::NAN, |stats| megabytes(stats.sizes[generation]))
    }

    /// MB promoted from a generation.
    pub fn generation_promoted_mb(&self, generation: usize) -> f64 {
        self.stats.as_ref().map_or(f64::NAN, |stats| megabytes(stats.promoted[generation]))
    }

    /// Per cent of a generation's objects that survived, averaged over the heaps and cut to whole numbers; no number for
    /// generations that were not collected.
    pub fn survival_percent(&self, generation: usize) -> f64 {
        let collected = if generation >= LARGE { 2 } else { generation as i32 };
        if !self.has_history_of(generation) || self.generation < collected {
            return f64::NAN;
        }
        let total = self.histories(generation).fold(0_i64, |sum, data| sum.wrapping_add(data.survival()));
        (total / self.heaps.len() as i64) as f64
    }

    /// MB of a generation that are free.
    pub fn fragmentation_mb(&self, generation: usize) -> f64 {
        self.sum_mb(generation, GenerationData::fragmentation)
    }

    /// Per cent of a generation that are free.
    pub fn fragmentation_percent(&self, generation: usize) -> f64 {
        self.fragmentation_mb(generation) * 100.0 / self.size_after_mb(generation)
    }

    /// MB that came into a generation.
    pub fn in_mb(&self, generation: usize) -> f64 {
        self.sum_mb(generation, |data| data.into)
    }

    /// MB that survived in a generation.
    pub fn out_mb(&self, generation: usize) -> f64 {
        self.sum_mb(generation, GenerationData::out)
    }

    /// MB that may be allocated in a generation until the next collection.
    pub fn budget_mb(&self, generation: usize) -> f64 {
        self.sum_mb(generation, |data| data.budget)
    }

    /// Per cent of the stretches that could not move that objects take which the program pinned.
    pub fn pinned_percent(&self) -> Option<i64> {
        (self.plug_bytes != 0).then(|| (self.pinned_bytes as f64 * 100.0 / self.plug_bytes as f64) as i64)
    }

    /// Drops what the histories reported.
    pub(super) fn forget_histories(&mut self) {
        self.global = None;
        self.heaps.clear();
        self.committed_before = None;
        self.committed_after = None;
    }

    /// Whether the heaps' histories have this generation; all have those of the first.
    pub(super) fn has_history_of(&self, generation: usize) -> bool {
        self.heaps.first().is_some_and(|heap| generation < heap.generations.len())
    }

    /// The generation in each heap that has it.
    pub(super) fn histories(&self, generation: usize) -> impl Iterator<Item = &GenerationData> {
        self.heaps.iter().filter_map(move |heap| heap.generations.get(generation))
    }

    /// A sum over the heaps in MB, in the real reader's order of adding.
    pub(super) fn sum_mb(&self, generation: usize, figure: impl Fn(&GenerationData) -> i64) -> f64 {
        if !self.has_history_of(generation) {
            return f64::NAN;
        }
        self.histories(generation).fold(0.0, |sum, data| sum + megabytes(figure(data)))
    }
}

fn sum(parts: [i64; GENERATIONS]) -> i64 {
    parts.into_iter().fold(0, i64::wrapping_add)
}

/// The heap after a collection; bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapStats {
    /// Each generation, with what is free in it.
    pub sizes: [i64; GENERATIONS],
    /// What was promoted from each.
    pub promoted: [i64; GENERATIONS],
    /// What was promoted only because its finalizer must run.
    pub finalization_promoted: i64,
    /// How many objects those are.
    pub finalization_count: i64,
    /// Pinned objects.
    pub pinned_objects: i32,
    /// Sink blocks.
    pub sink_blocks: i32,
    /// Handles.
    pub handles: i32,
}

/// What a collection was, over all heaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobalHistory {
    /// What generation 0 may allocate from now on.
    pub final_youngest_desired: i64,
    /// Heaps.
    pub heaps: i32,
    /// The oldest generation that was collected.
    pub condemned_generation: i32,
    /// How often generation 0's budget was reduced.
    pub gen0_reductions: i32,
    /// Why it began.
    pub reason: Reason,
    /// What it used, as bits.
    pub mechanisms: i32,
    /// Memory load of the machine in per cent.
    pub memory_pressure: Option<i32>,
    /// The times of its phases, µs.
    pub phases: Option<Phases>,
}

/// Times of a collection's phases in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Roots and what they reach.
    pub roots: i32,
    /// Short weak references.
    pub short_weak: i32,
    /// Objects with finalizers.
    pub finalization: i32,
    /// Long weak references.
    pub long_weak: i32,
    /// Planning.
    pub plan: Option<i32>,
    /// Relocating references.
    pub relocate: Option<i32>,
    /// Moving objects.
    pub compact: Option<i32>,
    /// Sweeping.
    pub sweep: Option<i32>,
}

/// What a collection did to a heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapHistory {
    /// Its generations.
    pub generations: Vec<GenerationData>,
}

/// Sorts of roots.
pub const MARKS: usize = 10;

/// What was marked in a heap from each sort of roots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// The heap's number.
    pub heap: i32,
    /// How long it took, in milliseconds.
    pub times: [Option<f64>; MARKS],
    /// Bytes that it kept alive; unknown where only old events told of the marks.
    pub promoted: Option<[i64; MARKS]>,
}

impl Marks {
    /// The events tell when a marker was done with a sort of roots. Their order gives how long each took.
    pub(super) fn times_since(&mut self, start: f64) {
        let mut done: Vec<(usize, f64)> =
            self.times.iter().enumerate().filter_map(|(sort, time)| Some((sort, (*time)?))).collect();
        done.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut before = start;
        for (sort, time) in done {
            self.times[sort] = Some(time - before);
            before = time;
        }
    }
}
