//! Streams that worlds write, compared with the results of a separate checker, with the worlds' reports, and with the events that a
//! listener received.

use crate::mps_stream;
use crate::writer_support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use mps_stream::{CATEGORIES, StreamSummary, check, check_gappy};
use mps_telemetry::decode::{Form, decode};
use rstest::rstest;
use stopworld::debugger::mock::MockDebugger;
use stopworld::events::{Categories, Category, EventId, Record, Selection, Sink, Statistics};
use stopworld::{Gc, GcCell, Stopper, World, traced};
use stopworld_trace::Finished;
use stopworld_trace::mps::{Options, Trace};
use writer_support::{File, WORKLOADS, reporting, run, small};

const ALL: u64 = 0x7f;

fn start(file: &File, filter: u64) -> Trace {
    Options::new(file.path(), Categories(filter)).start().unwrap()
}

/// Our own reader reads the stream to its end, without a message.
fn is_read_without_a_message(stream: &[u8]) {
    for form in [Form::Hex, Form::Named] {
        let mut words = Vec::new();
        let read = decode(stream, std::io::sink(), form, None, &mut |notice| words.push(notice.to_string()));
        assert!(read.is_ok() && words.is_empty(), "{read:?} {words:?}");
    }
}

/// Finishes the trace, and asserts that it contains everything.
fn finish(trace: &Trace) -> Finished {
    trace.wait_for_worlds(Duration::from_secs(120));
    let finished = trace.finish().unwrap();
    assert!(finished.is_complete(), "{finished:?} {:?}", stopworld::events::record::Recorder::of_process().totals());
    assert_eq!(finished.totals.fired, finished.totals.written);
    finished
}

/// The records for events that always become exactly one record.
const ONE_TO_ONE: &[(EventId, &str, Category)] = &[
    (EventId::SuspendBegin, "ArenaPollBegin", Category::Arena),
    (EventId::RestartEnd, "ArenaPollEnd", Category::Arena),
    (EventId::BlockAcquired, "ArenaAlloc", Category::Arena),
    (EventId::SegmentCreated, "ArenaExtend", Category::Arena),
    (EventId::PoolCreated, "PoolInit", Category::Pool),
    (EventId::PoolClosed, "PoolFinish", Category::Pool),
    (EventId::GcStart, "TraceCreate", Category::Trace),
    (EventId::GcStart, "TraceStart", Category::Trace),
    (EventId::RootsBegin, "TraceFlipBegin", Category::Trace),
    (EventId::RootsEnd, "TraceFlipEnd", Category::Trace),
    (EventId::SweepEnd, "TraceDestroy", Category::Trace),
    (EventId::BlockAcquired, "SegAlloc", Category::Seg),
    (EventId::BlockReclaimed, "SegReclaim", Category::Seg),
    (EventId::BlockScanned, "SegScan", Category::Seg),
    (EventId::CacheRefilled, "BufferFill", Category::Seg),
    (EventId::RootScanned, "RootScan", Category::Seg),
    (EventId::AreaScanned, "TraceScanArea", Category::Seg),
    (EventId::ReferenceFixed, "TraceFix", Category::Ref),
    (EventId::ObjectAllocated, "PoolAlloc", Category::Object),
    (EventId::ObjectFreed, "PoolFree", Category::Object),
];

/// Asserts that the file has the events that a listener with the same selection received.
fn is_what_was_heard(told: &StreamSummary, heard: &Statistics, filter: u64) {
    let mut looked_at = 0;
    for (event, record, category) in ONE_TO_ONE.iter().filter(|(_, _, category)| filter & 1 << *category as u32 != 0) {
        assert_eq!(told.count(record), heard.count(*event), "{event:?} and {record} of {category:?}");
        looked_at += told.count(record);
    }
    assert!(looked_at > 0 || filter == 1 << Category::User as u32);
}

/// Runs each workload with each category alone, and with all categories. The stopper and the number of threads vary between the cases.
#[rstest]
fn streams_of_all_workloads_obey_the_rules(
    #[values(0, 1, 2, 3, 4, 5)] workload: usize,
    #[values(0, 1, 2, 3, 4, 5, 6, 7)] category: usize,
) {
    let filter = if category == 7 { ALL } else { 1 << category };
    let threads = 1 + (workload + category) % 3;
    let by_debugger = (workload + category) % 4 == 3;
    let stopper = if (workload + category) % 4 == 1 { Stopper::Safepoints } else { Stopper::Signals };

    let file = File::new();
    let trace = start(&file, filter);
    let heard = Arc::new(Statistics::new());
    let (builder, reports) = reporting(small());
    let world = builder
        .stopper(stopper)
        .listen(heard.clone(), Selection::categories(Categories(filter)))
        .record_to(&trace)
        .build()
        .unwrap();
    if by_debugger {
        world.set_thread_vtable(MockDebugger::new().unwrap()).unwrap();
    }
    run(&world, WORKLOADS[workload], threads);
    drop(world);
    let finished = finish(&trace);

    let stream = file.bytes();
    assert_eq!(finished.bytes, stream.len() as u64);
    let told = check(&stream, filter);
    assert_eq!(told.counts.values().sum::<u64>(), finished.records);
    is_what_was_heard(&told, &heard, filter);
    is_read_without_a_message(&stream);
    if filter == ALL && !by_debugger {
        let live: Vec<u64> = reports.sorted().iter().map(|report| report.live.total()).collect();
        assert_eq!(told.live, live, "PoolAlloc bytes - PoolFree bytes, at each collection's end");
    }
    if filter == ALL {
        assert_eq!(told.count("ArenaAlloc"), told.count("ArenaFree"), "a closed world has no memory");
        assert_eq!(told.count("ArenaDestroy"), 1);
        assert!(told.names.contains("main") && told.names.contains("small objects"), "{:?}", told.names);
    }
}

traced! {
    struct Link {
        next: GcCell<Option<Gc<Link>>>,
    }
}

/// Allocates a list, so that there are blocks, objects, and collections.
fn work(world: &World, links: usize) {
    // SAFETY: references are locals here.
    let m = unsafe { world.attach("worker") }.unwrap();
    let mut list = None;
    for number in 0..links {
        list = Some(m.alloc(Link { next: GcCell::new(list.filter(|_| number % 1_000 != 0)) }).unwrap());
    }
    m.alloc_pinned(Link { next: GcCell::new(list) }).unwrap();
    m.alloc_array::<u64>(10_000, |_| 0).unwrap();
    m.collect().unwrap();
}

/// `.event.introduced`
#[rstest]
fn a_late_trace_begins_with_what_exists(#[values(0, 1, 2, 3, 4, 5, 6, 7)] category: usize) {
    let filter = if category == 7 { ALL } else { 1 << category };
    let file = File::new();
    let world = small().build().unwrap();
    let label = world.telemetry_intern("an early name").unwrap();
    world.telemetry_label(0x1234_5678, label).unwrap();
    work(&world, 10_000);
    let trace = start(&file, filter);
    world.record_to(&trace).unwrap();
    world.record_to(&trace).unwrap();
    work(&world, 50_000);
    drop(world);
    finish(&trace);
    let told = check(&file.bytes(), filter);
    let is_on = |category: Category| filter & 1 << category as u32 != 0;
    if is_on(Category::User) {
        assert!(told.names.contains("an early name"));
    }
    if is_on(Category::Arena) {
        assert_eq!(told.count("ArenaAlloc"), told.count("ArenaFree"));
    }
    if is_on(Category::Seg) {
        assert_eq!(told.count("SegAlloc"), told.count("SegFree"));
    }
}

#[test]
fn nothing_is_written_and_no_file_made_while_the_filter_is_empty() {
    let file = File::new();
    let trace = start(&file, 0);
    let world = small().record_to(&trace).build().unwrap();
    work(&world, 10_000);
    trace.flush().unwrap();
    assert!(!file.path().exists());
    assert_eq!(trace.telemetry_set(Categories(ALL)), Categories(0));
    work(&world, 10_000);
    drop(world);
    finish(&trace);
    let told = check(&file.bytes(), ALL);
    assert!(told.count("PoolAlloc") > 10_000 && told.count("ArenaPollBegin") > 0);
}

/// `.event.exact`, for a filter: a category that is off when the call has returned has no later records. Names can be resolved at any time.
#[test]
fn categories_can_be_switched_at_any_time() {
    let file = File::new();
    let trace = start(&file, 0);
    let world = small().record_to(&trace).build().unwrap();
    let clock = stopworld::events::record::Recorder::of_process().clock();
    let mut filters = vec![(clock.now(), 0)];
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let world = &world;
            scope.spawn(move || {
                // The thread pauses between collections, because records that are fired inside collections without a pause would be
                // dropped.
                while !done.load(Ordering::Relaxed) {
                    work(world, 20_000);
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
        }
        let begun = std::time::Instant::now();
        let mut step = 0_u64;
        while begun.elapsed() < Duration::from_secs(1) || step < 50 {
            let filter = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57;
            let old = trace.telemetry_get();
            assert_eq!(trace.telemetry_control(old, Categories(filter)), old);
            filters.push((clock.now(), filter));
            step += 1;
            if step.is_multiple_of(8) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    drop(world);
    trace.wait_for_worlds(Duration::from_millis(200));
    finish(&trace);

    let stream = file.bytes();
    let (mut clock, mut count) = (0, 0);
    let mut texts = std::collections::HashSet::new();
    for entry in mps_stream::entries(&stream) {
        assert!(entry.clock >= clock, "{entry:x?} after {clock:x}");
        (clock, count) = (entry.clock, count + 1);
        if ["EventInit", "EventClockSync", "ArenaCreateVM", "PoolInit"].contains(&entry.name) {
            continue;
        }
        match entry.name {
            "Intern" => assert!(texts.insert(entry.get("stringId")), "twice: {entry:?}"),
            "Label" | "LabelPointer" => assert!(texts.contains(&entry.get("stringId")), "{entry:?}"),
            _ => {}
        }
        // The category was on when the record was made, or about to be on, or not yet off.
        let next = filters.partition_point(|(from, _)| *from < entry.clock);
        let around = &filters[next.saturating_sub(1)..(next + 1).min(filters.len())];
        let may = around.iter().fold(0, |may, (_, filter)| may | filter);
        assert!(may & 1 << entry.category != 0, "{entry:x?} under {around:x?}");
    }
    assert!(count > 1_000, "{count}");
}

#[test]
fn a_flight_recorder_has_the_latest_records_and_is_read_like_any_stream() {
    let file = File::new();
    let trace = Options::new(file.path(), Categories(ALL)).flight_recorder(4 << 20).start().unwrap();
    let world = small().record_to(&trace).build().unwrap();
    for _ in 0..2 {
        work(&world, 100_000);
        let events = trace.write_flight().unwrap();
        assert!(events > 10_000, "{events}");
        let stream = file.bytes();
        assert!(stream.len() < 12 << 20, "{}", stream.len());
        // A flight recorder never waits, so any event may be missing.
        assert!(check_gappy(&stream) > events / 2);
        is_read_without_a_message(&stream);
        if trace.totals().unwrap().dropped == 0 {
            check(&stream, ALL);
        }
    }
    assert_eq!(trace.telemetry_reset(Categories(1 << 5)), Categories(ALL));
    for step in 0..100 {
        trace.telemetry_control(Categories(0), Categories(1 << (step % 2)));
    }
}

/// A thread that fires no more than its ring holds until the next drain loses nothing.
#[test]
fn what_a_flight_recorder_has_is_whole_when_nothing_was_dropped() {
    let file = File::new();
    let trace = Options::new(file.path(), Categories(ALL)).flight_recorder(512 << 10).start().unwrap();
    let world = small().record_to(&trace).build().unwrap();
    for round in 0..20 {
        work(&world, 1_000);
        let events = trace.write_flight().unwrap();
        assert_eq!(trace.totals().unwrap().dropped, 0);
        let stream = file.bytes();
        let told = check(&stream, ALL);
        is_read_without_a_message(&stream);
        assert!(events > 1_000 && told.count("TraceDestroy") > 0, "{events}: {:?}", told.counts);
        // The objects freed are those allocated in the round before.
        assert!(round == 0 || told.count("PoolFree") > 500, "{round}: {:?}", told.counts);
    }
    assert!(trace.totals().unwrap().written > 20_000, "more than it keeps");
}

/// Blocks inside `record` until the test has reached both barriers.
#[derive(Debug)]
struct Held(Barrier, Barrier);

impl Sink for Held {
    fn record(&self, _: &Record) {
        self.0.wait();
        self.1.wait();
    }
}

#[test]
fn a_flight_recorder_written_during_a_collection_closes_its_trace() {
    let file = File::new();
    let trace = Options::new(file.path(), Categories(ALL)).flight_recorder(512 << 10).start().unwrap();
    let world = small().record_to(&trace).build().unwrap();
    let held = Arc::new(Held(Barrier::new(2), Barrier::new(2)));
    world.events().listen(held.clone(), Selection::of([EventId::MarkBegin].into_iter().collect())).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| world.collect().unwrap());
        held.0.wait();
        let events = trace.write_flight();
        held.1.wait();
        assert!(events.unwrap() > 0);
    });
    let told = check(&file.bytes(), ALL);
    let count = |name| told.count(name);
    assert_eq!((count("TraceCreate"), count("TraceReclaim"), count("TraceDestroy")), (1, 0, 1), "{:?}", told.counts);
    assert_eq!((count("ArenaPollBegin"), count("ArenaPollEnd")), (1, 1), "{:?}", told.counts);
}

/// The handle of a stream may be dropped: the stream ends with its last world, and includes everything until then.
#[test]
fn a_trace_whose_handle_is_dropped_is_written_to_its_end() {
    let file = File::new();
    let world = small().build().unwrap();
    work(&world, 20_000);
    world.record_to(&start(&file, ALL)).unwrap();
    work(&world, 20_000);
    drop(world);
    let told = check(&file.bytes(), ALL);
    assert!(told.count("ArenaAlloc") > 0);
    assert_eq!(told.count("ArenaAlloc"), told.count("ArenaFree"));
}

/// Two worlds share a stream: it has one `EventInit`, and an arena for each world.
#[test]
fn worlds_share_a_stream() {
    let file = File::new();
    let trace = start(&file, ALL);
    for _ in 0..2 {
        let worlds: Vec<World> = (0..3).map(|_| small().record_to(&trace).build().unwrap()).collect();
        worlds.iter().for_each(|world| work(world, 10_000));
    }
    finish(&trace);
    let told = check(&file.bytes(), ALL);
    assert_eq!((told.count("ArenaCreateVM"), told.count("ArenaDestroy")), (6, 6));
}

#[test]
fn the_categories_are_those_of_the_table() {
    for (category, name) in Category::ALL.iter().zip(CATEGORIES) {
        assert_eq!(category.name(), name);
    }
}

/// `.event.full-disk`: any thread may flush, including one that the limit's signal would kill.
#[test]
fn a_file_that_may_not_grow_is_an_error_to_the_flushing_thread() {
    const INNER: &str = "STOPWORLD_TEST_SMALL_FILES";
    if std::env::var_os(INNER).is_none() {
        let line = "ulimit -f 4; exec \"$0\" --exact write::a_file_that_may_not_grow_is_an_error_to_the_flushing_thread --nocapture";
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", line]).arg(std::env::current_exe().unwrap()).env(INNER, "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    // The writer thread may be the first to detect the error, so several attempts are made.
    for _ in 0..10 {
        let file = File::new();
        let trace = start(&file, ALL);
        let world = World::builder().record_to(&trace).build().unwrap();
        for number in 0..500 {
            world.telemetry_intern(&format!("a label of some length, the {number}th of those that have it")).unwrap();
        }
        let failed = trace.flush().unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(27), "{failed}");
    }
}
