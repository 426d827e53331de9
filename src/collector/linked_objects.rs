//! Lists of marked objects with which something is left to do after marking: weak cells, and the objects of a binding.

use crate::sync::{AtomicUsize, Ordering::Relaxed, prefetch};

/// Marked objects, linked through one word of each, which is 0 outside a list. The list knows the addresses of these words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkedObjects {
    /// The address of the first link word, with a tag, so that a link is never 0. The tag alone is the end of the list.
    head: usize,
    len: usize,
}

const LINK_TAG: usize = 1;

impl LinkedObjects {
    pub(crate) const EMPTY: Self = Self { head: LINK_TAG, len: 0 };

    /// Adds the object with this link word, unless another marker has marked it at the same time and added it.
    pub(super) fn add(&mut self, link: usize) {
        if word(link).compare_exchange(0, self.head, Relaxed, Relaxed).is_ok() {
            self.head = link | LINK_TAG;
            self.len += 1;
        }
    }

    /// Takes one object from the list, and returns the address of its link word. No other marker may be working.
    pub(crate) fn take(&mut self) -> Option<usize> {
        let link = self.head & !LINK_TAG;
        if link == 0 {
            return None;
        }
        self.head = word(link).load(Relaxed);
        self.len -= 1;
        word(link).store(0, Relaxed);
        // The objects were marked long ago, so they are not in the cache any more.
        prefetch(self.head);
        Some(link)
    }

    /// Returns whether there is no object in the list.
    pub(super) fn is_empty(&self) -> bool {
        self.head == LINK_TAG
    }

    /// The number of objects in the list.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Calls `visit` with the address of each link word.
    pub(super) fn for_each(&self, mut visit: impl FnMut(usize)) {
        let mut link = self.head & !LINK_TAG;
        while link != 0 {
            visit(link);
            link = word(link).load(Relaxed) & !LINK_TAG;
        }
    }

    /// Empties the list, and calls `visit` with the address of each link word.
    pub(crate) fn take_all(&mut self, visit: &mut impl FnMut(usize)) {
        while let Some(link) = self.take() {
            visit(link);
        }
    }
}

fn word(link: usize) -> &'static AtomicUsize {
    // SAFETY: a word of a marked object that only these lists use; the heap is not unmapped while its world is stopped.
    unsafe { &*(link as *const AtomicUsize) }
}
