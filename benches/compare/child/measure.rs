//! What the programs of the benchmarks need to read their arguments and to measure themselves.

use std::time::Duration;

/// The error of a child program.
pub type Failure = Box<dyn std::error::Error>;

/// Parses the argument at `position` as a number.
pub fn number<N: std::str::FromStr>(arguments: &[&str], position: usize, name: &str) -> Result<N, Failure> {
    let argument = arguments.get(position).ok_or_else(|| format!("{name} is missing"))?;
    argument.parse().map_err(|_| format!("{name}: {argument:?} is not a number").into())
}

pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the peak resident memory of this process, in MB.
pub fn peak_rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let high_water = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = high_water.and_then(|value| value.split_whitespace().next()).and_then(|kb| kb.parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) / 1024.0
}

/// Returns the CPU time of the whole process, in seconds.
pub fn cpu_s() -> f64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID).as_secs_f64()
}

pub fn clock(which: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that outlives the call; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(which, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
