//! Explicit free: the cells that a thread has freed and may allocate again at once.
//!
//! A program that knows when an object is dead need not wait for a collection. But the object's block may belong to another thread,
//! or wait for its sweep, so the cell cannot go back to a run. Instead the thread that frees it puts it on a list of its own, and its
//! next allocation of that class takes it:
//!
//! ```text
//!   AllocationCache.freed[class] ──▶ | FREED | next | … |  ──▶ | FREED | next | … |  ──▶ 0
//! ```
//!
//! To the collector such a cell is an object without references of the type [`FREED`], to which nothing refers. So the next sweep
//! frees it for every thread, and the collection must end the list before (`end_freed_lists`,
//! `.heap.freed`): otherwise two threads would have the cell.
//!
//! A thread may be stopped, and its lists ended, between any two instructions here. Whatever it has read of the list is then stale. So
//! each change of a list is one instruction, which fails if the list has changed. A cell that is on no list any more, and not allocated
//! yet, is in a register of its thread, and lives on.

use std::arch::asm;

use super::layout::CLASSES;
use super::trace::{Shape, TypeInfo};
use super::window::window;
use crate::sync::{AtomicUsize, Ordering, Ordering::Relaxed, compiler_fence};

/// The type of freed cells.
pub(super) static FREED: TypeInfo = TypeInfo::of_described("freed cell", 0, 16, Shape::Leaf);

/// The header word of a freed cell.
pub(super) fn freed_header() -> usize {
    std::ptr::from_ref(&FREED) as usize
}

/// The heads of a thread's lists, by class: payload addresses, or 0.
#[derive(Debug)]
pub(crate) struct FreedLists([AtomicUsize; CLASSES]);

/// Stores `new` if the word is `old`, in one instruction of this processor, and returns whether it did. For a word that is changed only by
/// its thread, and by the collector while the thread is stopped: it needs no bus lock, which would take most of an allocation's time.
#[inline(always)]
fn store_if(word: &AtomicUsize, old: usize, new: usize) -> bool {
    let found: usize;
    // SAFETY: the word is borrowed. The instruction reads and writes it, and nothing else.
    unsafe {
        asm!("cmpxchg [{word}], {new}", word = in(reg) word.as_ptr(), new = in(reg) new, inout("rax") old => found,
            options(nostack));
    }
    found == old
}

/// The link word of a freed cell.
///
/// # Safety
/// `payload` is that of a cell in a committed block.
unsafe fn link<'a>(payload: usize) -> &'a AtomicUsize {
    // SAFETY: each cell has a payload word; committed blocks stay mapped.
    unsafe { &*(payload as *const AtomicUsize) }
}

impl FreedLists {
    pub(super) const fn new() -> Self {
        Self([const { AtomicUsize::new(0) }; CLASSES])
    }

    /// Takes a cell of this class. Returns its payload address. For the lists' own thread.
    #[inline(always)]
    pub(super) fn take(&self, class: usize) -> Option<usize> {
        let head = self.0[class].load(Relaxed);
        if head == 0 { None } else { self.take_some(class, head) }
    }

    #[inline]
    fn take_some(&self, class: usize, mut head: usize) -> Option<usize> {
        while head != 0 {
            window();
            // SAFETY: a freed cell; if a collection has ended the list, memory that is still mapped.
            let next = unsafe { link(head) }.load(Relaxed);
            window();
            if store_if(&self.0[class], head, next) {
                return Some(head);
            }
            head = self.0[class].load(Relaxed);
        }
        None
    }

    /// The payload address of the cell that is taken next, or 0.
    #[cfg(test)]
    pub(super) fn head(&self, class: usize) -> usize {
        self.0[class].load(Relaxed)
    }

    /// Ends the lists, in the stopped world.
    pub(super) fn end(&self) {
        self.0.iter().for_each(|head| head.store(0, Relaxed));
    }

    /// Puts a cell on the list of its class. For the lists' own thread.
    pub(super) fn put(&self, class: usize, payload: usize) {
        loop {
            let head = self.0[class].load(Relaxed);
            // SAFETY: the cell belongs to the caller.
            unsafe { link(payload) }.store(head, Relaxed);
            compiler_fence(Ordering::SeqCst);
            window();
            if store_if(&self.0[class], head, payload) {
                return;
            }
        }
    }
}
