//! The phases of the collecting thread's helpers.

use std::sync::Arc;

use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::collector::helpers::{Helpers, LastPhase};
use crate::kernel::Kernel;
use crate::sabotage::Guard;
use crate::sync::UnsafeCell;

/// What a collecting thread and its helpers share.
struct World {
    helpers: Helpers,
    /// Whether each helper has started.
    started: Vec<UnsafeCell<bool>>,
    /// The work of the phase: a number to add. Written by the collecting thread between phases.
    work: UnsafeCell<u32>,
    /// The sum of each helper, written by the helper in a phase.
    sums: Vec<UnsafeCell<u32>>,
}

// SAFETY: all data that is not Sync is in loom cells, and loom reports unordered accesses to them.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn help(&self, index: usize) {
        // SAFETY: loom reports every concurrent access.
        self.started[index].with_mut(|started| unsafe { *started = true });
        self.helpers.start();
        let mut last = LastPhase::NONE;
        while let Some(phase) = self.helpers.next_phase(last) {
            last = phase;
            // SAFETY: loom reports every concurrent write.
            let work = self.work.with(|work| unsafe { *work });
            // SAFETY: as above.
            self.sums[index].with_mut(|sum| unsafe { *sum += work });
            self.helpers.finish();
        }
    }

    /// Runs a phase with this work, and checks that each helper has done it.
    fn run(&self, work: u32, expected: u32) {
        // SAFETY: as above.
        self.work.with_mut(|place| unsafe { *place = work });
        for started in &self.started {
            // SAFETY: as above.
            assert!(started.with(|started| unsafe { *started }), "a phase begins before a helper has started");
        }
        self.helpers.begin(self.sums.len() as u32);
        self.helpers.wait();
        for sum in &self.sums {
            // SAFETY: as above.
            assert_eq!(sum.with(|sum| unsafe { *sum }), expected, "a helper has not done the work of the phase once");
        }
    }
}

/// Two phases, and the end.
fn phases(helpers: u32) {
    let kernel = Kernel::boot(helpers + 1);
    let sums = (0..helpers).map(|_| UnsafeCell::new(0)).collect();
    let started = (0..helpers).map(|_| UnsafeCell::new(false)).collect();
    let world = Arc::new(World { helpers: Helpers::new(), started, work: UnsafeCell::new(0), sums });
    let spawn = |index: u32| {
        let world = Arc::clone(&world);
        kernel.spawn(index + 2, move || world.help(index as usize))
    };
    let threads: Vec<_> = (0..helpers).map(spawn).collect();
    world.helpers.wait_for_start(helpers);
    assert!(world.helpers.have_started(helpers), "no time limit ends here");
    world.run(1, 1);
    world.run(2, 3);
    world.helpers.close();
    threads.into_iter().for_each(|thread| thread.join().expect("loom reports what fails"));
}

#[test]
fn one_helper_does_the_work_of_each_phase() {
    explore("helpers, one", AtMost(4), || phases(1));
}

#[test]
fn two_helpers_do_the_work_of_each_phase() {
    explore("helpers, two", AtMost(2), || phases(2));
}

#[test]
fn a_collecting_thread_that_does_not_wait_is_caught() {
    must_fail_without(
        Guard::MarkHelpers,
        "models::helpers::one_helper_does_the_work_of_each_phase",
        Fault::Claim("a helper has not done the work of the phase once"),
    );
}

#[test]
fn a_phase_that_does_not_wait_for_the_start_is_caught() {
    must_fail_without(
        Guard::MarkStart,
        "models::helpers::one_helper_does_the_work_of_each_phase",
        Fault::Claim("a phase begins before a helper has started"),
    );
}
