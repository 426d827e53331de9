//! What the owner of a trace and its writer say to each other while the one runs among mutators and the other in a drain.
//!
//! The writer may take no lock and gets its records late, so what changes is written down with the time from which on it
//! is so, and the writer goes by the times of its records:
//!
//! ```text
//!   filter:      from t0: Arena Pool   from t1: Arena Pool Seg   from t2: Arena Seg
//!   worlds:      number 0: where its heap is, its pools, …       number 1: …
//!   news:        counts changes of either; the writer looks closer when it has changed
//! ```

use super::blocks::Held;
use crate::events::record::MAX_WORLDS;
use crate::sync::{AtomicU64, Ordering};

const SEGMENTS: u64 = 32;

/// What is known of a world before anything was recorded of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) world: u64,
    pub(super) heap: u64,
    pub(super) reserved: u64,
    pub(super) chunk: u64,
    pub(super) block: u64,
    pub(super) limit: u64,
    pub(super) pools: [u64; 3],
    /// Its first events are not among what is recorded.
    pub(super) late: u64,
    /// The blocks that it held then: where they are, and how many.
    pub(super) held: [u64; 2],
    /// No two worlds have the same; 0 is the one that was there.
    pub(super) serial: u64,
}

const FACTS: usize = size_of::<Facts>() / 8;

#[derive(Debug)]
struct World {
    /// 0 while nothing is known, and while that changes.
    generation: AtomicU64,
    words: [AtomicU64; FACTS],
}

#[derive(Debug)]
struct Segment {
    from: AtomicU64,
    filter: AtomicU64,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Switchboard {
    news: AtomicU64,
    /// Segments that were ever begun; a segment's place is the remainder.
    begun: AtomicU64,
    /// Segments that the writer is through with.
    passed: AtomicU64,
    segments: [Segment; SEGMENTS as usize],
    worlds: [World; MAX_WORLDS],
    /// What the writer has done: records and bytes in the file, worlds of which it has told the end.
    pub(super) records: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) ended: AtomicU64,
}

impl Switchboard {
    /// With this filter from the beginning of time.
    pub(super) fn new(filter: u64) -> Switchboard {
        let segments = [const { Segment { from: AtomicU64::new(0), filter: AtomicU64::new(0) } }; SEGMENTS as usize];
        segments[0].filter.store(filter, Ordering::Relaxed);
        Switchboard {
            news: AtomicU64::new(1),
            begun: AtomicU64::new(1),
            passed: AtomicU64::new(0),
            segments,
            worlds: [const { World { generation: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; FACTS] } };
                MAX_WORLDS],
            records: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    // ---- The owner's side, one thread at a time ------------------------------------------------------------------------

    /// Whether another change of the filter can be written down; if not, a flush makes room.
    pub(super) fn has_room(&self) -> bool {
        // Acquire: pairs with the Release in `pass`: the writer reads that segment no more.
        self.begun.load(Ordering::Relaxed) - self.passed.load(Ordering::Acquire) < SEGMENTS
    }

    /// From this time on the filter is this.
    pub(super) fn begin(&self, from: u64, filter: u64) {
        let begun = self.begun.load(Ordering::Relaxed);
        let segment = &self.segments[(begun % SEGMENTS) as usize];
        segment.from.store(from, Ordering::Relaxed);
        segment.filter.store(filter, Ordering::Relaxed);
        // Release: pairs with the Acquire in `segment`.
        self.begun.store(begun + 1, Ordering::Release);
        self.tell();
    }

    /// A world is recorded under this number.
    pub(super) fn introduce(&self, number: usize, facts: &Facts) {
        let world = &self.worlds[number];
        let generation = self.news.load(Ordering::Relaxed) + 1;
        world.generation.store(0, Ordering::Relaxed);
        world.words.iter().zip(facts.words()).for_each(|(word, fact)| word.store(fact, Ordering::Relaxed));
        // Release: pairs with the Acquire in `facts`.
        world.generation.store(generation, Ordering::Release);
        self.tell();
    }

    fn tell(&self) {
        // Release: pairs with the Acquire in `news`: who sees the count sees what is new.
        self.news.store(self.news.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    // ---- The writer's side ---------------------------------------------------------------------------------------------

    /// How much has changed.
    #[inline(always)]
    pub(super) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    /// The segment of this number, if it has begun: from when on, and the filter.
    pub(super) fn segment(&self, number: u64) -> Option<(u64, u64)> {
        if number >= self.begun.load(Ordering::Acquire) {
            return None;
        }
        let segment = &self.segments[(number % SEGMENTS) as usize];
        Some((segment.from.load(Ordering::Relaxed), segment.filter.load(Ordering::Relaxed)))
    }

    /// The newest one, for who has no past.
    pub(super) fn newest(&self) -> u64 {
        self.begun.load(Ordering::Acquire) - 1
    }

    /// The writer needs no segment before this one.
    pub(super) fn pass(&self, number: u64) {
        self.passed.store(number, Ordering::Release);
    }

    /// What is known of a world, if it is not what was known at this generation.
    pub(super) fn facts(&self, number: usize, known: u64) -> Option<(u64, Facts)> {
        let world = &self.worlds[number];
        let generation = world.generation.load(Ordering::Acquire);
        if generation == 0 || generation == known {
            return None;
        }
        // Acquire: before the second look at the generation.
        let words = std::array::from_fn(|index| world.words[index].load(Ordering::Acquire));
        // What is written meanwhile is told of as news, and looked at again.
        (world.generation.load(Ordering::Acquire) == generation).then(|| (generation, Facts::from_words(words)))
    }
}

impl Facts {
    fn words(&self) -> [u64; FACTS] {
        let Facts { world, heap, reserved, chunk, block, limit, pools: [small, pinned, large], late, held, serial } =
            *self;
        [world, heap, reserved, chunk, block, limit, small, pinned, large, late, held[0], held[1], serial]
    }

    fn from_words(words: [u64; FACTS]) -> Facts {
        let [world, heap, reserved, chunk, block, limit, small, pinned, large, late, held, count, serial] = words;
        let pools = [small, pinned, large];
        Facts { world, heap, reserved, chunk, block, limit, pools, late, held: [held, count], serial }
    }

    /// The blocks that it held when it was introduced.
    ///
    /// # Safety
    /// Who introduced it keeps them.
    pub(super) unsafe fn held<'a>(&self) -> &'a [Held] {
        if self.held[1] == 0 {
            return &[];
        }
        // SAFETY: by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.held[0] as *const Held, self.held[1] as usize) }
    }
}
