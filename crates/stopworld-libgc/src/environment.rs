//! The settings that come from the environment, and from functions that are called before the library is initialised.

use std::env;

use stopworld::Stopper;

use crate::data::{
    GC_all_interior_pointers, GC_dont_gc, GC_find_leak, GC_free_space_divisor, GC_full_freq, GC_time_limit,
};
use crate::print::warn;
use crate::sync::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// The signals that bdwgc uses on Linux: programs that unblock the suspend signal, or avoid both, expect these.
pub(crate) static SUSPEND_SIGNAL: AtomicI32 = AtomicI32::new(libc::SIGPWR);
pub(crate) static RESTART_SIGNAL: AtomicI32 = AtomicI32::new(libc::SIGXCPU);
/// Whether the program has switched off the collections that allocations cause.
pub(crate) static NOT_AUTOMATIC: AtomicI32 = AtomicI32::new(0);
/// The number of markers that the program has requested; 0 if none.
pub(crate) static MARKERS: AtomicU32 = AtomicU32::new(0);
/// The largest size of the heap that the program has requested, in bytes; 0 if none.
pub(crate) static MAXIMUM_HEAP: AtomicUsize = AtomicUsize::new(0);

/// How threads are stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stopping {
    #[default]
    Signals,
    /// Threads stop when they allocate: for programs whose threads all do.
    Safepoints,
    MockDebugger,
}

impl Stopping {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "signals" => Some(Self::Signals),
            "safepoints" => Some(Self::Safepoints),
            "mock-debugger" => Some(Self::MockDebugger),
            _ => None,
        }
    }

    /// Returns the stopper with which the world is built.
    pub(crate) fn built_in(self) -> Stopper {
        match self {
            Self::Safepoints => Stopper::Safepoints,
            Self::Signals | Self::MockDebugger => Stopper::Signals,
        }
    }
}

/// What the environment sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    pub(crate) initial_heap: Option<usize>,
    pub(crate) maximum_heap: Option<usize>,
    pub(crate) markers: Option<usize>,
    pub(crate) prints_statistics: bool,
    pub(crate) log_file: Option<String>,
    pub(crate) is_paranoid: bool,
    pub(crate) budget: Option<usize>,
    pub(crate) stopper: Option<Stopping>,
}

/// Parses a size in bytes: a number, and k, M or G, as bdwgc has them.
fn size(text: &str) -> Option<usize> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift).filter(|&bytes| bytes > 0)
}

/// Reads a variable whose value `parse` understands. Warns of another value, and ignores it.
fn read<T>(name: &str, expects: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let value = env::var(name).ok()?;
    let parsed = parse(&value);
    if parsed.is_none() {
        warn(&format!("{name}={value} in the environment is ignored: it must be {expects}"));
    }
    parsed
}

fn read_size(name: &str) -> Option<usize> {
    read(name, "a size in bytes, such as 64M", size)
}

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some()
}

impl Settings {
    /// Reads the environment, and sets those exported variables to which it gives a value.
    pub(crate) fn read() -> Settings {
        let count = |text: &str| text.parse().ok().filter(|&count: &usize| (1..=64).contains(&count));
        if is_set("GC_DONT_GC") {
            GC_dont_gc.store(1, Ordering::Relaxed);
        }
        if is_set("GC_ALL_INTERIOR_POINTERS") {
            GC_all_interior_pointers.store(1, Ordering::Relaxed);
        }
        if let Some(divisor) =
            read("GC_FREE_SPACE_DIVISOR", "a number above 0", |text| text.parse().ok().filter(|&n| n > 0))
        {
            GC_free_space_divisor.store(divisor, Ordering::Relaxed);
        }
        // These set what the getters return. Each collection is a full one.
        if let Some(frequency) = read("GC_FULL_FREQUENCY", "a number", |text| text.parse().ok()) {
            GC_full_freq.store(frequency, Ordering::Relaxed);
        }
        if let Some(limit) = read("GC_PAUSE_TIME_TARGET", "a number of milliseconds", |text| text.parse().ok()) {
            GC_time_limit.store(limit, Ordering::Relaxed);
        }
        if is_set("GC_FIND_LEAK") {
            GC_find_leak.store(1, Ordering::Relaxed);
        }
        let markers = read("GC_MARKERS", "a number from 1 to 64", count);
        Settings {
            initial_heap: read_size("GC_INITIAL_HEAP_SIZE"),
            maximum_heap: read_size("GC_MAXIMUM_HEAP_SIZE"),
            markers: markers.or_else(|| read("GC_NPROCS", "a number from 1 to 64", count)),
            prints_statistics: is_set("GC_PRINT_STATS") || is_set("GC_PRINT_VERBOSE_STATS"),
            log_file: env::var("GC_LOG_FILE").ok(),
            is_paranoid: is_set("STOPWORLD_PARANOID")
                && env::var_os("STOPWORLD_PARANOID").is_none_or(|value| value != "0"),
            budget: read_size("STOPWORLD_BUDGET"),
            stopper: read("STOPWORLD_STOPPER", "signals, safepoints or mock-debugger", Stopping::parse),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("1", Some(1))]
    #[case("64k", Some(64 << 10))]
    #[case("32M", Some(32 << 20))]
    #[case("3G", Some(3 << 30))]
    #[case("", None)]
    #[case("0", None)]
    #[case("M", None)]
    #[case("1x", None)]
    #[case("99999999999999999G", None)]
    fn sizes(#[case] text: &str, #[case] bytes: Option<usize>) {
        assert_eq!(size(text), bytes);
    }
}
