//! What the debugger does with the program's own signals.
//!
//! A traced thread reports each signal before it is delivered, so the debugger decides three things for each: whether to stop every thread
//! for the user, whether to report the signal, and whether the program receives it. gdb calls these *stop*, *print* and *pass*.
//!
//! The collector's two signals are not subject to this: a notification is served, and the suspend signal is always passed on.
//!
//! # Ctrl-C
//!
//! The terminal sends SIGINT to every process of its foreground group: to the debugger, and to a program that the debugger launched. A program
//! that was attached to is in another group. So the debugger's user interface acts on its own SIGINT in both cases, and the program's
//! copy of the same key press is dropped unless the rule for SIGINT passes the signal on.

use super::core::Debugger;
use super::event::{Event, Passed, Stopped};
use super::sys::{self, SignalInfo};
use super::tracee::Stop;
use crate::os::Tid;

/// The largest number of a signal.
const LAST: usize = 64;

/// What is done with one signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalRule {
    /// Every thread is stopped for the user before the signal is delivered.
    pub stop: bool,
    /// The signal is reported as an [`Event::Signal`].
    pub print: bool,
    /// The program receives the signal. Otherwise it is dropped.
    pub pass: bool,
}

impl SignalRule {
    /// Passed on without a word.
    pub const SILENT: Self = Self { stop: false, print: false, pass: true };
    /// Passed on and reported.
    pub const REPORTED: Self = Self { stop: false, print: true, pass: true };
    /// Every thread is stopped first; the program receives the signal when its thread continues.
    pub const STOPPING: Self = Self { stop: true, print: true, pass: true };
    /// Every thread is stopped, and the program does not receive the signal.
    pub const WITHHELD: Self = Self { stop: true, print: true, pass: false };
}

/// The rule for each signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalRules([SignalRule; LAST + 1]);

impl SignalRules {
    /// Every signal is reported and passed on.
    pub const REPORTED: Self = Self([SignalRule::REPORTED; LAST + 1]);

    /// For a user at a prompt: faults and aborts stop the program, SIGINT and SIGTRAP stop it and are kept from it as in gdb, and all
    /// other signals pass silently.
    pub fn for_a_prompt() -> Self {
        let mut rules = Self([SignalRule::SILENT; LAST + 1]);
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGSYS] {
            rules.set(signal, SignalRule::STOPPING);
        }
        for signal in [libc::SIGINT, libc::SIGTRAP] {
            rules.set(signal, SignalRule::WITHHELD);
        }
        rules
    }

    /// The rule for a signal. One that does not exist is [`SignalRule::REPORTED`].
    pub fn of(&self, signal: i32) -> SignalRule {
        let rule = usize::try_from(signal).ok().and_then(|signal| self.0.get(signal));
        rule.copied().unwrap_or(SignalRule::REPORTED)
    }

    /// Changes the rule for a signal. A number that is no signal's is ignored.
    pub fn set(&mut self, signal: i32, rule: SignalRule) {
        if let Some(place) = usize::try_from(signal).ok().and_then(|signal| self.0.get_mut(signal)) {
            *place = rule;
        }
    }
}

impl Debugger {
    /// The rule for a signal of the program.
    pub fn signal_rule(&self, signal: i32) -> SignalRule {
        self.options.signals.of(signal)
    }

    /// Changes what is done with a signal of the program, from the next one on.
    pub fn set_signal_rule(&mut self, signal: i32, rule: SignalRule) {
        self.options.signals.set(signal, rule);
    }

    /// A thread stands before a signal of the program: applies the rule. The result is how the thread stands.
    pub(super) fn own_signal(&mut self, tid: i32, signal: i32, info: Option<&SignalInfo>) -> Stop {
        let rule = self.signal_rule(signal);
        let is_our_key = info.is_some_and(SignalInfo::is_from_the_kernel) && sys::is_of_our_group(self.pid);
        if signal == libc::SIGINT && !rule.pass && is_our_key {
            return Stop::Plain;
        }
        let Some(tracee) = self.tracees.get_mut(&tid) else { return Stop::Signal(signal) };
        let waits = tracee.is_held() || rule.stop;
        let passed = match (rule.pass, waits) {
            (false, _) => Passed::Withheld,
            (true, true) => Passed::Later,
            (true, false) => Passed::On,
        };
        match passed {
            Passed::On => self.statistics.passed_signals += 1,
            Passed::Later => self.statistics.held_signals += 1,
            Passed::Withheld => self.statistics.withheld_signals += 1,
        }
        let mut stopped = Stopped::No;
        if rule.stop {
            // This thread at once; the others as soon as this report has been dealt with.
            tracee.by_user = true;
            self.stop_is_due = true;
            stopped = Stopped::All;
        }
        if rule.print || rule.stop {
            self.events.push_back(Event::Signal { tid: Tid(tid), signal, passed, stopped });
        }
        if rule.pass { Stop::Signal(signal) } else { Stop::Plain }
    }

    /// Stops every thread for the user if a signal's rule wants it.
    pub(super) fn stop_if_due(&mut self) {
        if !std::mem::take(&mut self.stop_is_due) {
            return;
        }
        // A thread that cannot be stopped runs on, and the list of threads shows it; the others are stopped.
        let _ = self.stop_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(libc::SIGUSR1, SignalRule::SILENT)]
    #[case(libc::SIGCHLD, SignalRule::SILENT)]
    #[case(40, SignalRule::SILENT)]
    #[case(64, SignalRule::SILENT)]
    #[case(libc::SIGSEGV, SignalRule::STOPPING)]
    #[case(libc::SIGABRT, SignalRule::STOPPING)]
    #[case(libc::SIGINT, SignalRule::WITHHELD)]
    #[case(65, SignalRule::REPORTED)]
    #[case(-1, SignalRule::REPORTED)]
    fn a_prompt_stops_at_faults_and_passes_the_rest_silently(#[case] signal: i32, #[case] rule: SignalRule) {
        assert_eq!(SignalRules::for_a_prompt().of(signal), rule);
    }

    #[test]
    fn the_rule_of_one_signal_changes_no_other() {
        let mut rules = SignalRules::REPORTED;
        rules.set(40, SignalRule::WITHHELD);
        rules.set(65, SignalRule::WITHHELD);
        assert_eq!((1..=64).filter(|signal| rules.of(*signal) != SignalRule::REPORTED).collect::<Vec<_>>(), [40]);
    }
}
