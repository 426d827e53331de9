//! When the heap moves to huge pages.
//!
//! Huge pages help marking, and cost a copy of the heap and the memory around few objects. So the heap is copied, once, when collections
//! have already marked for about as long as the copy takes: a program whose heap is large only for a moment does not pay for it. A thread that
//! collects copies a part of the heap, for about as long as its collection has marked (which includes the scan of large roots), so it is not
//! away for much longer than the pause.

use std::ops::Range;

use super::layout::CHUNK_BYTES;
use crate::sync::{AtomicUsize, Ordering::Relaxed};

/// With this many live bytes, huge pages may be useful: they halve the time to mark a large random graph. In a heap with fewer live objects
/// they would contain memory that is never used.
const USEFUL_FROM: u64 = 64 << 20;
/// About how long it takes to copy a byte of the heap into a huge page. The heap is copied when it has been marked for that long.
const COPY_NS_PER_BYTE: u64 = 2;

/// The value of the marking time of a heap that has moved to huge pages.
pub(super) const MOVED: u64 = u64::MAX;

/// What happens after a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The heap stays as it is, and this collection does not count.
    Stay,
    /// Collections have marked for this long now, in nanoseconds.
    Count(u64),
    /// The heap moves to huge pages.
    Move,
}

/// Chooses after a collection that left `live_bytes` alive in a heap of `committed_bytes` and marked for `mark_ns`. `marked_ns` is how long
/// earlier collections that counted have marked, or [`MOVED`].
pub(super) fn choose(marked_ns: u64, mark_ns: u64, live_bytes: u64, committed_bytes: u64) -> Choice {
    if live_bytes < USEFUL_FROM || marked_ns == MOVED {
        return Choice::Stay;
    }
    let marked_ns = marked_ns.saturating_add(mark_ns);
    if marked_ns < committed_bytes.saturating_mul(COPY_NS_PER_BYTE) { Choice::Count(marked_ns) } else { Choice::Move }
}

/// The first bytes of the heap, which move to huge pages part by part.
#[derive(Default)]
pub(super) struct Copying {
    next: AtomicUsize,
    end: AtomicUsize,
}

impl Copying {
    /// Begins to copy the first `bytes`. A second call, by a thread that chose the move at the same time, only changes the end.
    pub(super) fn begin(&self, bytes: usize) {
        // Relaxed, here and below: a thread that does not see it yet copies nothing.
        self.end.store(bytes, Relaxed);
    }

    /// Takes the part to copy after a collection that marked for `mark_ns`. No two threads take the same part.
    pub(super) fn take(&self, mark_ns: u64) -> Option<Range<usize>> {
        let end = self.end.load(Relaxed);
        if self.next.load(Relaxed) >= end {
            return None;
        }
        let bytes = bytes_to_copy((mark_ns / COPY_NS_PER_BYTE) as usize, end).max(CHUNK_BYTES);
        let start = self.next.fetch_add(bytes, Relaxed);
        (start < end).then(|| start..(start + bytes).min(end))
    }
}

/// Returns how many of a table's first bytes are copied if `used` of its `len` bytes are in use: whole chunks.
pub(super) fn bytes_to_copy(used: usize, len: usize) -> usize {
    (used / CHUNK_BYTES * CHUNK_BYTES).min(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const LARGE: u64 = 100 << 20;

    #[rstest]
    #[case::few_bytes_live(0, u64::MAX, USEFUL_FROM - 1, LARGE, Choice::Stay)]
    #[case::just_enough_live(0, 5, USEFUL_FROM, LARGE, Choice::Count(5))]
    #[case::times_add_up(7, 5, LARGE, LARGE, Choice::Count(12))]
    #[case::just_too_early(LARGE, LARGE - 1, LARGE, LARGE, Choice::Count(2 * LARGE - 1))]
    #[case::as_long_as_the_copy(LARGE, LARGE, LARGE, LARGE, Choice::Move)]
    #[case::once_only(MOVED, LARGE, LARGE, LARGE, Choice::Stay)]
    #[case::by_the_size_of_the_heap(LARGE, LARGE, LARGE, 2 * LARGE, Choice::Count(2 * LARGE))]
    #[case::no_overflow(MOVED - 1, MOVED, LARGE, LARGE, Choice::Move)]
    fn the_heap_moves_once_it_was_marked_for_as_long_as_the_copy_takes(
        #[case] marked_ns: u64,
        #[case] mark_ns: u64,
        #[case] live_bytes: u64,
        #[case] committed_bytes: u64,
        #[case] expected: Choice,
    ) {
        assert_eq!(choose(marked_ns, mark_ns, live_bytes, committed_bytes), expected);
    }

    #[test]
    fn the_parts_are_as_large_as_the_marking_was_long_and_together_the_whole() {
        let copying = Copying::default();
        assert_eq!(copying.take(1 << 40), None, "not begun");
        copying.begin(9 * CHUNK_BYTES);
        let nanoseconds = |chunks| chunks * CHUNK_BYTES as u64 * COPY_NS_PER_BYTE;
        let parts = [0, nanoseconds(1), nanoseconds(3), nanoseconds(2) - 1, u64::MAX, nanoseconds(1)];
        let chunks = |part: Range<usize>| (part.start / CHUNK_BYTES, part.end / CHUNK_BYTES);
        assert_eq!(
            parts.map(|mark_ns| copying.take(mark_ns).map(chunks)),
            [Some((0, 1)), Some((1, 2)), Some((2, 5)), Some((5, 6)), Some((6, 9)), None]
        );
    }

    #[rstest]
    #[case::nothing(0, 4 * CHUNK_BYTES, 0)]
    #[case::less_than_a_chunk(CHUNK_BYTES - 1, 4 * CHUNK_BYTES, 0)]
    #[case::whole_chunks(3 * CHUNK_BYTES, 4 * CHUNK_BYTES, 3 * CHUNK_BYTES)]
    #[case::a_part_is_left_out(3 * CHUNK_BYTES + 1, 4 * CHUNK_BYTES, 3 * CHUNK_BYTES)]
    #[case::a_small_table(CHUNK_BYTES, 4096, 4096)]
    fn whole_chunks_are_copied(#[case] used: usize, #[case] len: usize, #[case] expected: usize) {
        assert_eq!(bytes_to_copy(used, len), expected);
    }
}
