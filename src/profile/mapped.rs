//! Memory for what only grows: mapped when it is first needed, never moved, never given back.
//!
//! The stores of this folder are read from signal handlers, from the stopped world and by the recorder's drain. So they lie
//! in memory of their own, of which a page costs nothing until it is touched, and whoever finds them not mapped yet finds
//! them empty.

use std::io;

use crate::os::memory::{Reservation, page_size};
use crate::sync::{AtomicPtr, Ordering};

/// A piece of `BYTES` bytes that reads as zero where nobody has written. See the module's text.
#[derive(Debug)]
pub(super) struct Mapped<const BYTES: usize> {
    base: AtomicPtr<u8>,
}

impl<const BYTES: usize> Mapped<BYTES> {
    pub(super) const fn new() -> Self {
        Self { base: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The memory, if somebody has mapped it.
    #[inline(always)]
    pub(super) fn base(&self) -> Option<*mut u8> {
        // Acquire: pairs with the Release in `map`: what was prepared is seen.
        let base = self.base.load(Ordering::Acquire);
        (!base.is_null()).then_some(base)
    }

    /// The memory, mapped now if it was not. `prepare` writes what stands in it from the beginning; who maps it at the same time
    /// as another takes the other's.
    pub(super) fn map(&self, prepare: impl FnOnce(*mut u8)) -> io::Result<*mut u8> {
        if let Some(base) = self.base() {
            return Ok(base);
        }
        let memory = Reservation::new(BYTES, page_size())?;
        memory.commit(0, memory.len())?;
        prepare(memory.base());
        // Release: pairs with the Acquire in `base`, and with the one here, of who comes too late.
        match self.base.compare_exchange(std::ptr::null_mut(), memory.base(), Ordering::Release, Ordering::Acquire) {
            Ok(_) => {
                let base = memory.base();
                // The process owns it from now on.
                std::mem::forget(memory);
                Ok(base)
            }
            Err(others) => Ok(others),
        }
    }
}
