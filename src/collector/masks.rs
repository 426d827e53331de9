//! Which cells of a block hold something that lives: many cells at a time.
//!
//! Whoever looks at what lives reads a mark byte for each cell. Where all cells live, or none, a branch for each byte is
//! foreseen; where some do, it is not, and a wrong guess costs as much as ten right ones. So sixteen bytes are compared by
//! one instruction, which leaves a mask of those that live; four such masks are passed over by one test if nothing lives
//! there, and else are gone through by runs, if most live, or one by one. Where few live, their headers lie in
//! lines that no processor foresees either: those can be asked for before the first is looked at.

use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
use std::ops::Range;

use crate::heap::layout::MARKS_PER_BLOCK;
use crate::sync::prefetch;

/// Cells that one instruction compares.
const TOGETHER: usize = 16;
/// Cells of one mask.
const CELLS: usize = u64::BITS as usize;
const ALL: u64 = u64::MAX;

/// The masks of a block.
pub(crate) struct Masks {
    masks: [u64; MARKS_PER_BLOCK / CELLS],
    /// How many of them are the block's.
    count: usize,
}

impl Masks {
    /// Of a block's mark bytes, all of them, of which the first `cells` are of cells. Nobody writes them.
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
            // What lies behind the last cell is nobody's.
            *last &= !(ALL << (cells % CELLS));
        }
        Masks { masks, count }
    }

    #[inline(always)]
    fn masks(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + ExactSizeIterator {
        self.masks[..self.count].iter().enumerate().map(|(index, &mask)| (index * CELLS, mask))
    }

    /// Calls `visit` with the indices of each run of cells in which something lives. Where few live, of one cell after the other:
    /// to find where each short run ends takes longer.
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

    /// Calls `visit` with the index of each cell in which something lives.
    #[inline(always)]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize)) {
        self.for_each_run(|run| run.for_each(&mut visit));
    }

    /// The same, the last one first.
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

    /// Asks for the headers of what lives where not everything does: the first cell's is at this address, and others follow
    /// at this distance.
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

/// Whether most live: then runs are long.
#[inline(always)]
fn is_dense(mask: u64) -> bool {
    mask.count_ones() > u64::BITS * 3 / 4
}

/// A bit for each byte that is this one.
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
        /// The oracle looks at each byte.
        #[test]
        fn masks_find_what_a_look_at_each_byte_finds(
            kinds in proptest::collection::vec(0_u8..4, MARKS_PER_BLOCK / TOGETHER),
            bytes in proptest::collection::vec(6_u8..9, MARKS_PER_BLOCK),
            cells in 0..=MARKS_PER_BLOCK,
        ) {
            let mut marks = [0; MARKS_PER_BLOCK];
            for (index, mark) in marks.iter_mut().enumerate() {
                // All live, all dead, or some of each.
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
