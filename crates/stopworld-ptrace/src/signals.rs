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
use super::signal_rules::SignalRule;
use super::sys::{self, SignalInfo};
use super::tracee::Stop;
use stopworld_platform::os::Tid;

impl Debugger {
    /// Returns the rule for a signal of the program.
    pub fn signal_rule(&self, signal: i32) -> SignalRule {
        self.options.signals.of(signal)
    }

    /// Changes the rule for a signal of the program, from the next one on.
    pub fn set_signal_rule(&mut self, signal: i32, rule: SignalRule) {
        self.options.signals.set(signal, rule);
    }

    /// Applies the rule to a thread that is in a signal-delivery stop for a signal of the program. Returns the thread's state.
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
            // This thread is stopped at once, the others as soon as this report has been handled.
            tracee.by_user = true;
            self.stop_is_due = true;
            stopped = Stopped::All;
        }
        if rule.print || rule.stop {
            self.events.push_back(Event::Signal { tid: Tid(tid), signal, passed, stopped });
        }
        if rule.pass { Stop::Signal(signal) } else { Stop::Plain }
    }

    /// Stops every thread for the user if a signal's rule requires it.
    pub(super) fn stop_if_due(&mut self) {
        if !std::mem::take(&mut self.stop_is_due) {
            return;
        }
        // A thread that cannot be stopped runs on, and the list of threads shows it; the others are stopped.
        let _ = self.stop_all();
    }
}
