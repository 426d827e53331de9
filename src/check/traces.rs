//! Backtraces of allocations, each stored once.
//!
//! A program allocates at few places. So a backtrace, a list of return addresses, gets a number, and blocks and objects have only the number.
//! The store grows and never shrinks. Threads add to it without a lock, in an allocator and while any of them may be stopped: a
//! backtrace is written to memory that no other thread uses, and then published by one compare-exchange of its place in a hash table. If
//! two threads add the same backtrace at the same time, the words of one of them are wasted.

use crate::os::unwind;
use crate::sync::{AtomicU32, AtomicU64, Mapped, Ordering, zeroed};

/// The largest number of return addresses in a backtrace. Those of outer frames are left out.
pub(super) const MOST_FRAMES: usize = 40;
/// Places for backtraces; below 2^24, which is the largest number that a block has room for.
const PLACES: usize = 1 << 20;
/// Words for backtraces. Their pages cost nothing until they are written.
const WORDS: usize = 1 << 24;
/// The number of places that are searched.
const MOST_PROBES: usize = 128;

zeroed! {
    struct Store {
        /// Where the backtrace of this number begins among the words, plus 1. 0 if there is none.
        places: [AtomicU32; PLACES],
        /// For each backtrace the number of its addresses, and then these.
        words: [AtomicU64; WORDS],
        used: AtomicU32,
    }
}

static STORE: Mapped<Store> = Mapped::new();

/// The number of a backtrace; 0 if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TraceId(pub(crate) u32);

impl TraceId {
    /// No backtrace.
    pub(crate) const NONE: Self = Self(0);

    /// Returns the number of the calling thread's backtrace. [`NONE`](Self::NONE) if the store is full. Makes no call of Rust's allocator.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let mut frames = [0; MOST_FRAMES];
        let count = unwind::return_addresses(&mut frames);
        number_of(&frames[..count]).unwrap_or(Self::NONE)
    }

    /// Returns the return addresses, innermost first.
    pub(crate) fn frames(self) -> impl Iterator<Item = usize> {
        let words = || {
            let store = STORE.get()?;
            let place = store.places.get(self.0.checked_sub(1)? as usize)?;
            // Acquire: pairs with the Release in `number_of`: the words are written.
            let begin = place.load(Ordering::Acquire).checked_sub(1)? as usize;
            let count = store.words[begin].load(Ordering::Relaxed) as usize;
            Some(&store.words[begin + 1..][..count])
        };
        words().unwrap_or_default().iter().map(|word| word.load(Ordering::Relaxed) as usize)
    }
}

fn number_of(frames: &[usize]) -> Option<TraceId> {
    let store = STORE.map(|_| {}).ok()?;
    // FNV-1a, a word at a time; the upper half has seen every bit.
    let hash =
        frames.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &frame| (hash ^ frame as u64).wrapping_mul(0x0100_0000_01b3));
    let mut ours = None;
    for probe in 0..MOST_PROBES {
        let place = ((hash >> 32) as usize + probe) % PLACES;
        let number = TraceId(place as u32 + 1);
        // Acquire: pairs with the Release below: the words of the backtrace are written.
        let mut there = store.places[place].load(Ordering::Acquire);
        if there == 0 {
            if ours.is_none() {
                ours = Some(write(store, frames)?);
            }
            // Release: pairs with the Acquires of `there` and in `frames`.
            match store.places[place].compare_exchange(0, ours?, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return Some(number),
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

/// Writes a backtrace to unused words. Returns where it begins, plus 1.
fn write(store: &Store, frames: &[usize]) -> Option<u32> {
    let more = |used: u32| {
        let end = used as usize + 1 + frames.len();
        (end <= WORDS).then_some(end as u32)
    };
    // Relaxed: the words belong to this thread until it publishes them.
    let begin = store.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()? as usize;
    store.words[begin].store(frames.len() as u64, Ordering::Relaxed);
    for (word, &frame) in store.words[begin + 1..].iter().zip(frames) {
        word.store(frame as u64, Ordering::Relaxed);
    }
    Some(begin as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames_of(number: TraceId) -> Vec<usize> {
        number.frames().collect()
    }

    #[test]
    fn equal_backtraces_have_one_number_also_if_threads_add_them_at_the_same_time() {
        let lists =
            (0..200_usize).map(|list| (0..list % MOST_FRAMES).map(|frame| 7 * list + frame).collect::<Vec<_>>());
        let lists = &lists.collect::<Vec<_>>();
        let add = || lists.iter().map(|frames| number_of(frames).unwrap()).collect::<Vec<_>>();
        let numbers = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(add)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(numbers.iter().all(|of_thread| *of_thread == numbers[0]));
        for (frames, number) in lists.iter().zip(&numbers[0]) {
            assert_eq!(frames_of(*number), *frames);
        }
        assert_eq!(frames_of(TraceId::NONE), []);
        assert_eq!(frames_of(TraceId(u32::MAX)), []);
    }

    #[test]
    fn two_calls_at_one_place_have_one_backtrace() {
        let mut numbers = Vec::new();
        // Not unrolled: each copy of the call would have its own address.
        for _ in 0..std::hint::black_box(2) {
            numbers.push(TraceId::here());
        }
        let first = numbers[0];
        assert_eq!(numbers, [first; 2]);
        assert!(frames_of(first).len() > 2);
        assert_ne!(TraceId::here(), first);
    }
}
