//! Large roots, which all markers scan.
//!
//! A stack, a registered range and the table of root handles are scanned while the roots are found, on the collecting thread, unless they
//! are large. Most large ones are noted as *areas*, and scanned at the beginning of marking. Areas are divided into pieces, whose numbers the
//! markers take from [`Ranges`](super::ranges::Ranges). A marker marks what a piece leads to before it takes the next one, so the roots never
//! fill its stack.
//!
//! Memory is no area if the collecting thread marks alone, which it does whenever a debugger holds all threads: if the debugger is lost, they
//! run, and the memory should not be read for longer than necessary. Neither is the stack on which the collection runs, because its thread
//! writes it.

use std::ops::Range;

use crate::heap::slots::SlotTable;

/// The size from which a root is an area. One marker needs about 40 µs to scan as many words that refer to nothing.
const LARGE_BYTES: usize = 512 << 10;

/// The size of a piece.
const PIECE_BYTES: usize = 64 << 10;

/// The maximum number of areas. More large roots are scanned while the roots are found.
const MOST_AREAS: usize = 64;

/// What an area contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// Words of a stack.
    Stack,
    /// Words of memory that the program registered.
    Registered,
}

/// A root that is large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Area {
    /// Memory from this address on.
    Memory(Words, usize),
    /// The table of root handles.
    Handles,
}

#[derive(Clone, Copy, Debug)]
struct Noted {
    area: Area,
    bytes: usize,
    /// The number of the first piece after it.
    end: usize,
}

/// The areas of one collection.
pub(crate) struct RootAreas<'a> {
    areas: [Noted; MOST_AREAS],
    len: usize,
    handles: Option<&'a SlotTable>,
    takes_memory: bool,
    large_bytes: usize,
    piece_bytes: usize,
}

impl<'a> RootAreas<'a> {
    /// Creates an empty list, for several markers or for one. The paranoid mode wants as many races as possible: small roots are areas, too.
    pub(crate) fn new(has_helpers: bool, paranoid: bool) -> Self {
        let (large_bytes, piece_bytes) = if paranoid { (1 << 10, 1 << 9) } else { (LARGE_BYTES, PIECE_BYTES) };
        let none = Noted { area: Area::Handles, bytes: 0, end: 0 };
        Self { areas: [none; MOST_AREAS], len: 0, handles: None, takes_memory: has_helpers, large_bytes, piece_bytes }
    }

    /// Notes a range of memory. Returns false if it must be scanned at once. Called by the collecting thread.
    ///
    /// # Safety
    /// As long as the list exists, the range is readable, and no running thread writes it, except that it may be or contain the stack of the
    /// calling thread.
    pub(crate) unsafe fn add(&mut self, words: Words, low: usize, high: usize) -> bool {
        let low = low.next_multiple_of(size_of::<usize>());
        let here = std::ptr::from_ref(&low).addr();
        self.takes_memory
            && !(low..high).contains(&here)
            && self.note(Area::Memory(words, low), high.saturating_sub(low))
    }

    /// Notes the table of root handles, once. Returns false if it must be scanned at once.
    pub(crate) fn add_handles(&mut self, handles: &'a SlotTable) -> bool {
        debug_assert!(self.handles.is_none());
        self.handles = Some(handles);
        self.note(Area::Handles, handles.used() * size_of::<usize>())
    }

    fn note(&mut self, area: Area, bytes: usize) -> bool {
        if bytes < self.large_bytes || self.len == MOST_AREAS {
            return false;
        }
        self.areas[self.len] = Noted { area, bytes, end: self.pieces() + bytes.div_ceil(self.piece_bytes) };
        self.len += 1;
        true
    }

    fn noted(&self) -> &[Noted] {
        &self.areas[..self.len]
    }

    /// The number of pieces.
    pub(crate) fn pieces(&self) -> usize {
        self.noted().last().map_or(0, |last| last.end)
    }

    /// Returns which part of which area a piece is, in bytes.
    pub(super) fn part(&self, piece: usize) -> (Area, Range<usize>) {
        let index = self.noted().partition_point(|noted| noted.end <= piece);
        let first = index.checked_sub(1).map_or(0, |before| self.areas[before].end);
        let Noted { area, bytes, .. } = self.areas[index];
        let begin = (piece - first) * self.piece_bytes;
        (area, begin..bytes.min(begin + self.piece_bytes))
    }

    /// Calls `visit` with the address and the word of each handle in a part of the table of root handles.
    pub(super) fn for_each_handle(&self, part: Range<usize>, visit: impl FnMut(usize, usize)) {
        if let Some(handles) = self.handles {
            handles.for_each_of(part.start / size_of::<usize>()..part.end / size_of::<usize>(), visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_is_scanned_at_once_by_a_marker_alone_and_on_the_stack_of_the_caller() {
        let local = 0_usize;
        let here = std::ptr::from_ref(&local).addr();
        // SAFETY: nothing is scanned.
        let is_noted = |has_helpers: bool, low: usize, high: usize| unsafe {
            RootAreas::new(has_helpers, false).add(Words::Stack, low, high)
        };
        assert!(is_noted(true, 1 << 40, (1 << 40) + LARGE_BYTES));
        assert!(!is_noted(false, 1 << 40, (1 << 40) + LARGE_BYTES));
        assert!(!is_noted(true, here - LARGE_BYTES, here + LARGE_BYTES));
    }

    proptest! {
        /// The pieces are all parts of all areas, in their order; what is small or too much is not noted.
        #[test]
        fn each_byte_is_in_one_piece(sizes in proptest::collection::vec(0_usize..3_000_000, 0..80), paranoid: bool) {
            let mut areas = RootAreas::new(true, paranoid);
            let mut expected = Vec::new();
            for (number, &bytes) in sizes.iter().enumerate() {
                let words = [Words::Stack, Words::Registered][number % 2];
                let low = (number + 1) << 40;
                // SAFETY: nothing is scanned.
                if unsafe { areas.add(words, low - number % 8, low + bytes) } {
                    expected.push((Area::Memory(words, low), bytes));
                }
            }
            let is_large = |bytes: usize| bytes >= if paranoid { 1 << 10 } else { 512 << 10 };
            prop_assert_eq!(areas.len, sizes.iter().filter(|&&bytes| is_large(bytes)).count().min(MOST_AREAS));
            let mut found: Vec<(Area, usize)> = Vec::new();
            for piece in 0..areas.pieces() {
                let (area, part) = areas.part(piece);
                prop_assert!(!part.is_empty());
                match found.last_mut() {
                    Some((last, end)) if *last == area && *end == part.start => *end = part.end,
                    _ => {
                        prop_assert_eq!(part.start, 0);
                        found.push((area, part.end));
                    }
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
