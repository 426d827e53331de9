//! Threads are born and die while collections run.
//!
//!     cargo run --release --example churn [ALIVE [SECONDS]]
//!
//! What to look at: the left column. Each collection found another number of threads, because some were between birth
//! and attach and some between detach and death: those hold no collected memory and nobody stops them. The bars count
//! how many collections met that many threads. Yet no list that a dead thread left behind was ever broken: the last
//! line says how many links were followed.

use std::collections::BTreeMap;
use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stopworld::{CollectionReport, World};
use stopworld_analysis::report::Micros;
use stopworld_workloads::{self as workloads, Plan, Shift, Until, churn};

/// For each number of threads: how many collections met it, and the nanoseconds they took to stop them.
type Met = BTreeMap<u32, (u64, u64)>;

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: churn [ALIVE [SECONDS]], both at least 1";
    let alive: NonZeroUsize = argument(1, 8)?.try_into().map_err(|_| usage)?;
    let seconds = argument(2, 3)?.max(1) as u64;
    let until = Until::Time(Duration::from_secs(seconds));
    let shift = Shift::new(Plan { threads: alive, until, depth: 0 });

    let met = Arc::new(Mutex::new(Met::new()));
    let counted = Arc::clone(&met);
    let listener = move |report: &CollectionReport| {
        let mut met = counted.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = met.entry(report.threads_stopped).or_default();
        *entry = (entry.0 + 1, entry.1 + report.stop_ns);
    };
    let world = World::builder().trace_from_environment()?.on_collection(listener).build()?;
    // SAFETY: this thread holds no `Gc` of its own; the workload keeps its promise.
    let m = unsafe { world.attach("main") }?;
    let outcome = workloads::run(&m, &churn::WORKLOAD, &shift)?;

    let met = met.lock().unwrap_or_else(PoisonError::into_inner);
    let most = met.values().map(|(count, _)| *count).max().unwrap_or(1);
    println!("threads  collections  mean stop µs");
    for (threads, (count, stop_ns)) in met.iter() {
        let bar = "▇".repeat((count * 40).div_ceil(most) as usize);
        println!("{threads:>7}  {count:>11}  {:>12}  {bar}", Micros(stop_ns / count).to_string());
    }
    println!("{} links, left behind by threads that were gone, were followed and found right", outcome.verified);
    Ok(())
}

fn argument(position: usize, default: usize) -> Result<usize, Box<dyn Error>> {
    let given = std::env::args().nth(position);
    Ok(given.map_or(Ok(default), |text| text.parse()).map_err(|_| "usage: churn [ALIVE [SECONDS]], both at least 1")?)
}
