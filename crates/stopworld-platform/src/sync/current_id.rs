//! A number that one thread changes and any thread reads, and that refers to published data.

use crate::sync::{AtomicU32, Ordering, const_new};

/// A thread's current number; 0 initially. The data that a number refers to were written before the number was stored here, by this
/// thread or by the thread from which it got the number. So a thread that reads the number sees the data too (`.profile.tree`).
#[derive(Debug)]
#[repr(transparent)]
pub struct CurrentId(AtomicU32);

impl CurrentId {
    const_new! {
        /// Creates the number 0.
        #[allow(dead_code, reason = "a thread's is in its mapped record; only tests and models make one")]
        pub fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Returns the present number; the thread may change it at any time.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        // Acquire: pairs with the Release in `set`: the data that the number refers to are visible. So is what the thread did
        // before it changed its number, for a collector that charges for a thread in a blocking region.
        self.0.load(Ordering::Acquire)
    }

    /// Changes the number. Only the thread to which the number belongs calls this.
    #[inline(always)]
    pub fn set(&self, number: u32) {
        // Release: pairs with the Acquire in `get`.
        self.0.store(number, Ordering::Release);
    }
}
