//! The store of backtraces, each stored once.
//!
//! The store grows and never shrinks. Threads add to it without a lock, in an allocator and while any of them may be stopped: a
//! backtrace is written to memory that no other thread uses, and then published by one compare-exchange of its place in a hash table. If
//! two threads add the same backtrace at the same time, the words of one of them are wasted.
//!
//! ```text
//!   places | 0 | begin + 1 | 0 | …            a hash table; the index of a place, plus 1, is the number of the backtrace
//!   words  | count, address, address, … | count, address, … | …
//! ```
//!
//! **A thread that has a number can read the backtrace** (`.promise.trace`). The words are written before their place is published, and a place that
//! is published does not change. A reader acquires the writes with the place.
//!
//! This file is a protocol that is model-checked. The capacities are parameters, so that the models can use a small store.

use std::io;

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, AtomicU64, Mapped, Ordering, const_new, zeroed};

/// The number of places that are searched.
const MOST_PROBES: usize = 128;

zeroed! {
    struct Store<const PLACES: usize, const WORDS: usize> {
        /// Where the backtrace of this number begins among the words, plus 1. 0 if there is none.
        places: [AtomicU32; PLACES],
        /// For each backtrace the number of its addresses, and then these.
        words: [AtomicU64; WORDS],
        used: AtomicU32,
    }
}

/// The store, mapped on first use. See the module's text.
pub struct TraceStore<const PLACES: usize, const WORDS: usize>(Mapped<Store<PLACES, WORDS>>);

impl<const PLACES: usize, const WORDS: usize> TraceStore<PLACES, WORDS> {
    const_new! {
        /// Creates a store that is not mapped yet.
        pub fn new() -> Self {
            Self(Mapped::new())
        }
    }

    /// Maps the store, if that was not done yet.
    pub fn map(&self) -> io::Result<()> {
        self.0.map(|_| {}).map(drop)
    }

    /// Returns the return addresses of the backtrace of this number, innermost first. Empty if there is none.
    pub fn frames(&self, number: u32) -> impl Iterator<Item = usize> {
        let words = || {
            let store = self.0.get()?;
            let place = store.places.get(number.checked_sub(1)? as usize)?;
            // Acquire: pairs with the Release in `number_of`: the words are written. No model: a thread that passes its number on by an
            // ordered store has acquired them already.
            let begin = place.load(Ordering::Acquire).checked_sub(1)? as usize;
            let count = store.words[begin].load(Ordering::Relaxed) as usize;
            Some(&store.words[begin + 1..][..count])
        };
        words().unwrap_or_default().iter().map(|word| word.load(Ordering::Relaxed) as usize)
    }

    /// Returns the number of a backtrace, which is added if it is new. `None` if there is no room.
    pub fn number_of(&self, frames: &[usize]) -> Option<u32> {
        let store = self.0.map(|_| {}).ok()?;
        // FNV-1a, a word at a time; the upper half has seen every bit.
        let hash = frames
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, &frame| (hash ^ frame as u64).wrapping_mul(0x0100_0000_01b3_u64));
        let mut ours = None;
        for probe in 0..MOST_PROBES.min(PLACES) {
            let place = ((hash >> 32) as usize + probe) % PLACES;
            let number = place as u32 + 1;
            // Acquire: pairs with the Release below: the words of the backtrace are written.
            let mut there = store.places[place].load(Ordering::Acquire);
            if there == 0 {
                if ours.is_none() {
                    ours = Some(reserve(store, frames.len())?);
                }
                let begin = ours?;
                if !removed(Guard::PromiseTrace) {
                    write(store, begin, frames);
                }
                // Release: pairs with the Acquires of `there` and in `frames`. Acquire: pairs with the Release of the thread that was faster.
                match store.places[place].compare_exchange(0, begin + 1, Ordering::Release, Ordering::Acquire) {
                    Ok(_) => {
                        if removed(Guard::PromiseTrace) {
                            write(store, begin, frames);
                        }
                        return Some(number);
                    }
                    Err(others) => there = others,
                }
            }
            let words = &store.words[there as usize - 1..];
            let is_same = words[0].load(Ordering::Relaxed) == frames.len() as u64
                && words[1..].iter().zip(frames).all(|(word, &frame)| word.load(Ordering::Relaxed) == frame as u64);
            if is_same {
                return Some(number);
            }
        }
        None
    }
}

/// Takes unused words for a backtrace. Returns where they begin.
fn reserve<const PLACES: usize, const WORDS: usize>(store: &Store<PLACES, WORDS>, frames: usize) -> Option<u32> {
    let more = |used: u32| {
        let end = used as usize + 1 + frames;
        (end <= WORDS).then_some(end as u32)
    };
    // Relaxed: the words belong to this thread until it publishes them.
    store.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()
}

/// Writes a backtrace to words that belong to this thread.
fn write<const PLACES: usize, const WORDS: usize>(store: &Store<PLACES, WORDS>, begin: u32, frames: &[usize]) {
    let words = &store.words[begin as usize..];
    words[0].store(frames.len() as u64, Ordering::Relaxed);
    for (word, &frame) in words[1..].iter().zip(frames) {
        word.store(frame as u64, Ordering::Relaxed);
    }
}
