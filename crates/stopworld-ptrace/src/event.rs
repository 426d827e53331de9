//! What the debugger tells its user.

use super::memory::Address;
use super::proc::Silence;
use super::registers::Difference;
use super::target::TargetError;
use stopworld::debugger::Phase;
use stopworld_platform::os::Tid;

/// Something that has happened in the target.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A copy of the collector was found; its stops are ours from now on.
    LibraryFound {
        /// Where its descriptor is.
        descriptor: Address,
        /// The version of its contract.
        version: u32,
    },
    /// A world stands.
    WorldStopped {
        /// Its number.
        world: u64,
        /// Numbers its stops.
        epoch: u64,
        /// Who collects.
        by: Tid,
        /// How many threads of the process the debugger has stopped; 0 in assisted mode.
        stopped: usize,
        /// How many managed threads stand because the user wants it; their registers were written.
        frozen: usize,
    },
    /// A world runs again.
    WorldStarted {
        /// Its number.
        world: u64,
        /// Numbers its stops.
        epoch: u64,
        /// Who has collected.
        by: Tid,
    },
    /// A collection has come to a phase.
    Phase {
        /// The world's number.
        world: u64,
        /// Which; `Err` has a number that is no phase.
        phase: Result<Phase, u32>,
        /// Who collects.
        by: Tid,
        /// Whether it was held there.
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
    /// A thread is a mutator now.
    MutatorCreated {
        /// Its id.
        tid: Tid,
        /// The world's number.
        world: u64,
        /// The name given at attach.
        name: String,
    },
    /// A thread is no mutator any more.
    MutatorExited {
        /// Its id.
        tid: Tid,
        /// The world's number.
        world: u64,
    },
    /// A signal has come for the program, and its [rule](super::SignalRule) wants it reported.
    Signal {
        /// For whom.
        tid: Tid,
        /// Which.
        signal: i32,
        /// Whether the thread has it already.
        passed: Passed,
        /// Whether it has stopped the program.
        stopped: Stopped,
    },
    /// The job is stopped.
    GroupStopped {
        /// By which signal.
        signal: i32,
    },
    /// The job goes on.
    Continued,
    /// The program was replaced by another.
    Executed,
    /// A stop was left to the collector's own signals, because these threads could not be stopped.
    Silent {
        /// Which, and why.
        threads: Vec<(Tid, Silence)>,
    },
    /// A thread that a full stop has held is not as it was, only seen with [`Restored::Compared`](super::Restored). It goes on like that.
    Changed {
        /// Which.
        tid: Tid,
        /// In what.
        difference: Difference,
    },
    /// Something that the target says was not believed.
    Refused(TargetError),
    /// The process has ended.
    Exited(i32),
    /// A signal has killed the process.
    Killed(i32),
}

/// Whether the collecting thread waits for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It does.
    Yes,
    /// It goes on.
    No,
}

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The thread has it.
    On,
    /// The thread is stopped, and gets it when it goes on.
    Later,
    /// The program does not receive it.
    Withheld,
}

/// The threads that a signal has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Every thread, for the user.
    All,
    /// No thread.
    No,
}

/// A set of phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseSet(u32);

impl PhaseSet {
    /// Every phase that is told.
    pub const ALL: Self = Self(u32::MAX);
    /// No phase.
    pub const NONE: Self = Self(0);

    /// This set and one more.
    #[must_use]
    pub const fn with(self, phase: Phase) -> Self {
        Self(self.0 | 1 << phase as u32)
    }

    /// Whether it is in the set.
    pub const fn has(self, phase: Phase) -> bool {
        self.0 >> phase as u32 & 1 == 1
    }

    /// Whether none is.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Phase> for PhaseSet {
    fn from_iter<I: IntoIterator<Item = Phase>>(phases: I) -> Self {
        phases.into_iter().fold(Self::NONE, Self::with)
    }
}

/// A collection that waits for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPhase {
    /// The world's number.
    pub world: u64,
    /// Where it was held.
    pub phase: Phase,
    /// Who collects.
    pub tid: Tid,
}

/// How many times of each kind are kept.
const SAMPLES: usize = 1 << 16;

/// What the debugger has done so far.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Stops of worlds that were answered, in either mode.
    pub stops: u64,
    /// Starts of worlds.
    pub starts: u64,
    /// Nanoseconds from a stop's notification to its acknowledgement, of the first 65,536.
    pub stop_ns: Vec<u64>,
    /// Of these, until every thread stood.
    pub standing_ns: Vec<u64>,
    /// Nanoseconds from a start's notification until every thread had been let go, of the first 65,536.
    pub start_ns: Vec<u64>,
    /// Threads of the process that came.
    pub created: u64,
    /// Threads of the process that went.
    pub exited: u64,
    /// Mutators that came.
    pub mutators_created: u64,
    /// Mutators that went.
    pub mutators_exited: u64,
    /// `stack_ptr`s written.
    pub slots_written: u64,
    /// Threads that were scanned while the user held them.
    pub frozen_served: u64,
    /// Threads that the user held at a start and that stayed stopped.
    pub kept_frozen: u64,
    /// Repeated requests of assisted stops.
    pub again: u64,
    /// Stops that came after their thread had been let go for another reason.
    pub late_events: u64,
    /// Signals for the program that were passed on at once.
    pub passed_signals: u64,
    /// Signals for the program that waited until their thread went on.
    pub held_signals: u64,
    /// Signals for the program that it does not receive.
    pub withheld_signals: u64,
    /// Signals of the collector that were passed on.
    pub suspend_signals: u64,
    /// Threads that were born while a world stood.
    pub newcomers_in_stop: u64,
    /// Group stops that threads reported.
    pub group_stops: u64,
    /// Stops in which each thread had a frame to wait with, should the debugger die.
    pub parked_stops: u64,
    /// Threads that were compared, at starts, with what they were at the stop.
    pub compared: u64,
    /// Of these, those that were not the same.
    pub changed: u64,
    /// Stops that were left to the collector's signals.
    pub given_up: u64,
    /// Things in the target that were not believed.
    pub refused: u64,
}

impl Statistics {
    pub(super) fn sample(samples: &mut Vec<u64>, took: std::time::Duration) {
        if samples.len() < SAMPLES {
            samples.push(took.as_nanos() as u64);
        }
    }
}
