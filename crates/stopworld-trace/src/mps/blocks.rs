//! The table of the blocks that a stream's spaces hold: one byte for each block of a world's reservation.
//!
//! The event of an object has its address and size, but the record needs its pool. And a stream that begins in the middle of a run
//! must report the blocks that are held already before it can report that one of them is released.

use std::io;
use std::ptr::NonNull;

use crate::os::memory::{map_anonymous, unmap};
use stopworld::Space;

const SPACE: u8 = 0b11;
/// The stream has reported the block as memory of its arena.
pub(super) const ARENA: u8 = 0b100;
/// The stream has reported the block as a segment.
pub(super) const SEG: u8 = 0b1000;
/// The block continues the one before it.
const TAIL: u8 = 0b1_0000;

/// The blocks of one world.
#[derive(Debug)]
pub(super) struct Blocks {
    bytes: NonNull<u8>,
    base: u64,
    count: usize,
    shift: u32,
    /// The blocks from this index on were never held.
    used: usize,
}

// SAFETY: the value is the only owner of the memory.
unsafe impl Send for Blocks {}

/// Adjacent blocks that a space holds as one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) space: Space,
    /// The bits [`ARENA`] and [`SEG`], which state what the stream has reported about the blocks.
    pub(super) reported: u8,
}

impl Blocks {
    pub(super) fn new(base: u64, reserved: u64, block_bytes: u64) -> io::Result<Blocks> {
        let shift = block_bytes.max(1).trailing_zeros();
        let count = (reserved >> shift) as usize;
        let bytes = NonNull::new(map_anonymous(count.max(1))?).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Blocks { bytes, base, count, shift, used: 0 })
    }

    fn index(&self, address: u64) -> Option<usize> {
        let index = (address.wrapping_sub(self.base) >> self.shift) as usize;
        (index < self.count).then_some(index)
    }

    fn get(&self, index: usize) -> u8 {
        debug_assert!(index < self.count);
        // SAFETY: in bounds: indices come from `index`, or are below `used`.
        unsafe { self.bytes.add(index).read() }
    }

    fn set(&mut self, index: usize, byte: u8) {
        debug_assert!(index < self.count);
        // SAFETY: as above.
        unsafe { self.bytes.add(index).write(byte) };
    }

    /// Returns the space that holds the block with this address.
    #[inline]
    pub(super) fn space(&self, address: u64) -> Option<Space> {
        space_of(self.get(self.index(address)?))
    }

    /// Returns the held blocks that begin at this address.
    pub(super) fn held(&self, address: u64) -> Option<Held> {
        self.held_at(self.index(address)?)
    }

    fn held_at(&self, index: usize) -> Option<Held> {
        let byte = self.get(index);
        let space = space_of(byte)?;
        let tails = (index + 1..self.used).take_while(|tail| self.get(*tail) == TAIL).count();
        let address = self.base + ((index as u64) << self.shift);
        Some(Held { address, bytes: (1 + tails as u64) << self.shift, space, reported: byte & (ARENA | SEG) })
    }

    /// Records that a space holds these blocks.
    pub(super) fn hold(&mut self, held: Held) {
        let Some(index) = self.index(held.address) else { return };
        let end = (index + (held.bytes >> self.shift) as usize).clamp(index + 1, self.count);
        self.set(index, (held.space as u8 + 1) | held.reported);
        (index + 1..end).for_each(|tail| self.set(tail, TAIL));
        self.used = self.used.max(end);
    }

    /// Records that these blocks are free.
    pub(super) fn release(&mut self, held: Held) {
        let Some(index) = self.index(held.address) else { return };
        let end = (index + (held.bytes >> self.shift) as usize).min(self.count);
        (index..end).for_each(|block| self.set(block, 0));
    }

    /// Returns the first held blocks at or after index `from`, and the index from which to continue the search.
    pub(super) fn next(&self, from: usize) -> Option<(Held, usize)> {
        let index = (from..self.used).find(|index| space_of(self.get(*index)).is_some())?;
        Some((self.held_at(index)?, index + 1))
    }
}

fn space_of(byte: u8) -> Option<Space> {
    match byte & SPACE {
        1 => Some(Space::Small),
        2 => Some(Space::Pinned),
        3 => Some(Space::Large),
        _ => None,
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size.
        unsafe { unmap(self.bytes.as_ptr(), self.count.max(1)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_block_is_found_by_any_address_in_it_until_it_is_released() {
        let mut blocks = Blocks::new(0x10_0000, 1 << 20, 1 << 14).unwrap();
        let large = Held { address: 0x10_4000, bytes: 3 << 14, space: Space::Large, reported: SEG };
        let small = Held { address: 0x11_0000, bytes: 1 << 14, space: Space::Small, reported: 0 };
        blocks.hold(large);
        blocks.hold(small);
        assert_eq!(blocks.space(0x10_4008), Some(Space::Large));
        assert_eq!(blocks.space(0x11_3fff), Some(Space::Small));
        assert_eq!((blocks.space(0x10_0000), blocks.space(0x20_0000), blocks.space(0)), (None, None, None));
        assert_eq!(blocks.held(0x10_4000), Some(large));
        assert_eq!(blocks.next(0), Some((large, 2)));
        assert_eq!(blocks.next(2), Some((small, 5)));
        blocks.release(large);
        assert_eq!(blocks.next(0), Some((small, 5)));
        blocks.release(small);
        assert_eq!(blocks.next(0), None);
    }
}
