//! The speed of analysing the collections of a .NET trace: `cargo bench --bench gcstats`.
//!
//! The trace is generated while it is read. For each collection it has all events that the runtime fires at level 4, and the number of
//! allocation ticks given in the benchmark's name. The requirements are 500 MB/s of CPU time for a trace that has only
//! collections, 300 MB/s for each other trace, and less than 100 MB of memory for a trace
//! of 10 GB. Memory is measured at the end, with a trace of `GCSTATS_GB` gigabytes (default: 1), as the peak of the process.

#[path = "../tests/gcstats_stream/mod.rs"]
mod gcstats_stream;

use std::hint::black_box;
use std::io::Read;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use gcstats_stream::Stream;
use nettrace::Reader;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use stopworld_analysis::gcstats::{Rules, analyse};

/// The required speed for a trace that has only collections, in megabytes per second of CPU time.
const COLLECTIONS_ONLY: f64 = 500.0;

fn collections(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("gcstats");
    group.sample_size(10);
    for ticks in [0, 40, 400] {
        let mut trace = Vec::new();
        Stream::new(32 << 20, ticks).read_to_end(&mut trace).expect("memory is readable");
        group.throughput(Throughput::Bytes(trace.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(format!("{ticks} ticks")), |bencher| {
            bencher.iter(|| black_box(analyse(Reader::new(&trace[..]), Rules::Ours).expect("files can be read")));
        });
    }
    group.finish();
}

/// Returns the CPU time of this process, in seconds.
fn processor_time() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("Linux has it");
    [usage.user_time(), usage.system_time()].iter().map(|time| time.num_microseconds() as f64 / 1e6).sum()
}

/// Prints whether a trace that has only collections is analysed fast enough: the best of several runs.
fn speed() {
    let mut trace = Vec::new();
    Stream::new(64 << 20, 0).read_to_end(&mut trace).expect("memory is readable");
    let seconds = (0..5).map(|_| {
        let before = processor_time();
        black_box(analyse(Reader::new(&trace[..]), Rules::Ours).expect("temporary files can be read"));
        processor_time() - before
    });
    let speed = trace.len() as f64 / 1e6 / seconds.fold(f64::INFINITY, f64::min);
    let verdict = if speed >= COLLECTIONS_ONLY { "HOLDS" } else { "FALLS SHORT" };
    println!("collections only: {speed:.0} MB/s CPU time (minimum {COLLECTIONS_ONLY}): {verdict}");
}

fn memory() {
    let gigabytes: u64 = std::env::var("GCSTATS_GB").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for ticks in [0, 40] {
        let stream = Stream::new(gigabytes * 1_000_000_000, ticks);
        let (bytes, expected) = (stream.event_bytes(), stream.collections());
        let (start, before) = (Instant::now(), processor_time());
        let (processes, _) = analyse(Reader::new(stream), Rules::Ours).expect("temporary files can be read");
        let (seconds, busy) = (start.elapsed().as_secs_f64(), processor_time() - before);
        assert_eq!(processes[0].all.count, expected, "collections");
        let megabytes = bytes as f64 / 1e6;
        let (speed, alone) = (megabytes / seconds, megabytes / busy);
        println!(
            "{gigabytes} GB, {ticks} ticks: {expected} collections, {speed:.0} MB/s wall time, {alone:.0} MB/s CPU time \
             (minimum 300)"
        );
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let most = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
    println!("{most} (limit 100 MB, of which 34 MB are the bench's own traces in memory)");
}

criterion_group!(benches, collections);

fn main() {
    if std::env::var_os("GCSTATS_GB").is_none() {
        benches();
        Criterion::default().configure_from_args().final_summary();
        speed();
    }
    memory();
}
