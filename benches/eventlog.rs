//! The speed of converting GHC eventlogs to text and to timelines: `cargo bench --bench eventlog`.
//!
//! The log repeats the events of a real log with two capabilities, with increasing times, in blocks of 2 MiB per capability as GHC
//! writes them, about 64 MB; the output is discarded. The requirements, which the end of the output checks, are 300 MB/s of CPU time for
//! `show` and 100 MB/s for the conversion to a timeline. The real tool converts 8.5 MB/s and uses
//! ten times the log's size in memory. Ours uses the same amount of memory for every log. With `EVENTLOG_GB=4` the bench measures that
//! memory instead: it only reads a log of 4 GB, which is generated while it is read.
//!
//! `events` is the baseline: it reads the events and prints nothing; `by time` also orders them by time.

#[path = "../tests/eventlog_support/mod.rs"]
mod eventlog_support;

use std::hint::black_box;
use std::io;
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use eventlog_support::{Endless, repeated};
use ghc_eventlog::read::show::{Form, Show};
use ghc_eventlog::read::{Event, Visitor, by_time, in_file_order};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use stopworld_analysis::convert::{ConvertOptions, Target, convert};

/// The required speeds, in megabytes of the log per second of CPU time.
const SHOW: f64 = 300.0;
const TIMELINE: f64 = 100.0;

const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/eventlog/threads.l.eventlog");

#[derive(Default)]
struct Count(u64);

impl Visitor for Count {
    fn event(&mut self, event: &Event<'_>) {
        self.0 += black_box(event.time) & 1;
    }
}

fn reading(criterion: &mut Criterion) {
    let log = std::fs::read(LOG).expect("the fixture is there");
    if let Some(gigabytes) = std::env::var("EVENTLOG_GB").ok().and_then(|text| text.parse::<u64>().ok()) {
        return long(&log, gigabytes << 30);
    }
    let log = repeated(&log, 64 << 20);
    let mut group = criterion.benchmark_group("eventlog");
    group.throughput(Throughput::Bytes(log.len() as u64)).sample_size(10);
    group.bench_function("events", |bencher| bencher.iter(|| in_file_order(&log[..], &mut Count::default())));
    group.bench_function("by time", |bencher| bencher.iter(|| by_time(&log[..], &mut Count::default())));
    group.bench_function("show", |bencher| bencher.iter(|| by_time(&log[..], &mut Show::new(io::sink(), Form::Whole))));
    group.bench_function("show --inc", |bencher| {
        bencher.iter(|| in_file_order(&log[..], &mut Show::new(io::sink(), Form::Events)));
    });
    group.finish();
    speed("show", SHOW, &log, || {
        by_time(&log[..], &mut Show::new(io::sink(), Form::Whole));
    });
    speed("timeline", TIMELINE, &log, || {
        convert(&log[..], io::sink(), Target::Json, &ConvertOptions::default()).expect("the log is whole");
    });
}

/// Prints whether `work` reads the log fast enough: the best of several runs.
fn speed(name: &str, minimum: f64, log: &[u8], mut work: impl FnMut()) {
    let seconds = (0..5).map(|_| {
        let before = processor_time();
        work();
        processor_time() - before
    });
    let speed = log.len() as f64 / 1e6 / seconds.fold(f64::INFINITY, f64::min);
    let verdict = if speed >= minimum { "HOLDS" } else { "FALLS SHORT" };
    println!("{name}: {speed:.0} MB/s CPU time (minimum {minimum}): {verdict}");
}

/// Reads a log that is generated on the fly, and prints speed and memory.
fn long(log: &[u8], size: u64) {
    let endless = Endless::new(log, size);
    let (began, before) = (Instant::now(), processor_time());
    let mut show = Show::new(io::sink(), Form::Whole);
    let summary = by_time(&endless, &mut show);
    let (seconds, busy) = (began.elapsed().as_secs_f64(), processor_time() - before);
    assert!(summary.damage.is_none(), "{summary:?}");
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    let megabytes = summary.bytes as f64 / 1e6;
    println!(
        "{megabytes:.0} MB, {} events: {:.0} MB/s wall time, {:.0} MB/s CPU time, including the generation of the log \
         (minimum {SHOW}); {peak} (limit 64 MiB)",
        summary.events,
        megabytes / seconds,
        megabytes / busy
    );
}

/// Returns the CPU time of this process, in seconds.
fn processor_time() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("Linux has it");
    [usage.user_time(), usage.system_time()].iter().map(|time| time.num_microseconds() as f64 / 1e6).sum()
}

criterion_group!(benches, reading);
criterion_main!(benches);
