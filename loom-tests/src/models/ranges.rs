//! Numbers that a collecting thread and its helpers visit in a phase.

use std::sync::Arc;

use crate::check::Preemptions::{AtMost, Unbounded};
use crate::check::{Fault, explore, must_fail_without};
use crate::collector::helpers::{Helpers, LastPhase};
use crate::collector::ranges::Ranges;
use crate::kernel::Kernel;
use crate::sabotage::Guard;
use crate::sync::UnsafeCell;

/// What a collecting thread and its helpers share.
struct World {
    helpers: Helpers,
    ranges: Ranges,
    /// How often each number was visited.
    visits: Vec<UnsafeCell<u32>>,
}

// SAFETY: all data that is not Sync is in loom cells, and loom reports unordered accesses to them.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn visit(&self) {
        self.ranges.visit(|numbers| {
            for visits in &self.visits[numbers] {
                // SAFETY: loom reports every concurrent access.
                visits.with_mut(|visits| unsafe { *visits += 1 });
            }
        });
    }

    fn help(&self) {
        let mut last = LastPhase::NONE;
        while let Some(phase) = self.helpers.next_phase(last) {
            last = phase;
            self.visit();
            self.helpers.finish();
        }
    }

    /// Runs a phase over all numbers, which the collecting thread may leave before it has visited any. Checks how often each number was visited.
    fn run(&self, helpers: u32, leaves: bool, before: u32) {
        self.ranges.start(0..self.visits.len(), 2);
        self.helpers.begin(helpers);
        if !leaves {
            self.visit();
        }
        let taken = self.ranges.stop();
        self.helpers.wait();
        assert!(leaves || taken == self.visits.len(), "a number is left");
        for (number, visits) in self.visits.iter().enumerate() {
            // SAFETY: as above.
            let visits = visits.with(|visits| unsafe { *visits }) - before;
            assert!(visits <= 1, "a number was visited twice");
            assert_eq!(visits == 1, number < taken, "a range that was taken was not visited");
        }
    }
}

/// Phases, each of which the collecting thread leaves early or not.
fn phases(helpers: u32, numbers: usize, leaves: &[bool]) {
    let kernel = Kernel::boot(helpers + 1);
    let visits = (0..numbers).map(|_| UnsafeCell::new(0)).collect();
    let world = Arc::new(World { helpers: Helpers::new(), ranges: Ranges::new(), visits });
    let spawn = |number: u32| {
        let world = Arc::clone(&world);
        kernel.spawn(number + 2, move || world.help())
    };
    let threads: Vec<_> = (0..helpers).map(spawn).collect();
    for (phase, &leaves) in leaves.iter().enumerate() {
        world.run(helpers, leaves, phase as u32);
    }
    world.helpers.close();
    threads.into_iter().for_each(|thread| thread.join().expect("loom reports what fails"));
}

#[test]
fn each_number_is_visited_once() {
    explore("ranges, one helper", AtMost(4), || phases(1, 3, &[false, false]));
}

#[test]
fn each_number_is_visited_once_by_two_helpers() {
    explore("ranges, two helpers", AtMost(2), || phases(2, 3, &[false, false]));
}

/// loom tries a change of `end` only against the last load of it. Here that is the helper's, as the collecting thread takes no ranges.
#[test]
fn a_range_that_was_taken_is_visited_also_if_the_collecting_thread_stops() {
    explore("ranges, stopped", Unbounded, || phases(1, 3, &[true]));
}

#[test]
fn a_range_that_is_given_up_after_it_was_taken_is_caught() {
    must_fail_without(
        Guard::MarkRanges,
        "models::ranges::a_range_that_was_taken_is_visited_also_if_the_collecting_thread_stops",
        Fault::Claim("a range that was taken was not visited"),
    );
}
