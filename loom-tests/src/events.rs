//! The shipped gate of `events/`, and its models (here and not in `models`, since the gate is private to its parent).
//!
//! A listener's sink is a loom cell: those who pass the gate read it, and who has seen the gate quiet takes it away.

#![allow(dead_code, reason = "the models do not use everything that the library does")]

#[path = "../../src/events/gate.rs"]
mod gate;

use std::sync::Arc;

use self::gate::{Gate, Settled};
use crate::check::Preemptions::{AtMost, Unbounded};
use crate::check::{Fault, explore, must_fail_without};
use crate::kernel::{self, Kernel};
use crate::sabotage::Guard;
use crate::sync::{AtomicU32, Ordering, Semaphore, UnsafeCell};

/// The event that everybody fires here.
const EVENT: u32 = 1;

struct Listener {
    gate: Gate<1>,
    sink: UnsafeCell<Option<u32>>,
    clock: AtomicU32,
    frozen: Semaphore,
}

// SAFETY: what is not Sync is in a loom cell, whose unordered accesses are what the models look for.
unsafe impl Sync for Listener {}
// SAFETY: as above.
unsafe impl Send for Listener {}

impl Listener {
    fn new() -> Arc<Listener> {
        Arc::new(Listener {
            gate: Gate::new([AtomicU32::new(EVENT)]),
            sink: UnsafeCell::new(Some(0)),
            clock: AtomicU32::new(0),
            frozen: Semaphore::new(),
        })
    }

    fn fire(&self) {
        // Acquire: pairs with the release in `end`. A real clock is read by a fenced instruction.
        let timestamp = self.clock.load(Ordering::Acquire);
        if let Some(_inside) = self.gate.enter(0, EVENT) {
            // SAFETY: loom checks that nobody writes it.
            assert!(self.sink.with(|sink| unsafe { *sink }.is_some()), "inside without a sink");
            assert_eq!(timestamp, 0, "a record from after the end");
        }
    }

    /// Ends the listener; afterwards it is later.
    fn end(&self) -> Settled {
        self.gate.change([0]);
        let settled = self.gate.settle();
        // Release: pairs with the acquire in `fire`.
        self.clock.store(1, Ordering::Release);
        if settled == Settled::Quiet {
            self.let_go();
        }
        settled
    }

    fn let_go(&self) {
        // SAFETY: loom checks that nobody else is at it.
        self.sink.with_mut(|sink| unsafe { *sink = None });
    }
}

fn two_fires_and_an_end(preemptions: crate::check::Preemptions) {
    explore("gate, 2 fires and an end", preemptions, || {
        let kernel = Kernel::boot(3);
        let listener = Listener::new();
        let fires: Vec<_> = (2..=3)
            .map(|tid| {
                let listener = Arc::clone(&listener);
                kernel.spawn(tid, move || listener.fire())
            })
            .collect();
        assert_eq!(listener.end(), Settled::Quiet, "nobody says that time is up");
        fires.into_iter().for_each(|fire| fire.join().expect("loom reports what fails"));
    });
}

#[test]
fn whoever_is_inside_has_a_sink_and_nobody_enters_after_the_end() {
    two_fires_and_an_end(AtMost(4));
}

#[test]
fn a_fire_that_does_not_look_again_is_caught() {
    let name = "events::whoever_is_inside_has_a_sink_and_nobody_enters_after_the_end";
    must_fail_without(Guard::EventExact, name, Fault::Race);
}

#[test]
fn a_thread_that_is_frozen_inside_keeps_its_sink_and_is_not_waited_for() {
    explore("gate, frozen inside", Unbounded, || {
        let kernel = Kernel::boot(2);
        let listener = Listener::new();
        let same = Arc::clone(&listener);
        let fire = kernel.spawn(2, move || {
            let inside = same.gate.enter(0, EVENT);
            kernel::time_is_up();
            same.frozen.wait();
            if inside.is_some() {
                // SAFETY: loom checks that nobody writes it.
                assert!(same.sink.with(|sink| unsafe { *sink }.is_some()), "inside without a sink");
            }
        });
        let settled = listener.end();
        listener.frozen.post();
        fire.join().expect("loom reports what fails");
        if let Settled::Busy(inside) = settled {
            assert_eq!(inside, 1);
            assert_eq!(listener.gate.settle(), Settled::Quiet, "it has left");
            listener.let_go();
        }
    });
}

#[test]
fn a_handler_may_fire_at_every_step_of_a_fire_and_of_an_end() {
    explore("gate, a handler that fires", AtMost(3), || {
        let kernel = Kernel::boot(2);
        let listener = Listener::new();
        let (same, in_handler) = (Arc::clone(&listener), Arc::clone(&listener));
        let fire = kernel.spawn(2, move || {
            kernel::on_signal(move || in_handler.fire());
            same.fire();
        });
        let in_handler = Arc::clone(&listener);
        kernel::on_signal(move || in_handler.fire());
        kernel.signal(2);
        kernel.signal(1);
        assert_eq!(listener.end(), Settled::Quiet);
        fire.join().expect("loom reports what fails");
    });
}
