//! A user's freeze and a collection, in any order and with any overlap: the end of each undoes only its own effect.

use super::coming_and_going::exit;
use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::playground::{Playground, Stopper};
use crate::sabotage::Guard;
use crate::world::handshake::{HandshakeState, Holder};

/// The freeze and the collection share no lock here: only the protocol keeps them from undoing each other.
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
        assert_ne!(state.handshake_state(), HandshakeState::Running, "a frozen thread runs");
        assert_eq!(world.look(0), before, "a frozen thread ran");
        world.start(Holder::User, None);
        assert!(!state.is_held_by(Holder::User));
    });
    world.collect(None);
    assert!(!world.threads[0].state.is_held_by(Holder::Collection));
    user.join().expect("loom reports what fails");
    mutator.join().expect("loom reports what fails");
    let state = &world.threads[0].state;
    assert!(
        !state.is_held() && state.handshake_state() == HandshakeState::Blocking,
        "the state before the stops was not restored"
    );
}

#[test]
fn a_freeze_and_a_collection_by_signals() {
    explore("freeze + collection, signals", AtMost(1), || freeze_and_collect(Stopper::Signals));
}

#[test]
fn a_freeze_and_a_collection_by_safepoints() {
    explore("freeze + collection, safepoints", AtMost(2), || freeze_and_collect(Stopper::Safepoints));
}

/// A freeze that begins before the collection and ends after it.
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

/// A user suspends a thread that is about to take the locks of `what`. Another thread must be able to collect before the user resumes it.
fn suspend_a_waiter(what: fn(&Playground)) {
    let world = Playground::new(Stopper::Safepoints, 1, 1, 1);
    let mutator = world.mutator(0, move |world| {
        what(world);
        world.block(0);
    });
    world.stop(Holder::User, None);
    let locks = world.locks_by_stranger();
    world.collect(None);
    drop(locks);
    world.start(Holder::User, None);
    mutator.join().expect("loom reports what fails");
}

fn all_locks(world: &Playground) {
    let locks = world.locks_by(0);
    world.work(0);
    drop(locks);
}

fn the_allocation_lock(world: &Playground) {
    let lock = world.blocking_until(0, || world.locks.allocation.lock());
    world.work(0);
    drop(lock);
}

#[test]
fn a_waiter_for_all_locks_that_a_user_suspends() {
    explore("suspended waiter for all locks", AtMost(3), || suspend_a_waiter(all_locks));
}

#[test]
fn a_waiter_for_one_lock_that_a_user_suspends() {
    explore("suspended waiter for one lock", AtMost(4), || suspend_a_waiter(the_allocation_lock));
}

/// A user suspends a thread that is about to detach. As in the shipped code, the user's stop holds the list lock.
#[test]
fn a_thread_that_detaches_when_a_user_suspends_it() {
    explore("suspended in its detach", AtMost(3), || {
        let world = Playground::new(Stopper::Safepoints, 1, 1, 1);
        let mutator = world.mutator(0, |world| {
            world.block(0);
            exit(world, 0);
        });
        {
            let _list = world.locks.list.lock();
            world.stop(Holder::User, None);
        }
        let locks = world.locks_by_stranger();
        world.collect(None);
        drop(locks);
        {
            let _list = world.locks.list.lock();
            world.start(Holder::User, None);
        }
        mutator.join().expect("loom reports what fails");
    });
}

#[test]
fn a_waiter_that_parks_while_it_holds_the_locks_is_caught() {
    for model in ["a_waiter_for_all_locks_that_a_user_suspends", "a_waiter_for_one_lock_that_a_user_suspends"] {
        must_fail_without(Guard::DebugFrozenWaiter, &format!("models::nested::{model}"), Fault::Deadlock);
    }
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
