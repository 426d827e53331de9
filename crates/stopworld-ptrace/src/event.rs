//! The events that the debugger reports to its user, and its statistics.

use super::memory::Address;
use super::proc::Silence;
use super::registers::Difference;
use super::target::TargetError;
use stopworld::debugger::Phase;
use stopworld_platform::os::Tid;

/// An event in the target.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A copy of the collector was found; the debugger serves its stops from now on.
    LibraryFound {
        /// The address of its descriptor.
        descriptor: Address,
        /// The version of its contract.
        version: u32,
    },
    /// A world has stopped.
    WorldStopped {
        /// Its number.
        world: u64,
        /// The number of the stop.
        epoch: u64,
        /// The collecting thread.
        by: Tid,
        /// The number of threads of the process that the debugger has stopped; 0 in assisted mode.
        stopped: usize,
        /// The number of mutators that the user had stopped before; the debugger has written their registers for the collector.
        frozen: usize,
    },
    /// A world runs again.
    WorldStarted {
        /// Its number.
        world: u64,
        /// The number of the stop.
        epoch: u64,
        /// The collecting thread.
        by: Tid,
    },
    /// A collection has entered a phase.
    Phase {
        /// The world's number.
        world: u64,
        /// The phase; `Err` has an unknown number.
        phase: Result<Phase, u32>,
        /// The collecting thread.
        by: Tid,
        /// Whether the collection is held there.
        held: Held,
    },
    /// The process has a new thread.
    ThreadCreated {
        /// Its id.
        tid: Tid,
    },
    /// A thread of the process has ended.
    ThreadExited {
        /// Its id.
        tid: Tid,
    },
    /// A thread has become a mutator.
    MutatorCreated {
        /// Its id.
        tid: Tid,
        /// The world's number.
        world: u64,
        /// The name given at attach.
        name: String,
    },
    /// A thread is no longer a mutator.
    MutatorExited {
        /// Its id.
        tid: Tid,
        /// The world's number.
        world: u64,
    },
    /// A signal for the program has arrived, and its [rule](super::SignalRule) requires a report.
    Signal {
        /// The thread that receives it.
        tid: Tid,
        /// The signal.
        signal: i32,
        /// Whether the thread has received it already.
        passed: Passed,
        /// Whether it has stopped the program.
        stopped: Stopped,
    },
    /// The job is stopped.
    GroupStopped {
        /// The signal that stopped it.
        signal: i32,
    },
    /// The job is continued.
    Continued,
    /// The process has executed another program.
    Executed,
    /// A stop was left to the collector's own signals, because these threads could not be stopped.
    Silent {
        /// The threads, and the reasons.
        threads: Vec<(Tid, Silence)>,
    },
    /// The state of a thread that a full stop has held has changed; only reported with [`Restored::Compared`](super::Restored). The thread
    /// is resumed as it is.
    Changed {
        /// The thread.
        tid: Tid,
        /// The difference.
        difference: Difference,
    },
    /// Invalid data of the target was rejected.
    Refused(TargetError),
    /// The process has ended.
    Exited(i32),
    /// A signal has killed the process.
    Killed(i32),
}

/// Whether the collecting thread waits for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The collecting thread waits.
    Yes,
    /// The collecting thread continues.
    No,
}

/// What happened to a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The signal was passed on to the thread.
    On,
    /// The thread is stopped, and receives the signal when it is resumed.
    Later,
    /// The program does not receive the signal.
    Withheld,
}

/// The threads that a signal has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Every thread: the process is stopped until the user resumes it.
    All,
    /// No thread.
    No,
}

/// A set of phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseSet(u32);

impl PhaseSet {
    /// Every phase.
    pub const ALL: Self = Self(u32::MAX);
    /// No phase.
    pub const NONE: Self = Self(0);

    /// Returns this set with one more phase.
    #[must_use]
    pub const fn with(self, phase: Phase) -> Self {
        Self(self.0 | 1 << phase as u32)
    }

    /// Returns whether the phase is in the set.
    pub const fn has(self, phase: Phase) -> bool {
        self.0 >> phase as u32 & 1 == 1
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Phase> for PhaseSet {
    fn from_iter<I: IntoIterator<Item = Phase>>(phases: I) -> Self {
        phases.into_iter().fold(Self::NONE, Self::with)
    }
}

/// A collection that is held for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPhase {
    /// The world's number.
    pub world: u64,
    /// The phase at which it is held.
    pub phase: Phase,
    /// The collecting thread.
    pub tid: Tid,
}

/// The number of durations of each kind that are kept.
const SAMPLES: usize = 1 << 16;

/// Counts and durations of what the debugger has done so far.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// The number of stops of worlds that were served, in either mode.
    pub stops: u64,
    /// The number of starts of worlds.
    pub starts: u64,
    /// Nanoseconds from a stop's notification to its acknowledgement, for the first 65,536.
    pub stop_ns: Vec<u64>,
    /// Nanoseconds from a stop's notification until every thread had stopped, for the first 65,536.
    pub all_stopped_ns: Vec<u64>,
    /// Nanoseconds from a start's notification until every thread had been resumed, for the first 65,536.
    pub start_ns: Vec<u64>,
    /// The number of threads of the process that were created.
    pub created: u64,
    /// The number of threads of the process that ended.
    pub exited: u64,
    /// The number of mutators that were created.
    pub mutators_created: u64,
    /// The number of mutators that ended.
    pub mutators_exited: u64,
    /// The number of times that a record's `stack_ptr` was written.
    pub slots_written: u64,
    /// The number of threads that were scanned while the user held them.
    pub frozen_served: u64,
    /// The number of threads that the user held at a start and that stayed stopped.
    pub kept_frozen: u64,
    /// The number of repeated requests of assisted stops.
    pub again: u64,
    /// The number of stops that were reported after their thread had been resumed for another reason.
    pub late_events: u64,
    /// The number of signals for the program that were passed on at once.
    pub passed_signals: u64,
    /// The number of signals for the program that were delayed until their thread was resumed.
    pub held_signals: u64,
    /// The number of signals for the program that it does not receive.
    pub withheld_signals: u64,
    /// The number of the collector's suspend signals that were delivered to the stopped thread.
    pub suspend_signals: u64,
    /// The number of threads that were created during a stop of a world.
    pub newcomers_in_stop: u64,
    /// The number of group stops that threads reported.
    pub group_stops: u64,
    /// The number of stops in which each thread had a frame to park with if the debugger died.
    pub parked_stops: u64,
    /// The number of comparisons of a thread's state at a start with its state at the stop.
    pub compared: u64,
    /// The number of these comparisons that found a changed state.
    pub changed: u64,
    /// The number of stops that were left to the collector's signals.
    pub given_up: u64,
    /// How often invalid data of the target was rejected.
    pub refused: u64,
}

impl Statistics {
    pub(super) fn sample(samples: &mut Vec<u64>, took: std::time::Duration) {
        if samples.len() < SAMPLES {
            samples.push(took.as_nanos() as u64);
        }
    }
}
