//! binary-trees of the Computer Language Benchmarks Game, with its usual output.
//!
//!     cargo run --release --example binary_trees [DEPTH [THREADS]]
//!
//! What to look at: the checks (a tree of depth d has 2^(d+1) - 1 nodes, and every line is checked against that) and
//! the last two lines. Nearly all objects are dead at the next collection, so "freed" is close to
//! "allocated", and marking, which visits only live objects, takes a small part of the time. With several threads
//! the same trees are distributed over the threads in turn.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use stopworld::{CollectionReport, Mutator, OutOfMemory, World};
use stopworld_analysis::report::{Bytes, Phase, RunSummary};
use stopworld_trace::mps;
use stopworld_workloads::binary_trees::{build, count, full};

const SHALLOWEST: u32 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let (depth, threads) = (argument(1, 18)?, argument(2, 1)?.max(1));
    let summary = Arc::new(Mutex::new(RunSummary::default()));
    let noted = Arc::clone(&summary);
    let note = move |report: &CollectionReport| noted.lock().unwrap_or_else(PoisonError::into_inner).note(report);
    let world = World::builder().record_to(&mps::Trace::from_environment()?).on_collection(note).build()?;
    // SAFETY: each tree is referenced from this thread's stack while it is in use.
    let m = unsafe { world.attach("main") }?;

    let begun = Instant::now();
    line("stretch tree", 1, depth + 1, count(build(&m, depth + 1)?));
    let long_lived = build(&m, depth)?;
    for shallow in (SHALLOWEST..=depth).step_by(SHALLOWEST as usize) {
        let trees = 1 << (depth - shallow + SHALLOWEST);
        line("trees", trees, shallow, on_threads(&m, threads, trees, shallow)?);
    }
    line("long lived tree", 1, depth, count(long_lived));

    let (allocated, wall) = (Bytes(world.totals().allocated_bytes), begun.elapsed());
    let summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
    let pauses = summary.pauses.spread(Phase::Total);
    println!("{:.3} s, {allocated} allocated, {} freed", wall.as_secs_f64(), Bytes(summary.freed));
    println!("{} collections, {:.3} s in them", summary.collections, pauses.sum as f64 / 1e9);
    Ok(())
}

/// Builds and counts `trees` trees, distributed over the threads.
fn on_threads(m: &Mutator, threads: u32, trees: u64, depth: u32) -> Result<u64, Box<dyn Error>> {
    let mut workers = Vec::new();
    for index in 1..threads {
        let share = move |m: &Mutator| share(m, index, threads, trees, depth);
        // SAFETY: as in `main`.
        workers.push(unsafe { m.world().spawn(&format!("trees-{index}"), share) }?);
    }
    let mut nodes = share(m, 0, threads, trees, depth)?;
    for worker in workers {
        // A thread that waits in `join` accesses no collected memory and need not be stopped.
        nodes += worker.join().map_err(|_| "a thread panicked")??;
    }
    Ok(nodes)
}

fn share(m: &Mutator, index: u32, threads: u32, trees: u64, depth: u32) -> Result<u64, OutOfMemory> {
    let mut nodes = 0;
    for _ in (u64::from(index)..trees).step_by(threads as usize) {
        nodes += count(build(m, depth)?);
        m.safepoint();
    }
    Ok(nodes)
}

fn line(what: &str, trees: u64, depth: u32, nodes: u64) {
    assert_eq!(nodes, trees * full(depth), "nodes were lost");
    println!("{trees}\t {what} of depth {depth}\t check: {nodes}");
}

fn argument(position: usize, default: u32) -> Result<u32, Box<dyn Error>> {
    let given = std::env::args().nth(position);
    Ok(given.map_or(Ok(default), |text| text.parse()).map_err(|_| "usage: binary_trees [DEPTH [THREADS]]")?)
}
