//! Threads in system calls: a stop does not end a call. When signals stop the threads, some calls return EINTR, which the collector cannot
//! prevent (`.stop.eintr`). A debugger that stops them itself interrupts only the calls that the kernel ends for ptrace too: epoll_wait,
//! sigtimedwait and recv with a timeout.

use super::{Session, equal, expect};
use crate::facts::TestResult;

/// Collects while threads are in these calls. None of the calls may be interrupted.
fn undisturbed(s: &mut Session, calls: &[&str]) -> TestResult<()> {
    for call in calls {
        s.program.start_mutator(call, &format!("calling {call}"))?;
    }
    s.attach()?;
    for _ in 0..20 {
        s.collect(1)?;
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    s.detach()?;
    for call in calls {
        let facts = s.program.ask(&format!("end {call}"))?;
        let number = |key: &str| facts.number::<u64>(key);
        expect(number("calls")? > 0, || format!("{call}: no call was made"))?;
        equal(&format!("{call}: interrupted"), number("eintr")?, 0)?;
        equal(&format!("{call}: returned early"), number("short")?, 0)?;
    }
    s.program.is_left_alone()
}

/// The calls that the kernel restarts after a handler.
pub fn restartable(s: &mut Session) -> TestResult<()> {
    undisturbed(s, &["read", "futex"])
}

/// The calls that the kernel does not restart after a handler.
pub fn none_interrupted(s: &mut Session) -> TestResult<()> {
    undisturbed(s, &["nanosleep", "clock_nanosleep", "timed_futex", "poll", "select", "read", "futex"])
}
