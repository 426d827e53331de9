//! State shared by the owner of a trace, which runs on mutator threads, and its writer, which runs in a drain.
//!
//! The writer may take no lock, and it receives records some time after the events. So each change is stored with the time from which it is
//! valid, and the writer applies the change according to the times of the records:
//!
//! ```text
//!   filter:      from t0: Arena Pool   from t1: Arena Pool Seg   from t2: Arena Seg
//!   worlds:      number 0: where its heap is, its pools, …       number 1: …
//!   news:        counts the changes of either; the writer reads the rest only when it has changed
//! ```
//!
//! The facts of a world are more than one word and may be rewritten while the writer reads them. They are a seqlock: the generation
//! is 0 while they are being written. The writer compares it before and after, and ignores the facts on a mismatch; it tries again
//! because the owner increments `news` when it is done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::blocks::Held;
use crate::progress::Progress;
use crate::sync::{AtomicU64, Ordering};
use stopworld::events::record::MAX_WORLDS;

const SEGMENTS: u64 = 32;

/// The facts about a world that the writer needs before the world's first record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) world: u64,
    pub(super) heap: u64,
    pub(super) reserved: u64,
    pub(super) chunk: u64,
    pub(super) block: u64,
    pub(super) limit: u64,
    pub(super) pools: [u64; 3],
    /// Not 0 if the world's first events are not recorded.
    pub(super) late: u64,
    /// The blocks that it held then, which the shared state owns: their address and number.
    pub(super) held: [u64; 2],
    /// A number that is unique for each world; 0 if this is the same world as before under this world number.
    pub(super) serial: u64,
}

const FACTS: usize = size_of::<Facts>() / 8;

#[derive(Debug)]
struct World {
    /// 0 while nothing is known, and while the facts are being written.
    generation: AtomicU64,
    words: [AtomicU64; FACTS],
}

#[derive(Debug)]
struct Segment {
    from: AtomicU64,
    filter: AtomicU64,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct SharedState {
    news: AtomicU64,
    /// Number of segments ever begun. Segment n is at index n mod `SEGMENTS`.
    begun: AtomicU64,
    /// Number of segments that the writer does not need any more.
    passed: AtomicU64,
    segments: [Segment; SEGMENTS as usize],
    worlds: [World; MAX_WORLDS],
    /// The held blocks by world number. Only the owner uses this map; the writer reads the blocks through their address.
    kept: Mutex<BTreeMap<usize, Box<[Held]>>>,
    pub(super) progress: Arc<Progress>,
}

impl SharedState {
    /// Starts with this filter, valid from time 0.
    pub(super) fn new(filter: u64) -> SharedState {
        let segments = [const { Segment { from: AtomicU64::new(0), filter: AtomicU64::new(0) } }; SEGMENTS as usize];
        segments[0].filter.store(filter, Ordering::Relaxed);
        SharedState {
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

    /// Returns whether there is room for another segment. If not, a flush makes room.
    pub(super) fn has_room(&self) -> bool {
        // Acquire: pairs with the Release in `pass`: the writer does not read the passed segments any more.
        self.begun.load(Ordering::Relaxed) - self.passed.load(Ordering::Acquire) < SEGMENTS
    }

    /// Returns the current filter.
    pub(super) fn newest_filter(&self) -> u64 {
        self.segment(self.newest()).map_or(0, |(_, filter)| filter)
    }

    /// Sets the filter from this time on.
    pub(super) fn begin(&self, from: u64, filter: u64) {
        let begun = self.begun.load(Ordering::Relaxed);
        let segment = &self.segments[(begun % SEGMENTS) as usize];
        segment.from.store(from, Ordering::Relaxed);
        segment.filter.store(filter, Ordering::Relaxed);
        // Release: pairs with the Acquire in `segment`.
        self.begun.store(begun + 1, Ordering::Release);
        self.notify();
    }

    /// Publishes the facts of a world that is recorded under this number, and the blocks that it holds. Returns the blocks of the facts
    /// that were replaced. The writer, which holds the recorder's lock, may still be reading these blocks: the caller must take that lock
    /// once before it drops them.
    #[must_use = "the writer may be reading what is returned"]
    pub(super) fn introduce(&self, number: usize, mut facts: Facts, held: Box<[Held]>) -> Option<Box<[Held]>> {
        facts.held = [held.as_ptr() as u64, held.len() as u64];
        let world = &self.worlds[number];
        let generation = self.news.load(Ordering::Relaxed) + 1;
        world.generation.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire of the words in `facts`: a reader that sees a new word sees the 0 above, or a later
        // value, in its second load of the generation.
        world.words.iter().zip(facts.words()).for_each(|(word, fact)| word.store(fact, Ordering::Release));
        // Release: pairs with the Acquire of the first load in `facts`: a reader that sees it sees all words, and the blocks.
        world.generation.store(generation, Ordering::Release);
        self.notify();
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(number, held)
    }

    fn notify(&self) {
        // Release: pairs with the Acquire in `news`: a thread that sees the count sees the change.
        self.news.store(self.news.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    // ---- The writer's side ---------------------------------------------------------------------------------------------

    /// Returns the count of changes.
    #[inline(always)]
    pub(super) fn news(&self) -> u64 {
        // Acquire: pairs with the Release in `notify`.
        self.news.load(Ordering::Acquire)
    }

    /// Returns the start time and the filter of segment `number`, if it has begun.
    pub(super) fn segment(&self, number: u64) -> Option<(u64, u64)> {
        // Acquire: pairs with the Release in `begin`: this thread sees the complete segment. It does not change before `pass`.
        if number >= self.begun.load(Ordering::Acquire) {
            return None;
        }
        let segment = &self.segments[(number % SEGMENTS) as usize];
        Some((segment.from.load(Ordering::Relaxed), segment.filter.load(Ordering::Relaxed)))
    }

    /// Returns the number of the newest segment.
    pub(super) fn newest(&self) -> u64 {
        // Acquire: pairs with the Release in `begin`, so that the caller can read this segment.
        self.begun.load(Ordering::Acquire) - 1
    }

    /// Declares that the writer needs no segment before this one.
    pub(super) fn pass(&self, number: u64) {
        // Release: pairs with the Acquire in `has_room`: all reads of earlier segments come before this store.
        self.passed.store(number, Ordering::Release);
    }

    /// Returns the facts of a world and their generation, unless it is the generation `known` or the facts are being written.
    pub(super) fn facts(&self, number: usize, known: u64) -> Option<(u64, Facts)> {
        let world = &self.worlds[number];
        // Acquire: pairs with the Release of the generation in `introduce`: this thread sees all words of it, or newer ones.
        let generation = world.generation.load(Ordering::Acquire);
        if generation == 0 || generation == known {
            return None;
        }
        // Acquire: pairs with the Release of each word in `introduce`: if a word is newer, so is the second load of the generation.
        let words = std::array::from_fn(|index| world.words[index].load(Ordering::Acquire));
        // Relaxed: the Acquire loads of the words order this load after them. Generations are never reused.
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

    /// Returns the blocks that the world held when it was introduced.
    ///
    /// # Safety
    /// The shared state that returned the facts must be alive. The caller must have held the recorder's lock since before it called
    /// [`facts`](SharedState::facts).
    pub(super) unsafe fn held<'a>(&self) -> &'a [Held] {
        if self.held[1] == 0 {
            return &[];
        }
        // SAFETY: guaranteed by the caller.
        unsafe { std::slice::from_raw_parts(self.held[0] as *const Held, self.held[1] as usize) }
    }
}
