//! Memory for what only grows: mapped when it is first needed, never moved, never given back.
//!
//! The process's stores (names, cost centres, their stacks) are read from signal handlers, from the stopped world and by the
//! recorder's drain. So they lie in memory of their own, of which a page costs nothing until it is touched, and whoever finds
//! them not mapped yet finds them empty.

use std::{fmt, io, ptr};

use crate::sync::{AtomicPtr, Fresh, Ordering, Zeroed, const_new};

/// A `T` that is all zeros where nobody has written. See the module's text.
pub struct Mapped<T> {
    place: AtomicPtr<T>,
}

impl<T: Zeroed> Mapped<T> {
    const_new! {
        /// Not mapped yet.
        pub fn new() -> Self {
            Self { place: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// What is there, if somebody has mapped it.
    #[inline(always)]
    pub fn get(&self) -> Option<&'static T> {
        // Acquire: pairs with the Release in `map`: what was prepared is seen.
        let place = self.place.load(Ordering::Acquire);
        // SAFETY: null, or what `map` has put there, which is never unmapped.
        unsafe { place.as_ref() }
    }

    /// The same, mapped now if it was not. `prepare` writes what stands in it from the beginning; who maps it at the same time as
    /// another takes the other's.
    pub fn map(&self, prepare: impl FnOnce(&T)) -> io::Result<&'static T> {
        if let Some(there) = self.get() {
            return Ok(there);
        }
        let ours = Fresh::<T>::map()?;
        prepare(&ours);
        // Release: pairs with the Acquire in `get`, and with the one here, of who comes too late.
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
