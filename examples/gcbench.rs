//! Boehm's GCBench, with one line per collection.
//!
//!     cargo run --release --example gcbench [THREADS]
//!
//! What to look at: the column "live". It grows while the stretch tree is built, falls when that tree is dropped, and then
//! stays near the size of the long-lived tree and array, independent of the short-lived trees. "mark" is proportional to
//! "live", not to the amount allocated; "stop" depends on the number of threads. The last lines are the table that the
//! command prints.

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use stopworld::{CollectionReport, World};
use stopworld_analysis::report::{Bytes, Micros, Run, RunSummary, table};
use stopworld_trace::mps;
use stopworld_workloads::{self as workloads, RunControl, RunPlan, Until, gcbench};

fn main() -> Result<(), Box<dyn Error>> {
    let threads = match std::env::args().nth(1) {
        Some(text) => text.parse().map_err(|_| "usage: gcbench [THREADS], at least 1")?,
        None => NonZeroUsize::MIN,
    };
    let depth = gcbench::WORKLOAD.default_depth.unwrap_or(18);
    let run_control = RunControl::new(RunPlan { threads, until: Until::OnePass, depth });

    let summary = Arc::new(Mutex::new(RunSummary::default()));
    let noted = Arc::clone(&summary);
    let listener = move |report: &CollectionReport| {
        let mut summary = noted.lock().unwrap_or_else(PoisonError::into_inner);
        summary.note(report);
        line(report);
    };
    let world = World::builder().record_to(&mps::Trace::from_environment()?).on_collection(listener).build()?;
    // SAFETY: this thread holds no `Gc` of its own; the workload fulfils the contract of `attach`.
    let m = unsafe { world.attach("main") }?;

    println!("{:>5} {:<12} {:>10} {:>10} {:>12} {:>12}", "#", "by", "stop µs", "mark µs", "live", "freed");
    let begun = Instant::now();
    let outcome = workloads::run(&m, &gcbench::WORKLOAD, &run_control)?;
    let wall = begun.elapsed();

    let run = Run {
        wall,
        allocated: world.totals().allocated_bytes,
        heap_limit: None,
        threads: threads.get(),
        trace: None,
        stops: None,
    };
    println!("{} long-lived objects were verified", outcome.verified);
    println!("{}", table::render(&summary.lock().unwrap_or_else(PoisonError::into_inner), &run));
    Ok(())
}

fn line(report: &CollectionReport) {
    let live = Bytes(report.live.total());
    let (stop, mark) = (Micros(report.stop_ns), Micros(report.roots_ns + report.mark_ns));
    let (number, by, freed) = (report.number, report.by.to_string(), Bytes(report.freed_bytes));
    println!(
        "{number:>5} {by:<12} {:>10} {:>10} {:>12} {:>12}",
        stop.to_string(),
        mark.to_string(),
        live.to_string(),
        freed.to_string()
    );
}
