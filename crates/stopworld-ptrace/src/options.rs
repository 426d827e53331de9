//! The options of a debugger, chosen before it attaches.

use std::time::Duration;

use super::Mode;
use super::signal_rules::SignalRules;

/// Whether the collector notifies of its phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phases {
    /// The collector notifies of phases. Each notification costs a stop of the collecting thread.
    Reported,
    /// The collector does not notify of phases.
    #[default]
    Unreported,
}

/// How the collector notifies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channel {
    /// By a signal to itself whose handler in the program does nothing. Nothing in the program is changed.
    #[default]
    Signal,
    /// By a function at which there is a breakpoint. If the debugger dies the breakpoint stays, and the program makes it harmless.
    Breakpoint,
}

/// What happens to the threads that a full stop holds if the debugger dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDeath {
    /// The threads wait for the end of the collection in the collector's `park` function.
    #[default]
    Park,
    /// The threads run on, and the collection is discarded.
    RunOn,
}

/// Whether the debugger verifies that it restores threads exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restored {
    /// Before a full stop's threads are resumed, the state of each is compared with its state when the world had stopped: all registers,
    /// including the extended ones, the blocked signals, and its red zone. This makes stops several times as long.
    Compared,
    /// The states are not compared.
    #[default]
    Trusted,
}

/// The options of a debugger.
#[derive(Clone, Copy, Debug)]
pub struct DebuggerOptions {
    /// Whether the debugger or the collector stops the world.
    pub mode: Mode,
    /// Whether the collector notifies of phases.
    pub phases: Phases,
    /// How the collector notifies.
    pub channel: Channel,
    /// What happens to stopped threads if the debugger dies.
    pub on_death: OnDeath,
    /// Whether the state of threads is compared after a stop.
    pub restored: Restored,
    /// How the program's own signals are handled.
    pub signals: SignalRules,
    /// The time limit for stopping a thread.
    pub stop_within: Duration,
    /// The time limit for a called function of the target.
    pub call_within: Duration,
}

impl Default for DebuggerOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Full,
            phases: Phases::default(),
            channel: Channel::default(),
            on_death: OnDeath::default(),
            restored: Restored::default(),
            signals: SignalRules::REPORTED,
            stop_within: Duration::from_secs(2),
            call_within: Duration::from_secs(2),
        }
    }
}
