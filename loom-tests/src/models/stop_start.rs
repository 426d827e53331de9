//! Stop and start of one and two mutators, under either stopper.

use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::playground::{Playground, Stopper};
use crate::sabotage::Guard;

/// Runs mutators that work and then stay in a blocking region, and `cycles` collections by a thread that is not a mutator.
fn stop_start(stopper: Stopper, mutators: usize, cycles: usize) {
    let world = Playground::new(stopper, 1, mutators as u32, mutators);
    let spawn = |i| {
        world.mutator(i, move |world| {
            world.work(i);
            if stopper == Stopper::Safepoints {
                world.safepoint(i);
            }
            world.block(i);
        })
    };
    let handles: Vec<_> = (0..mutators).map(spawn).collect();
    for _ in 0..cycles {
        world.collect(None);
    }
    handles.into_iter().for_each(|h| h.join().expect("loom reports what fails"));
}

#[test]
fn one_mutator_by_signals() {
    explore("stop/start, 1 mutator, signals, 2 cycles", AtMost(3), || stop_start(Stopper::Signals, 1, 2));
}

#[test]
fn one_mutator_by_safepoints() {
    explore("stop/start, 1 mutator, safepoints, 2 cycles", AtMost(4), || stop_start(Stopper::Safepoints, 1, 2));
}

#[test]
fn two_mutators_by_signals() {
    explore("stop/start, 2 mutators, signals, 1 cycle", AtMost(2), || stop_start(Stopper::Signals, 2, 1));
}

#[test]
fn two_mutators_by_safepoints() {
    explore("stop/start, 2 mutators, safepoints, 1 cycle", AtMost(3), || stop_start(Stopper::Safepoints, 2, 1));
}

/// A thread that leaves a blocking region while the world is stopped waits there.
fn blocking(stopper: Stopper) {
    let world = Playground::new(stopper, 1, 1, 1);
    let mutator = world.mutator(0, |world| {
        world.work(0);
        world.block(0);
        world.unblock(0);
        world.work(0);
        world.block(0);
    });
    world.collect(None);
    world.collect(None);
    mutator.join().expect("loom reports what fails");
}

#[test]
fn blocking_regions_by_signals() {
    explore("blocking regions, signals, 2 cycles", AtMost(2), || blocking(Stopper::Signals));
}

#[test]
fn blocking_regions_by_safepoints() {
    explore("blocking regions, safepoints, 2 cycles", AtMost(3), || blocking(Stopper::Safepoints));
}

#[test]
fn a_thread_that_publishes_after_its_acknowledgement_is_caught() {
    must_fail_without(Guard::StopPublish, "models::stop_start::one_mutator_by_signals", Fault::Race);
}

#[test]
fn a_thread_that_takes_a_stale_permit_for_a_release_is_caught() {
    must_fail_without(Guard::StopStalePermit, "models::stop_start::one_mutator_by_signals", Fault::Race);
}

#[test]
fn a_thread_that_leaves_a_blocking_region_in_a_stop_is_caught() {
    must_fail_without(Guard::StopBlocking, "models::stop_start::blocking_regions_by_safepoints", Fault::Race);
}
