//! Threads that attach and exit while a stop is under way.

use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::playground::{Playground, Stopper};
use crate::sabotage::Guard;
use crate::sync::LockGuard;
use crate::world::handshake::Holder;

fn attach(world: &Playground, i: usize) {
    let enlist = |_: &mut LockGuard<'_>| {
        world.threads[i].state.attach();
        world.list(i, true);
    };
    world.locks.thread_created(enlist, |()| {});
}

pub(super) fn exit(world: &Playground, i: usize) {
    let state = &world.threads[i].state;
    let delist = |_: &mut LockGuard<'_>| {
        state.detach(&world.handshake);
        world.list(i, false);
    };
    while world.locks.thread_exited(|| state.is_held_by(Holder::User), || {}, delist).is_none() {
        world.unblock(i);
        world.block(i);
    }
}

fn collect_with_locks(world: &Playground) {
    let locks = world.locks_by_stranger();
    world.collect(None);
    drop(locks);
}

/// Stops the world for a user. Such a stop takes only the thread list lock.
fn user_stop_with_the_list_lock(world: &Playground) {
    let list = world.locks.list.lock();
    world.stop(Holder::User, None);
    world.mark(None);
    world.start(Holder::User, None);
    drop(list);
}

fn attach_racing(stopper: Stopper, stop: fn(&Playground)) {
    let world = Playground::new(stopper, 1, 1, 0);
    let mutator = world.mutator(0, |world| {
        attach(world, 0);
        world.work(0);
        world.safepoint(0);
        world.block(0);
    });
    stop(&world);
    mutator.join().expect("loom reports what fails");
}

#[test]
fn attach_racing_a_collection() {
    explore("attach racing a collection, signals", AtMost(4), || attach_racing(Stopper::Signals, collect_with_locks));
}

#[test]
fn attach_racing_a_users_stop() {
    explore("attach racing a user's stop, safepoints", AtMost(5), || {
        attach_racing(Stopper::Safepoints, user_stop_with_the_list_lock);
    });
}

#[test]
fn an_attach_without_the_list_lock_is_caught() {
    must_fail_without(Guard::StopCreateRace, "models::coming_and_going::attach_racing_a_users_stop", Fault::Race);
}

/// A thread that is stopped by signals can be interrupted while it waits for the locks; a cooperative thread counts as blocking there.
fn exit_racing(stopper: Stopper, cycles: usize) {
    let world = Playground::new(stopper, 1, 1, 1);
    let mutator = world.mutator(0, move |world| {
        world.work(0);
        if stopper == Stopper::Safepoints {
            world.block(0);
        }
        exit(world, 0);
    });
    for _ in 0..cycles {
        collect_with_locks(&world);
    }
    mutator.join().expect("loom reports what fails");
}

#[test]
fn exit_racing_a_collection_by_signals() {
    explore("exit racing a collection, signals", AtMost(4), || exit_racing(Stopper::Signals, 1));
}

#[test]
fn exit_racing_collections_by_safepoints() {
    explore("exit racing 2 collections, safepoints", AtMost(4), || exit_racing(Stopper::Safepoints, 2));
}

/// Even without a lock, an exit acknowledges the stop that waits for the thread.
#[test]
fn exit_without_a_lock_answers() {
    explore("exit without a lock, racing 2 stops", AtMost(3), || {
        let world = Playground::new(Stopper::Signals, 1, 1, 1);
        let mutator = world.mutator(0, |world| {
            world.work(0);
            world.threads[0].state.detach(&world.handshake);
        });
        for _ in 0..2 {
            world.stop(Holder::Collection, None);
            world.threads[0].heap.with_mut(|heap| {
                // SAFETY: loom reports every concurrent access.
                unsafe { *heap += 100 };
            });
            world.start(Holder::Collection, None);
        }
        mutator.join().expect("loom reports what fails");
    });
}

#[test]
fn an_exit_that_does_not_answer_is_caught() {
    must_fail_without(Guard::StopExitRace, "models::coming_and_going::exit_without_a_lock_answers", Fault::Deadlock);
}
