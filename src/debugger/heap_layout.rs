//! How a reader outside the process reads the heap without a call into it (`.debug.outside`): a debugger, or a reader of core files.
//!
//! [`HeapLayout`] is the end of the [`Descriptor`](super::contract::Descriptor). It has the offsets that are the same for all worlds. Each
//! world refers to its [`HeapTables`], which has addresses. What the numbers in the tables mean belongs to the layout's version.

pub use crate::collector::tables::HeapTables;
pub use crate::heap::places::{BlockOffsets, CacheOffsets};
pub use crate::heap::trace::TypeOffsets;

use std::mem::offset_of;

use crate::collector::Collector;
use crate::collector::finalize::Entry;
use crate::heap::places::{BLOCK_OFFSETS, CACHE_OFFSETS};
use crate::heap::trace::{TYPE_INFO_MAGIC, TYPE_OFFSETS};
use crate::world::published::TABLES;
use crate::world::stacks::REGISTERED_STACK;
use crate::world::stop_info::MORE_OFFSETS;

/// The version of [`HeapLayout`]. It changes with the meaning of anything in the heap's tables.
pub const HEAP_LAYOUT_VERSION: u64 = 2;

/// The layout of the structures of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HeapLayout {
    /// [`HEAP_LAYOUT_VERSION`].
    pub version: u64,
    /// Size of this structure in bytes.
    pub size: usize,
    /// The offset in a published world of the pointer to its [`HeapTables`].
    pub tables: usize,
    /// The offset in a thread's record of the pointer to its allocation cache, which may be 0.
    pub thread_cache: usize,
    /// The offset in a thread's record of the lowest address of its alternate signal stack; 0 is there if it has none.
    pub thread_alternate_low: usize,
    /// The offset in a thread's record of the end of its alternate signal stack.
    pub thread_alternate_high: usize,
    /// The offset in a thread's record of a word of 32 bits that is 1 if the thread has ended without detaching.
    pub thread_gone: usize,
    /// The first word of each type's description.
    pub type_magic: u64,
    /// The description of a type, to which the header of each object refers.
    pub types: TypeOffsets,
    /// A thread's allocation cache.
    pub cache: CacheOffsets,
    /// Blocks, and their tables.
    pub blocks: BlockOffsets,
}

/// The layout in this process.
pub(super) const HEAP_LAYOUT: HeapLayout = {
    let [thread_cache, thread_alternate_low, thread_alternate_high, thread_gone] = MORE_OFFSETS;
    HeapLayout {
        version: HEAP_LAYOUT_VERSION,
        size: size_of::<HeapLayout>(),
        tables: TABLES,
        thread_cache,
        thread_alternate_low,
        thread_alternate_high,
        thread_gone,
        type_magic: TYPE_INFO_MAGIC,
        types: TYPE_OFFSETS,
        cache: CACHE_OFFSETS,
        blocks: BLOCK_OFFSETS,
    }
};

/// Returns where the tables of a world are. The collector must stay where it is.
pub(super) fn tables_of(collector: &Collector) -> HeapTables {
    let heap = collector.heap.places();
    let (handles, handles_used) = collector.roots.addresses();
    let (ranges, ranges_used, ranges_most) = collector.ranges.addresses();
    let [ready, ready_first, ready_end, ready_most] =
        collector.finalizers.ready_addresses(&collector.finalizers.lock.lock());
    let [stack_bytes, stack_low, stack_high] = REGISTERED_STACK;
    HeapTables {
        size: size_of::<HeapTables>(),
        low: heap.low,
        reserved_bytes: heap.reserved_bytes,
        committed_bytes: heap.committed_bytes,
        epoch: heap.epoch,
        swept_epoch: heap.swept_epoch,
        words: heap.words,
        heads: heap.heads,
        tails: heap.tails,
        marks: heap.marks,
        kinds: heap.kinds,
        kind_types: heap.kind_types,
        pointers: heap.pointers,
        displacements: heap.displacements,
        handles,
        handles_used,
        handles_most: collector.roots.capacity(),
        ranges,
        ranges_used,
        ranges_most,
        ready,
        ready_first,
        ready_end,
        ready_most,
        ready_bytes: size_of::<Entry>(),
        ready_object: offset_of!(Entry, object),
        stacks: collector.threads.stack_list(),
        stack_bytes,
        stack_low,
        stack_high,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::trace::{Shape, TypeInfo};
    use rstest::rstest;

    #[rstest]
    #[case::leaf(Shape::Leaf, 0, None)]
    #[case::words(Shape::Words(5), 1, Some((TYPE_OFFSETS.bitmaps, 5)))]
    #[case::wide(Shape::Wide([0, 0, 0, 7]), 2, Some((TYPE_OFFSETS.bitmaps + 24, 7)))]
    #[case::stride(Shape::Array { stride: 24, element: [6, 0, 0, 0], ephemerons: false }, 3, Some((TYPE_OFFSETS.element, 6)))]
    #[case::last(Shape::Array { stride: 24, element: [0, 0, 0, 9], ephemerons: true }, 3, Some((TYPE_OFFSETS.element + 24, 9)))]
    #[case::weak(Shape::Weak, 4, None)]
    #[case::untyped(Shape::Untyped, 5, None)]
    #[case::bound(Shape::Bound, 6, None)]
    fn the_offsets_of_a_type_lead_to_its_facts(
        #[case] shape: Shape,
        #[case] number: u8,
        #[case] word: Option<(usize, u64)>,
    ) {
        const NAME: &str = "a name";
        let info = TypeInfo::of_described(NAME, 48, 8, shape);
        let start = (&raw const info).cast::<u8>();
        // SAFETY: offsets within `info`, whose bytes there are initialised.
        let (u64_at, u32_at) = unsafe {
            (
                |at: usize| start.add(at).cast::<u64>().read_unaligned(),
                |at: usize| start.add(at).cast::<u32>().read_unaligned(),
            )
        };
        let at = TYPE_OFFSETS;
        assert_eq!(u64_at(at.magic), TYPE_INFO_MAGIC);
        assert_eq!((u64_at(at.name) as usize, u64_at(at.name_bytes)), (NAME.as_ptr() as usize, NAME.len() as u64));
        assert_eq!((u64_at(at.value_bytes), u32_at(at.shape) as u8), (48, number));
        // The marker reads it for each object: four bitmaps and a word.
        assert_eq!(size_of::<Shape>(), 40);
        if let Some((at, expected)) = word {
            assert_eq!(u64_at(at), expected);
        }
        if number == 3 {
            assert_eq!((u32_at(at.stride), u32_at(at.is_array) & 0xff), (24, 1));
        }
    }
}
