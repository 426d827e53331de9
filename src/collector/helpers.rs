//! How the collecting thread gives work to its helpers, and waits until they have done it.
//!
//! A helper that starts may allocate: what the system does for a new thread, and the first use of thread-local storage. In the stopped world it
//! could wait for a stopped thread then. So no phase begins before all helpers have [started](Helpers::start) (`.mark.start`).
//!
//! The helpers are service threads that sleep on the number of the *phase*. The collecting thread stores what there is to do, begins a phase, does
//! its own part, and waits until the number of helpers that are still working is 0. What it stored before [`begin`](Helpers::begin) is visible
//! to the helpers, and what they stored before [`finish`](Helpers::finish) is visible to it afterwards (`.mark.helpers`). Between
//! phases no helper touches the data that they share.

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, Ordering, const_new, interrupt_point, port};

/// How long a collection waits for helpers that have not started, in nanoseconds. Without them it works alone.
const START_NS: u64 = 100_000_000;

/// Added to the phase when the helpers must end.
const CLOSING: u32 = 1 << 31;

/// The phases of one world's helpers.
#[derive(Debug)]
pub(crate) struct Helpers {
    /// The number of helpers that have started.
    started: AtomicU32,
    /// Incremented for each phase; the helpers sleep on it.
    phase: AtomicU32,
    /// The number of helpers that have not finished this phase; the collecting thread sleeps on it.
    working: AtomicU32,
}

/// The last phase in which a helper has worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastPhase(u32);

impl LastPhase {
    /// No phase yet.
    pub(crate) const NONE: Self = Self(0);
}

impl Helpers {
    const_new! {
        /// Creates the state for helpers that have not started yet.
        pub(crate) fn new() -> Self {
            Self { started: AtomicU32::new(0), phase: AtomicU32::new(0), working: AtomicU32::new(0) }
        }
    }

    /// Called by a helper when it has started.
    pub(crate) fn start(&self) {
        // Release: pairs with the Acquire of `have_started`: what the start needed is over.
        self.started.fetch_add(1, Ordering::Release);
        interrupt_point();
        port::wake(&self.started, u32::MAX);
    }

    /// Returns whether this number of helpers, all that there are, have started.
    pub(crate) fn have_started(&self, helpers: u32) -> bool {
        // Acquire: pairs with the Release of `start`.
        self.started.load(Ordering::Acquire) >= helpers || removed(Guard::MarkStart)
    }

    /// Called before a stop: waits a little for helpers that have not started. They may not be able to, if the caller holds a lock of the loader.
    /// A signal ends the wait, so that a timer of the program cannot prolong it.
    pub(crate) fn wait_for_start(&self, helpers: u32) {
        while !self.have_started(helpers) {
            let started = self.started.load(Ordering::Relaxed);
            if started < helpers {
                let ended = port::wait(&self.started, started, Some(START_NS));
                if matches!(ended, port::FutexWait::TimedOut | port::FutexWait::Interrupted) {
                    return;
                }
            }
            interrupt_point();
        }
    }

    /// Begins a phase in which this number of helpers, all that there are, work. They have started, and the last phase has ended.
    pub(crate) fn begin(&self, helpers: u32) {
        debug_assert!(self.have_finished(), "the last phase has not ended");
        self.working.store(helpers, Ordering::Relaxed);
        // Relaxed: only this thread changes it.
        let phase = self.phase.load(Ordering::Relaxed);
        debug_assert_eq!(phase & CLOSING, 0, "the helpers have ended");
        // Release: pairs with the Acquire of `next_phase`: a helper of this phase sees its work.
        self.phase.store(phase.wrapping_add(1) & !CLOSING, Ordering::Release);
        interrupt_point();
        port::wake(&self.phase, helpers);
    }

    /// Returns whether all helpers have finished the phase.
    pub(crate) fn have_finished(&self) -> bool {
        // Acquire: pairs with the Release of `finish`: what the helpers did is visible.
        self.working.load(Ordering::Acquire) == 0
    }

    /// Waits until all helpers have finished the phase.
    pub(crate) fn wait(&self) {
        while !self.have_finished() && !removed(Guard::MarkHelpers) {
            let working = self.working.load(Ordering::Relaxed);
            if working > 0 {
                port::wait(&self.working, working, None);
                interrupt_point();
            }
        }
    }

    /// Called by a helper: waits for the phase after `last`. Returns `None` if the helper must end.
    pub(crate) fn next_phase(&self, last: LastPhase) -> Option<LastPhase> {
        loop {
            // Acquire: pairs with the Release of `begin` and of `close`.
            let phase = self.phase.load(Ordering::Acquire);
            if phase & CLOSING != 0 {
                return None;
            }
            if phase != last.0 {
                return Some(LastPhase(phase));
            }
            port::wait(&self.phase, phase, None);
            interrupt_point();
        }
    }

    /// Called by a helper that has done its part of the phase.
    pub(crate) fn finish(&self) {
        // Release: pairs with the Acquire of `have_finished`.
        if self.working.fetch_sub(1, Ordering::Release) == 1 {
            interrupt_point();
            port::wake(&self.working, 1);
        }
    }

    /// Makes all helpers end. No phase has begun that has not ended.
    pub(crate) fn close(&self) {
        // Release: pairs with the Acquire of `next_phase`.
        self.phase.fetch_or(CLOSING, Ordering::Release);
        interrupt_point();
        port::wake(&self.phase, u32::MAX);
    }
}
