//! The cost of the debugger bridge when no debugger is attached: `cargo bench --bench bridge`.
//!
//! Compares two worlds with the same number of threads, all in blocking regions, so that no stop has to wait. One uses the bridge, as every
//! world does by default; the other uses the signal stopper directly. Their collections alternate, so that both run under the same machine
//! conditions. The numbers are medians of a whole `collect` of a nearly empty heap.
//!
//! Exits with a failure if the limit is exceeded. `-- --quick` runs a tenth of the collections, as a smoke test: times are printed
//! but not checked.

use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use stopworld::{Mutator, SignalStopper, World};

/// The time that the bridge may add to a collection, in microseconds.
const LIMIT_US: f64 = 2.0;

const SIGURG: i32 = 23;

/// A world whose threads wait.
struct Subject {
    world: World,
    /// The senders that the threads wait for; the threads end when the senders are dropped.
    _ends: Vec<mpsc::Sender<()>>,
    times: Vec<f64>,
}

impl Subject {
    fn new(threads: usize) -> Self {
        let world = World::builder().build().expect("a world");
        let ends = (0..threads).map(|_| {
            let (end, ended) = mpsc::channel();
            let wait = move |m: &Mutator| {
                m.blocking(move || {
                    let _ = ended.recv();
                });
            };
            // SAFETY: the thread has no references.
            unsafe { world.spawn("waiter", wait) }.expect("a thread");
            end
        });
        Self { _ends: ends.collect(), world, times: Vec::new() }
    }

    fn collect(&mut self) {
        let begin = Instant::now();
        self.world.collect().expect("a collection");
        self.times.push(begin.elapsed().as_secs_f64() * 1e6);
    }

    fn median(&mut self) -> f64 {
        self.times.sort_by(f64::total_cmp);
        self.times[self.times.len() / 2]
    }
}

fn main() -> ExitCode {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let collections = if quick { 500 } else { 5_000 };
    println!("one collection, median of {collections}, microseconds");
    println!("  threads     with the bridge     without     difference     limit");
    let mut holds = true;
    for threads in [0, 8, 64] {
        let mut bridged = Subject::new(threads);
        let mut bare = Subject::new(threads);
        let signals = Arc::new(SignalStopper::new(SIGURG).expect("the signal"));
        bare.world.set_thread_vtable(signals).expect("swapped");
        for _ in 0..collections {
            bridged.collect();
            bare.collect();
        }
        let (with, without) = (bridged.median(), bare.median());
        let difference = with - without;
        println!("  {threads:7}     {with:15.2}     {without:7.2}     {difference:10.2}     {LIMIT_US:5.2}");
        holds &= quick || difference <= LIMIT_US;
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
