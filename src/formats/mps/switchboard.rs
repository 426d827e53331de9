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
//!
//! What is known of a world is more than a word, and may be written anew while the writer reads it. So it has a
//! generation, 0 while it is being written; who reads compares it before and after, and else comes again: whoever
//! writes tells of news when he is through.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::blocks::Held;
use crate::events::record::MAX_WORLDS;
use crate::formats::ongoing::Progress;
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
    /// The blocks that it held then, which the switchboard keeps: where they are, and how many.
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
    /// The blocks of the facts, by their world's number. Of the owner's side; the writer reads them by their address.
    kept: Mutex<BTreeMap<usize, Box<[Held]>>>,
    pub(super) progress: Arc<Progress>,
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
            kept: Mutex::new(BTreeMap::new()),
            progress: Arc::default(),
        }
    }

    // ---- The owner's side, one thread at a time ------------------------------------------------------------------------

    /// Whether another change of the filter can be written down; if not, a flush makes room.
    pub(super) fn has_room(&self) -> bool {
        // Acquire: pairs with the Release in `pass`: the writer reads that segment no more.
        self.begun.load(Ordering::Relaxed) - self.passed.load(Ordering::Acquire) < SEGMENTS
    }

    /// What the filter was changed to last.
    pub(super) fn newest_filter(&self) -> u64 {
        self.segment(self.newest()).map_or(0, |(_, filter)| filter)
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

    /// A world is recorded under this number, and holds these blocks. Returns those of the facts that these replace: the
    /// writer may be reading them, until the recorder's lock, under which it reads, has been somebody else's.
    #[must_use = "the writer may be reading what is returned"]
    pub(super) fn introduce(&self, number: usize, mut facts: Facts, held: Box<[Held]>) -> Option<Box<[Held]>> {
        facts.held = [held.as_ptr() as u64, held.len() as u64];
        let world = &self.worlds[number];
        let generation = self.news.load(Ordering::Relaxed) + 1;
        world.generation.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire of the words in `facts`: who sees a new word sees the 0 above, or what came
        // after it, when he looks at the generation again.
        world.words.iter().zip(facts.words()).for_each(|(word, fact)| word.store(fact, Ordering::Release));
        // Release: pairs with the Acquire of the first look in `facts`: who sees it sees all words, and the blocks.
        world.generation.store(generation, Ordering::Release);
        self.tell();
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(number, held)
    }

    fn tell(&self) {
        // Release: pairs with the Acquire in `news`: who sees the count sees what is new.
        self.news.store(self.news.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    // ---- The writer's side ---------------------------------------------------------------------------------------------

    /// How much has changed.
    #[inline(always)]
    pub(super) fn news(&self) -> u64 {
        // Acquire: pairs with the Release in `tell`.
        self.news.load(Ordering::Acquire)
    }

    /// The segment of this number, if it has begun: from when on, and the filter.
    pub(super) fn segment(&self, number: u64) -> Option<(u64, u64)> {
        // Acquire: pairs with the Release in `begin`: the segment is seen as it was written. It stays so until it is passed.
        if number >= self.begun.load(Ordering::Acquire) {
            return None;
        }
        let segment = &self.segments[(number % SEGMENTS) as usize];
        Some((segment.from.load(Ordering::Relaxed), segment.filter.load(Ordering::Relaxed)))
    }

    /// The newest one, for who has no past.
    pub(super) fn newest(&self) -> u64 {
        // Acquire: pairs with the Release in `begin`, for a look at this segment.
        self.begun.load(Ordering::Acquire) - 1
    }

    /// The writer needs no segment before this one.
    pub(super) fn pass(&self, number: u64) {
        // Release: pairs with the Acquire in `has_room`: what was read of those before has been read.
        self.passed.store(number, Ordering::Release);
    }

    /// What is known of a world, if it is not what was known at this generation.
    pub(super) fn facts(&self, number: usize, known: u64) -> Option<(u64, Facts)> {
        let world = &self.worlds[number];
        // Acquire: pairs with the Release of the generation in `introduce`: all of its words are seen, or newer ones.
        let generation = world.generation.load(Ordering::Acquire);
        if generation == 0 || generation == known {
            return None;
        }
        // Acquire: pairs with the Release of each word in `introduce`: if one is newer, so is the second look.
        let words = std::array::from_fn(|index| world.words[index].load(Ordering::Acquire));
        // Relaxed: it comes after the words, whose Acquire it can't pass. No two generations are the same.
        (world.generation.load(Ordering::Relaxed) == generation).then(|| (generation, Facts::from_words(words)))
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
    /// The switchboard that they are from is there, and the recorder's lock has been the caller's since before
    /// [`facts`](Switchboard::facts) told him.
    pub(super) unsafe fn held<'a>(&self) -> &'a [Held] {
        if self.held[1] == 0 {
            return &[];
        }
        // SAFETY: by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.held[0] as *const Held, self.held[1] as usize) }
    }
}
