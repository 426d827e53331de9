//! Starts and ends traces of every format while the world runs, and reads each file back.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use mps_telemetry::decode::{Form, decode};
use nettrace::{Container, NetEvent, Reader, Visitor};
use stopworld::World;
use stopworld::events::Categories;
use stopworld::events::record::RecordError;
use stopworld_trace::nettrace::{Options as NettraceOptions, Providers};
use stopworld_trace::{Finished, eventlog, mps, perfetto, profile_text};

use super::counts::{Counts, one};
use super::round::Shared;

/// The function that ends a running trace.
type Finish = Box<dyn FnOnce() -> Result<Finished, RecordError>>;

struct Format {
    extension: &'static str,
    start: fn(&Path, &World, &mut Rng) -> Finish,
    /// Checks a trace file. Panics if the file is not complete.
    check: fn(&Path),
    counter: fn(&Counts) -> &AtomicU64,
}

const FORMATS: [Format; 5] = [
    Format { extension: "mps", start: start_mps, check: check_mps, counter: |counts| &counts.traces_mps },
    Format {
        extension: "nettrace",
        start: start_nettrace,
        check: check_nettrace,
        counter: |counts| &counts.traces_nettrace,
    },
    Format {
        extension: "eventlog",
        start: start_eventlog,
        check: check_eventlog,
        counter: |counts| &counts.traces_eventlog,
    },
    Format {
        extension: "json",
        start: start_perfetto,
        check: check_perfetto,
        counter: |counts| &counts.traces_perfetto,
    },
    Format { extension: "hp", start: start_hp, check: check_hp, counter: |counts| &counts.traces_hp },
];

/// Records the world for a time in one format, ends the trace, reads it, and starts again with another format.
pub(crate) fn record(world: &World, mut random: Rng, shared: &'static Shared, directory: &Path) {
    while !shared.is_over() {
        let format = &FORMATS[random.usize(0..FORMATS.len())];
        // Two threads record at once, so each trace needs its own file.
        let path = directory.join(format!("{:016x}.{}", random.u64(..), format.extension));
        let finish = (format.start)(&path, world, &mut random);
        thread::sleep(Duration::from_millis(random.u64(1..300)));
        let finished = finish().expect("a trace can be ended");
        assert!(finished.error.is_none(), "{} was not written: {:?}", path.display(), finished.error);
        // A telemetry stream without any event in its categories writes no file.
        if finished.bytes > 0 {
            (format.check)(&path);
            std::fs::remove_file(&path).expect("the trace file exists");
        }
        one((format.counter)(&shared.counts));
        shared.counts.trace_events.fetch_add(finished.totals.written, Ordering::Relaxed);
        shared.counts.trace_bytes.fetch_add(finished.bytes, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(random.u64(0..200)));
    }
}

fn open(path: &Path) -> File {
    File::open(path).unwrap_or_else(|error| panic!("can't open {}: {error}", path.display()))
}

fn start_mps(path: &Path, world: &World, random: &mut Rng) -> Finish {
    // With the categories of objects and references, a stream grows by gigabytes per second, so they are usually left out.
    let categories = if random.u8(0..8) == 0 { u64::MAX } else { random.u64(1..0b10_0000) };
    let trace = mps::Options::new(path, Categories(categories)).start().expect("a stream can be started");
    world.record_to(&trace).expect("a world can join a stream");
    Box::new(move || trace.finish())
}

fn check_mps(path: &Path) {
    let decoded = decode(open(path), std::io::sink(), Form::Hex, None, &mut |_| {});
    assert!(decoded.is_ok(), "{}: {decoded:?}", path.display());
}

fn start_nettrace(path: &Path, world: &World, random: &mut Rng) -> Finish {
    let keywords = ["GC", "GC+GCHandle@Verbose", "GC+Type+GCHeapDump"][random.usize(0..3)];
    let providers = Providers::parse_keywords(keywords).expect("these keywords exist");
    let container = if random.bool() { Container::V4 } else { Container::V6 };
    let options = NettraceOptions::new(path).providers(providers).container(container);
    let trace = options.start().expect("a trace can be started");
    world.record_to(&trace).expect("a world can join a trace");
    Box::new(move || trace.finish())
}

struct Ignore;

impl Visitor for Ignore {
    fn event(&mut self, _: &NetEvent<'_>) {}
}

fn check_nettrace(path: &Path) {
    let summary = Reader::new(open(path)).read(&mut Ignore);
    assert!(summary.damage.is_none() && summary.ended_orderly, "{}: {summary:?}", path.display());
}

fn start_eventlog(path: &Path, world: &World, _: &mut Rng) -> Finish {
    let trace = eventlog::Options::new(path).start().expect("a log can be started");
    world.record_to(&trace).expect("a world can join a log");
    Box::new(move || trace.finish())
}

struct Skip;

impl ghc_eventlog::read::Visitor for Skip {
    fn event(&mut self, _: &ghc_eventlog::read::Event<'_>) {}
}

fn check_eventlog(path: &Path) {
    let summary = ghc_eventlog::read::in_file_order(BufReader::new(open(path)), &mut Skip);
    assert!(summary.damage.is_none() && summary.ended_orderly, "{}: {:?}", path.display(), summary.damage);
}

fn start_perfetto(path: &Path, world: &World, _: &mut Rng) -> Finish {
    let trace = perfetto::Options::new(path).start().expect("a timeline can be started");
    world.record_to(&trace).expect("a world can join a timeline");
    Box::new(move || trace.finish())
}

fn check_perfetto(path: &Path) {
    let parsed = serde_json::from_reader::<_, serde_json::Value>(BufReader::new(open(path)));
    assert!(parsed.is_ok(), "{}: {:?}", path.display(), parsed.err());
}

fn start_hp(path: &Path, world: &World, _: &mut Rng) -> Finish {
    let trace = profile_text::Options::new(path, profile_text::Kind::Heap).start().expect("a profile can be started");
    world.record_to(&trace).expect("a world can join a profile");
    Box::new(move || trace.finish())
}

fn check_hp(path: &Path) {
    let mut text = String::new();
    open(path).read_to_string(&mut text).expect("a profile is text");
    assert!(text.starts_with("JOB "), "{} does not begin with JOB: {:?}", path.display(), text.lines().next());
}
