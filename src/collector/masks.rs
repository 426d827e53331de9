//! Finds the live cells of a block, many cells at a time.
//!
//! An observer of the live objects reads a mark byte for each cell. The branch for each byte is predicted well where all cells are
//! live, and where none is. Where only some are live it is often mispredicted, and a misprediction costs as much as ten correct
//! predictions. So one instruction compares sixteen bytes and yields a mask of the live ones. One test skips four such masks if none of their cells
//! is live. Otherwise they are processed by runs, if most cells are live, or one by one. Where few are live, the processor
//! cannot predict the cache lines of their headers either: these can be prefetched before the first is read.

use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
use std::ops::Range;

use crate::heap::layout::MARKS_PER_BLOCK;
use crate::sync::prefetch;

/// The number of cells that one instruction compares.
const TOGETHER: usize = 16;
/// The number of cells of one mask.
const CELLS: usize = u64::BITS as usize;
const ALL: u64 = u64::MAX;

/// The masks of a block.
pub(crate) struct Masks {
    masks: [u64; MARKS_PER_BLOCK / CELLS],
    /// The number of masks that the block needs.
    count: usize,
}

impl Masks {
    /// Compares all mark bytes of a block, of which the first `cells` belong to cells. No thread may write them meanwhile.
    #[inline(always)]
    pub(super) fn new(marks: &[u8; MARKS_PER_BLOCK], cells: usize, epoch: u8) -> Masks {
        let mut masks = [0; MARKS_PER_BLOCK / CELLS];
        let count = cells.div_ceil(CELLS);
        let (of_masks, _) = marks.as_chunks::<CELLS>();
        for (mask, marks) in masks.iter_mut().zip(of_masks).take(count) {
            let (sixteens, _) = marks.as_chunks::<TOGETHER>();
            *mask = sixteens.iter().rev().fold(0, |mask, marks| mask << TOGETHER | u64::from(equal(marks, epoch)));
        }
        if let Some(last) = masks.get_mut(cells / CELLS) {
            // Bits after the last cell belong to no cell.
            *last &= !(ALL << (cells % CELLS));
        }
        Masks { masks, count }
    }

    #[inline(always)]
    fn masks(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + ExactSizeIterator {
        self.masks[..self.count].iter().enumerate().map(|(index, &mask)| (index * CELLS, mask))
    }

    /// Calls `visit` with the indices of each run of live cells. Where few cells are live, `visit` is called for each cell
    /// separately, because finding the end of each short run would take longer.
    #[inline(always)]
    pub(crate) fn for_each_run(&self, mut visit: impl FnMut(Range<usize>)) {
        for (first, mut mask) in self.masks() {
            let is_dense = is_dense(mask);
            while mask != 0 {
                let start = mask.trailing_zeros();
                let length = if is_dense { (mask >> start).trailing_ones() } else { 1 };
                visit(first + start as usize..first + (start + length) as usize);
                mask &= if is_dense { (ALL << start).checked_shl(length).unwrap_or(0) } else { mask - 1 };
            }
        }
    }

    /// Calls `visit` with the index of each live cell.
    #[inline(always)]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize)) {
        self.for_each_run(|run| run.for_each(&mut visit));
    }

    /// Calls `visit` with the index of each live cell, in descending order.
    #[inline(always)]
    pub(crate) fn for_each_downwards(&self, mut visit: impl FnMut(usize)) {
        for (first, mut mask) in self.masks().rev() {
            let is_dense = is_dense(mask);
            while mask != 0 {
                let end = u64::BITS - mask.leading_zeros();
                let length = if is_dense { (mask << (u64::BITS - end)).leading_ones() } else { 1 };
                (first + (end - length) as usize..first + end as usize).rev().for_each(&mut visit);
                mask &= (ALL >> (u64::BITS - end)).checked_shr(length).unwrap_or(0);
            }
        }
    }

    /// Prefetches the headers of the live cells where not all cells are live. The first cell's header is at `start`; the others
    /// follow at a distance of `stride`.
    #[inline(always)]
    pub(super) fn ask_for_headers(&self, start: usize, stride: usize) {
        for (first, mut mask) in self.masks().filter(|(_, mask)| *mask != ALL) {
            while mask != 0 {
                let header = start + (first + mask.trailing_zeros() as usize) * stride;
                prefetch(header);
                mask &= mask - 1;
            }
        }
    }
}

/// Returns whether most cells are live. If so, runs are long.
#[inline(always)]
fn is_dense(mask: u64) -> bool {
    mask.count_ones() > u64::BITS * 3 / 4
}

/// Returns a mask with a bit for each byte that equals `byte`.
#[inline(always)]
fn equal(bytes: &[u8; TOGETHER], byte: u8) -> u16 {
    // SAFETY: sixteen bytes; every x86-64 has these instructions.
    unsafe {
        let bytes = _mm_loadu_si128(bytes.as_ptr().cast::<__m128i>());
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8))) as u16
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The oracle checks each byte.
        #[test]
        fn masks_find_what_a_test_of_each_byte_finds(
            kinds in proptest::collection::vec(0_u8..4, MARKS_PER_BLOCK / TOGETHER),
            bytes in proptest::collection::vec(6_u8..9, MARKS_PER_BLOCK),
            cells in 0..=MARKS_PER_BLOCK,
        ) {
            let mut marks = [0; MARKS_PER_BLOCK];
            for (index, mark) in marks.iter_mut().enumerate() {
                // A group of cells is all live, all dead, or mixed.
                *mark = match kinds[index / TOGETHER] { 0 => 7, 1 => 0, _ => bytes[index] };
            }
            let expected: Vec<usize> = (0..cells).filter(|&index| marks[index] == 7).collect();
            let masks = Masks::new(&marks, cells, 7);
            let (mut upwards, mut downwards) = (Vec::new(), Vec::new());
            masks.for_each(|index| upwards.push(index));
            masks.for_each_downwards(|index| downwards.push(index));
            downwards.reverse();
            prop_assert_eq!(&upwards, &expected);
            prop_assert_eq!(&downwards, &expected);
        }
    }
}
