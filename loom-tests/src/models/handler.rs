//! A handler that interrupts its own thread at every step of every protocol.
//!
//! loom's threads interrupt each other. A signal handler, however, interrupts its own thread and runs to its end (parking in
//! the middle) before the interrupted step continues. The shipped files call `interrupt_point` after each step,
//! and the simulated kernel delivers pending signals there.

use std::path::Path;
use std::sync::Arc;

use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::kernel;
use crate::playground::{Playground, Stopper};
use crate::sabotage::Guard;
use crate::sync::{Lock, Semaphore};

/// Runs a mutator that executes `steps` and then stays in a blocking region, during `cycles` collections by signals.
fn interrupted(cycles: usize, steps: fn(&Playground)) {
    let world = Playground::new(Stopper::Signals, 1, 1, 1);
    let mutator = world.mutator(0, move |world| {
        steps(world);
        world.block(0);
    });
    for _ in 0..cycles {
        world.collect(None);
    }
    mutator.join().expect("loom reports what fails");
}

fn in_blocking_regions() {
    interrupted(2, |world| {
        world.block(0);
        world.unblock(0);
        world.work(0);
    });
}

fn waiting_in_a_region() {
    interrupted(2, |world| {
        world.blocking_until(0, || ());
        world.work(0);
    });
}

fn at_safepoints() {
    interrupted(2, |world| {
        world.safepoint(0);
        world.safepoint(0);
    });
}

fn with_a_lock() {
    let world = Playground::new(Stopper::Signals, 1, 1, 1);
    let lock = Arc::new(Lock::new());
    let same = Arc::clone(&lock);
    let guard = lock.lock();
    let mutator = world.mutator(0, move |world| {
        drop(same.lock());
        world.block(0);
    });
    world.collect(None);
    drop(guard);
    world.collect(None);
    mutator.join().expect("loom reports what fails");
}

fn with_a_semaphore() {
    let world = Playground::new(Stopper::Signals, 1, 1, 1);
    let semaphore = Arc::new(Semaphore::new());
    let same = Arc::clone(&semaphore);
    let mutator = world.mutator(0, move |world| {
        same.wait();
        same.post();
        same.wait();
        same.wait_slice(1);
        world.block(0);
    });
    world.collect(None);
    semaphore.post();
    kernel::time_is_up();
    world.collect(None);
    mutator.join().expect("loom reports what fails");
}

fn at_exit() {
    let world = Playground::new(Stopper::Signals, 1, 1, 1);
    let mutator = world.mutator(0, |world| world.threads[0].state.detach(&world.handshake));
    world.stop(crate::world::handshake::Holder::Collection, None);
    world.start(crate::world::handshake::Holder::Collection, None);
    mutator.join().expect("loom reports what fails");
}

#[test]
#[ignore = "takes a minute or two; every_step_is_interrupted explores it with two preemptions"]
fn blocking_regions() {
    explore("handler inside the steps of blocking regions", AtMost(3), in_blocking_regions);
}

#[test]
#[ignore = "takes a minute or two; every_step_is_interrupted explores it with two preemptions"]
fn waits_in_a_region() {
    explore("handler inside the steps of a wait in a region", AtMost(3), waiting_in_a_region);
}

#[test]
fn a_lock() {
    explore("handler inside the steps of a lock", AtMost(3), with_a_lock);
}

#[test]
fn a_semaphore() {
    explore("handler inside the steps of a semaphore", AtMost(3), with_a_semaphore);
}

/// Checks that in these models a handler ran at each `interrupt_point` of the shipped files.
#[test]
fn every_step_is_interrupted() {
    for (name, model) in [
        ("blocking regions", in_blocking_regions as fn()),
        ("a wait in a region", waiting_in_a_region),
        ("safepoints", at_safepoints),
        ("a lock", with_a_lock),
        ("a semaphore", with_a_semaphore),
        ("exit", at_exit),
    ] {
        explore(&format!("steps that a handler interrupts: {name}"), AtMost(2), model);
    }
    let interrupted = kernel::interrupted_steps();
    let sources = [
        ("handshake.rs", include_str!("../../../src/world/handshake.rs")),
        ("lock.rs", include_str!("../../../crates/stopworld-platform/src/sync/lock.rs")),
        ("semaphore.rs", include_str!("../../../crates/stopworld-platform/src/sync/semaphore.rs")),
    ];
    let mut missed = Vec::new();
    for (file, source) in sources {
        let steps = (1u32..).zip(source.lines()).filter(|(_, line)| line.trim() == "interrupt_point();");
        for (line, _) in steps {
            let hit = |(path, at): &(&str, u32)| Path::new(path).ends_with(file) && *at == line;
            if !interrupted.iter().any(hit) {
                missed.push(format!("{file}:{line}"));
            }
        }
    }
    assert!(missed.is_empty(), "no handler ran at {missed:?}");
}

#[test]
fn a_frame_that_is_shown_after_the_handler_left_is_caught() {
    must_fail_without(
        Guard::StopInterrupted,
        "models::handler::blocking_regions",
        Fault::Claim("a stopped thread has published nothing"),
    );
}
