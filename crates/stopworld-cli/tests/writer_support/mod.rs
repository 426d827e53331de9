//! Worlds that write traces, for the tests of the writers: small ones, the workloads in them, and the collector's own reports of its
//! collections.

#![allow(dead_code, reason = "each test program uses its part")]

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stopworld::events::record::RecordError;
use stopworld::{CollectionReport, Mutator, World, WorldBuilder};
use stopworld_trace::{Format, Options, Trace, TraceError};
use stopworld_workloads::lisp::Interpreter;
use stopworld_workloads::{self as workloads, RunControl, RunPlan, Until};

pub const WORKLOADS: [&str; 6] = ["binary-trees", "gcbench", "churn", "graph", "hammer", "lisp"];

/// A temporary file that is removed at the end of the test.
pub struct File(tempfile::TempDir);

impl File {
    pub fn new() -> File {
        File(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().join("trace")
    }

    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).unwrap()
    }
}

/// Starts a trace with these options. A process can write only a few traces at once, and tests run in parallel: waits until there is room for
/// another. So a test may have two traces at once only if few tests do.
pub fn start<F: Format>(options: impl Fn() -> Options<F>) -> Trace<F> {
    let begun = Instant::now();
    loop {
        match options().start() {
            Err(TraceError::Record(RecordError::TooManyConsumers)) if begun.elapsed() < Duration::from_secs(120) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            started => return started.unwrap(),
        }
    }
}

pub fn small() -> WorldBuilder {
    World::builder().heap_limit(256 << 20).initial_heap(1 << 20)
}

/// Runs one of [`WORKLOADS`], and collects at its end.
pub fn run(world: &World, workload: &str, threads: usize) {
    // SAFETY: the workloads keep their references where the collector looks.
    let m = unsafe { world.attach("main") }.unwrap();
    if workload == "lisp" {
        scheme(world, threads);
    } else {
        let threads = NonZeroUsize::new(threads).unwrap();
        let until = if workload == "hammer" { Until::Time(Duration::from_millis(150)) } else { Until::OnePass };
        let plan = RunPlan { threads, until, depth: 10 };
        workloads::run(&m, workloads::find(workload).unwrap(), &RunControl::new(plan)).unwrap();
    }
    m.collect().unwrap();
}

/// An interpreter in each thread.
fn scheme(world: &World, threads: usize) {
    let text = include_str!("../../../../examples/scheme/gc-bench.scm");
    let work = move |m: &Mutator| {
        let interpreter = Interpreter::new(m).unwrap();
        interpreter.run_until(m, "gc-bench", text, &mut Vec::new(), None).unwrap();
    };
    // SAFETY: the interpreter keeps its values in collected objects and on the stack.
    let crew = (0..threads).map(|index| unsafe { world.spawn(&format!("scheme-{index}"), work) }.unwrap());
    crew.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

pub fn end(world: World) {
    world.close(Duration::from_secs(120)).unwrap();
    drop(world);
}

/// The collector's own reports of its collections.
#[derive(Clone, Default)]
pub struct Reports(Arc<Mutex<Vec<CollectionReport>>>);

impl Reports {
    /// Returns the reports in the order of the collections. The collecting thread makes its report after the restart, so two reports may
    /// arrive in the wrong order.
    pub fn sorted(&self) -> Vec<CollectionReport> {
        let mut reports = self.0.lock().unwrap().clone();
        reports.sort_unstable_by_key(|report| report.number);
        reports
    }
}

pub fn reporting(builder: WorldBuilder) -> (WorldBuilder, Reports) {
    let reports = Reports::default();
    let kept = reports.clone();
    (builder.on_collection(move |report| kept.0.lock().unwrap().push(*report)), reports)
}
