//! Clocks, and a time budget that excludes time in which the process could not run.
//!
//! A timeout measured by subtracting two clock readings is wrong when the whole process did not run in between: after Ctrl-Z,
//! in a suspended virtual machine, or at a debugger's prompt. [`Budget`] is therefore spent in short slices: a slice costs its
//! measured time, but never more than its nominal length. Thirty seconds of SIGSTOP fall into one slice and cost 20 ms
//! (`.stop.jobcontrol`).
//!
//! All functions here are async-signal-safe and stop-safe (the vDSO, or a plain system call).

use std::time::Duration;

use crate::sabotage::{Guard, removed};
use crate::sync::lock::Patience;

fn read(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid place to write to. The clocks used here exist on every Linux, so the call can't fail.
    unsafe { libc::clock_gettime(clock, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// Returns the time of CLOCK_MONOTONIC in nanoseconds. A call takes about 25 ns.
#[inline]
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns the processor time that the process has used, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the processor time that the calling thread has used, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the processor time that a thread of this process has used, in nanoseconds; `None` if there is no such thread. Makes a system
/// call, in which the kernel may have to ask another processor: about half a microsecond. Errno preserved.
pub fn thread_cpu_ns_of(tid: super::Tid) -> Option<u64> {
    // The clock id of a thread on Linux: the complement of its id, shifted left by 3; then 4 for "of a thread" and 2 for "as
    // scheduled".
    let clock = (!tid.0 << 3) | 4 | 2;
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid place to write to.
    let r = super::preserving_errno(|| unsafe { libc::clock_gettime(clock, &mut ts) });
    (r == 0).then_some(ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64)
}

/// The processor time of the process in microseconds, as C's `clock` counts it.
pub fn process_cpu_us() -> u64 {
    process_cpu_ns() / 1_000
}

/// The longest slice of a [`Budget`].
pub const SLICE_NS: u64 = 20_000_000;

/// A timeout that is spent in slices: see the module's text.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    total_ns: u64,
    left_ns: u64,
}

impl Budget {
    /// A budget of this much time.
    pub fn new(total: Duration) -> Self {
        let total_ns = u64::try_from(total.as_nanos()).unwrap_or(u64::MAX);
        Self { total_ns, left_ns: total_ns }
    }

    /// The initial amount.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.total_ns)
    }

    /// The time charged so far (not wall time).
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.total_ns - self.left_ns)
    }

    /// Calls `spend` with three quarters of the remaining time. The other quarter is available again after `spend` has returned.
    pub fn sparing_a_quarter<R>(&mut self, spend: impl FnOnce(&mut Self) -> R) -> R {
        let spared = self.left_ns / 4;
        self.left_ns -= spared;
        let result = spend(self);
        self.left_ns += spared;
        result
    }

    /// Whether nothing is left.
    pub fn is_exhausted(&self) -> bool {
        self.left_ns == 0
    }

    /// Runs `wait` with the length of the next slice in nanoseconds (at most `longest` and at most [`SLICE_NS`]),
    /// and charges the time it took, at most that length. `None` when nothing is left.
    pub fn slice<R>(&mut self, longest: u64, wait: impl FnOnce(u64) -> R) -> Option<R> {
        if self.left_ns == 0 {
            return None;
        }
        let nominal = self.left_ns.min(SLICE_NS).min(longest.max(1));
        let start = now_ns();
        let result = wait(nominal);
        let took = now_ns().saturating_sub(start);
        let charged = if removed(Guard::StopJobControl) { took } else { took.min(nominal) };
        self.left_ns = self.left_ns.saturating_sub(charged);
        Some(result)
    }
}

impl Patience for Budget {
    fn slice(&mut self, wait: &mut dyn FnMut(u64)) -> bool {
        self.slice(u64::MAX, wait).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `.stop.jobcontrol`
    #[test]
    fn a_long_pause_of_the_whole_process_costs_one_slice() {
        crate::sabotage::choose();
        let mut budget = Budget::new(Duration::from_millis(100));
        let slept = budget.slice(u64::MAX, |_| std::thread::sleep(Duration::from_millis(150)));
        assert!(slept.is_some());
        assert!(!budget.is_exhausted(), "a pause longer than the whole budget was charged in full");
        assert!(budget.spent() <= Duration::from_nanos(SLICE_NS));
    }

    #[test]
    fn a_threads_cpu_time_is_the_same_from_another_thread() {
        let me = crate::os::thread::gettid();
        let before = thread_cpu_ns();
        let seen = std::thread::spawn(move || thread_cpu_ns_of(me)).join().unwrap().unwrap();
        assert!((before..=thread_cpu_ns()).contains(&seen));
        assert_eq!(thread_cpu_ns_of(crate::os::Tid(i32::MAX >> 4)), None);
    }

    #[test]
    fn the_spared_quarter_is_available_afterwards() {
        let mut budget = Budget::new(Duration::from_millis(8));
        let sleep = |ns| std::thread::sleep(Duration::from_nanos(ns));
        budget.sparing_a_quarter(|budget| while budget.slice(1_000_000, sleep).is_some() {});
        assert_eq!(budget.spent(), Duration::from_millis(6));
        assert!(budget.slice(1_000_000, sleep).is_some());
    }

    #[test]
    fn a_budget_ends() {
        let mut budget = Budget::new(Duration::from_millis(5));
        let mut slices = 0;
        while budget.slice(1_000_000, |ns| std::thread::sleep(Duration::from_nanos(ns))).is_some() {
            slices += 1;
        }
        assert!(budget.is_exhausted());
        assert_eq!(slices, 5);
    }
}
