//! A user's freeze and a collection, in any order and overlap: each undoes what it did and nothing else.

use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::playground::{Playground, Stopper};
use crate::sabotage::Guard;
use crate::world::handshake::{Holder, Place};

/// The freeze and the collection share no lock here: the protocol alone keeps them apart.
fn freeze_and_collect(stopper: Stopper) {
    let world = Playground::new(stopper, 2, 1, 1);
    let mutator = world.mutator(0, |world| {
        world.work(0);
        world.safepoint(0);
        world.work(0);
        world.block(0);
    });
    let user = world.other(2, |world| {
        world.stop(Holder::User, None);
        let before = world.look(0);
        let state = &world.threads[0].state;
        assert!(state.is_held_by(Holder::User), "a collection undid a freeze");
        assert_ne!(state.place(), Place::Running, "a frozen thread runs");
        assert_eq!(world.look(0), before, "a frozen thread ran");
        world.start(Holder::User, None);
        assert!(!state.is_held_by(Holder::User));
    });
    world.collect(None);
    assert!(!world.threads[0].state.is_held_by(Holder::Collection));
    user.join().expect("loom reports what fails");
    mutator.join().expect("loom reports what fails");
    let state = &world.threads[0].state;
    assert!(!state.is_held() && state.place() == Place::Blocking, "what was there before is there again");
}

#[test]
fn a_freeze_and_a_collection_by_signals() {
    explore("freeze + collection, signals", AtMost(1), || freeze_and_collect(Stopper::Signals));
}

#[test]
fn a_freeze_and_a_collection_by_safepoints() {
    explore("freeze + collection, safepoints", AtMost(2), || freeze_and_collect(Stopper::Safepoints));
}

/// A freeze that is older than the collection and outlives it.
#[test]
fn a_frozen_thread_stays_frozen_after_a_collection() {
    explore("collection inside a freeze, signals", AtMost(3), || {
        let world = Playground::new(Stopper::Signals, 1, 1, 1);
        let mutator = world.mutator(0, |world| {
            world.work(0);
            world.work(0);
            world.block(0);
        });
        world.stop(Holder::User, None);
        let before = world.look(0);
        world.collect(None);
        let state = &world.threads[0].state;
        assert!(state.is_held_by(Holder::User) && !state.is_held_by(Holder::Collection));
        assert_eq!(world.look(0), before, "a frozen thread ran");
        world.start(Holder::User, None);
        mutator.join().expect("loom reports what fails");
    });
}

/// A user suspends a thread that is about to collect, under the list lock as the shipped code does; somebody else must be able
/// to collect before he lets it go.
fn suspend_a_waiter(stopper: Stopper) {
    let world = Playground::new(stopper, 1, 1, 1);
    let mutator = world.mutator(0, |world| {
        let locks = world.locks_by(0);
        world.work(0);
        drop(locks);
        world.block(0);
    });
    {
        let _list = world.locks.list.lock();
        world.stop(Holder::User, None);
    }
    let locks = world.locks_by_stranger();
    world.collect(None);
    drop(locks);
    world.start(Holder::User, None);
    mutator.join().expect("loom reports what fails");
}

#[test]
fn a_waiter_for_the_locks_that_a_user_suspends_by_safepoints() {
    explore("suspended waiter, safepoints", AtMost(3), || suspend_a_waiter(Stopper::Safepoints));
}

#[test]
fn a_waiter_that_stands_with_the_locks_is_caught() {
    must_fail_without(
        Guard::DebugFrozenWaiter,
        "models::nested::a_waiter_for_the_locks_that_a_user_suspends_by_safepoints",
        Fault::Deadlock,
    );
}

#[test]
fn a_collection_that_thaws_a_frozen_thread_is_caught() {
    must_fail_without(
        Guard::VtableNested,
        "models::nested::a_frozen_thread_stays_frozen_after_a_collection",
        Fault::Claim("state.is_held_by(Holder::User)"),
    );
    must_fail_without(
        Guard::VtableNested,
        "models::nested::a_freeze_and_a_collection_by_safepoints",
        Fault::Claim("a collection undid a freeze"),
    );
}
