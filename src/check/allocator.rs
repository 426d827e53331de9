//! The allocator that lists its blocks.
//!
//! ```text
//!   | padding | slot number | block, zeros at first … |
//!   ^ from the allocator below                        the block is at a multiple of 16, or of its alignment
//! ```
//!
//! A block is zeroed before the program gets it, so that unused capacity holds no words of earlier blocks. A block that grows or
//! shrinks is copied to a new one: the program's words are in a listed block all the time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;
use std::marker::PhantomData;

use super::blocks::{About, Block, Blocks, SlotId};
use super::traces::{self, TraceId};

/// The largest number of blocks that are listed at a time.
const SLOTS: usize = (1 << 24) - 1;

static BLOCKS: Blocks<SLOTS> = Blocks::new();

thread_local! {
    /// How many times the thread has begun to allocate for the collector itself.
    static OWN: Cell<u32> = const { Cell::new(0) };
    /// How many blocks the thread has allocated.
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

/// The number in front of a block that is in no slot.
const UNLISTED: usize = usize::MAX;

/// An allocator that lists its blocks, for [`check_promise`](crate::WorldBuilder::check_promise). See [the module](crate::check).
///
/// It takes memory from another allocator: from [`System`], or from the one that is given to [`over`](Self::over). Each block takes 16 bytes
/// more, or its alignment if that is larger, is filled with zeros, and costs a walk over the stack. The table of
/// blocks and the store of backtraces are mapped memory: they reserve about 400 MiB of address space, and use as many pages as are needed. A
/// block that changes its size is always copied.
///
/// The table has room for 16,777,215 live blocks. Blocks beyond that are not searched, and a report says how many there were.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: stopworld::check::Allocator = stopworld::check::Allocator::new();
/// # fn main() {}
/// ```
#[derive(Debug, Default)]
pub struct Allocator<A = System> {
    below: A,
}

impl Allocator {
    /// Creates an allocator that takes its memory from [`System`].
    pub const fn new() -> Self {
        Self::over(System)
    }
}

impl<A> Allocator<A> {
    /// Creates an allocator that takes its memory from `below`.
    pub const fn over(below: A) -> Self {
        Self { below }
    }
}

/// Returns the layout to ask for, and where the program's block begins in it.
fn with_slot(layout: Layout) -> Option<(Layout, usize)> {
    let before = layout.align().max(16);
    let size = layout.size().checked_add(before)?;
    Some((Layout::from_size_align(size, before).ok()?, before))
}

// SAFETY: each block is a part of a block of the allocator below, behind enough bytes for the alignment, and is freed with the layout that it
// was allocated with.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Allocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((whole, before)) = with_slot(layout) else { return std::ptr::null_mut() };
        ALLOCATED.set(ALLOCATED.get().wrapping_add(1));
        // SAFETY: the layout is not empty.
        let base = unsafe { self.below.alloc_zeroed(whole) };
        if base.is_null() {
            return base;
        }
        // SAFETY: `before` bytes of `whole` are in front of the program's block.
        let block = unsafe { base.add(before) };
        let slot = list(block as usize, layout.size());
        // SAFETY: at least 16 bytes are in front of the block, which is aligned to 16 bytes.
        unsafe { block.cast::<usize>().sub(1).write(slot) };
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise. Every block is zeroed.
        unsafe { self.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some((whole, before)) = with_slot(layout) else { return };
        // SAFETY: `alloc` has written the word in front of the block.
        let slot = unsafe { block.cast::<usize>().sub(1).read() };
        if slot != UNLISTED {
            BLOCKS.remove(SlotId(slot as u32), block as u64);
        }
        // SAFETY: the block was allocated with this layout, and so the whole with that one.
        unsafe { self.below.dealloc(block.sub(before), whole) }
    }
}

fn list(block: usize, bytes: usize) -> usize {
    if OWN.get() > 0 {
        return UNLISTED;
    }
    let about = About { bytes: bytes as u64, trace: TraceId::here().0 };
    let Some(SlotId(slot)) = BLOCKS.list(block as u64, about) else { return UNLISTED };
    slot as usize
}

/// Visits each listed block, without waiting for a thread.
pub(crate) fn for_each_block(visit: impl FnMut(Block)) {
    BLOCKS.for_each(visit);
}

/// Returns whether this block, or one of the same size and backtrace at its address, is still listed in its slot.
pub(crate) fn is_still_listed(block: &Block) -> bool {
    BLOCKS.has(block)
}

/// Returns the number of blocks that had no room in the table.
pub(crate) fn unlisted_blocks() -> u32 {
    BLOCKS.unlisted()
}

/// Returns whether the calling thread's allocations come from an [`Allocator`].
pub(crate) fn is_installed() -> bool {
    let before = ALLOCATED.get();
    drop(std::hint::black_box(Box::new(0_u64)));
    ALLOCATED.get() != before
}

/// Maps the table of blocks and the store of backtraces.
///
/// # Errors
/// The system refused address space. Then blocks are not listed, or their backtraces are not known.
pub(crate) fn map_stores() -> io::Result<()> {
    BLOCKS.map()?;
    traces::map()
}

/// A guard. While it exists, the blocks that the calling thread allocates are the collector's own, and are not listed: they hold addresses of
/// objects without keeping them.
pub(crate) struct OwnMemory(PhantomData<*const ()>);

impl OwnMemory {
    pub(crate) fn begin() -> Self {
        OWN.set(OWN.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for OwnMemory {
    fn drop(&mut self) {
        OWN.set(OWN.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn listed(address: usize) -> Option<About> {
        let mut found = None;
        for_each_block(|block| found = found.or((block.address == address as u64).then_some(block.about)));
        found
    }

    #[rstest]
    #[case(1, 1)]
    #[case(24, 8)]
    #[case(100, 64)]
    #[case(8, 4096)]
    fn a_block_is_aligned_zeroed_and_listed_until_it_is_freed(#[case] bytes: usize, #[case] align: usize) {
        let (allocator, layout) = (Allocator::new(), Layout::from_size_align(bytes, align).unwrap());
        // SAFETY: a layout that is not empty; the block is used within its size, and freed once.
        unsafe {
            let block = allocator.alloc(layout);
            assert!((block as usize).is_multiple_of(align));
            assert!((0..bytes).all(|at| block.add(at).read() == 0));
            assert_eq!(listed(block as usize).unwrap().bytes, bytes as u64);
            block.write_bytes(7, bytes);
            let grown = allocator.realloc(block, layout, 3 * bytes);
            assert_eq!((listed(block as usize), listed(grown as usize).unwrap().bytes), (None, 3 * bytes as u64));
            assert!(
                (0..bytes).all(|at| grown.add(at).read() == 7)
                    && (bytes..3 * bytes).all(|at| grown.add(at).read() == 0)
            );
            allocator.dealloc(grown, Layout::from_size_align(3 * bytes, align).unwrap());
            assert_eq!(listed(grown as usize), None);
        }
    }

    #[test]
    fn the_collectors_own_blocks_are_not_listed() {
        let layout = Layout::new::<[u64; 4]>();
        // SAFETY: as above.
        unsafe {
            let own = OwnMemory::begin();
            let block = Allocator::new().alloc(layout);
            drop(own);
            assert_eq!(listed(block as usize), None);
            Allocator::new().dealloc(block, layout);
        }
        assert!(!is_installed(), "the tests of the library have another allocator");
    }

    #[test]
    fn a_block_that_is_too_large_for_its_slot_is_refused() {
        let layout = Layout::from_size_align(isize::MAX as usize - 15, 16).unwrap();
        // SAFETY: a layout that is not empty; there is no block to free.
        assert!(unsafe { Allocator::new().alloc(layout) }.is_null());
    }
}
