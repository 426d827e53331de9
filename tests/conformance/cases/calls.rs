//! Threads in system calls: a stop is no end of a call. By signals some calls come back with EINTR whatever one does
//! (`.stop.eintr`); a debugger that does the stopping itself interrupts none but those that the kernel gives up for ptrace too:
//! epoll_wait, sigtimedwait and recv with a time limit.

use super::{Session, equal, expect};
use crate::facts::Told;

/// Collects while threads are in the calls. None of them may have been interrupted.
fn undisturbed(s: &mut Session, calls: &[&str]) -> Told<()> {
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
        expect(number("calls")? > 0, || format!("{call}: none was made"))?;
        equal(&format!("{call}: interrupted"), number("eintr")?, 0)?;
        equal(&format!("{call}: back before its time"), number("short")?, 0)?;
    }
    s.program.is_left_alone()
}

/// Those that the kernel restarts after a handler.
pub fn restartable(s: &mut Session) -> Told<()> {
    undisturbed(s, &["read", "futex"])
}

/// Those that it does not.
pub fn none_interrupted(s: &mut Session) -> Told<()> {
    undisturbed(s, &["nanosleep", "clock_nanosleep", "timed_futex", "poll", "select", "read", "futex"])
}
