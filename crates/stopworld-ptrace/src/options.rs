//! How a target is debugged: what its user chooses before it begins.

use std::time::Duration;

use super::Mode;
use super::signal_rules::SignalRules;

/// Whether the collector tells each of its phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phases {
    /// It does, and each costs a stop of the collecting thread.
    Told,
    /// It does not.
    #[default]
    Untold,
}

/// How the collector notifies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channel {
    /// By a signal to itself whose handler in the program does nothing. Nothing in the program is changed.
    #[default]
    Signal,
    /// By a function at which there is a breakpoint. Of a debugger that dies it stays, and the program heals it.
    Breakpoint,
}

/// What becomes of the threads that a full stop holds, should the debugger die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDeath {
    /// They wait for the end of the collection in a stub of the collector's.
    #[default]
    Park,
    /// They run on, and the collection is worth nothing.
    RunOn,
}

/// Whether the debugger looks after itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restored {
    /// Before a full stop's threads go on, each is compared with what it was when the world stood: all registers, the extended ones too,
    /// which signals it blocks, and its red zone. It makes stops several times as long.
    Compared,
    /// They are not compared.
    #[default]
    Trusted,
}

/// How to debug.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Who stops the world.
    pub mode: Mode,
    /// Whether phases are told.
    pub phases: Phases,
    /// How the collector notifies.
    pub channel: Channel,
    /// For the case that the debugger dies.
    pub on_death: OnDeath,
    /// Whether threads are compared with what they were.
    pub restored: Restored,
    /// What is done with the program's own signals.
    pub signals: SignalRules,
    /// How long it may take until a thread stands.
    pub stop_within: Duration,
    /// How long a function of the target that is called may take.
    pub call_within: Duration,
}

impl Default for Options {
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
