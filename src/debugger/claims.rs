//! Compares what a debugger claims about a thread with what the kernel reports.
//!
//! A debugger that answers for a thread claims that the thread is stopped, that its stack begins at `stack_ptr`, and, in a full stop with
//! PARKED_ON_DEATH, that the thread will resume in [`stopworld_debugger_park`] with the frame at `stack_ptr` if the debugger dies. A
//! debugger with a bug may claim this although the thread runs, and the collection would free objects that the thread uses. Two files of
//! /proc show the real state: `stat` has the state (`t` for a thread that a tracer has stopped); `syscall` has the stack and the
//! instruction pointer of a thread that does not run. A thread whose instruction pointer is at `park` was moved there by a debugger,
//! since nothing else moves threads to that address.
//!
//! A stop compares twice (`.debug.lies`): when the debugger has answered, before anything is scanned, and after marking, before anything is
//! cleared or freed. In a full stop with PARKED_ON_DEATH each comparison reads one file per thread, in other stops two, at about 10 µs per
//! file. A stop in which no debugger answers for a thread reads no files.
//!
//! # Limits
//!
//! * The comparison does not check that the registers which the debugger wrote are those of the thread.
//! * If a thread is resumed and stopped again between the two comparisons, a full stop with PARKED_ON_DEATH detects that, because the
//!   thread would have to be at `park` again. Other stops detect it only if the thread has entered a blocking region meanwhile or its stack
//!   has grown. If the debugger also withheld the suspend signal, the thread may have parked by itself at a safepoint, which looks correct.
//! * Nothing is compared after the second comparison.

use std::cell::Cell;

use super::park::stopworld_debugger_park;
use super::protocol::{self, AckState, Member};
use crate::os::clock::now_ns;
use crate::os::thread;
use crate::os::tracer::{self, UserPlace};
use crate::sync::{AtomicPtr, AtomicU32, Ordering};
use crate::world::handler;
use crate::world::handshake::HandshakeState;
use crate::world::{FalseAnswer, HoldFault, StopRequest, ThreadStopInfo};

/// How a debugger claims to hold threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The thread is stopped where it was.
    Stopped,
    /// The thread is stopped and will park if the debugger dies.
    AtPark,
}

/// Returns what is wrong with the claim about this thread, or `None`. A thread that has ended makes no claim false. Uses system calls only.
pub(super) fn fault(record: &ThreadStopInfo, claim: Claim) -> Option<HoldFault> {
    let fault = match claim {
        Claim::AtPark => match tracer::place_of(record.tid()) {
            Some(place) if is_at_park(record, place) => None,
            Some(_) => Some(HoldFault::NotAtPark),
            None => Some(HoldFault::Running),
        },
        Claim::Stopped if !tracer::holds(record.tid()) => Some(HoldFault::Running),
        Claim::Stopped => match tracer::place_of(record.tid()) {
            Some(place) if !reaches_below(record, place) => None,
            // The debugger has resumed the thread since by a single step, which has ended here. The thread parks when it is resumed again.
            Some(place) if place.instruction_pointer == handler::entry() => Some(HoldFault::Running),
            Some(_) => Some(HoldFault::BelowStackPointer),
            // The thread was stopped a moment ago, and runs now.
            None => Some(HoldFault::Running),
        },
    };
    fault.filter(|_| thread::is_alive(record.tid()))
}

fn is_at_park(record: &ThreadStopInfo, place: UserPlace) -> bool {
    let park = stopworld_debugger_park as *const () as usize;
    place == UserPlace { stack_pointer: record.stack_ptr(), instruction_pointer: park }
}

/// Returns whether a part of the thread's live stack is below its `stack_ptr`. Checks only addresses on the thread's own stack, since
/// addresses on different stacks are not comparable.
fn reaches_below(record: &ThreadStopInfo, place: UserPlace) -> bool {
    let (low, high) = record.stack();
    (low..record.stack_ptr().min(high)).contains(&place.stack_pointer)
}

/// Returns the first thread that the debugger has answered for in a full stop and that has a fault, with the fault.
pub(super) fn first_lie(
    stop: &StopRequest<'_>,
    fault: impl Fn(&ThreadStopInfo) -> Option<HoldFault>,
) -> Option<(&'static ThreadStopInfo, HoldFault)> {
    let relied_on = stop.threads().filter(|record| member(record).is_relied_on());
    let found = Cell::new(None);
    let is_held = |record: &ThreadStopInfo| {
        found.set(fault(record));
        found.get().is_none()
    };
    let record = protocol::first_not_held(relied_on, is_held)?;
    Some((record, found.get().unwrap_or(HoldFault::Running)))
}

/// The two moments at which a stop checks the threads that a debugger has answered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimCheck {
    BeforeScanning,
    AfterMarking,
}

/// Returns the first thread that a debugger has answered for as frozen and that is neither stopped nor parks. A thread that the debugger
/// has resumed nevertheless takes its pending suspend signal before anything else, and parks: it has [`PARKS_WITHIN_NS`] for that.
///
/// A thread that masks the signal, for example while the C library creates a thread, runs its own code first. Before anything is scanned this
/// does no harm: the stop waits for the thread as if no debugger had answered for it. After marking it is a fault, and so is a thread in
/// a blocking region: it has run its own code since its stack was scanned.
///
/// The signal may have been lost with the debugger. So `signal` is called with a thread that does not park, several times. Before anything is
/// scanned it sends the signal again. After marking it must not: a thread that parks because of a second signal has run since its stack was
/// scanned.
pub(super) fn first_unfrozen(
    stop: &StopRequest<'_>,
    look: ClaimCheck,
    signal: impl Fn(&ThreadStopInfo),
) -> Option<(&'static ThreadStopInfo, HoldFault)> {
    let found = Cell::new(None);
    let has_answered = |record: &ThreadStopInfo| record.stop_state().has_answered();
    let is_held = |record: &ThreadStopInfo| {
        let is_settled = || {
            found.set(fault(record, Claim::Stopped));
            let may_park = look == ClaimCheck::BeforeScanning || found.get() == Some(HoldFault::Running);
            found.get().is_none() || !may_park || has_answered(record)
        };
        wait_until(is_settled, || signal(record));
        let parks = match look {
            ClaimCheck::BeforeScanning => has_answered(record),
            ClaimCheck::AfterMarking => record.stop_state().handshake_state() == HandshakeState::Parked,
        };
        found.get().is_none() || parks
    };
    let frozen = stop.threads().filter(|record| member(record).ack_state(stop.epoch()) == AckState::Frozen);
    let record = protocol::first_not_held(frozen, is_held)?;
    Some((record, found.get().unwrap_or(HoldFault::Running)))
}

/// The time that a thread may take to park after its debugger has resumed it. To park is the first thing that it does.
const PARKS_WITHIN_NS: u64 = 1_000_000_000;

/// How often a thread that does not park is signalled again meanwhile.
const SIGNAL_AGAIN_NS: u64 = 20_000_000;

/// Polls `holds` for up to a second, and calls `signal_again` several times meanwhile. Returns whether it became true.
pub(super) fn wait_until(holds: impl Fn() -> bool, signal_again: impl Fn()) -> bool {
    let begin = now_ns();
    let mut signalled = begin;
    loop {
        if holds() {
            return true;
        }
        let now = now_ns();
        if now - begin > PARKS_WITHIN_NS {
            return false;
        }
        if now - signalled > SIGNAL_AGAIN_NS {
            signalled = now;
            signal_again();
        }
        thread::sleep_ns(100_000);
    }
}

pub(super) fn member(record: &ThreadStopInfo) -> Member<'_> {
    Member {
        state: record.stop_state(),
        frozen: record.frozen_word(),
        counted: record.counted_word(),
        undisturbed: record.undisturbed_word(),
    }
}

/// Stores the latest false answer until it is taken.
pub(super) struct FalseClaim {
    record: AtomicPtr<ThreadStopInfo>,
    fault: AtomicU32,
}

impl FalseClaim {
    pub(super) fn nothing() -> Self {
        Self { record: AtomicPtr::new(std::ptr::null_mut()), fault: AtomicU32::new(0) }
    }

    /// Relaxed, here and below: only the collecting thread, which holds the world's locks, uses this.
    pub(super) fn note(&self, record: &'static ThreadStopInfo, fault: HoldFault) {
        self.record.store(std::ptr::from_ref(record).cast_mut(), Ordering::Relaxed);
        self.fault.store(fault as u32, Ordering::Relaxed);
    }

    pub(super) fn is_something(&self) -> bool {
        self.fault.load(Ordering::Relaxed) != 0
    }

    pub(super) fn take(&self) -> Option<FalseAnswer> {
        let found = HoldFault::of(self.fault.swap(0, Ordering::Relaxed))?;
        // SAFETY: `note` stored a record, and records are never unmapped.
        let record = unsafe { &*self.record.load(Ordering::Relaxed) };
        Some(FalseAnswer { name: record.name(), tid: record.tid(), found })
    }
}
