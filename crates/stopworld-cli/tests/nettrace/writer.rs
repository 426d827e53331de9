//! .nettrace files that worlds write, compared with a reader of the tests' own, with the collector's reports, and with the rules of .NET's
//! tools.

use crate::nettrace_rules;
use crate::writer_support;

use std::time::Duration;

use nettrace::{NetEvent, Reader, Visitor};
use nettrace_rules::{DEFAULT, EVENT_PIPE, OWN, PRIVATE, RUNDOWN, Trace as Parsed, TracedCollection, check};
use rstest::rstest;
use stopworld::debugger::mock::MockDebugger;
use stopworld::events::{DESCRIPTORS, EventId, Provider};
use stopworld::{Gc, GcCell, Stopper, World, traced};
use stopworld_analysis::gcstats::{Rules, analyse};
use stopworld_trace::Finished;
use stopworld_trace::nettrace::{Container, Options, Providers, Trace};
use writer_support::{File, Reports, WORKLOADS, end, reporting, run, small};

const COLLECTIONS: &str = "Microsoft-Windows-DotNETRuntime:0x1:4,Microsoft-Windows-DotNETRuntimePrivate:0x1:4";
const VERBOSE: &str =
    "Microsoft-Windows-DotNETRuntime:0x2200003:5,Microsoft-Windows-DotNETRuntimePrivate:0x1:5,stopworld";

fn start(file: &File, providers: &str, container: Container) -> Trace {
    let providers = Providers::parse(providers).unwrap();
    writer_support::start(|| Options::new(file.path()).providers(providers.clone()).container(container))
}

fn parsed_in(file: &File) -> Parsed {
    Parsed::parse(&file.bytes())
}

fn finish(trace: &Trace) -> Finished {
    trace.wait_for_worlds(Duration::from_secs(120));
    let finished = trace.finish().unwrap();
    assert!(finished.is_complete(), "{finished:?}");
    finished
}

/// Asserts that the collections in a trace agree with the collector's reports in every figure.
fn are_the_reports(trace: &Parsed, seen: &[TracedCollection], reports: &Reports) {
    let reports = reports.sorted();
    let numbers: Vec<u64> = seen.iter().map(|seen| seen.number).collect();
    assert_eq!(numbers, reports.iter().map(|report| u64::from(report.number)).collect::<Vec<_>>());
    for (seen, report) in seen.iter().zip(&reports) {
        assert_eq!(seen.number, u64::from(report.number));
        assert_eq!(seen.reason, [0, 1, 5][report.reason as usize]);
        assert_eq!((seen.promoted, seen.after), (report.live.total(), report.live.total()), "{report:?}");
        assert_eq!(seen.generations, [0, 0, report.live.small, report.live.large, report.live.pinned]);
        assert_eq!(seen.allocated, report.allocated_bytes);
        assert_eq!(seen.before, report.live.total() + report.freed_bytes, "{report:?}");
        assert_eq!(seen.queued, u64::from(report.finalizers_queued));
        let pause = trace.ns(seen.restart_end - seen.suspend_begin);
        assert_eq!(pause, report.pause_ns, "{report:?}");
        let stop = trace.ns(seen.suspend_end - seen.suspend_begin);
        assert!(stop <= pause, "{seen:?}");
        let phases: u64 = seen.times_us.iter().sum();
        assert!(phases * 1_000 <= pause + 10_000, "{seen:?}");
    }
}

#[derive(Default)]
struct Counting(u64);

impl Visitor for Counting {
    fn event(&mut self, _: &NetEvent<'_>) {
        self.0 += 1;
    }
}

/// Our own reader finds every event and no damage, and its GCStats are the collector's own figures.
fn are_the_statistics(file: &File, parsed: &Parsed, reports: &Reports) {
    let bytes = file.bytes();
    let mut count = Counting::default();
    let summary = Reader::new(&bytes[..]).read(&mut count);
    assert_eq!((summary.damage, summary.ended_orderly, summary.late, summary.steps_back), (None, true, 0, 0));
    assert_eq!((summary.lost, summary.events), (0, parsed.events.len() as u64));
    assert_eq!(count.0, summary.events);

    let reports = reports.sorted();
    let (processes, _) = analyse(Reader::new(&bytes[..]), Rules::Ours).unwrap();
    let [process] = &processes[..] else { panic!("{} processes", processes.len()) };
    assert_eq!(process.identity.process, u64::from(std::process::id()));
    assert!(process.identity.command_line.as_ref().is_some_and(|line| line.contains("nettrace")));
    assert_eq!(process.identity.settings.map(|settings| settings.hard_limit), Some(256 << 20));
    assert_eq!(process.all.count as usize, reports.len());
    let mut rest = reports.iter();
    let is_same = |megabytes: f64, bytes: u64| (megabytes * 1e6).round() as u64 == bytes;
    process
        .for_each(|collection, figures| {
            let report = rest.next().expect("no more collections than reports");
            assert_eq!(collection.number as u32, report.number);
            assert!(collection.complete, "{collection:?}");
            let live = report.live.total();
            assert!(is_same(collection.promoted_mb(), live) && is_same(collection.after_mb(), live), "{collection:?}");
            assert!(is_same(figures.heap_before, live + report.freed_bytes), "{figures:?} {report:?}");
            assert!(is_same(figures.peak, live + report.freed_bytes), "{figures:?} {report:?}");
            if report.number > reports[0].number {
                assert!(is_same(figures.allocated, report.allocated_bytes), "{figures:?} {report:?}");
            }
            let pause = collection.pause * 1e6;
            assert!((pause - report.pause_ns as f64).abs() < 2.0, "{pause} {report:?}");
            Ok::<_, std::io::Error>(())
        })
        .unwrap();
    assert_eq!(rest.next().map(|report| report.number), None);
}

/// The .NET events obey the rules of their tools in either container, for every workload and every stopper.
#[rstest]
fn traces_of_all_workloads_obey_the_rules(
    #[values("signals", "safepoints", "mock")] stopper: &str,
    #[values(0, 1, 2, 3, 4, 5)] workload: usize,
) {
    let workload = WORKLOADS[workload];
    for (container, providers) in [(Container::V4, COLLECTIONS), (Container::V6, VERBOSE)] {
        let file = File::new();
        let trace = start(&file, providers, container);
        let (builder, reports) = reporting(small().record_to(&trace));
        let builder = match stopper {
            "safepoints" => builder.stopper(Stopper::Safepoints),
            _ => builder,
        };
        let world = builder.markers(2).build().unwrap();
        if stopper == "mock" {
            world.set_thread_vtable(MockDebugger::new().unwrap()).unwrap();
        }
        run(&world, workload, 2);
        end(world);
        let finished = finish(&trace);
        let parsed = parsed_in(&file);
        assert_eq!(parsed.lost, 0);
        assert_eq!(parsed.events.len() as u64, finished.records);
        assert_eq!(parsed.pid, std::process::id());
        let seen = check(&parsed);
        are_the_reports(&parsed, &seen, &reports);
        are_the_statistics(&file, &parsed, &reports);
        assert!(!seen.is_empty());
    }
}

traced! {
    struct Link {
        next: GcCell<Option<Gc<Link>>>,
    }
}

/// Allocates small, large and pinned objects, makes handles, and requests a collection.
fn work(world: &World, links: usize) {
    // SAFETY: references are locals here.
    let m = unsafe { world.attach("worker") }.unwrap();
    let mut list = None;
    for number in 0..links {
        list = Some(m.alloc(Link { next: GcCell::new(list.filter(|_| number % 1_000 != 0)) }).unwrap());
    }
    let pinned = m.alloc_pinned(Link { next: GcCell::new(list) }).unwrap();
    let root = m.root(pinned);
    m.alloc_array::<u64>(20_000, |_| 0).unwrap();
    m.collect().unwrap();
    drop(root);
}

/// Runs [`work`] in a world whose events are written according to these providers.
fn traced(providers: &str, container: Container) -> Parsed {
    let file = File::new();
    let trace = start(&file, providers, container);
    let world = small().record_to(&trace).build().unwrap();
    work(&world, 100_000);
    end(world);
    finish(&trace);
    parsed_in(&file)
}

/// A trace has exactly the requested events. Tested for each row of the table that has a .NET event, by its keyword and level.
#[rstest]
fn a_trace_has_what_was_requested_and_nothing_else(
    #[values("1:4", "1:5", "2:4", "2:3", "80000:4", "200000:4", "2000000:5", "1:0")] asked: &str,
    #[values(DEFAULT, PRIVATE)] provider: &str,
    #[values(Container::V4, Container::V6)] container: Container,
) {
    let parsed = traced(&format!("{provider}:{asked}"), container);
    let (keywords, level) = asked.split_once(':').unwrap();
    let (keywords, level) = (u64::from_str_radix(keywords, 16).unwrap(), level.parse::<u32>().unwrap());
    for event in &parsed.events {
        let kind = &event.kind;
        match kind.provider.as_str() {
            EVENT_PIPE | RUNDOWN => {}
            // The names of threads belong to the collections.
            OWN => {
                assert_eq!((kind.name.as_str(), provider), ("ThreadAttached", DEFAULT));
                assert!(keywords & 1 != 0 && level >= 4, "{asked}");
            }
            name => {
                assert_eq!(name, provider);
                assert!(kind.keywords & keywords != 0 && kind.level <= level, "{kind:?}");
            }
        }
    }
    // The trace also has every requested event that this work certainly fires.
    let known = if provider == DEFAULT { Provider::Default } else { Provider::Private };
    let rows = DESCRIPTORS.iter().flat_map(|row| row.net.iter().map(move |net| (row.id, net)));
    let fired = [EventId::GcStart, EventId::SuspendBegin, EventId::AllocationTick, EventId::RootCreated];
    let more = [EventId::RootDropped, EventId::WorldCreated, EventId::ObjectSampled, EventId::ObjectPinned];
    for (id, net) in rows.filter(|(id, _)| fired.contains(id) || more.contains(id)) {
        let is_asked = net.provider == known && net.keyword.0 & keywords != 0 && net.level as u32 <= level;
        let mut of_it = parsed.events.iter().filter(|event| {
            event.kind.provider == provider && event.kind.id == u32::from(net.id) && net.provider == known
        });
        assert_eq!(of_it.next().is_some(), is_asked, "{id:?} {net:?}");
    }
}

#[test]
fn events_unknown_to_dotnet_are_in_the_stopworld_provider() {
    let parsed = traced("stopworld:ffffffff:5", Container::V4);
    let counts = parsed.counts();
    assert!(counts.keys().all(|(provider, _)| [OWN, EVENT_PIPE, RUNDOWN].contains(&provider.as_str())), "{counts:?}");
    for descriptor in DESCRIPTORS.iter().filter(|row| !row.net.is_empty()) {
        assert!(!counts.contains_key(&(OWN.to_owned(), descriptor.name.to_owned())), "{} is .NET's", descriptor.name);
    }
    for name in
        ["ThreadAttached", "RootsBegin", "HeapAfter", "ObjectAllocated", "BlockAcquired", "Labelled", "WorldClosed"]
    {
        assert!(counts.contains_key(&(OWN.to_owned(), name.to_owned())), "{name} in {counts:?}");
    }
    let attached = parsed.named("ThreadAttached").find(|event| event.text("label") == "worker").unwrap();
    assert_eq!(attached.number("tid"), attached.thread);
    let after = parsed.named("HeapAfter").last().unwrap();
    assert!(after.number("pinned_objects") >= 1 && after.number("handles") >= 1);
    // The sum of the reported objects equals the heap's size.
    let sum = |name: &str| parsed.named(name).map(|event| event.number("bytes")).sum::<u64>();
    let live: u64 = ["small_bytes", "large_bytes", "pinned_bytes"].iter().map(|field| after.number(field)).sum();
    assert_eq!(sum("ObjectAllocated") - sum("ObjectFreed"), live);
}

/// The names of the threads in a trace, by their ids.
fn names(parsed: &Parsed) -> Vec<(u64, String)> {
    parsed.named("ThreadAttached").map(|event| (event.number("tid"), event.text("label"))).collect()
}

/// A trace with the default events names its threads: those that attach while it is written, and those that had attached before it joined
/// their world.
#[rstest]
fn a_trace_of_collections_has_the_names_of_threads(
    #[values(Container::V4, Container::V6)] container: Container,
    #[values(false, true)] is_flight_recorder: bool,
) {
    let file = File::new();
    let world = small().build().unwrap();
    // SAFETY: there are no references.
    let early = unsafe { world.attach("early") }.unwrap();
    let trace = writer_support::start(|| {
        let options = Options::new(file.path()).container(container);
        if is_flight_recorder { options.flight_recorder(1 << 20) } else { options }
    });
    world.record_to(&trace).unwrap();
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            // SAFETY: there are no references.
            let late = unsafe { world.attach("late") }.unwrap();
            late.collect().unwrap();
            stopworld_platform::os::thread::gettid().0
        });
        let late = early.blocking(|| work.join().unwrap());
        early.collect().unwrap();
        if is_flight_recorder {
            trace.write_flight().unwrap();
        } else {
            trace.flush().unwrap();
        }
        let mut named = names(&parsed_in(&file));
        named.sort();
        let this = stopworld_platform::os::thread::gettid().0;
        let mut expected = vec![(this as u64, "early".to_owned()), (late as u64, "late".to_owned())];
        expected.sort();
        assert_eq!(named, expected);
    });
    drop(early);
    trace.finish().unwrap();
}

#[test]
fn events_with_a_dotnet_counterpart_are_written_as_it() {
    let parsed = traced(VERBOSE, Container::V4);
    let seen = check(&parsed);
    let page = |name: &'static str| parsed.named(name).next().unwrap_or_else(|| panic!("no {name}"));
    let tick = page("GCAllocationTick");
    assert!(tick.number("AllocationAmount64") >= 100 << 10);
    assert_eq!(tick.number("AllocationAmount"), tick.number("AllocationAmount64"));
    assert_eq!((tick.text("TypeName").as_str(), tick.number("AllocationKind")), ("nettrace::writer::Link", 0));
    let ticks = parsed.named("GCAllocationTick").map(|tick| tick.number("AllocationAmount64")).sum::<u64>();
    let allocated = seen.iter().map(|seen| seen.allocated).sum::<u64>();
    assert!(ticks.abs_diff(allocated) < allocated / 2 + (1 << 20), "{ticks} by ticks, {allocated} by collections");
    assert!(parsed.named("GCAllocationTick").any(|tick| tick.number("AllocationKind") == 1), "a large object ticks");
    let pinned = page("PinObjectAtGCTime");
    assert_eq!(pinned.text("TypeName"), "nettrace::writer::Link");
    let [set, destroyed] = [page("SetGCHandle"), page("DestroyGCHandle")].map(|event| event.number("HandleID"));
    assert_eq!(set, destroyed);
    assert_eq!(page("SetGCHandle").number("ObjectID"), pinned.number("ObjectID"));
    let last = seen.last().unwrap();
    assert!(
        last.reason == 1 && last.handles >= 1 && last.pinned_objects >= 1 && last.generations[3] > 80_000,
        "{last:?}"
    );
    assert!(page("GCSampledObjectAllocationHigh").number("TotalSizeForTypeSample") > 0);
    let settings = page("GCSettingsRundown");
    assert_eq!((settings.number("HardLimit"), settings.number("BitSettings")), (256 << 20, 8));
    assert_eq!(page("Settings").number("SegmentSize"), 2 << 20);
    let segment = page("GCCreateSegment");
    assert!(segment.number("Size") >= 2 << 20 && segment.number("Address") > 0);
}

/// `.event.crash`: after each flush the file is a complete trace with its end tag.
#[rstest]
fn each_flush_leaves_a_whole_file(#[values(Container::V4, Container::V6)] container: Container) {
    let file = File::new();
    let trace = start(&file, VERBOSE, container);
    let world = small().record_to(&trace).build().unwrap();
    let mut events = 0;
    for round in 0..6 {
        work(&world, 20_000 * (round % 2));
        trace.flush().unwrap();
        let parsed = parsed_in(&file);
        assert!(parsed.events.len() > events, "round {round}");
        assert!(parsed.points > 0);
        events = parsed.events.len();
        check(&parsed);
    }
    drop(world);
    finish(&trace);
}

#[test]
fn a_trace_without_a_world_is_a_trace() {
    let file = File::new();
    finish(&start(&file, VERBOSE, Container::V4));
    let parsed = parsed_in(&file);
    assert_eq!(
        parsed.counts().values().sum::<usize>(),
        2,
        "the events that describe the process: {:?}",
        parsed.counts()
    );
}

#[test]
fn worlds_share_a_trace_and_can_be_distinguished() {
    let file = File::new();
    let trace = start(&file, COLLECTIONS, Container::V4);
    let worlds: Vec<_> = (0..3).map(|_| reporting(small().record_to(&trace))).collect();
    let (worlds, reports): (Vec<_>, Vec<_>) =
        worlds.into_iter().map(|(builder, reports)| (builder.build().unwrap(), reports)).unzip();
    // The worlds collect at the same time, then one after the other.
    std::thread::scope(|scope| worlds.iter().for_each(|world| drop(scope.spawn(|| work(world, 50_000)))));
    for _ in 0..10 {
        worlds.iter().for_each(|world| work(world, 100));
    }
    worlds.into_iter().for_each(end);
    finish(&trace);
    let parsed = parsed_in(&file);
    let seen = check(&parsed);
    let mut numbers: Vec<u16> = seen.iter().map(|seen| seen.world).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers, [0, 1, 2]);
    assert_eq!(parsed.named("GCSettingsRundown").count(), 3);
    // GCStats has the collections of all worlds, with the collector's own figures.
    let (processes, _) = analyse(Reader::new(&file.bytes()[..]), Rules::Ours).unwrap();
    let mut found: Vec<(u32, u64)> = Vec::new();
    let each = processes[0].for_each(|collection, _| {
        assert!(collection.complete, "{collection:?}");
        found.push((collection.number as u32, (collection.pause * 1e6 / 100.0).round() as u64));
        Ok::<_, std::io::Error>(())
    });
    each.unwrap();
    let of_reports = reports.iter().flat_map(Reports::sorted);
    let mut expected: Vec<(u32, u64)> =
        of_reports.map(|report| (report.number, (report.pause_ns as f64 / 100.0).round() as u64)).collect();
    [&mut found, &mut expected].into_iter().for_each(|all| all.sort_unstable());
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found.0 == expected.0 && found.1.abs_diff(expected.1) <= 1, "{found:?} instead of {expected:?}");
    }
}

/// A world that exists already is traced from then on, and its first collection is complete or absent.
#[test]
fn a_trace_may_begin_in_the_middle() {
    let world = small().build().unwrap();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| (0..30).for_each(|_| work(&world, 5_000)));
        for _ in 0..10 {
            let file = File::new();
            let trace = start(&file, COLLECTIONS, Container::V4);
            world.record_to(&trace).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            assert!(trace.finish().unwrap().is_complete());
            check(&parsed_in(&file));
        }
        worker.join().unwrap();
    });
}

/// Two sessions at once: neither has what only the other requested.
#[test]
fn sessions_are_not_mixed() {
    let (few, many) = (File::new(), File::new());
    let traces =
        [start(&few, "Microsoft-Windows-DotNETRuntime:2:4", Container::V6), start(&many, VERBOSE, Container::V4)];
    let world = small().record_to(&traces[0]).record_to(&traces[1]).build().unwrap();
    work(&world, 50_000);
    drop(world);
    traces.iter().for_each(|trace| drop(finish(trace)));
    let counts = parsed_in(&few).counts();
    let of_runtime: Vec<_> = counts.keys().filter(|(provider, _)| provider == DEFAULT).map(|(_, name)| name).collect();
    assert_eq!(of_runtime, ["DestroyGCHandle", "SetGCHandle"]);
    assert!(!check(&parsed_in(&many)).is_empty());
}

#[test]
fn a_flight_recorder_is_written_as_a_whole_trace() {
    let file = File::new();
    let providers = Providers::parse(VERBOSE).unwrap();
    let options = || Options::new(file.path()).flight_recorder(8 << 20).providers(providers.clone());
    let trace = writer_support::start(options);
    let world = small().record_to(&trace).build().unwrap();
    work(&world, 200_000);
    let mut collections = 0;
    for _ in 0..2 {
        assert!(trace.write_flight().unwrap() > 100);
        let seen = check(&parsed_in(&file)).len();
        assert!(seen > collections, "{seen} collections after {collections}, and each work requests one");
        collections = seen;
        work(&world, 5_000);
    }
}
