//! The shipped protocol by which the drain and the I/O thread (the I/O thread) share the blocks of a file, and its models.

#[path = "../../crates/stopworld-trace/src/mps/hand_off.rs"]
#[allow(dead_code, reason = "the models do not use everything that the library does")]
mod hand_off;

use std::sync::Arc;

use self::hand_off::{Filling, HandOff, WriteOutcome};
use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::kernel::Kernel;
use crate::sabotage::Guard;
use crate::sync::{AtomicU64, Ordering, UnsafeCell};

const SLOTS: u64 = 2;
const BLOCKS: u64 = 4;

struct Written {
    hand_off: HandOff<SLOTS>,
    /// For each place (a buffer), the position in the file of the block that the place holds.
    slots: [UnsafeCell<u64>; SLOTS as usize],
    /// A bit for each block in the file. (Relaxed: the protocol must not rely on the ordering of the kernel's file lock.)
    file: AtomicU64,
}

// SAFETY: all data that is not Sync is in loom cells, and loom reports unordered accesses to them.
unsafe impl Sync for Written {}
// SAFETY: as above.
unsafe impl Send for Written {}

impl Written {
    fn write(&self, block: u64) {
        let slot = &self.slots[(block % SLOTS) as usize];
        // SAFETY: loom reports every concurrent write.
        let at = slot.with(|at| unsafe { *at });
        let before = self.file.fetch_or(1 << at, Ordering::Relaxed);
        assert_eq!(before & ((1 << at) - 1), (1 << at) - 1, "a gap in the file");
        // SAFETY: as above. The second read shows that the place stays unchanged during the whole write.
        assert_eq!(slot.with(|at| unsafe { *at }), at);
    }

    fn take_over(&self, filling: &mut Filling) {
        for block in self.hand_off.take_over(filling) {
            self.write(block);
        }
    }
}

/// Writes all blocks with an I/O thread that loom may delay at any step. `what_becomes_of` decides which blocks it fails to write.
fn every_block_is_written(what_becomes_of: impl Fn(u64) -> WriteOutcome + Send + Sync + Copy + 'static) {
    let kernel = Kernel::boot(2);
    let written = Arc::new(Written {
        hand_off: HandOff::new(),
        slots: std::array::from_fn(|_| UnsafeCell::new(0)),
        file: AtomicU64::new(0),
    });
    let same = Arc::clone(&written);
    let io_thread = kernel.spawn(2, move || {
        for _ in 0..2 {
            if let Some(block) = same.hand_off.claim() {
                let fate = what_becomes_of(block);
                if fate == WriteOutcome::Written {
                    same.write(block);
                }
                same.hand_off.finish(fate);
            }
        }
    });
    let mut filling = Filling::default();
    for at in 0..BLOCKS {
        let slot = &written.slots[(filling.block % SLOTS) as usize];
        // SAFETY: loom reports every concurrent read.
        slot.with_mut(|slot| unsafe { *slot = at });
        if !written.hand_off.hand_over(&mut filling) {
            written.take_over(&mut filling);
            if !written.hand_off.hand_over(&mut filling) {
                written.write(filling.block);
            }
        }
    }
    written.take_over(&mut filling);
    assert_eq!(written.file.load(Ordering::Relaxed), (1 << BLOCKS) - 1, "not all blocks are written after a flush");
    io_thread.join().expect("loom reports what fails");
}

#[test]
fn a_block_is_written_after_those_before_it_and_before_its_place_is_used_again() {
    explore("relay, 4 blocks in 2 places", AtMost(4), || every_block_is_written(|_| WriteOutcome::Written));
}

#[test]
fn a_block_that_the_io_thread_could_not_write_is_written_by_the_drain() {
    explore("relay, the first block fails", AtMost(4), || {
        every_block_is_written(|block| if block == 0 { WriteOutcome::Failed } else { WriteOutcome::Written });
    });
}

const MODEL: &str = "files::a_block_is_written_after_those_before_it_and_before_its_place_is_used_again";

#[test]
fn leaving_a_block_to_a_busy_io_thread_is_caught() {
    must_fail_without(Guard::EventAsyncFile, MODEL, Fault::Claim("not all blocks are written after a flush"));
}

#[test]
fn filling_a_place_that_is_in_use_is_caught() {
    must_fail_without(Guard::EventSlot, MODEL, Fault::Claim("a gap in the file"));
}
