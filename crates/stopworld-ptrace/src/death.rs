//! Makes the debugger kill itself at a given step, for tests.
//!
//! The protocol must survive the debugger's death at each of its steps (`.debug.dies`). The steps are listed in the contract's document.
//! With `STOPWORLD_DEBUGGER_DIES_AT=STEP[:N]` in its environment the debugger kills itself when it reaches the step for the Nth time.

use std::env;

use super::sys;

/// A step of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Attached,
    ControlWritten,
    StopNotified,
    SomeStopped,
    AllStopped,
    RegistersWritten,
    FrozenServed,
    StopAcknowledged,
    Collecting,
    AgainNotified,
    Phase,
    StartNotified,
    SomeRestored,
    StartAcknowledged,
    Detaching,
}

const NAMES: [(Step, &str); 15] = [
    (Step::Attached, "attached"),
    (Step::ControlWritten, "control-written"),
    (Step::StopNotified, "stop-notified"),
    (Step::SomeStopped, "some-stopped"),
    (Step::AllStopped, "all-stopped"),
    (Step::RegistersWritten, "registers-written"),
    (Step::FrozenServed, "frozen-served"),
    (Step::StopAcknowledged, "stop-acknowledged"),
    (Step::Collecting, "collecting"),
    (Step::AgainNotified, "again-notified"),
    (Step::Phase, "phase"),
    (Step::StartNotified, "start-notified"),
    (Step::SomeRestored, "some-restored"),
    (Step::StartAcknowledged, "start-acknowledged"),
    (Step::Detaching, "detaching"),
];

/// The step at which to die, and how many times it must still be reached.
#[derive(Debug, Default)]
pub(super) struct Death {
    at: Option<Step>,
    remaining: u64,
}

impl Death {
    /// Reads the step from the environment. An unknown step is never reached.
    pub(super) fn from_environment() -> Self {
        env::var("STOPWORLD_DEBUGGER_DIES_AT").map(|wish| Self::parse(&wish)).unwrap_or_default()
    }

    fn parse(wish: &str) -> Self {
        let (name, count) = wish.split_once(':').unwrap_or((wish, "1"));
        let at = NAMES.iter().find(|(_, n)| *n == name).map(|(step, _)| *step);
        Self { at, remaining: count.parse().unwrap_or(1) }
    }

    /// Called when the debugger reaches this step.
    pub(super) fn reached(&mut self, step: Step) {
        if self.at != Some(step) {
            return;
        }
        self.remaining = self.remaining.saturating_sub(1);
        if self.remaining == 0 {
            sys::die();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_a_step_and_a_count() {
        let death = Death::parse("registers-written:7");
        assert_eq!((death.at, death.remaining), (Some(Step::RegistersWritten), 7));
        let death = Death::parse("phase");
        assert_eq!((death.at, death.remaining), (Some(Step::Phase), 1));
        assert_eq!(Death::parse("no such step:3").at, None);
    }
}
