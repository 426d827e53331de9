//! How fast logs of GHC's runtime become text: `cargo bench --bench eventlog`.
//!
//! The log has the events of a real one of two capabilities, again and again with times that go on, in blocks of 2 MiB for each as GHC
//! writes them, some 64 MB; the lines go nowhere. What must hold is 200 MB/s for `show`. The real tool shows 8.5 MB/s and takes
//! ten times the log's size in memory; ours takes the same for every log, and `EVENTLOG_GB=4` says how much: it reads a log of that
//! size, which is made while it is read, and nothing else.
//!
//! `events` is what the others stand on: the events found, and nothing printed; `by time` has them in their order.

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
}

/// A log that is in no memory.
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
        "{megabytes:.0} MB, {} events: {:.0} MB/s by the wall's clock, {:.0} MB/s by the processor's, the log's making \
         included (limit 200); {peak} (limit 64 MiB)",
        summary.events,
        megabytes / seconds,
        megabytes / busy
    );
}

/// The seconds of a processor that this process has had.
fn processor_time() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("Linux has it");
    [usage.user_time(), usage.system_time()].iter().map(|time| time.num_microseconds() as f64 / 1e6).sum()
}

criterion_group!(benches, reading);
criterion_main!(benches);
