//! Threads start and end while collections run.
//!
//!     cargo run --release --example churn [ALIVE [SECONDS]]
//!
//! What to look at: the left column. Collections stop different numbers of threads, because some threads are between start
//! and attach and some between detach and exit: those hold no collected memory and are not stopped. Each bar shows
//! the number of collections with that number of threads. No list left by a thread that has ended was broken: the last
//! line shows the number of links that were checked.

use std::collections::BTreeMap;
use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stopworld::{CollectionReport, World};
use stopworld_analysis::report::Micros;
use stopworld_trace::mps;
use stopworld_workloads::{self as workloads, RunControl, RunPlan, Until, churn};

/// For each number of threads: the number of collections that stopped this number, and the total time to stop, in nanoseconds.
type StopTimes = BTreeMap<u32, (u64, u64)>;

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: churn [ALIVE [SECONDS]], both at least 1";
    let alive: NonZeroUsize = argument(1, 8)?.try_into().map_err(|_| usage)?;
    let seconds = argument(2, 3)?.max(1) as u64;
    let until = Until::Time(Duration::from_secs(seconds));
    let run_control = RunControl::new(RunPlan { threads: alive, until, depth: 0 });

    let met = Arc::new(Mutex::new(StopTimes::new()));
    let counted = Arc::clone(&met);
    let listener = move |report: &CollectionReport| {
        let mut met = counted.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = met.entry(report.threads_stopped).or_default();
        *entry = (entry.0 + 1, entry.1 + report.stop_ns);
    };
    let world = World::builder().record_to(&mps::Trace::from_environment()?).on_collection(listener).build()?;
    // SAFETY: this thread holds no `Gc` of its own; the workload fulfils the contract of `attach`.
    let m = unsafe { world.attach("main") }?;
    let outcome = workloads::run(&m, &churn::WORKLOAD, &run_control)?;

    let met = met.lock().unwrap_or_else(PoisonError::into_inner);
    let most = met.values().map(|(count, _)| *count).max().unwrap_or(1);
    println!("threads  collections  mean stop µs");
    for (threads, (count, stop_ns)) in met.iter() {
        let bar = "▇".repeat((count * 40).div_ceil(most) as usize);
        println!("{threads:>7}  {count:>11}  {:>12}  {bar}", Micros(stop_ns / count).to_string());
    }
    println!("{} links were verified, all left by threads that had ended", outcome.verified);
    Ok(())
}

fn argument(position: usize, default: usize) -> Result<usize, Box<dyn Error>> {
    let given = std::env::args().nth(position);
    Ok(given.map_or(Ok(default), |text| text.parse()).map_err(|_| "usage: churn [ALIVE [SECONDS]], both at least 1")?)
}
