//! Lists of new objects: a thread makes objects of many free cells at once.
//!
//! A runtime may keep free objects in lists of its own, so that it can allocate by code of its own. Each object has the address of the next
//! one in its first word:
//!
//! ```text
//!   head ──▶ | next | 0 … |  ──▶ | next | 0 … |  ──▶ … ──▶ | rest | 0 … |
//!   run      | cell       | cell                | …         | cell       | free …
//! ```
//!
//! The cells are those of the thread's run, in their order, and are zeroed together. They become objects one by one, as in other allocations
//! (`cache.rs`), because the thread may be stopped at any instruction (`.stop.mid-alloc`). The link of an object is then the address of the
//! cell at the cursor, which is free for the collector. The head stays in a register until the list is complete, so the head, and what it
//! links to, is alive in a stop that comes before.

use super::cache::AllocationCache;
use super::compact::{KindNumber, in_register};
use super::layout::{CELL_BYTES, CLASSES, HEADER_BYTES, payload_bytes};
use crate::sync::{AtomicUsize, Ordering, Ordering::Relaxed, compiler_fence};

impl AllocationCache {
    /// Makes a list of up to `most` objects with this header word of the cells at hand. Their payloads are zeroed if `clears`. The last one's
    /// first word is `rest`. Returns the head's payload address and the number of objects; `None` if
    /// there is no cell at hand.
    ///
    /// # Safety
    /// The caller is the cache's thread. The header word is the address of the `TypeInfo` of such objects, and the bin's cells have headers.
    #[inline]
    pub(crate) unsafe fn allocate_list(
        &self,
        bin: usize,
        most: usize,
        header_word: usize,
        clears: bool,
        rest: usize,
    ) -> Option<(usize, usize)> {
        // SAFETY: by the caller, a free cell in a committed block of cells with headers.
        let publish = |payload: usize| unsafe { word(payload - HEADER_BYTES) }.store(header_word, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { self.take_list(bin, most, clears, rest, publish) }
    }

    /// As [`allocate_list`](Self::allocate_list), for a bin of compact cells.
    ///
    /// # Safety
    /// The caller is the cache's thread. The heap has compact cells, and the bin is one of them.
    #[inline]
    pub(crate) unsafe fn allocate_compact_list(
        &self,
        bin: usize,
        most: usize,
        kind: KindNumber,
        clears: bool,
        rest: usize,
    ) -> Option<(usize, usize)> {
        // SAFETY: the caller's promise.
        unsafe { self.take_list(bin, most, clears, rest, |payload| self.kinds().set(payload, kind)) }
    }

    /// # Safety
    /// The caller is the cache's thread, and `publish` makes an object of a cell of the bin.
    #[inline(always)]
    unsafe fn take_list(
        &self,
        bin: usize,
        most: usize,
        clears: bool,
        rest: usize,
        publish: impl Fn(usize),
    ) -> Option<(usize, usize)> {
        let (class, (first, end)) = (bin % CLASSES, self.at_hand(bin));
        let cell_bytes = CELL_BYTES[class];
        let count = (end.saturating_sub(first) / cell_bytes).min(most);
        if count == 0 {
            return None;
        }
        let head = in_register(first + HEADER_BYTES);
        if clears {
            // The headers between the payloads are 0 already, as those of all free cells.
            let bytes = (count - 1) * cell_bytes + payload_bytes(class);
            // SAFETY: free cells of this thread's run, in a committed block.
            unsafe { (head as *mut u8).write_bytes(0, bytes) };
        }
        for index in 0..count {
            let payload = head + index * cell_bytes;
            let next = if index + 1 < count { payload + cell_bytes } else { rest };
            // SAFETY: as above; each cell has a payload word.
            unsafe { word(payload) }.store(next, Relaxed);
            compiler_fence(Ordering::SeqCst);
            publish(payload);
            self.advance(bin, payload - HEADER_BYTES + cell_bytes);
        }
        Some((in_register(head), count))
    }
}

/// # Safety
/// The address is that of a word of a cell in a committed block.
#[inline(always)]
unsafe fn word<'a>(address: usize) -> &'a AtomicUsize {
    // SAFETY: committed blocks stay mapped.
    unsafe { &*(address as *const AtomicUsize) }
}
