//! When the heap moves to huge pages.
//!
//! Huge pages help marking, and cost a copy of the heap and the memory around few objects. So the heap is copied, once, when collections
//! have already marked for about as long as the copy takes: a program whose heap is large only for a moment does not pay for it.

use super::layout::CHUNK_BYTES;

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
