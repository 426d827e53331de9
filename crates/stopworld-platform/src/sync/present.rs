//! A number that one thread changes and any thread reads, and that refers to published data.

use crate::sync::{AtomicU32, Ordering, const_new};

/// A thread's current number; 0 initially. The data that a number refers to were written before it was stored here, by this
/// thread or by one from which this thread has the number. So a thread that reads the number finds the data too
/// (`.profile.tree`).
#[derive(Debug)]
#[repr(transparent)]
pub struct Present(AtomicU32);

impl Present {
    const_new! {
        /// No number yet.
        #[allow(dead_code, reason = "a thread's is in its mapped record; only tests and models make one")]
        pub fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// The number at some moment.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        // Acquire: pairs with the Release in `set`: the data that the number refers to are visible. So is what the thread did
        // before it changed its number, for a collector that charges for a thread in a blocking region.
        self.0.load(Ordering::Acquire)
    }

    /// Changes the number. For the thread itself only.
    #[inline(always)]
    pub fn set(&self, number: u32) {
        // Release: pairs with the Acquire in `get`.
        self.0.store(number, Ordering::Release);
    }
}
