//! The weak cells that a marker has found.

use crate::sync::{AtomicUsize, Ordering::Relaxed};

/// Weak cells that were marked, linked through the second word of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeakList {
    /// The address of the first cell, with a tag, so that a link is never 0. The tag alone is the end of the list.
    head: usize,
}

const LINK_TAG: usize = 1;

impl WeakList {
    pub(crate) const EMPTY: Self = Self { head: LINK_TAG };

    /// Adds a weak cell, unless another marker has marked it at the same time and added it.
    pub(super) fn add(&mut self, payload: usize) {
        let link = link_of(payload);
        if link.compare_exchange(0, self.head, Relaxed, Relaxed).is_ok() {
            self.head = payload | LINK_TAG;
        }
    }

    /// Empties the list, and calls `visit` with each cell's target word.
    pub(crate) fn take_all(&mut self, mut visit: impl FnMut(&AtomicUsize)) {
        let mut head = std::mem::replace(&mut self.head, LINK_TAG);
        while head != LINK_TAG {
            let payload = head & !LINK_TAG;
            head = link_of(payload).swap(0, Relaxed);
            // SAFETY: a weak cell's first word is its target.
            visit(unsafe { &*(payload as *const AtomicUsize) });
        }
    }
}

fn link_of(payload: usize) -> &'static AtomicUsize {
    // SAFETY: the payload is that of a marked weak cell, whose second word is the link; the heap is not unmapped while its
    // world is stopped.
    unsafe { &*((payload + size_of::<usize>()) as *const AtomicUsize) }
}
