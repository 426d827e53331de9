//! The user's rule for each signal of the program: gdb's *stop*, *print* and *pass*.

/// The largest number of a signal.
const LAST: usize = 64;

/// What is done with one signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalRule {
    /// Every thread is stopped for the user before the signal is delivered.
    pub stop: bool,
    /// The signal is reported as an [`Event::Signal`](super::Event::Signal).
    pub print: bool,
    /// The program receives the signal. Otherwise it is dropped.
    pub pass: bool,
}

impl SignalRule {
    /// Passed on without a report.
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

    /// Returns the rule for a signal; [`SignalRule::REPORTED`] for a signal that does not exist.
    pub fn of(&self, signal: i32) -> SignalRule {
        let rule = usize::try_from(signal).ok().and_then(|signal| self.0.get(signal));
        rule.copied().unwrap_or(SignalRule::REPORTED)
    }

    /// Changes the rule for a signal. An invalid number is ignored.
    pub fn set(&mut self, signal: i32, rule: SignalRule) {
        if let Some(place) = usize::try_from(signal).ok().and_then(|signal| self.0.get_mut(signal)) {
            *place = rule;
        }
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
