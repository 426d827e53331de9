//! Which cells of a block hold something that lives: sixteen cells at a time.
//!
//! Whoever looks at what lives reads a mark byte for each cell. Where all cells live, or none, a branch for each byte
//! is foreseen; where some do, it is not, and a wrong guess costs as much as ten right ones. So sixteen bytes are compared by
//! one instruction, which leaves a mask of those that live, and most of a program's dead memory is passed over by a test of that. Where few
//! live, their headers lie in lines that no processor foresees either: those can be asked for before the first is looked at.

use std::arch::x86_64::{
    __m128i, _MM_HINT_T0, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_prefetch, _mm_set1_epi8,
};

use crate::heap::layout::MARKS_PER_BLOCK;

/// Cells of one mask.
const TOGETHER: usize = u16::BITS as usize;
const ALL: u16 = u16::MAX;

/// The masks of a block.
pub(crate) struct Masks {
    masks: [u16; MARKS_PER_BLOCK / TOGETHER],
    /// How many of them are the block's.
    count: usize,
}

impl Masks {
    /// Of a block's mark bytes, all of them, of which the first `cells` are of cells. Nobody writes them.
    #[inline(always)]
    pub(super) fn new(marks: &[u8; MARKS_PER_BLOCK], cells: usize, epoch: u8) -> Masks {
        let mut masks = [0; MARKS_PER_BLOCK / TOGETHER];
        let count = cells.div_ceil(TOGETHER);
        let (sixteens, _) = marks.as_chunks::<TOGETHER>();
        for (mask, sixteen) in masks.iter_mut().zip(sixteens).take(count) {
            // SAFETY: sixteen bytes; every x86-64 has these instructions.
            *mask = unsafe {
                let sixteen = _mm_loadu_si128(sixteen.as_ptr().cast::<__m128i>());
                _mm_movemask_epi8(_mm_cmpeq_epi8(sixteen, _mm_set1_epi8(epoch as i8))) as u16
            };
        }
        if let Some(last) = masks.get_mut(cells / TOGETHER) {
            // What lies behind the last cell is nobody's.
            *last &= !(ALL << (cells % TOGETHER));
        }
        Masks { masks, count }
    }

    #[inline(always)]
    fn masks(&self) -> impl DoubleEndedIterator<Item = (usize, u16)> + ExactSizeIterator {
        self.masks[..self.count].iter().enumerate().map(|(index, &mask)| (index * TOGETHER, mask))
    }

    /// Calls `visit` with the index of each cell in which something lives.
    #[inline(always)]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize)) {
        for (first, mut mask) in self.masks() {
            // Run by run: of sixteen, mostly, or of one.
            while mask != 0 {
                let start = mask.trailing_zeros();
                let length = (mask >> start).trailing_ones();
                (first + start as usize..first + (start + length) as usize).for_each(&mut visit);
                mask &= (ALL << start).checked_shl(length).unwrap_or(0);
            }
        }
    }

    /// The same, the last one first.
    #[inline(always)]
    pub(crate) fn for_each_downwards(&self, mut visit: impl FnMut(usize)) {
        for (first, mut mask) in self.masks().rev() {
            while mask != 0 {
                let end = u16::BITS - mask.leading_zeros();
                let length = (mask << (u16::BITS - end)).leading_ones();
                (first + (end - length) as usize..first + end as usize).rev().for_each(&mut visit);
                mask &= (ALL >> (u16::BITS - end)).checked_shr(length).unwrap_or(0);
            }
        }
    }

    /// Calls `visit` with the index of the first of sixteen cells, all of which live, or with that of one that does.
    #[inline(always)]
    pub(crate) fn for_each_sixteen(&self, mut visit: impl FnMut(usize, Live)) {
        for (first, mut mask) in self.masks() {
            while mask != 0 {
                let (count, rest) = if mask == ALL { (Live::Sixteen, 0) } else { (Live::One, mask & (mask - 1)) };
                visit(first + mask.trailing_zeros() as usize, count);
                mask = rest;
            }
        }
    }

    /// Asks for the headers of what lives where not everything does: the first cell's is at this address, and others follow at this
    /// distance.
    #[inline(always)]
    pub(crate) fn ask_for_headers(&self, start: usize, stride: usize) {
        for (first, mut mask) in self.masks().filter(|(_, mask)| *mask != ALL) {
            while mask != 0 {
                let header = start + (first + mask.trailing_zeros() as usize) * stride;
                // SAFETY: a prefetch has no effect that a program can see, whatever the address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(header as *const i8) };
                mask &= mask - 1;
            }
        }
    }
}

/// How many cells are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Live {
    One,
    Sixteen,
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
            let (mut upwards, mut downwards, mut sixteens) = (Vec::new(), Vec::new(), Vec::new());
            masks.for_each(|index| upwards.push(index));
            masks.for_each_downwards(|index| downwards.push(index));
            masks.for_each_sixteen(|index, live| match live {
                Live::One => sixteens.push(index),
                Live::Sixteen => sixteens.extend(index..index + TOGETHER),
            });
            downwards.reverse();
            prop_assert_eq!(&upwards, &expected);
            prop_assert_eq!(&downwards, &expected);
            prop_assert_eq!(&sixteens, &expected);
        }
    }
}
