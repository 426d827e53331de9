//! The shipped ring buffer between the drain and a diagnostics session, and its model.

#[path = "../../crates/stopworld-diagnostics/src/ring.rs"]
mod ring;

use std::mem::MaybeUninit;
use std::sync::Arc;

use self::ring::Ring;
use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::kernel::Kernel;
use crate::sabotage::Guard;
use crate::sync::{AtomicU32, Ordering, UnsafeCell};

/// `.live.ring`: the reader may find the ring empty between two values; then the ring starts again at its first slot.
#[test]
fn what_is_taken_is_whole_and_in_order() {
    explore("ring, 4 values through 2 slots", AtMost(4), || {
        let kernel = Kernel::boot(2);
        let slots = (0..2).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        let ring: Arc<Ring<u32>> = Arc::new(Ring::over(slots));
        let next = Arc::new(AtomicU32::new(1));
        let (same, expected) = (Arc::clone(&ring), Arc::clone(&next));
        let take = move || {
            // SAFETY: only one thread at a time takes values: first the spawned thread, and after its end this thread.
            let Some(value) = (unsafe { same.take() }) else { return };
            assert_eq!(value, expected.load(Ordering::Relaxed), "out of order");
            expected.store(value + 1, Ordering::Relaxed);
        };
        let taking = take.clone();
        let reading = kernel.spawn(2, move || (0..3).for_each(|_| taking()));
        let mut put = 0;
        for _ in 0..4 {
            if ring.room() > 0 {
                put += 1;
                // SAFETY: there is room, and this thread is the only writer.
                unsafe { ring.put(put) };
            }
        }
        reading.join().expect("loom reports what fails");
        (0..4).for_each(|_| take());
        assert_eq!(next.load(Ordering::Relaxed), put + 1, "a value is missing");
    });
}

#[test]
fn a_value_that_is_published_without_a_release_is_caught() {
    must_fail_without(Guard::LiveRing, "diagnostics::what_is_taken_is_whole_and_in_order", Fault::Race);
}
