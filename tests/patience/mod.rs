//! The time for which tests wait for an event that must happen, also on a busy machine.

#![allow(dead_code, reason = "each test program uses its part")]

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Returns `seconds` seconds. If its guard is removed, a test often waits for an event that never happens; so in a run that removes guards
/// the result is `without_a_guard` seconds.
pub fn patience(seconds: u64, without_a_guard: u64) -> Duration {
    let is_one_removed = std::env::var_os("STOPWORLD_SABOTAGE").is_some();
    Duration::from_secs(if is_one_removed { without_a_guard } else { seconds })
}

/// Aborts the process with a message unless it is dropped in time. For tests that would hang without their guard: a hang has many causes,
/// and only a message shows that it was the expected one.
#[must_use = "the watchdog is off when this is dropped"]
pub struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    /// Starts a watchdog with the limits of [`patience`].
    pub fn new(message: &'static str, seconds: u64, without_a_guard: u64) -> Watchdog {
        let limit = patience(seconds, without_a_guard);
        let (alive, ended) = channel::<()>();
        std::thread::spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // `eprintln!` is not used, because the test harness captures its output until the test ends.
                let _ = writeln!(std::io::stderr(), "watchdog: {message} (after {limit:?})");
                std::process::abort();
            }
        });
        Watchdog { _alive: alive }
    }
}
