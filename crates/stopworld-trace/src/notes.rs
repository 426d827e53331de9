//! Notes from the owner of a trace to its writer: facts about a running world that its events do not have, such as its threads.
//!
//! The notes form a linked list: a new note is pushed at its head, a note is never changed, and all live as long as the list. So the
//! writer, which may take no lock, can read those that it has not seen yet. They are numbered from 1 in the order of their publication.

use std::fmt;
use std::ptr;

use crate::sync::{AtomicPtr, Ordering};
use stopworld::ThreadInfo;
use stopworld::events::Label;

/// A thread that attached before the trace joined its world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExistingThread {
    /// The kernel's thread id.
    pub(crate) tid: u32,
    /// The label of its name, or 0.
    pub(crate) label: u64,
}

impl ExistingThread {
    /// Returns the threads in a list of attached threads.
    pub(crate) fn all(threads: &[ThreadInfo]) -> Box<[ExistingThread]> {
        let existing = |thread: &ThreadInfo| ExistingThread {
            tid: thread.tid.0 as u32,
            label: thread.label.map_or(0, Label::get),
        };
        threads.iter().map(existing).collect()
    }
}

struct Node<T> {
    note: T,
    number: u64,
    before: *const Node<T>,
}

/// See the module documentation.
pub(crate) struct Notes<T> {
    newest: AtomicPtr<Node<T>>,
}

// SAFETY: the list owns its notes, which another thread may drop with it.
unsafe impl<T: Send> Send for Notes<T> {}
// SAFETY: threads share references to the notes, and any thread may push one.
unsafe impl<T: Send + Sync> Sync for Notes<T> {}

impl<T> Notes<T> {
    pub(crate) fn new() -> Notes<T> {
        Notes { newest: AtomicPtr::new(ptr::null_mut()) }
    }

    fn newest(&self) -> Option<&Node<T>> {
        // Acquire: pairs with the Release in `push`: a thread that sees the note sees its contents.
        let newest = self.newest.load(Ordering::Acquire);
        // SAFETY: it is null or a node of this list, which lives as long as the list and does not change.
        unsafe { newest.as_ref() }
    }

    /// Publishes a note. Only one thread may do so at a time.
    pub(crate) fn push(&self, note: T) {
        let number = self.count() + 1;
        let before = self.newest.load(Ordering::Relaxed);
        let node = Box::into_raw(Box::new(Node { note, number, before }));
        // Release: pairs with the Acquire in `newest`.
        self.newest.store(node, Ordering::Release);
    }

    /// Returns the number of notes.
    #[inline(always)]
    pub(crate) fn count(&self) -> u64 {
        self.newest().map_or(0, |node| node.number)
    }

    /// Iterates from the note `last` back to the one after `read`.
    pub(crate) fn between(&self, read: u64, last: u64) -> impl Iterator<Item = &T> {
        // SAFETY: as in `newest`.
        let nodes = std::iter::successors(self.newest(), |newer| unsafe { newer.before.as_ref() });
        nodes
            .skip_while(move |node| node.number > last)
            .take_while(move |node| node.number > read)
            .map(|node| &node.note)
    }
}

impl<T> Drop for Notes<T> {
    fn drop(&mut self) {
        let mut at = self.newest.load(Ordering::Relaxed).cast_const();
        while !at.is_null() {
            // SAFETY: `push` made this pointer from a box, and there is no other reference to the node.
            let node = unsafe { Box::from_raw(at.cast_mut()) };
            at = node.before;
        }
    }
}

impl<T> fmt::Debug for Notes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notes").field("count", &self.count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 0, &[])]
    #[case(0, 3, &["three", "two", "one"])]
    #[case(1, 3, &["three", "two"])]
    #[case(1, 2, &["two"])]
    #[case(3, 3, &[])]
    fn notes_are_read_from_the_newest_to_the_last_one_read(
        #[case] read: u64,
        #[case] last: u64,
        #[case] expected: &[&str],
    ) {
        let notes = Notes::new();
        assert_eq!(notes.count(), 0);
        ["one", "two", "three"].into_iter().for_each(|note| notes.push(note.to_owned()));
        assert_eq!(notes.count(), 3);
        assert_eq!(notes.between(read, last).collect::<Vec<_>>(), expected);
    }
}
