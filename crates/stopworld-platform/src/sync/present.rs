//! A number that one thread changes and anybody reads, and that stands for something.

use crate::sync::{AtomicU32, Ordering, const_new};

/// The number that a thread is in at present; 0 in the beginning. What a number stands for was written before it was put here, by this
/// thread or by one from whom this thread has it; so whoever reads the number finds that, too (`.profile.tree`).
#[derive(Debug)]
#[repr(transparent)]
pub struct Present(AtomicU32);

impl Present {
    const_new! {
        /// Nothing yet.
        #[allow(dead_code, reason = "a thread's lies in its record, which is mapped; tests and models make theirs")]
        pub fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// The number, at some moment.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        // Acquire: pairs with the Release in `set`: what the number stands for is there; and so is what the thread left behind
        // before it changed its number, for a collector that charges for a thread in a blocking region.
        self.0.load(Ordering::Acquire)
    }

    /// Another number. For the thread itself.
    #[inline(always)]
    pub fn set(&self, number: u32) {
        // Release: pairs with the Acquire in `get`.
        self.0.store(number, Ordering::Release);
    }
}
