//! Twelve mutators, two collectors, and a user who stops the world: the handshake, the locks, both stoppers.

use shuttle::rand::{Rng, thread_rng};

use crate::check::explore;
use crate::known_bad::{Fault, must_fail_without};
use crate::playground::{Playground, Stopper};
use crate::sabotage::Guard;
use crate::world::handshake::Holder;

const MUTATORS: u32 = 12;
const ROUNDS: usize = 6;
const COLLECTIONS: usize = 4;

/// Mutator `i`: acts at random.
fn mutate(world: &Playground, i: usize, stopper: Stopper) {
    for _ in 0..ROUNDS {
        match thread_rng().gen_range(0..4) {
            0 => {
                world.block(i);
                world.unblock(i);
            }
            1 if stopper == Stopper::Safepoints => world.safepoint(i),
            1 => {
                let locks = world.locks_by(i);
                world.collect(Some(i));
                drop(locks);
            }
            _ => world.work(i),
        }
    }
    world.block(i);
}

fn collections_and_a_user(stopper: Stopper) {
    let world = Playground::new(stopper, 2, MUTATORS, MUTATORS as usize);
    let mutators: Vec<_> =
        (0..MUTATORS as usize).map(|i| world.mutator(i, move |world| mutate(world, i, stopper))).collect();
    let user = world.other(2, |world| {
        for _ in 0..COLLECTIONS {
            world.stop(Holder::User, None);
            let before: Vec<_> = (0..MUTATORS as usize).map(|i| world.look(i)).collect();
            let after: Vec<_> = (0..MUTATORS as usize).map(|i| world.look(i)).collect();
            assert_eq!(before, after, "a frozen thread ran");
            world.start(Holder::User, None);
        }
    });
    for _ in 0..COLLECTIONS {
        let locks = world.locks_by_stranger();
        world.collect(None);
        drop(locks);
    }
    user.join().expect("shuttle reports what fails");
    mutators.into_iter().for_each(|mutator| mutator.join().expect("shuttle reports what fails"));
    assert!(world.threads.iter().all(|thread| !thread.state.is_held()), "a thread is left stopped");
}

#[test]
fn many_threads_by_signals() {
    explore("12 mutators, signals", 2_000, 5, || collections_and_a_user(Stopper::Signals));
}

#[test]
fn many_threads_by_safepoints() {
    explore("12 mutators, safepoints", 2_000, 5, || collections_and_a_user(Stopper::Safepoints));
}

#[test]
fn a_collection_that_undoes_a_freeze_is_caught() {
    must_fail_without(Guard::VtableNested, "handshake::many_threads_by_signals", Fault::RanInScan);
}

#[test]
fn a_stale_permit_is_caught() {
    let claim = Fault::Claim("a stopped thread has published nothing");
    must_fail_without(Guard::StopStalePermit, "handshake::many_threads_by_signals", claim);
}
