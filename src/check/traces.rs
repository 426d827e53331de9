//! Backtraces of allocations.
//!
//! A program allocates at few places. So a backtrace, a list of return addresses, gets a number, and blocks and objects have only the number.

use std::io;

use crate::os::unwind;
use crate::sync::TraceStore;

/// The largest number of return addresses in a backtrace. Those of outer frames are left out.
pub(super) const MOST_FRAMES: usize = 40;
/// Places for backtraces; below 2^24, which is the largest number that a block has room for.
const PLACES: usize = 1 << 20;
/// Words for backtraces. Their pages cost nothing until they are written.
const WORDS: usize = 1 << 24;

static STORE: TraceStore<PLACES, WORDS> = TraceStore::new();

/// The number of a backtrace; 0 if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TraceId(pub(crate) u32);

impl TraceId {
    /// No backtrace.
    pub(crate) const NONE: Self = Self(0);

    /// Returns the number of the calling thread's backtrace. [`NONE`](Self::NONE) if the store is full. Makes no call of Rust's allocator.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let mut frames = [0; MOST_FRAMES];
        let count = unwind::return_addresses(&mut frames);
        STORE.number_of(&frames[..count]).map_or(Self::NONE, Self)
    }

    /// Returns the return addresses, innermost first.
    pub(crate) fn frames(self) -> impl Iterator<Item = usize> {
        STORE.frames(self.0)
    }
}

/// Maps the store of backtraces, if that was not done yet.
pub(super) fn map() -> io::Result<()> {
    STORE.map()
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
        let add = || lists.iter().map(|frames| STORE.number_of(frames).map(TraceId).unwrap()).collect::<Vec<_>>();
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
