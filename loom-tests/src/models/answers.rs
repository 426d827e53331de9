//! The data that a debugger or a thread writes before its answer are visible to the collector that sees the answer.
//!
//! In the other models the debugger and the collector communicate through the simulated kernel, whose lock orders more than memory does.
//! Here the debugger only writes memory, like a debugger that has mapped the target's memory.

use std::sync::Arc;

use crate::check::Preemptions::Unbounded;
use crate::check::explore;
use crate::debugger::protocol::{AckState, Acknowledgement, Answer, Member};
use crate::kernel::Kernel;
use crate::sync::{AtomicU32, AtomicU64, UnsafeCell};
use crate::world::handshake::{self, Abandoned, Handshake, HandshakeState, Holder, StopState};

#[test]
fn an_acknowledgement_has_its_answer() {
    explore("acknowledgement, 1 debugger", Unbounded, || {
        let kernel = Kernel::boot(2);
        let acknowledgement = Arc::new(Acknowledgement::new(7));
        let same = Arc::clone(&acknowledgement);
        let debugger = kernel.spawn(2, move || same.acknowledge(Answer::PARKED_ON_DEATH));
        match acknowledgement.answer() {
            Answer::Nobody => {}
            Answer::Acknowledged(answer) => {
                assert_eq!(answer, Answer::PARKED_ON_DEATH, "an acknowledgement without its answer");
            }
        }
        debugger.join().expect("loom reports what fails");
    });
}

/// A frozen thread, and the data that the debugger writes for it, represented by one number.
struct Frozen {
    state: StopState,
    frozen: AtomicU64,
    counted: AtomicU32,
    undisturbed: AtomicU32,
    registers: UnsafeCell<u32>,
}

// SAFETY: the data that is not Sync is in a loom cell, and loom reports unordered accesses to it.
unsafe impl Sync for Frozen {}
// SAFETY: as above.
unsafe impl Send for Frozen {}

#[test]
fn a_thread_that_is_answered_for_has_its_registers_written() {
    const STOP: u64 = 3;
    explore("a frozen thread, 1 debugger", Unbounded, || {
        let kernel = Kernel::boot(2);
        let thread = Arc::new(Frozen {
            state: StopState::new(),
            frozen: AtomicU64::new(0),
            counted: AtomicU32::new(0),
            undisturbed: AtomicU32::new(0),
            registers: UnsafeCell::new(0),
        });
        let member = |thread: &Frozen, see: &dyn Fn(Member<'_>)| {
            let Frozen { state, frozen, counted, undisturbed, .. } = thread;
            see(Member { state, frozen, counted, undisturbed });
        };
        // The thread runs until it is frozen, and never acknowledges by itself.
        thread.state.attach();
        let handshake = Handshake::new();
        let epoch = handshake.begin(Holder::Collection, 1);
        assert_eq!(thread.state.hold(Holder::Collection, epoch), handshake::HoldOutcome::MustPark);
        let same = Arc::clone(&thread);
        let debugger = kernel.spawn(2, move || {
            // SAFETY: loom reports every concurrent access.
            same.registers.with_mut(|registers| unsafe { *registers = 16 });
            member(&same, &|member| member.freeze(STOP));
        });
        member(&thread, &|member| match member.ack_state(STOP) {
            AckState::No => {}
            AckState::ByItself => panic!("the thread does not run"),
            AckState::Frozen => {
                // SAFETY: loom reports every concurrent write.
                assert_eq!(thread.registers.with(|registers| unsafe { *registers }), 16);
            }
        });
        debugger.join().expect("loom reports what fails");
    });
}

/// A thread's side of the handshake, and the data that it, or its holder, has written.
struct Held {
    state: StopState,
    handshake: Handshake,
    written: UnsafeCell<u32>,
}

// SAFETY: the data that is not Sync is in a loom cell, and loom reports unordered accesses to it.
unsafe impl Sync for Held {}
// SAFETY: as above.
unsafe impl Send for Held {}

impl Held {
    fn new() -> Arc<Held> {
        let (state, handshake) = (StopState::new(), Handshake::new());
        state.attach();
        Arc::new(Held { state, handshake, written: UnsafeCell::new(0) })
    }

    fn hold(&self) -> handshake::HoldOutcome {
        let epoch = self.handshake.begin(Holder::Collection, 1);
        self.state.hold(Holder::Collection, epoch)
    }

    fn write(&self) {
        // SAFETY: loom reports every concurrent access.
        self.written.with_mut(|written| unsafe { *written = 1 });
    }

    fn is_written(&self) -> bool {
        // SAFETY: loom reports every concurrent write.
        self.written.with(|written| unsafe { *written }) == 1
    }
}

/// The time at which the holder checks. For each word loom bases its exploration on only one earlier access, and the thread's own access
/// can hide the holder's load. So in one model the thread runs first, and in the other it does not.
#[derive(Clone, Copy)]
enum Look {
    AtOnce,
    AfterTheOtherRan,
}

/// One thread parks; the holder checks whether it is stopped, without waiting for an acknowledgement.
fn a_look_at_a_thread_that_parks(name: &str, look: Look, is_stopped: fn(&StopState) -> bool) {
    explore(name, Unbounded, move || {
        let kernel = Kernel::boot(2);
        let thread = Held::new();
        assert_eq!(thread.hold(), handshake::HoldOutcome::MustPark);
        let same = Arc::clone(&thread);
        let parking = kernel.spawn(2, move || _ = same.state.park_if_held(&same.handshake, || same.write()));
        if let Look::AfterTheOtherRan = look {
            loom::thread::yield_now();
        }
        if is_stopped(&thread.state) {
            assert!(thread.is_written());
        }
        thread.state.release(Holder::Collection);
        parking.join().expect("loom reports what fails");
    });
}

#[test]
fn a_thread_that_has_answered_has_published() {
    a_look_at_a_thread_that_parks("has it answered?", Look::AfterTheOtherRan, StopState::has_answered);
}

#[test]
fn a_thread_that_is_seen_parked_has_published() {
    let is_parked = |state: &StopState| state.handshake_state() == HandshakeState::Parked;
    a_look_at_a_thread_that_parks("is it parked?", Look::AfterTheOtherRan, is_parked);
}

fn is_answered(state: &StopState) -> bool {
    state.take_back(Holder::Collection) == Abandoned::Answered
}

#[test]
fn a_thread_whose_hold_can_not_be_taken_back_has_published() {
    a_look_at_a_thread_that_parks("a hold is taken back, answered before", Look::AfterTheOtherRan, is_answered);
}

#[test]
fn a_thread_whose_hold_is_answered_while_it_is_taken_back_has_published() {
    a_look_at_a_thread_that_parks("a hold is taken back, answered meanwhile", Look::AtOnce, is_answered);
}

/// The thread tries repeatedly, like a thread that waits for a lock in the region.
#[test]
fn a_thread_that_leaves_its_region_sees_what_its_holder_did() {
    explore("a region that is left at the second try", Unbounded, || {
        let kernel = Kernel::boot(2);
        let thread = Held::new();
        thread.state.enter_blocking(&thread.handshake, || {});
        assert_eq!(thread.hold(), handshake::HoldOutcome::Already);
        let same = Arc::clone(&thread);
        let leaving = kernel.spawn(2, move || {
            while !same.state.try_leave_blocking() {
                loom::thread::yield_now();
            }
            assert!(same.is_written());
        });
        thread.write();
        thread.state.release(Holder::Collection);
        leaving.join().expect("loom reports what fails");
    });
}
