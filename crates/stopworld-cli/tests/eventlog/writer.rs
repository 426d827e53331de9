//! Eventlogs that worlds write, compared with a reader of the tests' own, with the collector's reports, and with the rules of GHC's tools.

use crate::eventlog_rules;
use crate::writer_support;

use std::fs;
use std::io;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use eventlog_rules::{Log, LoggedCollection, check};
use ghc_eventlog::events::id;
use rstest::rstest;
use stopworld::debugger::mock::MockDebugger;
use stopworld::{Stopper, World};
use stopworld_analysis::convert::ConvertOptions;
use stopworld_analysis::tables::{self, Cell, ProcessFacts, RowSink, Table};
use stopworld_trace::Finished;
use stopworld_trace::eventlog::{Classes, Options, Trace};
use writer_support::{File, Reports, WORKLOADS, end, reporting, run, small};

fn start(file: &File, classes: &str) -> Trace {
    Options::new(file.path()).classes(Classes::parse(classes).unwrap()).start().unwrap()
}

fn log_in(file: &File) -> Log {
    Log::parse(&file.bytes())
}

fn finish(trace: &Trace) -> Finished {
    trace.wait_for_worlds(Duration::from_secs(120));
    let finished = trace.finish().unwrap();
    assert!(finished.is_complete(), "{finished:?}");
    finished
}

/// The pauses in the table of collections.
#[derive(Default)]
struct Pauses(Vec<i64>);

impl RowSink for Pauses {
    fn process(&mut self, _: &ProcessFacts) -> io::Result<()> {
        Ok(())
    }

    fn row(&mut self, table: Table, cells: &[Cell<'_>]) -> io::Result<()> {
        let pause = table.columns().iter().zip(cells).find(|(column, _)| column.name == "pause_ns");
        let Some((_, Cell::Int(pause))) = pause else { panic!("{cells:?}") };
        self.0.push(*pause);
        Ok(())
    }
}

/// Asserts that a dataset of a log has the pauses of the collector's reports.
fn tables_have_the_pauses(file: &File, reports: &Reports) {
    let mut pauses = Pauses::default();
    let file = fs::File::open(file.path()).unwrap();
    tables::read(&file, &[Table::Collections], &ConvertOptions::default(), &mut pauses).unwrap();
    let mut expected: Vec<i64> = reports.sorted().iter().map(|report| report.pause_ns as i64).collect();
    // The rows are in the order in which threads were restarted.
    [&mut pauses.0, &mut expected].into_iter().for_each(|all| all.sort_unstable());
    assert_eq!(pauses.0.len(), expected.len());
    for (pause, expected) in pauses.0.iter().zip(&expected) {
        assert!((pause - expected).abs() <= 2, "{pause} ns instead of {expected} ns");
    }
}

/// Asserts that the collections in a log agree with the collector's reports in every figure.
fn are_the_reports(seen: &[LoggedCollection], reports: &Reports) {
    let reports = reports.sorted();
    assert_eq!(seen.len(), reports.len());
    let mut allocated = 0;
    for (index, (of, report)) in seen.iter().zip(&reports).enumerate() {
        assert_eq!(of.live, report.live.total(), "{report:?}");
        assert!(of.size >= of.live, "{of:?}");
        let took = of.end - of.start;
        assert!(took <= report.pause_ns, "{of:?} {report:?}");
        assert!(took >= report.mark_ns, "{of:?} {report:?}");
        allocated += report.allocated_bytes;
        // Each capability counts its own bytes.
        let last_of_each = seen[..=index]
            .iter()
            .enumerate()
            .filter(|(at, one)| seen[at + 1..=index].iter().all(|later| later.capability != one.capability));
        assert_eq!(last_of_each.map(|(_, one)| one.allocated).sum::<u64>(), allocated, "{report:?}");
    }
}

#[rstest]
fn logs_of_all_workloads_obey_the_rules(
    #[values("signals", "safepoints", "mock")] stopper: &str,
    #[values(0, 1, 2, 3, 4, 5)] workload: usize,
) {
    let file = File::new();
    let trace = start(&file, "a");
    let (builder, reports) = reporting(small().record_to(&trace));
    let builder = if stopper == "safepoints" { builder.stopper(Stopper::Safepoints) } else { builder };
    let world = builder.markers(2).build().unwrap();
    if stopper == "mock" {
        world.set_thread_vtable(MockDebugger::new().unwrap()).unwrap();
    }
    run(&world, WORKLOADS[workload], 2);
    end(world);
    let finished = finish(&trace);
    let log = log_in(&file);
    assert_eq!(log.events.len() as u64, finished.records);
    assert_eq!(fs::metadata(file.path()).unwrap().len(), finished.bytes + 2, "the log and its end marker");
    let seen = check(&log);
    assert!(!seen.is_empty());
    are_the_reports(&seen, &reports);
    tables_have_the_pauses(&file, &reports);
    assert_eq!(log.all(id::OSPROCESS_PID).next().unwrap().u32(4), std::process::id());
    let info = log.all(id::HEAP_INFO_GHC).next().unwrap();
    assert_eq!((info.u16(4), info.u64(6)), (1, 256 << 20));
    assert_eq!(log.count(id::REQUEST_PAR_GC), seen.len());
    assert_eq!(log.count(id::THREAD_LABEL), log.count(id::CREATE_THREAD));
    assert_eq!(log.count(id::LOG_MSG), usize::from(stopper == "mock"), "the log names another way of stopping threads");
}

/// Threads that attach and detach reuse capabilities; the numbers of threads are never reused, and each has its name.
#[test]
fn there_are_as_many_capabilities_as_threads_at_a_time() {
    const THREADS: usize = 60;
    let file = File::new();
    let trace = start(&file, "a");
    let world = small().record_to(&trace).build().unwrap();
    for number in 0..THREADS {
        // SAFETY: no references are kept.
        let two: Vec<_> = (0..2).map(|half| unsafe { world.spawn(&format!("t{number}-{half}"), |_| ()) }).collect();
        two.into_iter().for_each(|thread| thread.unwrap().join().unwrap());
    }
    end(world);
    finish(&trace);
    let log = log_in(&file);
    check(&log);
    assert_eq!(log.count(id::CREATE_THREAD), 2 * THREADS);
    assert!(log.all(id::CAP_CREATE).all(|event| event.u16(0) < 2), "at most two capabilities");
    let mut names: Vec<&str> = log.all(id::THREAD_LABEL).map(|event| event.text(4)).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 2 * THREADS);
}

#[rstest]
#[case("s", true, false, false)]
#[case("g", false, true, false)]
#[case("u", false, false, true)]
#[case("-g", true, false, true)]
fn a_log_has_the_requested_classes(
    #[case] classes: &str,
    #[case] threads: bool,
    #[case] collections: bool,
    #[case] user: bool,
) {
    let file = File::new();
    let trace = start(&file, classes);
    let world = small().record_to(&trace).build().unwrap();
    world.events().telemetry_message("before").unwrap();
    run(&world, "churn", 2);
    world.events().telemetry_marker("after").unwrap();
    end(world);
    finish(&trace);
    let log = log_in(&file);
    let seen = check(&log);
    assert_eq!(!seen.is_empty(), collections);
    for event in [id::CREATE_THREAD, id::RUN_THREAD, id::STOP_THREAD, id::TASK_CREATE] {
        assert_eq!(log.count(event) > 0, threads);
    }
    for event in [id::GC_START, id::HEAP_SIZE, id::HEAP_LIVE, id::REQUEST_SEQ_GC, id::REQUEST_PAR_GC] {
        assert!(collections || log.count(event) == 0);
    }
    let said: Vec<&str> = log.all(id::USER_MSG).chain(log.all(id::USER_MARKER)).map(|event| event.text(0)).collect();
    assert_eq!(said, if user { vec!["before", "after"] } else { vec![] });
}

/// A log that begins late has the names of the threads that are attached at that time, and not those of threads that have detached before.
#[test]
fn a_log_that_begins_late_knows_the_attached_threads() {
    let file = File::new();
    let world = small().build().unwrap();
    let gate = Arc::new(Barrier::new(3));
    let threads: Vec<_> = ["early", "bird"]
        .into_iter()
        .map(|name| {
            let gate = Arc::clone(&gate);
            // SAFETY: no references are kept.
            unsafe {
                world.spawn(name, move |m| {
                    m.blocking(|| gate.wait());
                    m.blocking(|| gate.wait());
                })
            }
            .unwrap()
        })
        .collect();
    gate.wait();
    let trace = start(&file, "a");
    world.record_to(&trace).unwrap();
    world.record_to(&trace).unwrap();
    world.collect().unwrap();
    gate.wait();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // SAFETY: no references are kept.
    unsafe { world.spawn("late", |_| ()) }.unwrap().join().unwrap();
    world.collect().unwrap();
    end(world);
    finish(&trace);
    let log = log_in(&file);
    assert_eq!(check(&log).len(), 2);
    let mut names: Vec<&str> = log.all(id::THREAD_LABEL).map(|event| event.text(4)).collect();
    names.sort_unstable();
    assert_eq!(names, ["bird", "early", "late"]);
    assert_eq!(log.count(id::HEAP_INFO_GHC), 1);
}

/// GHC has one heap, and ThreadScope fails with an error when the collections of two overlap.
#[test]
fn worlds_that_collect_at_the_same_time_do_not_confuse_threadscope() {
    let file = File::new();
    let trace = start(&file, "a");
    let worlds: Vec<World> = (0..3).map(|_| small().record_to(&trace).build().unwrap()).collect();
    std::thread::scope(|scope| {
        for world in &worlds {
            scope.spawn(|| run(world, "graph", 1));
        }
    });
    worlds.into_iter().for_each(end);
    finish(&trace);
    let log = log_in(&file);
    let told = log.all(id::LOG_MSG).filter(|event| event.text(0).contains("another heap is collected")).count();
    let counted = eventlog_rules::threadscope(&log);
    assert_eq!(counted, log.count(id::GC_START));
    assert_eq!(counted + told, log.count(id::HEAP_LIVE), "every collection is in the log, as events or as a message");
    let sets: Vec<(u32, u16)> = log.all(id::CAPSET_CREATE).map(|event| (event.u32(0), event.u16(4))).collect();
    assert_eq!(sets, [(0, 2), (1, 3), (2, 1), (3, 1)]);
    assert_eq!(log.count(id::CAPSET_DELETE), 4);
}

/// Worlds that follow each other are one heap in the log.
#[test]
fn a_world_that_follows_another_takes_its_place() {
    let file = File::new();
    let trace = start(&file, "a");
    for _ in 0..2 {
        let world = small().record_to(&trace).build().unwrap();
        run(&world, "binary-trees", 1);
        end(world);
        trace.wait_for_worlds(Duration::from_secs(120));
    }
    finish(&trace);
    let log = log_in(&file);
    check(&log);
    assert_eq!((log.count(id::HEAP_INFO_GHC), log.count(id::CAPSET_CREATE)), (2, 2));
    assert!(log.all(id::HEAP_LIVE).all(|event| event.u32(0) == 0));
}

#[test]
fn a_collecting_thread_without_a_mutator_has_a_capability_and_no_thread() {
    let file = File::new();
    let trace = start(&file, "a");
    let world = small().record_to(&trace).build().unwrap();
    world.collect().unwrap();
    end(world);
    finish(&trace);
    let log = log_in(&file);
    let seen = check(&log);
    assert_eq!((seen.len(), seen[0].capability), (1, 0));
    assert_eq!((log.count(id::CREATE_THREAD), log.count(id::RUN_THREAD)), (0, 0));
}

#[test]
fn the_flight_recorder_knows_threads_whose_creation_it_has_overwritten() {
    let file = File::new();
    let options = Options::new(file.path()).flight_recorder(64 << 10);
    let trace = options.start().unwrap();
    let world = small().record_to(&trace).build().unwrap();
    // SAFETY: references are local variables of the workload.
    let m = unsafe { world.attach("main") }.unwrap();
    for _ in 0..400 {
        m.collect().unwrap();
    }
    assert!(!file.path().exists());
    for _ in 0..2 {
        let events = trace.write_flight().unwrap();
        let log = log_in(&file);
        assert!(events > 100);
        let seen = check(&log);
        assert!((10..400).contains(&seen.len()), "{}", seen.len());
        let names: Vec<&str> = log.all(id::THREAD_LABEL).map(|event| event.text(4)).collect();
        assert_eq!(names, ["main"]);
    }
    drop(m);
    end(world);
}
