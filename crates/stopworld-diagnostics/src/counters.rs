//! The values that `dotnet-counters` shows: the EventCounters of the provider System.Runtime.
//!
//! A session that enables the provider with `EventCounterIntervalSec=N` receives one event per counter every N seconds, the
//! first ones after N seconds. All events are named `EventCounters`; a reader finds the fields by their names, in one of two
//! layouts:
//!
//! * **Mean**: the current value (a size, a share of time);
//! * **Sum**: the increase since the last event (collections, bytes allocated).
//!
//! Readers are strict about two fields: `Series` must contain the requested interval, in milliseconds, and `IntervalSec` the
//! *measured* one.
//!
//! All worlds of the process together count as one heap. A collection collects everything, so it counts for each generation.
//! New objects are generation 0 until they have survived a collection, ordinary survivors are generation 2, and generation 1 is
//! empty. The provider's other form, Metrics, is not supported: a tool that receives no metrics shows these counters.

use std::time::Duration;

use crate::os::clock::process_cpu_ns;
use crate::os::memory::resident_bytes;
use nettrace::clr::Sink;
use nettrace::{EventType, FieldType, Type};
use stopworld::WorldCounters;

/// The name of the provider.
pub(crate) const PROVIDER: &str = "System.Runtime";
/// The provider's argument that turns counters on.
pub(crate) const INTERVAL_KEY: &str = "EventCounterIntervalSec";
/// The shortest interval, whatever the client requests.
const SHORTEST: Duration = Duration::from_millis(10);
/// A megabyte as .NET tools print it: a million bytes.
const MB: f64 = 1e6;
const PER_SECOND: &str = "00:00:01";
const PER_MINUTE: &str = "00:01:00";

/// Parses the interval of an argument. `None` means never.
pub(crate) fn interval(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().filter(|interval| interval.as_millis() > 0)
}

/// The value of a counter event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Mean(f64),
    /// The increase, and the unit of time for which readers show the rate.
    Sum(f64, &'static str),
}

/// One counter at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counter {
    name: &'static str,
    display: &'static str,
    value: Value,
    units: &'static str,
}

/// The totals of one world at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Snapshot {
    collections: u64,
    allocated: u64,
    pause_ns: u64,
}

/// Samples the counters, and keeps the totals of the last sample to compute increases.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// The totals of the last sample, by the serial numbers of the worlds.
    before: Vec<(u64, Snapshot)>,
    cpu_ns: u64,
    processors: f64,
    /// The last values of the totals that can't always be read.
    fresh: u64,
    threads: usize,
}

/// The counters of a world.
pub(crate) struct Source {
    /// Distinguishes the world from earlier ones.
    pub(crate) serial: u64,
    pub(crate) counters: WorldCounters,
}

impl Sampler {
    /// Creates a sampler, which counts increases from the current totals.
    pub(crate) fn new(worlds: &[Source]) -> Sampler {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let mut sampler = Sampler { before: Vec::new(), cpu_ns: process_cpu_ns(), processors, fresh: 0, threads: 0 };
        sampler.sample(worlds, Duration::from_secs(1));
        sampler
    }

    /// Samples the counters, `elapsed` after the last sample.
    pub(crate) fn sample(&mut self, worlds: &[Source], elapsed: Duration) -> Vec<Counter> {
        let mut grown = Snapshot::default();
        let (mut live, mut committed, mut committed_then) = ([0u64; 3], 0, 0);
        let (mut pause, mut period) = (0.0, 0.0);
        let (mut fresh, mut threads) = (Some(0), Some(0));
        let before = std::mem::take(&mut self.before);
        for Source { serial, counters: seen } in worlds {
            let acquired = seen.acquired_bytes;
            let then = before.iter().find(|(one, _)| one == serial).map_or_else(Snapshot::default, |(_, then)| *then);
            let total = seen.allocated_bytes + acquired.unwrap_or(0);
            let now = Snapshot {
                collections: seen.collections.into(),
                // A collection subtracts the cells that threads had acquired but not used, so the total may decrease: keep the maximum.
                allocated: total.max(then.allocated),
                pause_ns: seen.pause_total_ns,
            };
            grown.collections += now.collections.saturating_sub(then.collections);
            grown.allocated += now.allocated - then.allocated;
            grown.pause_ns += now.pause_ns.saturating_sub(then.pause_ns);
            self.before.push((*serial, now));
            live[0] += seen.live.small;
            live[1] += seen.live.large;
            live[2] += seen.live.pinned;
            committed += seen.committed_bytes;
            committed_then += seen.committed_after_collection;
            // If there are several worlds, use the one with the longest last pause.
            if seen.pause_ns as f64 > pause {
                (pause, period) = (seen.pause_ns as f64, seen.period_ns as f64);
            }
            fresh = fresh.zip(acquired).map(|(sum, more)| sum + more);
            threads = threads.zip(seen.threads).map(|(sum, more)| sum + more);
        }
        self.fresh = fresh.unwrap_or(self.fresh);
        self.threads = threads.unwrap_or(self.threads);
        let cpu = process_cpu_ns();
        let busy = cpu.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu)) as f64;
        let cpu_percent = share(busy, elapsed.as_nanos() as f64 * self.processors).min(100.0);
        let survivors: u64 = live.iter().sum();
        let mean = |name, display, value, units| Counter { name, display, value: Value::Mean(value), units };
        let sum = |name, display, value, per, units| Counter { name, display, value: Value::Sum(value, per), units };
        let collections = grown.collections as f64;
        vec![
            mean("cpu-usage", "CPU Usage", cpu_percent, "%"),
            mean("working-set", "Working Set", resident_bytes() as f64 / MB, "MB"),
            mean("gc-heap-size", "GC Heap Size", (survivors + self.fresh) as f64 / MB, "MB"),
            sum("gen-0-gc-count", "Gen 0 GC Count", collections, PER_MINUTE, ""),
            sum("gen-1-gc-count", "Gen 1 GC Count", collections, PER_MINUTE, ""),
            sum("gen-2-gc-count", "Gen 2 GC Count", collections, PER_MINUTE, ""),
            mean("time-in-gc", "% Time in GC since last GC", share(pause, period), "%"),
            mean("gen-0-size", "Gen 0 Size", self.fresh as f64, "B"),
            mean("gen-1-size", "Gen 1 Size", 0.0, "B"),
            mean("gen-2-size", "Gen 2 Size", live[0] as f64, "B"),
            mean("loh-size", "LOH Size", live[1] as f64, "B"),
            mean("poh-size", "POH (Pinned Object Heap) Size", live[2] as f64, "B"),
            sum("alloc-rate", "Allocation Rate", grown.allocated as f64, PER_SECOND, "B"),
            mean(
                "gc-fragmentation",
                "GC Fragmentation",
                share(committed_then.saturating_sub(survivors) as f64, committed_then as f64),
                "%",
            ),
            mean("gc-committed", "GC Committed Bytes", committed as f64 / MB, "MB"),
            sum("total-pause-time-by-gc", "Time paused by GC", grown.pause_ns as f64 / 1e6, PER_SECOND, "ms"),
            mean("thread-count", "Threads of the Heap", self.threads as f64, ""),
        ]
    }
}

/// Returns the share in percent, or 0 if the whole is 0.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// The times at which the counters of a session are due.
#[derive(Debug)]
pub(crate) struct Schedule {
    interval: Duration,
    last_ns: u64,
    next_ns: u64,
}

impl Schedule {
    /// Creates a schedule whose first time is one interval from now.
    pub(crate) fn new(interval: Duration, now_ns: u64) -> Schedule {
        Schedule { interval, last_ns: now_ns, next_ns: now_ns.saturating_add(step(interval)) }
    }

    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Returns the time since the last sample if a sample is due. Missed times are skipped.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<Duration> {
        if now_ns < self.next_ns {
            return None;
        }
        let elapsed = now_ns.saturating_sub(self.last_ns);
        let step = step(self.interval);
        let steps = (now_ns - self.next_ns) / step + 1;
        self.next_ns = self.next_ns.saturating_add(step.saturating_mul(steps));
        // After a late sample the next may be due almost at once. Skip it: a rate over so short a time is meaningless.
        if elapsed < step / 2 {
            return None;
        }
        self.last_ns = now_ns;
        Some(Duration::from_nanos(elapsed))
    }

    /// Returns the text that readers compare with the requested interval.
    pub(crate) fn series(&self) -> String {
        format!("Interval={}", self.interval.as_millis())
    }
}

/// Returns the interval in nanoseconds. If a client requests more than 64 bits can hold, returns the maximum, which means
/// never, instead of truncating.
fn step(interval: Duration) -> u64 {
    u64::try_from(interval.max(SHORTEST).as_nanos()).unwrap_or(u64::MAX)
}

// ---- The two layouts -----------------------------------------------------------------------------------------------------

const MEAN_FIELDS: &[(Type, &str)] = &[
    (Type::Utf16, "Name"),
    (Type::Utf16, "DisplayName"),
    (Type::Double, "Mean"),
    (Type::Double, "StandardDeviation"),
    (Type::Signed(4), "Count"),
    (Type::Double, "Min"),
    (Type::Double, "Max"),
    (Type::Single, "IntervalSec"),
    (Type::Utf16, "Series"),
    (Type::Utf16, "CounterType"),
    (Type::Utf16, "Metadata"),
    (Type::Utf16, "DisplayUnits"),
];

const SUM_FIELDS: &[(Type, &str)] = &[
    (Type::Utf16, "Name"),
    (Type::Utf16, "DisplayName"),
    (Type::Utf16, "DisplayRateTimeScale"),
    (Type::Double, "Increment"),
    (Type::Single, "IntervalSec"),
    (Type::Utf16, "Metadata"),
    (Type::Utf16, "Series"),
    (Type::Utf16, "CounterType"),
    (Type::Utf16, "DisplayUnits"),
];

/// Returns the definitions of the two events, Mean and Sum.
pub(crate) fn definitions() -> [EventType; 2] {
    [definition(2, MEAN_FIELDS), definition(3, SUM_FIELDS)]
}

/// Returns the definition of an event: an unnamed object contains an object named Payload, which has the fields.
fn definition(event: u32, fields: &[(Type, &str)]) -> EventType {
    let field = |(kind, name): &(Type, &str)| FieldType { name: (*name).to_owned(), kind: kind.clone() };
    let object = |name: &str, fields| FieldType { name: name.to_owned(), kind: Type::Object(fields) };
    let payload = object("Payload", fields.iter().map(field).collect());
    EventType {
        provider: PROVIDER.to_owned(),
        event,
        name: "EventCounters".to_owned(),
        fields: vec![object("", vec![payload])],
        ..EventType::default()
    }
}

impl Counter {
    /// Returns the index of the counter's layout in [`definitions`].
    pub(crate) fn layout(&self) -> usize {
        match self.value {
            Value::Mean(_) => 0,
            Value::Sum(..) => 1,
        }
    }

    /// Encodes the payload of the event.
    pub(crate) fn payload(&self, elapsed: Duration, series: &str) -> Vec<u8> {
        let mut to = Vec::with_capacity(160);
        let elapsed = elapsed.as_secs_f32().to_le_bytes();
        z16(&mut to, self.name);
        z16(&mut to, self.display);
        match self.value {
            Value::Mean(value) => {
                let value = value.to_le_bytes();
                to.extend_from_slice(&value);
                to.extend_from_slice(&[0; 8]);
                to.extend_from_slice(&1u32.to_le_bytes());
                to.extend_from_slice(&value);
                to.extend_from_slice(&value);
                to.extend_from_slice(&elapsed);
                [series, "Mean", "", self.units].into_iter().for_each(|text| z16(&mut to, text));
            }
            Value::Sum(value, per) => {
                z16(&mut to, per);
                to.extend_from_slice(&value.to_le_bytes());
                to.extend_from_slice(&elapsed);
                ["", series, "Sum", self.units].into_iter().for_each(|text| z16(&mut to, text));
            }
        }
        to
    }
}

fn z16(to: &mut Vec<u8>, text: &str) {
    to.text(text.into());
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// An interval from a recorded exchange: 0.9999573 s.
    const MEASURED: Duration = Duration::from_nanos(999_957_323);

    #[test]
    fn a_mean_has_the_documented_bytes() {
        let counter = Counter { name: "gc-heap-size", display: "GC Heap Size", value: Value::Mean(52.0), units: "MB" };
        let bytes = counter.payload(MEASURED, "Interval=1000");
        assert_eq!(bytes.len(), 138);
        let numbers = [
            &[0, 0, 0, 0, 0, 0, 0x4a, 0x40][..],
            &[0; 8],
            &[1, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0x4a, 0x40],
            &[0, 0, 0, 0, 0, 0, 0x4a, 0x40],
            &[0x34, 0xfd, 0x7f, 0x3f],
        ];
        assert_eq!(bytes[52..52 + 40], numbers.concat());
    }

    #[test]
    fn a_sum_has_the_documented_bytes() {
        let value = Value::Sum(9.0, PER_MINUTE);
        let counter = Counter { name: "gen-0-gc-count", display: "Gen 0 GC Count", value, units: "" };
        let bytes = counter.payload(MEASURED, "Interval=1000");
        assert_eq!(bytes.len(), 130);
        assert_eq!(bytes[78..90], [0, 0, 0, 0, 0, 0, 0x22, 0x40, 0x34, 0xfd, 0x7f, 0x3f]);
    }

    /// 2⁵⁵ seconds are a multiple of 2⁶⁴ nanoseconds.
    #[rstest]
    fn an_interval_that_no_clock_reaches_never_ends(
        #[values("36028797018963968", "18446744072", "1e19")] seconds: &str,
    ) {
        let mut schedule = Schedule::new(interval(seconds).unwrap(), u64::MAX / 2);
        assert_eq!(schedule.due(u64::MAX / 2 + 1), None);
        let _ = schedule.due(u64::MAX);
        assert_eq!(schedule.next_ns(), u64::MAX);
    }

    #[rstest]
    #[case("1", Some(1000))]
    #[case("0.5", Some(500))]
    #[case("0", None)]
    #[case("-1", None)]
    #[case("NaN", None)]
    #[case("1e300", None)]
    #[case("often", None)]
    fn an_interval_is_a_number_of_seconds(#[case] text: &str, #[case] ms: Option<u64>) {
        assert_eq!(interval(text), ms.map(Duration::from_millis));
    }

    #[test]
    fn a_schedule_keeps_its_interval_and_skips_missed_times() {
        let mut schedule = Schedule::new(Duration::from_millis(500), 0);
        assert_eq!(schedule.due(499_999_999), None);
        assert_eq!(schedule.due(520_000_000), Some(Duration::from_millis(520)));
        assert_eq!(schedule.next_ns(), 1_000_000_000);
        assert_eq!(schedule.due(2_700_000_000), Some(Duration::from_millis(2180)));
        assert_eq!(schedule.next_ns(), 3_000_000_000);
        assert_eq!(schedule.series(), "Interval=500");
    }

    #[test]
    fn no_interval_is_shorter_than_half_of_the_requested_one() {
        let mut schedule = Schedule::new(Duration::from_millis(500), 0);
        assert_eq!(schedule.due(990_000_000), Some(Duration::from_millis(990)));
        assert_eq!(schedule.due(1_000_000_000), None, "only 10 ms after the last sample");
        assert_eq!(schedule.due(1_500_000_000), Some(Duration::from_millis(510)));
    }
}
