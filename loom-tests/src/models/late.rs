//! A stop that timed out: late acknowledgements do not count, the world continues, and the next stop succeeds.

use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::playground::{Playground, Stopper};
use crate::sabotage::Guard;
use crate::world::handshake::Holder;

fn abandoned_then_collected(stopper: Stopper, mutators: usize) {
    let world = Playground::new(stopper, 1, mutators as u32, mutators);
    let spawn = |i| {
        world.mutator(i, move |world| {
            if i == 0 {
                world.safepoint(i);
            }
            world.work(i);
            world.block(i);
        })
    };
    let handles: Vec<_> = (0..mutators).map(spawn).collect();
    world.request_stop(Holder::Collection, None);
    if world.give_up(Holder::Collection) {
        // The stop has timed out, but all threads have acknowledged in the meantime: they are stopped, and their data is published.
        world.mark(None);
        world.start(Holder::Collection, None);
    }
    world.collect(None);
    handles.into_iter().for_each(|h| h.join().expect("loom reports what fails"));
}

#[test]
fn an_abandoned_stop_then_a_collection_by_safepoints() {
    explore("abandoned stop, then a collection, 2 mutators, safepoints", AtMost(2), || {
        abandoned_then_collected(Stopper::Safepoints, 2);
    });
}

#[test]
fn an_abandoned_stop_then_a_collection_by_signals() {
    explore("abandoned stop, then a collection, 1 mutator, signals", AtMost(3), || {
        abandoned_then_collected(Stopper::Signals, 1);
    });
}

#[test]
fn an_acknowledgement_that_counts_for_the_next_stop_is_caught() {
    must_fail_without(
        Guard::StopLate,
        "models::late::an_abandoned_stop_then_a_collection_by_safepoints",
        Fault::Claim("a stopped thread has published nothing"),
    );
}
