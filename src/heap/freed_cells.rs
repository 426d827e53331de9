//! Allocating the cells again that a thread has [freed](super::freed).

use super::cache::AllocationCache;
use super::compact::{KindNumber, in_register};
use super::layout::HEADER_BYTES;
use super::stopped::WorldStopped;
use super::window::window;
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicUsize, Ordering, compiler_fence};

impl AllocationCache {
    /// Allocates a freed cell of this class, if the thread has one. `build` writes its payload.
    ///
    /// # Safety
    /// As for [`allocate`](Self::allocate).
    #[inline(always)]
    pub(crate) unsafe fn allocate_freed(
        &self,
        class: usize,
        header_word: usize,
        build: impl FnOnce(*mut u8),
    ) -> Option<*mut u8> {
        let payload = self.freed.take(class)? as *mut u8;
        let header = payload as usize - HEADER_BYTES;
        window();
        build(payload);
        compiler_fence(Ordering::SeqCst);
        self.charge_cell(header, class);
        // SAFETY: the cell was on this thread's list, so it belongs to this thread. If a collection has come since, the cell's address
        // was in a register, and kept it.
        unsafe { (*(header as *const AtomicUsize)).store(header_word, Ordering::Relaxed) };
        Some(payload)
    }

    /// As [`allocate_freed`](Self::allocate_freed), for a class of compact cells.
    ///
    /// # Safety
    /// As for [`allocate_compact`](Self::allocate_compact).
    #[inline(always)]
    pub(crate) unsafe fn allocate_freed_compact(
        &self,
        class: usize,
        kind: KindNumber,
        build: impl FnOnce(*mut u8),
    ) -> Option<*mut u8> {
        let payload = in_register(self.freed.take(class)?);
        window();
        build(payload as *mut u8);
        compiler_fence(Ordering::SeqCst);
        self.charge_cell(payload - HEADER_BYTES, class);
        self.kinds().set(payload, kind);
        Some(payload as *mut u8)
    }

    /// Ends the lists, in the stopped world: the sweep frees the cells (`.heap.freed`).
    pub(crate) fn end_freed_lists(&self, _stopped: WorldStopped<'_>) {
        if !removed(Guard::HeapFreed) {
            self.freed.end();
        }
    }
}
