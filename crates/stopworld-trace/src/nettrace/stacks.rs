//! The call stacks of events: their ids in the file, and which stacks the trace has.
//!
//! The process gives a number to each call stack. A file has ids of its own, which are valid until the next sequence point. A cache maps the
//! numbers of the current interval to ids; a stack that was replaced in the cache is written again under another id.
//!
//! An address in a file is that of the last byte of a call, one less than the return address: it is in the function that called, also if
//! the call is its last instruction, and common readers look it up as it is.

use stopworld::profile::allocations::{CallStack, MOST_CALL_STACKS, MOST_FRAMES};

/// The number of stacks in the cache.
const CACHE_ENTRIES: usize = 1 << 12;
/// The size of the longest stack in the file, in bytes.
const MOST_BYTES: usize = MOST_FRAMES * size_of::<u64>();

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The number of the stack. 0 for none.
    number: u32,
    /// The number of sequence points before it was written.
    points: u32,
    id: u32,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Stacks {
    cache: Box<[Entry]>,
    points: u32,
    /// The last id of this interval.
    last_id: u32,
    /// A bit for each stack of the trace. Its pages cost nothing until they are written.
    seen: Box<[u64]>,
    /// The addresses of the stack that is being written.
    bytes: Box<[u8; MOST_BYTES]>,
}

impl Stacks {
    pub(super) fn new() -> Stacks {
        Stacks {
            cache: vec![Entry::default(); CACHE_ENTRIES].into(),
            points: 0,
            last_id: 0,
            seen: vec![0; MOST_CALL_STACKS.div_ceil(64)].into(),
            bytes: Box::new([0; MOST_BYTES]),
        }
    }

    /// Returns the id of this stack, and its addresses if they must be written first.
    #[inline]
    pub(super) fn id(&mut self, stack: CallStack) -> (u32, Option<&[u8]>) {
        let number = stack.get();
        let entry = &mut self.cache[number as usize % CACHE_ENTRIES];
        if (entry.number, entry.points) == (number, self.points) {
            return (entry.id, None);
        }
        self.last_id += 1;
        *entry = Entry { number, points: self.points, id: self.last_id };
        let place = number as usize - 1;
        if let Some(word) = self.seen.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
        let mut length = 0;
        for (address, to) in addresses(stack).zip(self.bytes.as_chunks_mut().0) {
            *to = (address as u64).to_le_bytes();
            length += to.len();
        }
        (self.last_id, Some(&self.bytes[..length]))
    }

    /// Makes all ids invalid, at a sequence point.
    pub(super) fn point(&mut self) {
        self.points += 1;
        self.last_id = 0;
    }

    /// Returns whether the trace has no stack.
    pub(super) fn is_empty(&self) -> bool {
        self.seen.iter().all(|word| *word == 0)
    }

    /// Returns the stacks of the trace.
    pub(super) fn seen(&self) -> impl Iterator<Item = CallStack> {
        let set_bits = |word: u64| (0..64).filter(move |bit| word >> bit & 1 != 0);
        self.seen
            .iter()
            .zip((1..).step_by(64))
            .filter(|(word, _)| **word != 0)
            .flat_map(move |(word, first)| set_bits(*word).map(move |bit| first + bit))
            .filter_map(CallStack::from_raw)
    }
}

/// Returns the addresses of a stack as they are in the file, innermost first.
pub(super) fn addresses(stack: CallStack) -> impl Iterator<Item = usize> {
    stack.return_addresses().map(|address| address.wrapping_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(number: u32) -> CallStack {
        CallStack::from_raw(number).unwrap()
    }

    #[test]
    fn a_stack_is_written_once_between_two_sequence_points() {
        let mut stacks = Stacks::new();
        assert!(stacks.is_empty());
        let mut id = |number| {
            let (id, written) = stacks.id(stack(number));
            (id, written.is_some())
        };
        assert_eq!([id(7), id(9), id(7)], [(1, true), (2, true), (1, false)]);
        // It takes the place of another one.
        let other = 7 + CACHE_ENTRIES as u32;
        assert_eq!([id(other), id(7), id(9)], [(3, true), (4, true), (2, false)]);
        stacks.point();
        assert_eq!(stacks.id(stack(9)), (1, Some(&[][..])));
        assert!(!stacks.is_empty());
        assert_eq!(stacks.seen().map(CallStack::get).collect::<Vec<_>>(), [7, 9, other]);
    }

    #[test]
    fn any_number_of_a_record_is_accepted() {
        let mut stacks = Stacks::new();
        for number in [1, 64, 65, MOST_CALL_STACKS as u32, MOST_CALL_STACKS as u32 + 64, u32::MAX] {
            stacks.id(stack(number));
        }
        let seen: Vec<_> = stacks.seen().map(CallStack::get).collect();
        assert_eq!(seen, [1, 64, 65, MOST_CALL_STACKS as u32]);
    }
}
