//! Which words refer to objects.
//!
//! In a world of typed objects each traced word is the address of a payload, or it is no reference. Objects without a type
//! ([`crate::untyped`]) are scanned word by word, so their references may look as the program's compiler left them:
//!
//! ```text
//!              header   payload                         next header
//!                |  0  8  …                          n  |
//!   exact             ^
//!   interior       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ ^      anywhere, or just past the end
//!   bases             ^^ ^                                      the payload, and displacements from it
//! ```
//!
//! The address just past the end of an object is that of the next object's header, which no program knows. So the object that a word
//! points into is the one whose cell contains the byte *before* the word. Most words that refer to an object are the address of its payload,
//! so this is tested first.

use super::blocks::{AddressMap, Target};
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Which words in untyped objects and in registered ranges keep an object alive. Words on stacks and in registers always count wherever
/// in the object they point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectPointers {
    /// A pointer to any byte of the object, or just past its end.
    Interior,
    /// Only a pointer to the first byte of the object, or at a distance from it that
    /// [`World::register_displacement`](crate::World::register_displacement) has registered. Objects of up to 64 bytes take less memory than
    /// with [`Interior`](Self::Interior).
    Bases,
}

/// The words that refer to objects, for one mark phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum References {
    /// Addresses of payloads.
    Exact,
    /// Addresses in objects, or just past their end.
    Interior,
    /// Addresses of payloads, and of bytes at a displacement whose bit is set. Bit 0 means any displacement.
    Bases { displacements: u64 },
}

/// The number of the smallest displacement that has no bit of its own.
const BITS: usize = u64::BITS as usize;
/// The bit that stands for all displacements. 0 needs no bit: the base is always a reference.
const ANY: u64 = 1;
/// The bits of the displacements 0, 8, 16 and so on.
const MULTIPLES_OF_8: u64 = 0x0101_0101_0101_0101;

/// The displacements that a world has registered.
pub(crate) struct Displacements(AtomicU64);

impl Displacements {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Registers a displacement in bytes. One of 64 or more is not distinguished from others: from then on all count.
    pub(crate) fn add(&self, bytes: usize) {
        let bit = match bytes {
            0 => 0,
            1..BITS => 1 << bytes,
            _ => ANY,
        };
        // Relaxed: the next stop orders it before the mark phase that reads it.
        self.0.fetch_or(bit, Relaxed);
    }

    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(&self.0) as usize
    }

    pub(crate) fn bits(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// How a mark loop finds the object of a word. The loop is made once for each implementation.
pub(crate) trait FindTarget: Copy {
    /// Which byte of an object is prefetched before its scan, besides its header. All words of an untyped object are scanned: this is the
    /// last one of a cell of 48 bytes. The references of a typed object are mostly in its first two words.
    const PREFETCHED: usize = 5 * size_of::<usize>() - 1;
    /// Whether there may be cells without headers.
    const HAS_COMPACT: bool = false;

    fn find(self, map: AddressMap, word: usize) -> Option<Target>;
}

/// [`References::Exact`]
#[derive(Clone, Copy)]
pub(crate) struct Exact;

impl FindTarget for Exact {
    const PREFETCHED: usize = 2 * size_of::<usize>() - 1;

    #[inline(always)]
    fn find(self, map: AddressMap, word: usize) -> Option<Target> {
        map.number_of_payload(word).map(|number| Target { payload: word, number })
    }
}

/// [`References::Interior`]
#[derive(Clone, Copy)]
pub(crate) struct Interior;

impl FindTarget for Interior {
    #[inline(always)]
    fn find(self, map: AddressMap, word: usize) -> Option<Target> {
        // The payload's address is then the word itself, which is known before the block is looked at.
        let exact = map.cell_beginning_at(word);
        if exact.is_some() || !map.contains(word.wrapping_sub(1)) { exact } else { map.other_cell_pointed_into(word) }
    }
}

/// [`References::Bases`]
#[derive(Clone, Copy)]
pub(crate) struct Bases {
    pub(crate) displacements: u64,
}

impl FindTarget for Bases {
    const HAS_COMPACT: bool = true;

    #[inline(always)]
    fn find(self, map: AddressMap, word: usize) -> Option<Target> {
        let exact = Exact.find(map, word);
        if exact.is_some() || self.displacements == 0 || !map.contains(word.wrapping_sub(1)) {
            return exact;
        }
        self.find_displaced(map, word)
    }
}

impl Bases {
    /// Payloads are multiples of 8, so few displacements are possible: for tagged pointers, which have only small ones, a single one.
    #[inline(always)]
    fn find_displaced(self, map: AddressMap, word: usize) -> Option<Target> {
        if self.displacements & ANY != 0 {
            // From the header's bytes, the distance to the payload wraps.
            return map.other_cell_pointed_into(word).filter(|target| word >= target.payload);
        }
        let low = word % size_of::<usize>();
        let mut possible = self.displacements >> low & MULTIPLES_OF_8;
        while possible != 0 {
            let displacement = low + possible.trailing_zeros() as usize;
            let target = map.cell_beginning_at(word.wrapping_sub(displacement));
            if target.is_some() && map.word_at(word - displacement).reaches(displacement) {
                return target;
            }
            possible &= possible - 1;
        }
        None
    }
}

impl References {
    /// Returns the cell that a word refers to, whether there is an object in it or not. For code that is not worth a copy of its
    /// own for each kind.
    #[inline]
    pub(crate) fn find(self, map: AddressMap, word: usize) -> Option<Target> {
        match self {
            References::Exact => Exact.find(map, word),
            References::Interior => Interior.find(map, word),
            References::Bases { displacements } => Bases { displacements }.find(map, word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::blocks::Blocks;
    use crate::heap::layout::{BLOCK_BYTES, CELL_BYTES, FIRST_CELL, HEADED_CLASSES, HEADER_BYTES, cells_per_block};
    use proptest::prelude::*;

    /// The payload of the object that an address refers to, found by looking at every cell. A payload address also counts in the space after the
    /// last cell, in which there is never an object.
    fn naive(blocks: &Blocks, cell_bytes: usize, word: usize, references: References) -> Option<usize> {
        let cells = cells_per_block(cell_bytes);
        (0..=cells).find_map(|index| {
            let payload = blocks.start(1) + FIRST_CELL + index * cell_bytes + HEADER_BYTES;
            if index == cells && payload >= blocks.start(2) {
                return None;
            }
            let end = payload + cell_bytes - HEADER_BYTES;
            let distance = word.checked_sub(payload);
            let is_base = distance == Some(0);
            let refers = match references {
                References::Exact => is_base,
                References::Bases { .. } if index == cells => is_base,
                References::Interior => index < cells && word > payload - HEADER_BYTES && word <= end,
                References::Bases { displacements } => {
                    word <= end && distance.is_some_and(|at| at == 0 || at < 64 && displacements >> at & 1 == 1)
                }
            };
            refers.then_some(payload)
        })
    }

    fn references() -> impl Strategy<Value = References> {
        prop_oneof![
            Just(References::Exact),
            Just(References::Interior),
            any::<u64>().prop_map(|bits| References::Bases { displacements: bits & !ANY })
        ]
    }

    proptest! {
        #[test]
        fn a_word_refers_to_the_object_that_a_search_finds(
            class in 0..HEADED_CLASSES, offset in 0..=BLOCK_BYTES, references in references(),
        ) {
            let blocks = Blocks::reserve(4).unwrap();
            blocks.set_cells(1, class);
            let word = blocks.start(1) + offset;
            let found = references.find(blocks.map(), word).map(|target| target.payload);
            prop_assert_eq!(found, naive(&blocks, CELL_BYTES[class], word, references));
        }
    }

    #[test]
    fn words_about_the_last_cell_refer_to_what_a_search_finds() {
        for (class, &cell_bytes) in CELL_BYTES.iter().enumerate().take(HEADED_CLASSES) {
            let blocks = Blocks::reserve(4).unwrap();
            blocks.set_cells(1, class);
            let last = FIRST_CELL + (cells_per_block(cell_bytes) - 1) * cell_bytes;
            for offset in last..=BLOCK_BYTES {
                let word = blocks.start(1) + offset;
                let bases = References::Bases { displacements: 1 << 3 | 1 << 8 };
                for references in
                    [References::Exact, References::Interior, bases, References::Bases { displacements: 1 << 16 }]
                {
                    let found = references.find(blocks.map(), word).map(|target| target.payload);
                    let expected = naive(&blocks, cell_bytes, word, references);
                    assert_eq!(found, expected, "class {class}, offset {offset}, {references:?}");
                }
            }
        }
    }

    #[test]
    fn every_address_of_a_large_object_refers_to_it() {
        let blocks = Blocks::reserve(16).unwrap();
        blocks.set_large(2, 3);
        let payload = blocks.start(2) + FIRST_CELL + HEADER_BYTES;
        for word in [payload, payload + 1, blocks.start(3), blocks.start(3) + 1, blocks.start(4) + 100, blocks.start(5)]
        {
            let found = References::Interior.find(blocks.map(), word).map(|target| target.payload);
            assert_eq!(found, Some(payload), "{:#x} bytes from the payload", word - payload);
        }
        assert_eq!(References::Interior.find(blocks.map(), blocks.start(5) + 1), None);
        assert_eq!(References::Interior.find(blocks.map(), blocks.start(2)), None);
    }

    #[test]
    fn a_displacement_without_a_bit_makes_all_count() {
        let displacements = Displacements::new();
        displacements.add(0);
        assert_eq!(displacements.bits(), 0);
        displacements.add(3);
        displacements.add(63);
        assert_eq!(displacements.bits(), 1 << 3 | 1 << 63);
        displacements.add(4096);
        let blocks = Blocks::reserve(4).unwrap();
        blocks.set_large(0, 2);
        let all = References::Bases { displacements: displacements.bits() };
        assert!(all.find(blocks.map(), blocks.start(1) + 5).is_some());
        let three = References::Bases { displacements: 1 << 3 };
        assert!(three.find(blocks.map(), blocks.start(1) + 5).is_none());
    }
}
