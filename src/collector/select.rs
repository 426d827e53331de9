//! Selecting the words of untyped memory that may refer to the heap: the inner loop of conservative marking.
//!
//! Most words of a program's memory are no addresses of the heap, and the rest of marking, which looks them up, is ten times as
//! expensive. So whole vectors of words are compared with the heap's bounds, and the few that lie in it are packed together at
//! the top of the mark stack. There is no branch that depends on a word.
//!
//! | processor | words at a time | packed by |
//! |---|---:|---|
//! | AVX-512 | 8 | `vpcompressq` |
//! | AVX2 | 4 | a table of permutations |
//! | any x86-64 | 1 | a conditional increment |
//!
//! [`Width::of_processor`] chooses when the world is built. The mark loop is made once for each ([`Select`]), because only code
//! that is compiled for a processor's instructions can have them inlined.

use std::arch::x86_64::{
    __m256i, __m512i, _mm256_castsi256_pd, _mm256_cmpgt_epi64, _mm256_loadu_si256, _mm256_movemask_pd,
    _mm256_permutevar8x32_epi32, _mm256_set1_epi64x, _mm256_storeu_si256, _mm256_sub_epi64, _mm256_xor_si256,
    _mm512_cmplt_epu64_mask, _mm512_loadu_si512, _mm512_maskz_compress_epi64, _mm512_set1_epi64, _mm512_storeu_si512,
    _mm512_sub_epi64,
};

use crate::os::memory::conservative_word;

/// The most words that a selection writes beyond those that it selects.
pub(super) const OVERRUN: usize = 8;

/// The widest vectors that this processor can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Word,
    Avx2,
    Avx512,
}

impl Width {
    /// Returns the widest vectors that this processor has. AVX-512 needs no more than its foundation.
    pub(crate) fn of_processor() -> Width {
        if is_x86_feature_detected!("avx512f") {
            Width::Avx512
        } else if is_x86_feature_detected!("avx2") {
            Width::Avx2
        } else {
            Width::Word
        }
    }
}

/// The words `w` with `low <= w` and `w - low < bytes`.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) low: usize,
    pub(super) bytes: usize,
}

impl Bounds {
    #[inline(always)]
    pub(super) fn contain(self, word: usize) -> bool {
        word.wrapping_sub(self.low) < self.bytes
    }
}

/// A way to select words.
pub(super) trait Select: Copy {
    /// Writes the words within `bounds` of the `count` words at `from` to `to`, in their order. Returns how many there are.
    ///
    /// # Safety
    /// The words at `from` are readable, and no running thread writes them. There is room for `count + OVERRUN` words at `to`. The
    /// processor has the instructions.
    unsafe fn select(self, from: *const usize, count: usize, bounds: Bounds, to: *mut usize) -> usize;
}

/// One word at a time.
#[derive(Clone, Copy)]
pub(super) struct ByWord;

impl Select for ByWord {
    #[inline(always)]
    unsafe fn select(self, from: *const usize, count: usize, bounds: Bounds, to: *mut usize) -> usize {
        let mut selected = 0;
        for index in 0..count {
            // SAFETY: the caller's promise; `selected <= index`.
            unsafe {
                let word = conservative_word(from.add(index) as usize);
                to.add(selected).write(word);
                selected += usize::from(bounds.contain(word));
            }
        }
        selected
    }
}

/// For each set of lanes of four words, the halves of words that come first: the argument of the permutation that packs them.
static PACKED: [[u32; 8]; 16] = {
    let mut table = [[0; 8]; 16];
    let mut set = 0;
    while set < 16 {
        let (mut lane, mut at) = (0, 0);
        while lane < 4 {
            if set >> lane & 1 == 1 {
                table[set][at] = 2 * lane;
                table[set][at + 1] = 2 * lane + 1;
                at += 2;
            }
            lane += 1;
        }
        set += 1;
    }
    table
};

/// Four words at a time.
#[derive(Clone, Copy)]
pub(super) struct Avx2;

impl Select for Avx2 {
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn select(self, from: *const usize, count: usize, bounds: Bounds, to: *mut usize) -> usize {
        let low = _mm256_set1_epi64x(bounds.low as i64);
        // The comparison is one of signed numbers: with the highest bit flipped, they have the order of the unsigned ones.
        let flip = _mm256_set1_epi64x(i64::MIN);
        let end = _mm256_xor_si256(_mm256_set1_epi64x(bounds.bytes as i64), flip);
        let (mut index, mut selected) = (0, 0);
        while index + 4 <= count {
            // SAFETY: four of the words at `from`. Four words at `to` end at most four after the last that is selected.
            unsafe {
                let words = _mm256_loadu_si256(from.add(index).cast::<__m256i>());
                let distance = _mm256_xor_si256(_mm256_sub_epi64(words, low), flip);
                let inside = _mm256_castsi256_pd(_mm256_cmpgt_epi64(end, distance));
                let set = _mm256_movemask_pd(inside) as usize;
                let order = _mm256_loadu_si256(PACKED[set % 16].as_ptr().cast::<__m256i>());
                _mm256_storeu_si256(to.add(selected).cast::<__m256i>(), _mm256_permutevar8x32_epi32(words, order));
                selected += set.count_ones() as usize;
            }
            index += 4;
        }
        // SAFETY: the rest of the words, and of the room.
        selected + unsafe { ByWord.select(from.add(index), count - index, bounds, to.add(selected)) }
    }
}

/// Eight words at a time.
#[derive(Clone, Copy)]
pub(super) struct Avx512;

impl Avx512 {
    /// Packs those of eight words that are within the bounds, and returns how many there are.
    ///
    /// # Safety
    /// There is room for eight words at `to`.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    unsafe fn pack(words: __m512i, low: __m512i, end: __m512i, to: *mut usize) -> usize {
        let inside = _mm512_cmplt_epu64_mask(_mm512_sub_epi64(words, low), end);
        // Packed in a register and stored as a whole: a store of only the packed words takes ten times as long on some processors.
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.cast::<__m512i>(), _mm512_maskz_compress_epi64(inside, words)) };
        inside.count_ones() as usize
    }
}

impl Select for Avx512 {
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    unsafe fn select(self, from: *const usize, count: usize, bounds: Bounds, to: *mut usize) -> usize {
        let (low, end) = (_mm512_set1_epi64(bounds.low as i64), _mm512_set1_epi64(bounds.bytes as i64));
        let (mut index, mut selected) = (0, 0);
        while index + 8 <= count {
            // SAFETY: eight of the words at `from`. Eight words at `to` end at most eight after the last that is selected.
            unsafe {
                let words = _mm512_loadu_si512(from.add(index).cast::<__m512i>());
                selected += Avx512::pack(words, low, end, to.add(selected));
            }
            index += 8;
        }
        // A masked load would wait for the next cache line, even where it is masked, and that line was not prefetched. For small objects
        // that took half of marking.
        // SAFETY: the rest of the words, and of the room.
        selected + unsafe { ByWord.select(from.add(index), count - index, bounds, to.add(selected)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn selected(by: impl Select, words: &[usize], bounds: Bounds) -> Vec<usize> {
        let mut to = vec![usize::MAX; words.len() + OVERRUN + 1];
        // SAFETY: the vectors have these sizes; the caller has checked the processor.
        let count = unsafe { by.select(words.as_ptr(), words.len(), bounds, to.as_mut_ptr()) };
        assert_eq!(to.pop(), Some(usize::MAX), "it wrote beyond its room");
        to.truncate(count);
        to
    }

    /// Words near the bounds, and others.
    fn words(bounds: Bounds) -> impl Strategy<Value = Vec<usize>> {
        let Bounds { low, bytes } = bounds;
        let near = prop_oneof![
            any::<usize>(),
            Just(0),
            Just(low - 1),
            Just(low),
            Just(low + bytes - 1),
            Just(low + bytes),
            low..low + bytes,
        ];
        proptest::collection::vec(near, 0..50)
    }

    const BOUNDS: Bounds = Bounds { low: 0x7f00_0000_0001, bytes: 1 << 30 };

    proptest! {
        #[test]
        fn every_way_selects_what_a_filter_selects(words in words(BOUNDS)) {
            let expected: Vec<usize> = words.iter().copied().filter(|&word| BOUNDS.contain(word)).collect();
            prop_assert_eq!(&selected(ByWord, &words, BOUNDS), &expected);
            if is_x86_feature_detected!("avx2") {
                prop_assert_eq!(&selected(Avx2, &words, BOUNDS), &expected);
            }
            if is_x86_feature_detected!("avx512f") {
                prop_assert_eq!(&selected(Avx512, &words, BOUNDS), &expected);
            }
        }
    }
}
