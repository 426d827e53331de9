//! The phases of one collection: the events, the notifications and the times of each.
//!
//! A collection reaches the points of [`Phase`] in their order. At each point the event is fired first. Then debuggers can read
//! the phase, and the vtable is notified of it: there a debugger may stop the program. A [`Step`] is the work between two
//! points in the stopped world. Its time is taken after the notification of its end, and begins where that of the step before
//! it ended.

use super::outcome::{Outcome, StopFacts};
use super::report::Reason;
use super::state::Collector;
use crate::events::EventId;
use crate::events::clock::Clock;
use crate::os::clock::now_ns;
use crate::world::Phase;
use crate::world::stop::StopSummary;

/// A step of a collection in the stopped world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The roots are scanned, or noted if they are large.
    Roots,
    /// All objects that the roots reach are marked.
    Mark,
    /// Weak references are cleared and finalizers queued. It begins where marking ends, without a point of its own.
    Weak,
    /// The sweep is set up.
    Sweep,
}

impl Step {
    fn begin(self) -> Option<Phase> {
        match self {
            Self::Roots => Some(Phase::RootsBegin),
            Self::Mark => Some(Phase::MarkBegin),
            Self::Weak => None,
            Self::Sweep => Some(Phase::SweepBegin),
        }
    }

    fn end(self) -> Phase {
        match self {
            Self::Roots => Phase::RootsEnd,
            Self::Mark => Phase::MarkEnd,
            Self::Weak => Phase::WeakEnd,
            Self::Sweep => Phase::SweepEnd,
        }
    }

    /// Returns the place of its time.
    fn time(self, outcome: &mut Outcome) -> &mut u64 {
        match self {
            Self::Roots => &mut outcome.roots_ns,
            Self::Mark => &mut outcome.mark_ns,
            Self::Weak => &mut outcome.weak_ns,
            Self::Sweep => &mut outcome.sweep_ns,
        }
    }
}

/// A collection, as far as it has come.
pub(super) struct Phases<'a> {
    collector: &'a Collector,
    number: u32,
    reason: Reason,
    clock: PhaseClock,
    /// The timestamp of the first event, if it was recorded.
    begun: Option<u64>,
    pub(super) stop: StopFacts,
    pub(super) outcome: Outcome,
}

impl<'a> Phases<'a> {
    /// Begins the collection of this number: the threads are about to be stopped.
    pub(super) fn begin(collector: &'a Collector, number: u32, reason: Reason) -> Self {
        let (clock, stop, outcome) = (PhaseClock::default(), StopFacts::default(), Outcome::default());
        let mut phases = Self { collector, number, reason, clock, begun: None, stop, outcome };
        phases.fire(Phase::SuspendBegin);
        phases.begun = collector.events.recorded_at(EventId::SuspendBegin);
        phases.clock = PhaseClock::start();
        collector.threads.enter_phase(Phase::SuspendBegin);
        phases
    }

    /// Ends the stop.
    pub(super) fn suspended(&mut self, summary: StopSummary) {
        self.stop.summary = summary;
        self.reach(Phase::SuspendEnd);
        self.stop.stop_ns = self.clock.lap();
    }

    /// Fires the event of a point, and notifies debuggers and the vtable.
    pub(super) fn reach(&self, phase: Phase) {
        self.fire(phase);
        self.collector.threads.enter_phase(phase);
    }

    /// Runs a step: reaches its beginning, works, reaches its end, and takes its time.
    pub(super) fn run(&mut self, step: Step, work: impl FnOnce(&mut Outcome)) {
        if let Some(begin) = step.begin() {
            self.reach(begin);
        }
        work(&mut self.outcome);
        self.reach(step.end());
        let ns = self.clock.lap();
        *step.time(&mut self.outcome) = ns;
    }

    /// Excludes the time since the last step from all steps.
    pub(super) fn skip_time(&mut self) {
        self.clock.lap();
    }

    /// Ends the collection: the world runs again, after a restart that took `restart_ns`. The vtable is not notified yet: first the
    /// collection releases its locks.
    pub(super) fn restarted(&mut self, restart_ns: u64) {
        self.fire(Phase::RestartEnd);
        let ended = self.collector.events.recorded_at(EventId::RestartEnd);
        self.stop.restart_ns = restart_ns;
        // If the events are recorded, the pause that a trace shows equals the one in the report.
        self.stop.pause_ns = match (self.begun, ended) {
            (Some(begun), Some(ended)) => Clock::of_process().span_ns(begun, ended),
            _ => self.clock.total() + restart_ns,
        };
    }

    /// Fires the event of a point.
    fn fire(&self, phase: Phase) {
        let Self { number, reason, outcome, stop: StopFacts { summary, .. }, .. } = self;
        let (events, number, reason) = (&self.collector.events, *number, *reason as u32);
        match phase {
            Phase::Running => {}
            Phase::SuspendBegin => events.fire_suspend_begin(number, reason),
            Phase::SuspendEnd => events.fire_suspend_end(number, summary.threads, summary.blocking),
            Phase::GcStart => events.fire_gc_start(number, reason),
            Phase::RootsBegin => events.fire_roots_begin(number),
            Phase::RootsEnd => events.fire_roots_end(number, outcome.stack_bytes as usize, outcome.roots as usize),
            Phase::MarkBegin => events.fire_mark_begin(number),
            Phase::MarkEnd => events.fire_mark_end(number, outcome.marked as usize, outcome.mark_stack_high),
            Phase::WeakEnd => events.fire_weak_end(number, outcome.cleared as usize, outcome.queued as usize),
            Phase::SweepBegin => events.fire_sweep_begin(number),
            Phase::SweepEnd => events.fire_sweep_end(number, outcome.live.total() as usize, outcome.freed as usize),
            Phase::GcEnd => events.fire_gc_end(number),
            Phase::RestartBegin => events.fire_restart_begin(number),
            Phase::RestartEnd => events.fire_restart_end(number),
        }
    }
}

/// Measures the steps.
#[derive(Default)]
struct PhaseClock {
    begin: u64,
    last: u64,
}

impl PhaseClock {
    fn start() -> Self {
        let now = now_ns();
        Self { begin: now, last: now }
    }

    /// Returns the nanoseconds since the last lap.
    fn lap(&mut self) -> u64 {
        let now = now_ns();
        now - std::mem::replace(&mut self.last, now)
    }

    /// Returns the nanoseconds from the start to the last lap.
    fn total(&self) -> u64 {
        self.last - self.begin
    }
}
