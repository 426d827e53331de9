//! Stop and start of one and two mutators, under either stopper.

use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::playground::{Playground, Stopper};
use crate::sabotage::Guard;

/// Mutators that work and then stay in a blocking region; `cycles` collections by a thread that is no mutator.
fn stop_start(stopper: Stopper, mutators: u32, cycles: usize) {
    let world = Playground::new(stopper, 1, mutators, mutators as usize);
    let handles: Vec<_> = (0..mutators as usize)
        .map(|i| {
            world.mutator(i, move |world| {
                world.work(i);
                world.safepoint(i);
                world.work(i);
                world.block(i);
            })
        })
        .collect();
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
    explore("stop/start, 1 mutator, safepoints, 2 cycles", AtMost(3), || stop_start(Stopper::Safepoints, 1, 2));
}

#[test]
fn two_mutators_by_signals() {
    explore("stop/start, 2 mutators, signals, 1 cycle", AtMost(2), || stop_start(Stopper::Signals, 2, 1));
}

#[test]
fn two_mutators_by_safepoints() {
    explore("stop/start, 2 mutators, safepoints, 1 cycle", AtMost(2), || stop_start(Stopper::Safepoints, 2, 1));
}

#[test]
fn a_thread_that_publishes_after_its_acknowledgement_is_caught() {
    must_fail_without(Guard::StopPublish, "models::stop_start::one_mutator_by_signals", Fault::Race);
}

#[test]
fn a_thread_that_takes_a_stale_permit_for_a_release_is_caught() {
    must_fail_without(Guard::StopStalePermit, "models::stop_start::one_mutator_by_signals", Fault::Race);
}
