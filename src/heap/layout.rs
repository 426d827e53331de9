//! The sizes of blocks, cells and size classes.
//!
//! The heap is cut into blocks of 16 KiB. A block serves one size class, and is cut into cells of that size:
//!
//! ```text
//!   block    +0        +8                 +8+cell            +8+2*cell
//!            | unused  | header | payload | header | payload | …      | rest |
//! ```
//!
//! A cell is one header word (the address of the object's [`TypeInfo`](super::trace::TypeInfo), or 0 when the
//! cell is free) and the payload that a `Gc<T>` points to. The header has three advantages:
//!
//! - **One past the end needs no padding** (`.stop.interior`). A pointer just past a full payload is the next
//!   cell's *header* address, which is never the address of a payload; so it can only mean the object before it.
//!   Collectors without a header must make every cell one byte larger instead (bdwgc turns 32 into 48).
//! - A cell is allocated exactly when its header is not 0, wherever its thread was stopped.
//! - Any tool can tell an object's type from its address alone.
//!
//! A program that was written for bdwgc has many objects of 16 bytes, for which a header is half a cell more. So small untyped objects can
//! be in blocks without headers, which have classes of their own: see [`compact`](super::compact).
//!
//! The first cell of a block begins at offset 8, so that payloads of classes whose size is a multiple of 16 are
//! aligned to 16, and so that offset 0 of a block is never a header: a pointer to it is just past the end of the
//! previous block.

use crate::os::memory::HUGE_PAGE_BYTES;

/// Bytes that the processor loads from memory at a time.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// log2 of the size of a block.
pub(crate) const BLOCK_SHIFT: usize = 14;
/// Size of a block in bytes.
pub(crate) const BLOCK_BYTES: usize = 1 << BLOCK_SHIFT;
/// Offset of the first cell's header in its block.
pub(crate) const FIRST_CELL: usize = 8;
/// Bytes of an object's header.
pub(crate) const HEADER_BYTES: usize = 8;
/// The number of mark bytes reserved for each block: one for each cell of the smallest class.
pub(crate) const MARKS_PER_BLOCK: usize = BLOCK_BYTES / 16;
/// Memory is committed, and returned to the kernel, in chunks of this many bytes: the size of a huge page.
pub(crate) const CHUNK_BYTES: usize = HUGE_PAGE_BYTES;
/// The number of blocks in a chunk.
pub(crate) const CHUNK_BLOCKS: usize = CHUNK_BYTES / BLOCK_BYTES;

/// Number of size classes whose cells have headers. They come before the compact ones.
pub(crate) const HEADED_CLASSES: usize = 44;
/// Cell sizes of the compact classes: a compact cell is a payload alone.
const COMPACT_CELLS: [usize; 4] = [16, 32, 48, 64];
/// Number of size classes.
pub(crate) const CLASSES: usize = HEADED_CLASSES + COMPACT_CELLS.len();
/// Payload bytes of the largest object that lives in a size class; larger ones are large objects.
pub(crate) const MAX_SMALL: usize = CELL_BYTES[HEADED_CLASSES - 1] - HEADER_BYTES;
/// The strictest alignment that a collected object can have.
pub(crate) const MAX_ALIGN: usize = 16;

/// Cell sizes: steps of 8 bytes up to 136 (the usual payloads of programs), then each about an eighth larger than the previous one.
/// Each of these larger sizes is a multiple of 16, and as large as possible for its number of cells per block. Then those of the compact
/// classes.
pub(crate) const CELL_BYTES: [usize; CLASSES] = cell_sizes();

/// The number of bits of the fixed-point reciprocal by which an offset is divided by the cell size.
const RECIPROCAL_SHIFT: u32 = 32;

const fn cell_sizes() -> [usize; CLASSES] {
    let mut sizes = [0; CLASSES];
    let mut class = 0;
    let mut size = 16;
    while size <= 136 {
        sizes[class] = size;
        class += 1;
        size += 8;
    }
    // From here on a class is defined by its number of cells per block: its size is the largest multiple of 16 with which that number
    // of cells fits.
    while class < HEADED_CLASSES - 1 {
        let grown = sizes[class - 1] + sizes[class - 1] / 8;
        let mut cells = (BLOCK_BYTES - FIRST_CELL) / grown;
        let mut cell = ((BLOCK_BYTES - FIRST_CELL) / cells) & !15;
        while cell <= sizes[class - 1] + 8 {
            cells -= 1;
            cell = ((BLOCK_BYTES - FIRST_CELL) / cells) & !15;
        }
        sizes[class] = cell;
        class += 1;
    }
    sizes[class] = ((BLOCK_BYTES - FIRST_CELL) / 2) & !15;
    while class + 1 < CLASSES {
        class += 1;
        sizes[class] = COMPACT_CELLS[class - HEADED_CLASSES];
    }
    sizes
}

/// Returns whether the cells of a class have no headers.
#[inline(always)]
pub(crate) const fn is_compact(class: usize) -> bool {
    class >= HEADED_CLASSES
}

/// Returns the size of the payload in the cells of a class.
#[inline(always)]
pub(crate) const fn payload_bytes(class: usize) -> usize {
    if is_compact(class) { CELL_BYTES[class] } else { CELL_BYTES[class] - HEADER_BYTES }
}

/// The class of the smallest cells with headers that hold a payload of `bytes` aligned to `align`, or `CLASSES` if none does.
pub(crate) const fn class_of(bytes: usize, align: usize) -> usize {
    assert!(align <= MAX_ALIGN, "collected objects are aligned to at most 16 bytes");
    let wanted = bytes + HEADER_BYTES;
    let mut class = 0;
    while class < HEADED_CLASSES && (CELL_BYTES[class] < wanted || (align > 8 && !CELL_BYTES[class].is_multiple_of(16)))
    {
        class += 1;
    }
    if class < HEADED_CLASSES { class } else { CLASSES }
}

/// Class by payload size in words (8 bytes), for sizes that are known only at run time.
static CLASS_OF_WORDS: [u8; MAX_SMALL / 8 + 1] = {
    let mut table = [0; MAX_SMALL / 8 + 1];
    let mut words = 0;
    let mut class = 0;
    while words < table.len() {
        while CELL_BYTES[class] < words * 8 + HEADER_BYTES {
            class += 1;
        }
        table[words] = class as u8;
        words += 1;
    }
    table
};

/// [`class_of`] for a size that is known at run time; `align` above 8 takes the slow path.
#[inline]
pub(crate) fn class_of_size(bytes: usize, align: usize) -> usize {
    if bytes > MAX_SMALL {
        CLASSES
    } else if align > 8 {
        class_of(bytes, align)
    } else {
        usize::from(CLASS_OF_WORDS[bytes.div_ceil(8)])
    }
}

/// Class by payload size in units of 16 bytes, for payloads that are aligned to 16.
static CLASS_OF_PAIRS: [u8; MAX_SMALL / 16 + 1] = {
    let mut table = [0; MAX_SMALL / 16 + 1];
    let mut pairs = 0;
    while pairs < table.len() {
        table[pairs] = class_of(pairs * 16, 16) as u8;
        pairs += 1;
    }
    table
};

/// The class of an untyped object of this size: the smallest cells whose payload holds it and is aligned to 16; `CLASSES` if none does.
#[inline(always)]
pub(crate) fn class_of_untyped(bytes: usize) -> usize {
    // A cell of 16n bytes has a payload of 16n - 8.
    let pairs = bytes.saturating_add(7) / 16;
    if pairs < CLASS_OF_PAIRS.len() { usize::from(CLASS_OF_PAIRS[pairs]) } else { CLASSES }
}

/// The size of the largest objects that have compact cells.
const MAX_COMPACT: usize = COMPACT_CELLS[COMPACT_CELLS.len() - 1];

/// Class by payload size in words, for objects that may have compact cells. A compact cell is used where it is smaller than a cell with a
/// header.
static CLASS_OF_FEW_WORDS: [u8; MAX_COMPACT / 8 + 1] = {
    let mut table = [0; MAX_COMPACT / 8 + 1];
    let mut words = 0;
    while words < table.len() {
        let mut best = class_of(words * 8, 16);
        let mut class = HEADED_CLASSES;
        while class < CLASSES {
            if CELL_BYTES[class] >= words * 8 && CELL_BYTES[class] < CELL_BYTES[best] {
                best = class;
            }
            class += 1;
        }
        table[words] = best as u8;
        words += 1;
    }
    table
};

/// The class of the compact cells in which an untyped object of this size is. `None` if it gets a cell with a header.
#[inline(always)]
pub(crate) fn class_of_compact(bytes: usize) -> Option<usize> {
    let words = bytes.saturating_add(7) / 8;
    let class = usize::from(*CLASS_OF_FEW_WORDS.get(words)?);
    is_compact(class).then_some(class)
}

/// The number of cells of this size in a block.
#[inline]
pub(crate) const fn cells_per_block(cell_bytes: usize) -> usize {
    (BLOCK_BYTES - FIRST_CELL) / cell_bytes
}

/// Returns the factor that replaces the division `offset / cell_bytes` by a multiplication and a shift ([`divide`]).
pub(crate) const fn reciprocal(cell_bytes: usize) -> u32 {
    (1_u64 << RECIPROCAL_SHIFT).div_ceil(cell_bytes as u64) as u32
}

/// Divides an offset within a block by the cell size whose [`reciprocal`] is given.
#[inline(always)]
pub(crate) const fn divide(offset: usize, reciprocal: u32) -> usize {
    ((offset as u64 * reciprocal as u64) >> RECIPROCAL_SHIFT) as usize
}

/// The part of the heap in which an object lives. Objects never move between spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Space {
    /// Objects of a size class.
    Small = 0,
    /// Objects that were allocated as pinned: a space of their own, reported as generation 4.
    Pinned = 1,
    /// Objects above the largest size class, each in blocks of its own.
    Large = 2,
}

/// The number of spaces.
pub(crate) const SPACES: usize = 3;

impl Space {
    /// Every space, in the order of their numbers.
    pub(crate) const ALL: [Space; SPACES] = [Space::Small, Space::Pinned, Space::Large];

    /// Returns the space's name in events and reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Space::Small => "small objects",
            Space::Pinned => "pinned objects",
            Space::Large => "large objects",
        }
    }
}

/// Spaces that are cut into size classes.
pub(crate) const CLASSED_SPACES: usize = 2;
/// Every combination of a classed space and a size class has an allocation run and a list of blocks.
pub(crate) const BINS: usize = CLASSED_SPACES * CLASSES;

/// The bin of a size class in a classed space.
#[inline(always)]
pub(crate) const fn bin(space: Space, class: usize) -> usize {
    space as usize * CLASSES + class
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn classes_grow_and_payloads_of_classes_that_are_multiples_of_16_are_aligned_to_16() {
        for classes in [&CELL_BYTES[..HEADED_CLASSES], &CELL_BYTES[HEADED_CLASSES..]] {
            assert!(classes.is_sorted_by(|smaller, larger| smaller < larger), "{CELL_BYTES:?}");
        }
        assert!(CELL_BYTES.iter().all(|cell| cell % 8 == 0));
        assert_eq!((FIRST_CELL + HEADER_BYTES) % 16, 0);
    }

    #[rstest]
    #[case(0, 8, 16)]
    #[case(8, 8, 16)]
    #[case(9, 8, 24)]
    #[case(16, 8, 24)]
    #[case(16, 16, 32)]
    #[case(32, 8, 40)]
    #[case(64, 8, 72)]
    #[case(128, 8, 136)]
    fn a_payload_gets_the_smallest_cell_that_holds_it(#[case] bytes: usize, #[case] align: usize, #[case] cell: usize) {
        assert_eq!(CELL_BYTES[class_of(bytes, align)], cell);
    }

    #[test]
    fn the_table_of_classes_agrees_with_the_search() {
        for bytes in 0..=MAX_SMALL {
            assert_eq!(class_of_size(bytes, 8), class_of(bytes, 8), "{bytes} bytes");
        }
        assert_eq!(class_of_size(MAX_SMALL + 1, 8), CLASSES);
    }

    #[test]
    fn an_untyped_object_gets_the_smallest_aligned_cell_that_holds_it() {
        for bytes in 0..=MAX_SMALL {
            assert_eq!(class_of_untyped(bytes), class_of(bytes, 16), "{bytes} bytes");
        }
        for bytes in [MAX_SMALL + 1, MAX_SMALL + 17, usize::MAX] {
            assert_eq!(class_of_untyped(bytes), CLASSES);
        }
    }

    #[rstest]
    #[case(0, 16, false)]
    #[case(8, 16, false)]
    #[case(9, 16, true)]
    #[case(16, 16, true)]
    #[case(17, 32, false)]
    #[case(25, 32, true)]
    #[case(40, 48, false)]
    #[case(48, 48, true)]
    #[case(64, 64, true)]
    #[case(65, 80, false)]
    #[case(MAX_SMALL, 8176, false)]
    fn an_object_without_a_header_gets_the_smallest_aligned_cell(
        #[case] bytes: usize,
        #[case] cell: usize,
        #[case] compact: bool,
    ) {
        let class = class_of_compact(bytes).unwrap_or_else(|| class_of_untyped(bytes));
        assert_eq!((CELL_BYTES[class], is_compact(class)), (cell, compact));
        assert!(payload_bytes(class) >= bytes);
    }

    #[test]
    fn the_last_payload_of_a_compact_block_ends_in_it() {
        for cell in COMPACT_CELLS {
            assert!(FIRST_CELL + HEADER_BYTES + cells_per_block(cell) * cell <= BLOCK_BYTES, "{cell}");
        }
    }

    #[test]
    fn multiplying_by_the_reciprocal_divides_every_offset_of_a_block() {
        for cell in CELL_BYTES {
            for offset in 0..BLOCK_BYTES {
                assert_eq!(divide(offset, reciprocal(cell)), offset / cell, "{offset} / {cell}");
            }
        }
    }

    #[test]
    fn no_class_wastes_more_than_a_quarter_of_a_payload_or_half_where_two_or_three_fit_into_a_block() {
        for bytes in 64..=MAX_SMALL {
            let cell = CELL_BYTES[class_of_size(bytes, 8)];
            let waste = if cell <= BLOCK_BYTES / 4 { bytes / 4 } else { bytes / 2 };
            assert!(cell <= bytes + HEADER_BYTES + waste + 16, "{bytes} bytes in a cell of {cell}");
        }
    }
}
