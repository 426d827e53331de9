//! A cell that detects an access that overlaps with a write.
//!
//! Each access includes a scheduling point, at which other threads may run. Unlike loom's cell, it detects only accesses that overlap in the
//! present schedule, not those that could overlap in another one.

use std::cell::RefCell;

use shuttle::sync::atomic::{AtomicU32, Ordering};

/// The cell.
#[derive(Debug)]
pub(crate) struct UnsafeCell<T> {
    value: std::cell::UnsafeCell<T>,
    /// The number of readers, or [`WRITER`].
    inside: RefCell<u32>,
    step: AtomicU32,
}

const WRITER: u32 = u32::MAX;

// SAFETY: shuttle runs one thread at a time, and overlapping accesses panic.
unsafe impl<T: Send> Sync for UnsafeCell<T> {}

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: std::cell::UnsafeCell::new(value), inside: RefCell::new(0), step: AtomicU32::new(0) }
    }

    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        assert_ne!(*self.inside.borrow(), WRITER, "Causality violation: read during a write");
        *self.inside.borrow_mut() += 1;
        self.step.load(Ordering::SeqCst);
        let result = read(self.value.get());
        *self.inside.borrow_mut() -= 1;
        result
    }

    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        assert_eq!(*self.inside.borrow(), 0, "Causality violation: written during another access");
        *self.inside.borrow_mut() = WRITER;
        self.step.load(Ordering::SeqCst);
        let result = write(self.value.get());
        *self.inside.borrow_mut() = 0;
        result
    }
}
