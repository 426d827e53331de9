//! A collection, as its events describe it.

use nettrace::clr::gc::CommittedUsage;
use nettrace::clr::history::{FitBucket, GenerationData, LohCompaction};
use nettrace::clr::{self, CollectionType, MarkRoot};

/// Generations in the runtime's numbering: 0, 1, 2, large objects, pinned objects.
pub const GENERATIONS: usize = 5;
/// The index of large objects.
pub const LARGE: usize = 3;
/// The index of pinned objects.
pub const PINNED: usize = 4;

/// The maximum number of heaps, marks or other rows that are kept for one collection; the runtime has fewer.
pub(super) const MOST_ROWS: usize = 1024;

/// Converts bytes to MB, the unit of the reports.
pub(super) fn megabytes(bytes: i64) -> f64 {
    bytes as f64 / 1_000_000.0
}

/// How a collection runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind(pub i32);

impl Kind {
    /// The threads stay suspended for the whole collection.
    pub const BLOCKING: Kind = Kind(CollectionType::NonConcurrentGC.code() as i32);
    /// Concurrent with the program, with short pauses.
    pub const BACKGROUND: Kind = Kind(CollectionType::BackgroundGC.code() as i32);
    /// A collection of the young generations during a background collection.
    pub const FOREGROUND: Kind = Kind(CollectionType::ForegroundGC.code() as i32);
}

/// Why a collection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reason(pub i32);

impl Reason {
    /// The program requested it.
    pub const INDUCED: Reason = Reason(clr::Reason::Induced.code() as i32);
    /// The program requested it and left the decision to the collector.
    pub const INDUCED_NOT_FORCED: Reason = Reason(clr::Reason::InducedNotForced.code() as i32);
    /// A young collection in provisional mode found that a full one is needed.
    pub const PROVISIONAL_FULL: Reason = Reason(clr::Reason::PMFullGC.code() as i32);
}

/// A collection. Times are in milliseconds since the start of the trace; durations are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collection {
    /// Its index among the collections of the process, from 0; collections that never ended are included.
    pub index: u64,
    /// The number of its world in the trace, from 0; in a trace of .NET, the number of the runtime. Always 0 with the rules of PerfView.
    pub world: u16,
    /// The number that the runtime gave it. Each world counts its own collections.
    pub number: i32,
    /// How it ran.
    pub kind: Kind,
    /// Why it began.
    pub reason: Reason,
    /// The oldest generation that was collected.
    pub generation: i32,
    /// When the runtime began to suspend the threads.
    pub pause_start: f64,
    /// When the collection began, with the threads suspended.
    pub start: f64,
    /// The time from its beginning to its end, excluding suspension and restart of the threads.
    pub duration: f64,
    /// The time for which threads were suspended for it.
    pub pause: f64,
    /// The time that it took to suspend all threads.
    pub suspend: f64,
    /// The last pause of a background collection.
    pub final_pause: f64,
    /// The time since the previous collection.
    pub since_last: f64,
    /// Whether all its events were seen; incomplete collections are not counted.
    pub complete: bool,
    /// MB allocated since the previous collection according to the allocation ticks: small, large, pinned.
    pub ticked: [f64; 3],
    /// The heap after it.
    pub stats: Option<HeapStats>,
    /// Its global history.
    pub global: Option<GlobalHistory>,
    /// Its history of each heap.
    pub heaps: Vec<HeapHistory>,
    /// Its marking times, by heap.
    pub marks: Vec<Marks>,
    /// Whether the histories came after the end. They then count only if the process turns out to have the server collector.
    pub(super) is_provisional: bool,
    /// Memory committed before it.
    pub committed_before: Option<CommittedUsage>,
    /// Memory committed after it.
    pub committed_after: Option<CommittedUsage>,
    /// The compaction of large objects.
    pub loh: Vec<LohCompaction>,
    /// The numbers and sizes of the largest free blocks, by range of sizes.
    pub free_buckets: Vec<FitBucket>,
    /// The plugs that had to be placed, by range of sizes.
    pub plug_buckets: Vec<FitBucket>,
    /// Bytes of the objects that were reported as pinned.
    pub pinned_bytes: i64,
    /// Bytes of the plugs that could not be moved because of pinned objects.
    pub plug_bytes: i64,
}

impl Collection {
    /// Returns whether the program requested it.
    pub fn is_induced(&self) -> bool {
        matches!(self.reason, Reason::INDUCED | Reason::INDUCED_NOT_FORCED)
    }

    /// Generation, kind, and whether the program requested it, for example `2NI`.
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

    /// Returns the size of the heap after it in MB, including free space; −1 if unknown.
    pub fn after_mb(&self) -> f64 {
        self.stats.as_ref().map_or(-1.0, |stats| megabytes(sum(stats.sizes)))
    }

    /// Returns how much was promoted, in MB; −1 if unknown.
    pub fn promoted_mb(&self) -> f64 {
        self.stats.as_ref().map_or(-1.0, |stats| megabytes(sum(stats.promoted)))
    }

    /// Returns the size of a generation after it, in MB.
    pub fn size_after_mb(&self, generation: usize) -> f64 {
        self.stats.as_ref().map_or(f64::NAN, |stats| megabytes(stats.sizes[generation]))
    }

    /// Returns how much was promoted from a generation, in MB.
    pub fn generation_promoted_mb(&self, generation: usize) -> f64 {
        self.stats.as_ref().map_or(f64::NAN, |stats| megabytes(stats.promoted[generation]))
    }

    /// Returns the percentage of a generation's objects that survived: the mean of the heaps, truncated to a whole number. NaN for
    /// generations that were not collected.
    pub fn survival_percent(&self, generation: usize) -> f64 {
        let collected = if generation >= LARGE { 2 } else { generation as i32 };
        if !self.has_history_of(generation) || self.generation < collected {
            return f64::NAN;
        }
        let total = self.histories(generation).fold(0_i64, |sum, data| sum.wrapping_add(data.survival()));
        (total / self.heaps.len() as i64) as f64
    }

    /// Returns the free space in a generation, in MB.
    pub fn fragmentation_mb(&self, generation: usize) -> f64 {
        self.sum_mb(generation, GenerationData::fragmentation)
    }

    /// Returns the percentage of free space in a generation.
    pub fn fragmentation_percent(&self, generation: usize) -> f64 {
        self.fragmentation_mb(generation) * 100.0 / self.size_after_mb(generation)
    }

    /// Returns how much was promoted into a generation, in MB.
    pub fn in_mb(&self, generation: usize) -> f64 {
        self.sum_mb(generation, |data| data.into)
    }

    /// Returns how much survived in a generation, in MB.
    pub fn out_mb(&self, generation: usize) -> f64 {
        self.sum_mb(generation, GenerationData::out)
    }

    /// Returns how much may be allocated in a generation until the next collection, in MB.
    pub fn budget_mb(&self, generation: usize) -> f64 {
        self.sum_mb(generation, |data| data.budget)
    }

    /// Returns pinned objects as a percentage of the plugs that could not move.
    pub fn pinned_percent(&self) -> Option<i64> {
        (self.plug_bytes != 0).then(|| (self.pinned_bytes as f64 * 100.0 / self.plug_bytes as f64) as i64)
    }

    /// Drops the contents of the histories.
    pub(super) fn forget_histories(&mut self) {
        self.global = None;
        self.heaps.clear();
        self.committed_before = None;
        self.committed_after = None;
    }

    /// Returns whether the heaps' histories contain this generation. All heaps have the same generations as the first.
    pub(super) fn has_history_of(&self, generation: usize) -> bool {
        self.heaps.first().is_some_and(|heap| generation < heap.generations.len())
    }

    /// Returns the data of a generation in each heap that has it.
    pub(super) fn histories(&self, generation: usize) -> impl Iterator<Item = &GenerationData> {
        self.heaps.iter().filter_map(move |heap| heap.generations.get(generation))
    }

    /// Returns a sum over the heaps in MB, added in the same order as in PerfView.
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

/// The heap after a collection; sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapStats {
    /// The size of each generation, including free space.
    pub sizes: [i64; GENERATIONS],
    /// The bytes promoted from each generation.
    pub promoted: [i64; GENERATIONS],
    /// The bytes promoted only because of a pending finalizer.
    pub finalization_promoted: i64,
    /// The number of objects promoted only because of a pending finalizer.
    pub finalization_count: i64,
    /// The number of pinned objects.
    pub pinned_objects: i32,
    /// The number of sync blocks.
    pub sink_blocks: i32,
    /// The number of handles.
    pub handles: i32,
}

/// The global history of a collection, over all heaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobalHistory {
    /// The new allocation budget of generation 0.
    pub final_youngest_desired: i64,
    /// The number of heaps.
    pub heaps: i32,
    /// The oldest generation that was collected.
    pub condemned_generation: i32,
    /// How often the budget of generation 0 was reduced.
    pub gen0_reductions: i32,
    /// The reason for the collection.
    pub reason: Reason,
    /// The mechanisms used, as bits.
    pub mechanisms: i32,
    /// Memory load of the machine in percent.
    pub memory_pressure: Option<i32>,
    /// The times of its phases.
    pub phases: Option<Phases>,
}

/// The times of a collection's phases, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Marking from roots.
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
    /// Compacting.
    pub compact: Option<i32>,
    /// Sweeping.
    pub sweep: Option<i32>,
}

/// A collection's history of one heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapHistory {
    /// Its generations.
    pub generations: Vec<GenerationData>,
}

/// Number of kinds of roots.
pub const MARKS: usize = MarkRoot::NAMES.len();

/// The marking of a heap, by kind of roots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// The heap's number.
    pub heap: i32,
    /// The time it took, in milliseconds.
    pub times: [Option<f64>; MARKS],
    /// Bytes kept alive by each kind of roots; unknown if only the old events reported the marking.
    pub promoted: Option<[i64; MARKS]>,
}

impl Marks {
    /// Converts the times at which the kinds of roots were finished into durations: each lasts from the previous time.
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
