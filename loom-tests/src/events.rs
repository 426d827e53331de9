//! The shipped gate of `events/`, and its models (not in `models`, because the gate is private to its parent module).
//!
//! A listener's sink is a loom cell. Threads inside the gate read it; the thread that ends the listener removes it after it has found the
//! gate empty.

#![allow(dead_code, reason = "the models do not use everything that the library does")]

#[path = "../../src/events/gate.rs"]
mod gate;

use std::sync::Arc;

use self::gate::{Entry, Gate, Settled};
use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::kernel::{self, Kernel};
use crate::sabotage::Guard;
use crate::sync::{AtomicU32, Ordering, Semaphore, UnsafeCell};

/// The event that all threads fire here.
const EVENT: u32 = 1;

struct Listener {
    gate: Gate<1>,
    sink: UnsafeCell<Option<u32>>,
    clock: AtomicU32,
    frozen: Semaphore,
}

// SAFETY: the data that is not Sync is in a loom cell, and loom reports unordered accesses to it.
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

    /// Fires once. Returns the timestamp of the record, if there is one.
    fn fire_at(&self) -> Option<u64> {
        loop {
            // Acquire: pairs with the release in `at`. A real clock is read with a fenced instruction.
            let timestamp = u64::from(self.clock.load(Ordering::Acquire));
            match self.gate.enter(0, EVENT, timestamp) {
                Entry::Refused => return None,
                Entry::Early => loom::thread::yield_now(),
                Entry::Inside(_pass) => {
                    self.look();
                    return Some(timestamp);
                }
            }
        }
    }

    fn fire(&self) {
        let _time = self.fire_at();
    }

    fn look(&self) {
        // SAFETY: loom reports every concurrent write.
        assert!(self.sink.with(|sink| unsafe { *sink }.is_some()), "inside without a sink");
    }

    /// Sets the clock.
    fn at(&self, now: u32) {
        // Release: pairs with the acquire in `fire_at`.
        self.clock.store(now, Ordering::Release);
    }

    fn end(&self) -> Settled {
        self.gate.change([0], 0);
        let settled = self.gate.settle();
        if settled == Settled::Quiet {
            self.let_go();
        }
        settled
    }

    fn let_go(&self) {
        // SAFETY: loom reports every concurrent access.
        self.sink.with_mut(|sink| unsafe { *sink = None });
    }
}

#[test]
fn a_fire_inside_the_gate_has_a_sink() {
    explore("gate, 2 fires and an end", AtMost(4), || {
        let kernel = Kernel::boot(3);
        let listener = Listener::new();
        let fires: Vec<_> = (2..=3)
            .map(|tid| {
                let listener = Arc::clone(&listener);
                kernel.spawn(tid, move || listener.fire())
            })
            .collect();
        assert_eq!(listener.end(), Settled::Quiet, "the wait never times out in this model");
        fires.into_iter().for_each(|fire| fire.join().expect("loom reports what fails"));
    });
}

#[test]
fn a_fire_without_a_second_check_is_caught() {
    must_fail_without(Guard::EventGate, "events::a_fire_inside_the_gate_has_a_sink", Fault::Race);
}

/// The event is enabled until time 1, and again from time 3: a record may have any time except 2.
#[test]
fn a_record_has_a_time_at_which_its_event_was_enabled() {
    explore("gate, off and on again", AtMost(4), || {
        let kernel = Kernel::boot(2);
        let listener = Listener::new();
        let same = Arc::clone(&listener);
        let fire = kernel.spawn(2, move || {
            let time = same.fire_at();
            assert!(matches!(time, None | Some(0 | 1 | 3)), "a record from a time at which its event was disabled");
        });
        listener.at(1);
        listener.gate.change([0], 1);
        let _ = listener.gate.settle();
        listener.at(2);
        listener.at(3);
        listener.gate.change([EVENT], 3);
        let _ = listener.gate.settle();
        fire.join().expect("loom reports what fails");
        assert_eq!(listener.fire_at(), Some(3));
    });
}

#[test]
fn a_record_that_keeps_its_early_time_is_caught() {
    let claim = Fault::Claim("a record from a time at which its event was disabled");
    must_fail_without(Guard::EventExact, "events::a_record_has_a_time_at_which_its_event_was_enabled", claim);
}

#[test]
fn a_thread_that_is_frozen_inside_keeps_its_sink_and_is_not_waited_for() {
    explore("gate, frozen inside", AtMost(4), || {
        let kernel = Kernel::boot(2);
        let listener = Listener::new();
        let same = Arc::clone(&listener);
        let fire = kernel.spawn(2, move || {
            let entry = same.gate.enter(0, EVENT, 0);
            kernel::time_is_up();
            same.frozen.wait();
            if let Entry::Inside(_pass) = entry {
                same.look();
            }
        });
        let settled = listener.end();
        listener.frozen.post();
        fire.join().expect("loom reports what fails");
        if let Settled::Busy(inside) = settled {
            assert_eq!(inside, 1);
            assert_eq!(listener.gate.settle(), Settled::Quiet, "the fire has left the gate");
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
