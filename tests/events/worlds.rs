//! The events of worlds in which programs run: consistent sums, pairs that nest, names that resolve.

use crate::event_support;

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use event_support::{LiveBytes, build, categories, listening, names_emitted, objects, told};
use rstest::rstest;
use stopworld::events::{Category, Event, EventId, EventSet, Record, Selection, Sink};
use stopworld::{CollectionReport, Stopper, World};
use stopworld_workloads::{self as workloads, RunControl, RunPlan, Until, WORKLOADS, Workload};

/// A time limit for the runs of these tests, far longer than any of them takes, even on a busy machine.
const LONG: Duration = Duration::from_secs(300);

fn plan(threads: usize, until: Until) -> RunPlan {
    RunPlan { threads: NonZeroUsize::new(threads).unwrap(), until, depth: 12 }
}

fn run(world: &World, workload: &Workload, plan: RunPlan) {
    work(world, workload, &RunControl::new(plan));
}

fn work(world: &World, workload: &Workload, run_control: &RunControl) {
    // SAFETY: the workloads keep their references where the collector finds them.
    let m = unsafe { world.attach("main") }.unwrap();
    workloads::run(&m, workload, run_control).unwrap();
    m.collect().unwrap();
}

/// PoolAlloc bytes − PoolFree bytes = live bytes at each collection's end, from the first one on.
#[rstest]
fn what_is_reported_as_allocated_and_not_as_freed_is_what_lives(
    #[values(0, 1, 2, 3, 4)] workload: usize,
    #[values(1, 2, 5)] threads: usize,
    #[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper,
) {
    let world = build(1 + threads % 2, stopper);
    let live_bytes = LiveBytes::new();
    world.events().listen(live_bytes.clone(), objects()).unwrap();
    run(&world, WORKLOADS[workload], plan(threads, Until::Time(Duration::from_millis(300))));
    world.collect().unwrap();
    let ends = live_bytes.ends.lock().unwrap();
    assert!(ends.len() >= 2);
    for (number, (told, live)) in ends.iter().enumerate() {
        assert_eq!(*told, i128::from(*live), "{}: collection {}", WORKLOADS[workload].name, number + 1);
    }
    assert!(live_bytes.freed.load(Ordering::Relaxed) > 0);
}

/// Ends the run plan when it is dropped, however the test ends.
struct Ends<'a>(&'a RunControl);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A listener that takes a long time.
#[derive(Debug)]
struct Slow(Duration);

impl Sink for Slow {
    fn record(&self, _: &Record) {
        let begin = Instant::now();
        while begin.elapsed() < self.0 {
            std::hint::spin_loop();
        }
    }
}

/// The time in which the stops of threads are reported is a part of the pause, and of no step of the collection.
#[test]
fn no_step_has_the_time_in_which_stops_are_reported() {
    let slow = Duration::from_millis(300);
    let stops = Selection::of([EventId::ThreadStopped].into_iter().collect());
    let world = World::builder().heap_limit(32 << 20).listen(Arc::new(Slow(slow)), stops).build().unwrap();
    // SAFETY: no references.
    let m = unsafe { world.attach("main") }.unwrap();
    let reports = [(); 3].map(|()| m.collect().unwrap());
    let slow = slow.as_nanos() as u64;
    assert!(reports.iter().all(|report| report.pause_ns >= slow), "the listener was called: {reports:?}");
    // On a busy machine any step may take as long, but not in each collection.
    let steps: [fn(&CollectionReport) -> u64; 6] =
        [|r| r.stop_ns, |r| r.roots_ns, |r| r.mark_ns, |r| r.weak_ns, |r| r.sweep_ns, |r| r.restart_ns];
    assert!(steps.iter().all(|step| reports.iter().any(|report| step(report) < slow)), "{reports:?}");
}

/// Counts as [`LiveBytes`], but records only the ends of collections that have begun since `is_on` was set.
#[derive(Debug)]
struct Whole {
    live_bytes: Arc<LiveBytes>,
    is_on: AtomicBool,
    begun: AtomicU32,
}

impl Sink for Whole {
    fn record(&self, record: &Record) {
        match record.event() {
            // Both events of a collection are fired by the thread that collects.
            Event::SuspendBegin(begin) if self.is_on.load(Ordering::SeqCst) => {
                self.begun.store(begin.number, Ordering::Relaxed);
            }
            Event::HeapStats(end) if end.number != self.begun.load(Ordering::Relaxed) => {}
            _ => self.live_bytes.record(record),
        }
    }
}

/// If the category is switched on during a run, the changes of the sums are consistent from the first collection on that begins later. The
/// listener may miss deaths of a collection that had begun before.
#[rstest]
fn the_sums_are_consistent_from_the_moment_of_switching_on(
    #[values(0, 3)] workload: usize,
    #[values(1, 4)] threads: usize,
) {
    let world = build(1, Stopper::Signals);
    let live_bytes = LiveBytes::new();
    let whole = Arc::new(Whole {
        live_bytes: Arc::clone(&live_bytes),
        is_on: AtomicBool::new(false),
        begun: AtomicU32::new(0),
    });
    let listener = world.events().listen(whole.clone(), Selection::nothing()).unwrap();
    let mut wants = objects();
    wants.events.insert(EventId::SuspendBegin);
    let mut checked = 0;
    let run_control = RunControl::new(plan(threads, Until::Time(LONG)));
    std::thread::scope(|scope| {
        scope.spawn(|| work(&world, WORKLOADS[workload], &run_control));
        let _ends = Ends(&run_control);
        let begun = Instant::now();
        while checked < 50 {
            assert!(begun.elapsed() < LONG, "only {checked} collections were checked");
            // Some collections without events, which leave blocks half swept.
            std::thread::sleep(Duration::from_millis(5));
            live_bytes.ends.lock().unwrap().clear();
            world.events().select(listener, wants).unwrap();
            whole.is_on.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            world.collect().unwrap();
            world.collect().unwrap();
            whole.is_on.store(false, Ordering::SeqCst);
            world.events().select(listener, Selection::nothing()).unwrap();
            let ends = live_bytes.ends.lock().unwrap();
            let Some((told_first, live_first)) = ends.first() else { continue };
            for (told, live) in &ends[1..] {
                assert_eq!(told - told_first, i128::from(*live) - i128::from(*live_first));
                checked += 1;
            }
        }
    });
}

// ---- Pairs ---------------------------------------------------------------------------------------------------------

const PAIRS: &[(EventId, &[EventId])] = &[
    (EventId::SuspendBegin, &[EventId::RestartEnd, EventId::StopAbandoned]),
    (EventId::GcStart, &[EventId::GcEnd]),
    (EventId::RootsBegin, &[EventId::RootsEnd]),
    (EventId::MarkBegin, &[EventId::MarkEnd]),
    (EventId::SweepBegin, &[EventId::SweepEnd]),
    (EventId::FinalizerBegin, &[EventId::FinalizerEnd]),
    (EventId::RestartBegin, &[EventId::RestartEnd]),
];

/// Returns the pairs that are open at the end of these records; panics if an event closes a pair that is not the innermost open one.
fn open_pairs(records: &[Record]) -> Vec<EventId> {
    let mut open: Vec<EventId> = Vec::new();
    for record in records {
        if PAIRS.iter().any(|(begin, _)| *begin == record.id) {
            open.push(record.id);
        }
        while let Some(innermost) = open.last() {
            let ends = PAIRS.iter().find(|(begin, _)| begin == innermost).unwrap().1;
            // The end of the restart also ends the stop.
            if !ends.contains(&record.id) {
                break;
            }
            open.pop();
        }
        let is_end = PAIRS.iter().any(|(_, ends)| ends.contains(&record.id));
        let closed = !open.iter().any(|begin| PAIRS.iter().any(|(b, ends)| b == begin && ends.contains(&record.id)));
        assert!(!is_end || closed, "{:?} inside {open:?}", record.id);
    }
    open
}

#[rstest]
#[case::threads_that_come_and_go("churn")]
#[case::finalizers_and_weak_references("graph")]
fn begins_and_ends_nest_on_each_thread(#[case] workload: &str) {
    let world = build(2, Stopper::Signals);
    let wants: EventSet = PAIRS.iter().flat_map(|(begin, ends)| ends.iter().copied().chain([*begin])).collect();
    let sink = listening(&world, Selection::of(wants));
    run(&world, workloads::find(workload).unwrap(), plan(3, Until::OnePass));
    world.close(Duration::from_secs(120)).unwrap();
    let mut threads: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
    told(&sink).into_iter().for_each(|record| threads.entry(record.tid).or_default().push(record));
    assert!(threads.values().flatten().filter(|record| record.id == EventId::GcEnd).count() > 3);
    for records in threads.values() {
        assert_eq!(open_pairs(records), []);
        assert!(records.is_sorted_by_key(|record| record.timestamp), "the clock ran backwards on a thread");
    }
}

#[rstest]
#[case("binary-trees", &["long-lived tree", "stopworld_workloads::binary_trees::Tree", "trees-1"])]
#[case("gcbench", &["long-lived tree", "long-lived array"])]
#[case("graph", &["vertices", "watches"])]
#[case("churn", &["legacy", "child-0"])]
fn the_workloads_name_what_they_build(#[case] workload: &str, #[case] expected: &[&str]) {
    let world = build(1, Stopper::Signals);
    let sink = listening(&world, categories(&[Category::User]));
    run(&world, workloads::find(workload).unwrap(), plan(2, Until::OnePass));
    let names: HashSet<&str> = names_emitted(&sink).into_iter().map(|(_, text)| text).collect();
    for name in expected {
        assert!(names.contains(name), "{name} is not among {names:?}");
    }
}

/// A listener that is added late gets the names, too.
#[test]
fn a_thread_names_a_type_once_to_each_listener() {
    let world = build(1, Stopper::Signals);
    // SAFETY: no reference is kept.
    let m = unsafe { world.attach("main") }.unwrap();
    let allocate = || assert!((0..100_000).all(|_| m.alloc([0_u64; 8]).is_ok()));
    let named = |sink| names_emitted(sink).into_iter().filter(|(_, text)| *text == "u64[8]").count();
    let first = listening(&world, categories(&[Category::User]));
    allocate();
    assert_eq!(named(&first), 1);
    let second = listening(&world, categories(&[Category::User]));
    allocate();
    assert_eq!((named(&first), named(&second)), (1, 1));
}
