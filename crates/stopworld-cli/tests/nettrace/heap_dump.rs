//! Heap dumps: every live object once, every reference, every root; with no more memory than the rings have, however large the heap is.

use crate::{nettrace_rules, writer_support};

use std::num::NonZeroUsize;
use std::time::Duration;

use nettrace_rules::{Trace as Parsed, check_collections, check_dump, check_payloads, dumps};
use rstest::rstest;
use stopworld::debugger::mock::MockDebugger;
use stopworld::{Gc, GcCell, Stopper, World, traced};
use stopworld_trace::nettrace::{Container, Options, Providers, Trace};
use stopworld_workloads::{self as workloads, RunControl, RunPlan, Until};

const DUMP: &str = "Microsoft-Windows-DotNETRuntime:0x180001:4";

fn start(directory: &tempfile::TempDir, providers: &str, container: Container) -> Trace {
    let (path, providers) = (directory.path().join("dump.nettrace"), Providers::parse(providers).unwrap());
    writer_support::start(|| Options::new(&path).container(container).providers(providers.clone()))
}

fn finish(directory: &tempfile::TempDir, trace: &Trace) -> Parsed {
    trace.wait_for_worlds(Duration::from_secs(120));
    let finished = trace.finish().unwrap();
    assert!(finished.is_complete(), "{finished:?}");
    Parsed::read(&directory.path().join("dump.nettrace"))
}

#[rstest]
fn a_dump_is_what_lives(
    #[values("binary-trees", "churn", "graph", "hammer")] workload: &str,
    #[values("signals", "safepoints", "mock")] stopper: &str,
) {
    let directory = tempfile::tempdir().unwrap();
    let container = if stopper == "signals" { Container::V4 } else { Container::V6 };
    let trace = start(&directory, DUMP, container);
    let mut builder = World::builder().heap_limit(64 << 20).initial_heap(4 << 20).record_to(&trace);
    if stopper == "safepoints" {
        builder = builder.stopper(Stopper::Safepoints);
    }
    let world = builder.build().unwrap();
    if stopper == "mock" {
        world.set_thread_vtable(MockDebugger::new().unwrap()).unwrap();
    }
    {
        // SAFETY: the workloads keep their references where the collector looks.
        let m = unsafe { world.attach("main") }.unwrap();
        let until = if workload == "hammer" { Until::Time(Duration::from_millis(100)) } else { Until::OnePass };
        let plan = RunPlan { threads: NonZeroUsize::new(2).unwrap(), until, depth: 8 };
        workloads::run(&m, workloads::find(workload).unwrap(), &RunControl::new(plan)).unwrap();
        m.collect().unwrap();
    }
    world.close(Duration::from_secs(10)).unwrap();
    drop(world);
    let parsed = finish(&directory, &trace);
    check_payloads(&parsed);
    check_collections(&parsed);
    let dumps = dumps(&parsed);
    assert!(!dumps.is_empty());
    dumps.iter().for_each(check_dump);
}

traced! {
    struct Link {
        next: GcCell<Option<Gc<Link>>>,
        other: GcCell<Option<Gc<Link>>>,
    }
}

/// A session that requests a dump without types gets none; for a session that requests only collections nothing is dumped.
#[test]
fn a_dump_is_made_for_the_session_that_requested_it() {
    for (keywords, nodes, types) in
        [("1:4", false, false), ("100001:4", true, false), ("180001:4", true, true), ("180001:3", false, false)]
    {
        let directory = tempfile::tempdir().unwrap();
        let trace = start(&directory, &format!("Microsoft-Windows-DotNETRuntime:{keywords}"), Container::V4);
        let world = World::builder().record_to(&trace).build().unwrap();
        {
            // SAFETY: the one reference is a local variable.
            let m = unsafe { world.attach("main") }.unwrap();
            let link = m.alloc(Link { next: GcCell::new(None), other: GcCell::new(None) }).unwrap();
            let root = m.root(link);
            m.collect().unwrap();
            drop(root);
        }
        drop(world);
        let parsed = finish(&directory, &trace);
        let counts = parsed.counts();
        let has = |name: &str| counts.keys().any(|(_, event)| event == name);
        assert_eq!((has("GCBulkNode"), has("BulkType")), (nodes, types), "{counts:?}");
        // The stack of `link`, from the provider `stopworld`, which the session did not request.
        assert_eq!(has("DumpStack"), nodes, "{counts:?}");
    }
}

fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// A complete dump of the number of objects in `DUMP_OBJECTS`. Run it alone in its process, because the memory of other tests would count:
/// `cargo test --test nettrace -- --ignored`.
#[test]
#[ignore = "measures the process's memory, and wants it for itself"]
fn a_dump_takes_no_memory_for_its_objects() {
    let objects = std::env::var("DUMP_OBJECTS").map_or(1_000_000, |text| text.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let trace = start(&directory, DUMP, Container::V4);
    let world = World::builder().heap_limit(4 << 30).initial_heap(4 << 30).build().unwrap();
    // SAFETY: the one reference is a local variable.
    let m = unsafe { world.attach("main") }.unwrap();
    let mut list: Option<Gc<Link>> = None;
    for number in 0..objects {
        let other = GcCell::new(list.filter(|_| number % 2 == 0));
        list = Some(m.alloc(Link { next: GcCell::new(list), other }).unwrap());
    }
    // This collection makes marking use its memory before the measurement.
    m.collect().unwrap();
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS");
    world.record_to(&trace).unwrap();
    let report = m.collect().unwrap();
    trace.flush().unwrap();
    let added = status("VmHWM").saturating_sub(before);
    println!("{objects} objects: {} MiB more, {} ms", added >> 20, report.pause_ns / 1_000_000);
    assert!(added <= 64 << 20, "{} MiB", added >> 20);
    stopworld::keep_alive(list.unwrap());
    drop(m);
    drop(world);
    let parsed = finish(&directory, &trace);
    let dumps = dumps(&parsed);
    assert!(dumps[0].nodes.len() >= objects);
    assert_eq!(dumps[0].nodes.iter().map(|node| node[1]).sum::<u64>(), dumps[0].live);
}
