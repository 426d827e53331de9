//! Two mutators that start a collection at the same time.

use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::playground::{Playground, Stopper};
use crate::sabotage::Guard;

fn two_collectors(stopper: Stopper) {
    let world = Playground::new(stopper, 1, 2, 2);
    let spawn = |i| {
        world.mutator(i, move |world| {
            let locks = world.locks_by(i);
            world.collect(Some(i));
            drop(locks);
            world.work(i);
            world.block(i);
        })
    };
    let handles = [spawn(0), spawn(1)];
    handles.into_iter().for_each(|h| h.join().expect("loom reports what fails"));
}

#[test]
fn by_safepoints() {
    explore("two collectors, safepoints", AtMost(3), || two_collectors(Stopper::Safepoints));
}

#[test]
fn by_signals() {
    explore("two collectors, signals", AtMost(2), || two_collectors(Stopper::Signals));
}

#[test]
fn a_collector_that_waits_for_its_turn_without_blocking_is_caught() {
    must_fail_without(Guard::StopTwoCollectors, "models::two_collectors::by_safepoints", Fault::Deadlock);
}
