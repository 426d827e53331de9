//! What /proc reports about one thread, for the error that names it.
//!
//! When a thread does not acknowledge a stop, a lost signal is rarely the reason. The thread blocks the signal, a debugger has
//! stopped it, it sleeps in the kernel where no signal reaches it, or it has ended. The error reports which of these the kernel shows.
//!
//! Reading files allocates. Use it only before a stop or after the world runs again, never inside (`.stop.no-malloc`).

use std::fmt;
use std::io;
use std::path::Path;

use super::Tid;

/// A thread's description. Everything is optional: a thread may be gone, and /proc may not be mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadDescription {
    /// `R (running)`, `S (sleeping)`, `D (disk sleep)`, `T (stopped)`, `t (tracing stop)`, `Z (zombie)`; `None` when
    /// there is no such thread.
    pub state: Option<String>,
    /// The process that traces it, 0 for none.
    pub tracer_pid: i32,
    /// Bit n−1 set: signal n is blocked.
    pub sig_blk: u64,
    /// Bit n−1 set: signal n is pending for this thread.
    pub sig_pending: u64,
    /// Bit n−1 set: signal n is pending for the process, and any thread may take it.
    pub shared_pending: u64,
    /// Bit n−1 set: the process has a handler for signal n.
    pub sig_caught: u64,
    /// The kernel function in which it sleeps, if the kernel reports it.
    pub wchan: Option<String>,
    /// The thread's name as the kernel knows it.
    pub comm: Option<String>,
    /// The system call in which it sleeps: its number, if the kernel reports it.
    pub syscall: Option<i64>,
}

impl ThreadDescription {
    /// Whether the thread blocks `signal`.
    pub fn blocks(&self, signal: i32) -> bool {
        self.sig_blk >> (signal - 1) & 1 == 1
    }

    /// Whether `signal` is pending for the thread.
    pub fn has_pending(&self, signal: i32) -> bool {
        self.sig_pending >> (signal - 1) & 1 == 1
    }

    /// The letter of the state.
    pub fn state_letter(&self) -> Option<char> {
        self.state.as_ref().and_then(|s| s.chars().next())
    }
}

impl fmt::Display for ThreadDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State {}", self.state.as_deref().unwrap_or("gone"))?;
        write!(f, ", TracerPid {}, SigBlk {:016x}", self.tracer_pid, self.sig_blk)?;
        write!(f, ", SigPnd {:016x}, ShdPnd {:016x}", self.sig_pending, self.shared_pending)?;
        write!(f, ", SigCgt {:016x}, wchan {}", self.sig_caught, self.wchan.as_deref().unwrap_or("-"))?;
        match self.syscall {
            Some(number) => write!(f, ", syscall {number}"),
            None => write!(f, ", syscall -"),
        }
    }
}

/// A set of signals as /proc writes it.
fn signals_in(value: &str) -> u64 {
    u64::from_str_radix(value, 16).unwrap_or(0)
}

/// Reads a text file of /proc. A thread's name may have any bytes: those that are not UTF-8 are replaced by U+FFFD. Allocates.
///
/// # Errors
/// The file cannot be read, for example because the thread has ended.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

/// Reads /proc/self/task/TID. Allocates.
pub fn describe(tid: Tid) -> ThreadDescription {
    let read = |file: &str| read_text(format!("/proc/self/task/{tid}/{file}")).ok();
    let mut description = ThreadDescription::default();
    let Some(status) = read("status") else { return description };
    for line in status.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match key {
            "Name" => description.comm = Some(value.to_owned()),
            "State" => description.state = Some(value.to_owned()),
            "TracerPid" => description.tracer_pid = value.parse().unwrap_or(0),
            "SigBlk" => description.sig_blk = signals_in(value),
            "SigPnd" => description.sig_pending = signals_in(value),
            "ShdPnd" => description.shared_pending = signals_in(value),
            "SigCgt" => description.sig_caught = signals_in(value),
            _ => {}
        }
    }
    description.wchan = read("wchan").filter(|w| !w.is_empty() && w != "0");
    description.syscall = read("syscall").and_then(|s| s.split_whitespace().next()?.parse().ok());
    description
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::{signals, thread::gettid};

    #[test]
    fn a_blocked_signal_is_shown() {
        let _guard = signals::block(libc::SIGURG);
        let d = describe(gettid());
        assert!(d.blocks(libc::SIGURG) && !d.blocks(libc::SIGWINCH));
        assert_eq!(d.state_letter(), Some('R'));
    }

    #[test]
    fn a_pending_signal_is_shown() {
        let _guard = signals::block(libc::SIGWINCH);
        // SAFETY: a signal to this thread, which blocks it; its default is to be ignored.
        assert_eq!(unsafe { libc::raise(libc::SIGWINCH) }, 0);
        let described = describe(gettid());
        assert!(described.has_pending(libc::SIGWINCH), "{described}");
        let text = described.to_string();
        assert!(text.contains("SigPnd 0000000008000000") && text.contains("SigCgt "), "{text}");
    }

    #[test]
    fn a_thread_whose_name_is_not_utf8_has_a_state() {
        let described = std::thread::spawn(|| {
            // SAFETY: sets the name of this thread from a string that ends with a NUL.
            assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, c"\xff\xfe".as_ptr()) }, 0);
            describe(gettid())
        });
        let described = described.join().unwrap();
        assert_eq!((described.state_letter(), described.comm.as_deref()), (Some('R'), Some("\u{fffd}\u{fffd}")));
    }

    #[test]
    fn a_thread_that_does_not_exist_has_no_state() {
        assert_eq!(describe(Tid(i32::MAX)).state, None);
    }
}
