//! The shipped protocol of who writes which block of a file, and its models.

#[path = "../../src/formats/mps/relay.rs"]
#[allow(dead_code, reason = "the models do not use everything that the library does")]
mod relay;

use std::sync::Arc;

use self::relay::{Fate, Filling, Relay};
use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::kernel::Kernel;
use crate::sabotage::Guard;
use crate::sync::{AtomicU64, Ordering, UnsafeCell};

const PLACES: u64 = 2;
const BLOCKS: u64 = 4;

struct Written {
    relay: Relay<PLACES>,
    /// Where in the file the block in each place belongs.
    places: [UnsafeCell<u64>; PLACES as usize],
    /// A bit for each block of the file. (What the kernel's own lock orders is not to be relied upon: relaxed.)
    file: AtomicU64,
}

// SAFETY: what is not Sync is in loom cells, whose unordered accesses are what the models look for.
unsafe impl Sync for Written {}
// SAFETY: as above.
unsafe impl Send for Written {}

impl Written {
    fn write(&self, block: u64) {
        let place = &self.places[(block % PLACES) as usize];
        // SAFETY: loom checks that nobody writes to it.
        let at = place.with(|at| unsafe { *at });
        let before = self.file.fetch_or(1 << at, Ordering::Relaxed);
        assert_eq!(before & ((1 << at) - 1), (1 << at) - 1, "a gap in the file");
        // SAFETY: as above: the bytes are read until the end.
        assert_eq!(place.with(|at| unsafe { *at }), at);
    }

    fn take_over(&self, filling: &mut Filling) {
        for block in self.relay.take_over(filling) {
            self.write(block);
        }
    }
}

/// The carrier stands still wherever loom wants it to; now and then it can't write a block.
fn every_block_is_written(what_becomes_of: impl Fn(u64) -> Fate + Send + Sync + Copy + 'static) {
    let kernel = Kernel::boot(2);
    let written = Arc::new(Written {
        relay: Relay::new(),
        places: std::array::from_fn(|_| UnsafeCell::new(0)),
        file: AtomicU64::new(0),
    });
    let same = Arc::clone(&written);
    let carrier = kernel.spawn(2, move || {
        for _ in 0..2 {
            if let Some(block) = same.relay.claim() {
                let fate = what_becomes_of(block);
                if fate == Fate::Written {
                    same.write(block);
                }
                same.relay.finish(fate);
            }
        }
    });
    let mut filling = Filling::default();
    for at in 0..BLOCKS {
        let place = &written.places[(filling.block % PLACES) as usize];
        // SAFETY: loom checks that nobody reads it.
        place.with_mut(|place| unsafe { *place = at });
        if !written.relay.hand_over(&mut filling) {
            written.take_over(&mut filling);
            if !written.relay.hand_over(&mut filling) {
                written.write(filling.block);
            }
        }
    }
    written.take_over(&mut filling);
    assert_eq!(written.file.load(Ordering::Relaxed), (1 << BLOCKS) - 1, "flushed, and not all of it is there");
    carrier.join().expect("loom reports what fails");
}

#[test]
fn a_block_is_written_after_those_before_it_and_before_its_place_is_used_again() {
    explore("relay, 4 blocks in 2 places", AtMost(4), || every_block_is_written(|_| Fate::Written));
}

#[test]
fn a_block_that_could_not_be_written_is_the_drains() {
    explore("relay, the first block fails", AtMost(4), || {
        every_block_is_written(|block| if block == 0 { Fate::Failed } else { Fate::Written });
    });
}

const MODEL: &str = "files::a_block_is_written_after_those_before_it_and_before_its_place_is_used_again";

#[test]
fn to_leave_a_block_to_somebody_who_is_busy_with_it_is_caught() {
    must_fail_without(Guard::EventBehind, MODEL, Fault::Claim("flushed, and not all of it is there"));
}

#[test]
fn to_fill_a_place_that_is_in_use_is_caught() {
    must_fail_without(Guard::EventPlace, MODEL, Fault::Claim("a gap in the file"));
}
