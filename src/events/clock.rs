//! The clock of recorded events: ticks, and how they relate to time.
//!
//! A record must not cost a call of `clock_gettime`, so its time is the processor's time stamp counter, if that is
//! reliable; otherwise CLOCK_MONOTONIC in nanoseconds. The choice is made once per process. A [`Relation`] ties ticks to
//! CLOCK_MONOTONIC: a pair of readings taken together, and the rate. The rate is measured once, when the clock is
//! first used (some 1 ms), and never changes, so that a file can contain it in its header. New pairs are read as
//! often as a file needs them, because the kernel's own adjustments cause small differences within an hour.

use std::sync::OnceLock;

use crate::os;
use crate::sync::{AtomicU32, Ordering};

/// The clock that counts the ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSource {
    /// The processor's time stamp counter.
    Tsc,
    /// CLOCK_MONOTONIC: a tick is a nanosecond.
    Monotonic,
}

/// The ticks and the nanoseconds of one moment, and the rate of the ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relation {
    /// The number of ticks at the moment.
    pub ticks: u64,
    /// The time of CLOCK_MONOTONIC at the moment, in nanoseconds.
    pub ns: u64,
    /// The number of ticks per second.
    pub hz: u64,
}

impl Relation {
    /// Converts ticks to CLOCK_MONOTONIC, in nanoseconds.
    pub fn ns_of(&self, ticks: u64) -> u64 {
        let scale = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / u128::from(self.hz)) as u64;
        if ticks >= self.ticks {
            self.ns.saturating_add(scale(ticks - self.ticks))
        } else {
            self.ns.saturating_sub(scale(self.ticks - ticks))
        }
    }
}

/// The process's clock of recorded events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    source: ClockSource,
    hz: u64,
}

static CLOCK: OnceLock<Clock> = OnceLock::new();
/// The source of [`ticks`]: 0 the monotonic clock, 1 the counter. Set before anything is recorded.
static COUNTER: AtomicU32 = AtomicU32::new(0);

/// Reads the clock for a record. This takes one load, and the instruction that reads the counter or a call of `clock_gettime`.
/// [`Clock::of_process`] must have been called before. The read is not ordered with the instructions around it.
#[inline(always)]
pub(super) fn ticks() -> u64 {
    if is_the_counter() { os::tsc::read() } else { slow_ticks() }
}

/// Whether [`ticks`] reads the counter. [`Clock::of_process`] must have been called before.
#[inline(always)]
pub(super) fn is_the_counter() -> bool {
    COUNTER.load(Ordering::Relaxed) != 0
}

#[cold]
#[inline(never)]
fn slow_ticks() -> u64 {
    os::clock::now_ns()
}

impl Clock {
    /// Returns the clock of this process. The first call takes some 1 ms, reads /sys, and allocates, so it must not be made in the
    /// stopped world or in a signal handler.
    pub fn of_process() -> Clock {
        *CLOCK.get_or_init(|| {
            let clock = Clock::choose(os::tsc::is_a_clock());
            COUNTER.store(u32::from(clock.source == ClockSource::Tsc), Ordering::Relaxed);
            clock
        })
    }

    fn choose(counter_is_a_clock: bool) -> Clock {
        if counter_is_a_clock {
            Clock { source: ClockSource::Tsc, hz: measure() }
        } else {
            Clock { source: ClockSource::Monotonic, hz: 1_000_000_000 }
        }
    }

    /// Returns what counts the ticks.
    pub fn source(self) -> ClockSource {
        self.source
    }

    /// Returns the number of ticks per second.
    pub fn hz(self) -> u64 {
        self.hz
    }

    /// Returns the time from one reading to a later one, in nanoseconds.
    pub fn span_ns(self, from: u64, until: u64) -> u64 {
        let since = Relation { ticks: from, ns: 0, hz: self.hz };
        since.ns_of(until.max(from))
    }

    /// Reads the clock, in ticks.
    pub fn now(self) -> u64 {
        match self.source {
            ClockSource::Tsc => os::tsc::read(),
            ClockSource::Monotonic => os::clock::now_ns(),
        }
    }

    /// Reads how the ticks relate to time now. Allocates nothing and never waits.
    pub fn relation(self) -> Relation {
        match self.source {
            ClockSource::Tsc => {
                let (ticks, ns) = pair(5);
                Relation { ticks, ns, hz: self.hz }
            }
            ClockSource::Monotonic => {
                let ns = os::clock::now_ns();
                Relation { ticks: ns, ns, hz: self.hz }
            }
        }
    }
}

/// Reads both clocks at one moment: makes `tries` attempts and returns the readings of the attempt that took the shortest time.
fn pair(tries: u32) -> (u64, u64) {
    let tries = (0..tries).map(|_| {
        let before = os::tsc::read();
        let ns = os::clock::now_ns();
        let after = os::tsc::read();
        (after.wrapping_sub(before), before + after.wrapping_sub(before) / 2, ns)
    });
    let (_, ticks, ns) = tries.min().unwrap_or_default();
    (ticks, ns)
}

/// Measures the counter's ticks per second, to one millionth: the best of many pairs has an error of about a nanosecond.
fn measure() -> u64 {
    const LONG_ENOUGH_NS: u64 = 1_000_000;
    const TRIES: u32 = 32;
    let (first_ticks, first_ns) = pair(TRIES);
    std::thread::sleep(std::time::Duration::from_nanos(LONG_ENOUGH_NS));
    let (ticks, ns) = pair(TRIES);
    let hz = u128::from(ticks.saturating_sub(first_ticks)) * 1_000_000_000 / u128::from((ns - first_ns).max(1));
    (hz as u64).max(1)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::counter(true)]
    #[case::monotonic(false)]
    fn a_relation_converts_ticks_before_and_after_its_moment(#[case] counter: bool) {
        let clock = Clock::choose(counter);
        let early = clock.relation();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let late = clock.relation();
        for (relation, other) in [(early, late), (late, early)] {
            assert!(relation.ns_of(other.ticks).abs_diff(other.ns) < 500_000, "{relation:?} {other:?}");
        }
        assert_eq!(Relation { ticks: 10, ns: 5, hz: 1 }.ns_of(3), 0, "a time before zero is zero");
    }
}
