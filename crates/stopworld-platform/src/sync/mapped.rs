//! Memory for data that only grow: mapped on first use, never moved, never returned.
//!
//! The process's stores (names, cost centres, their stacks) are read from signal handlers, from the stopped world and by the
//! recorder's drain. So each has its own mapping, where a page costs nothing until it is touched. A store that is not mapped
//! yet reads as empty.

use std::{fmt, io, ptr};

use crate::sync::{AtomicPtr, Ordering, Zeroed, ZeroedMapping, const_new};

/// A `T` that is all zeros until it is written. See the module's text.
pub struct Mapped<T> {
    place: AtomicPtr<T>,
}

impl<T: Zeroed> Mapped<T> {
    const_new! {
        /// Creates a store that is not mapped yet.
        pub fn new() -> Self {
            Self { place: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// The value, if a thread has mapped it.
    #[inline(always)]
    pub fn get(&self) -> Option<&'static T> {
        // Acquire: pairs with the Release in `map`: what was prepared is visible.
        let place = self.place.load(Ordering::Acquire);
        // SAFETY: the pointer is null, or points to memory that `map` has published, which is never unmapped.
        unsafe { place.as_ref() }
    }

    /// Returns the value, and maps it first if necessary. `prepare` writes the initial contents. If two threads map it at the
    /// same time, both get the first one's.
    pub fn map(&self, prepare: impl FnOnce(&T)) -> io::Result<&'static T> {
        if let Some(there) = self.get() {
            return Ok(there);
        }
        let ours = ZeroedMapping::<T>::map()?;
        prepare(&ours);
        // Release: pairs with the Acquire in `get`, and with the failure Acquire of this exchange in a thread that maps it later.
        match self.place.compare_exchange(ptr::null_mut(), ours.as_ptr(), Ordering::Release, Ordering::Acquire) {
            Ok(_) => Ok(ours.keep()),
            // SAFETY: as in `get`.
            Err(others) => Ok(unsafe { &*others }),
        }
    }
}

impl<T> fmt::Debug for Mapped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mapped").field(&self.place).finish()
    }
}
