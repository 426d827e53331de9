//! Whole programs, for the rows of *cooperation*: run to their ends; they report their results.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use stopworld::{Mutator, World};
use stopworld_workloads::{self as workloads, RunControl, RunPlan, Until, lisp};

use super::number;
use crate::facts::{Facts, TestResult};

/// The number of threads of each program.
const THREADS: usize = 8;

/// Runs `PROGRAM COLLECTIONS`: passes of the program until the world has collected this number of times. `passes` and what they verified per pass
/// are the results: if they differ from those of an undisturbed run, a collection has done harm.
pub fn run(world: &World, words: &[String]) -> TestResult<Facts> {
    let [program, collections] = words else { return Err("run PROGRAM COLLECTIONS".into()) };
    let collections: u64 = number(collections)?;
    let begun = u64::from(world.totals().collections);
    let done = || u64::from(world.totals().collections) - begun;
    let pump = Pump::start(world, collections);
    let mut results = Vec::new();
    while results.is_empty() || done() < collections {
        results.push(match program.as_str() {
            "lisp" => lisp_pass(world)?,
            name => workload_pass(world, name)?,
        });
    }
    pump.end()?;
    let first = results[0].clone();
    if let Some(other) = results.iter().find(|result| **result != first) {
        return Err(format!("one pass gave {first}, another {other}"));
    }
    Ok(Facts::new().with("passes", results.len()).with("result", first).with("collections", done()))
}

/// Collects concurrently with the program, which alone would not collect often enough.
struct Pump {
    end: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<TestResult<()>>,
}

impl Pump {
    fn start(world: &World, collections: u64) -> Self {
        let end = Arc::<AtomicU64>::default();
        let (ended, world) = (Arc::clone(&end), world.clone());
        let thread = std::thread::spawn(move || {
            let mut left = collections;
            while ended.load(Ordering::Relaxed) == 0 && left > 0 {
                world.collect().map_err(|error| error.to_string())?;
                left -= 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            Ok(())
        });
        Self { end, thread }
    }

    fn end(self) -> TestResult<()> {
        self.end.store(1, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the pump panicked")?
    }
}

fn workload_pass(world: &World, name: &str) -> TestResult<String> {
    let workload = workloads::find(name).ok_or_else(|| format!("no workload is called {name}"))?;
    let threads = NonZeroUsize::new(THREADS).expect("not zero");
    let run_control = RunControl::new(RunPlan { threads, until: Until::OnePass, depth: 10 });
    // SAFETY: this body holds no `Gc`; the workload keeps its promise.
    let whole = unsafe { world.spawn("main", move |m| workloads::run(m, workload, &run_control)) };
    let outcome = whole.map_err(|error| error.to_string())?.join().map_err(|_| "the thread panicked")?;
    Ok(format!("{:?}", outcome.map_err(|error| error.to_string())?))
}

const SCHEME: &str = include_str!("../../../examples/scheme/nqueens.scm");

fn lisp_pass(world: &World) -> TestResult<String> {
    let printed = Arc::<Mutex<Vec<String>>>::default();
    let crew: Vec<_> = (0..THREADS)
        .map(|index| {
            let printed = Arc::clone(&printed);
            let work = move |m: &Mutator| {
                let mut out = Vec::new();
                lisp::run_file(m, "nqueens.scm", SCHEME, &mut out).map_err(|error| error.to_string())?;
                printed.lock().unwrap().push(String::from_utf8_lossy(&out).into_owned());
                Ok::<(), String>(())
            };
            // SAFETY: the interpreter keeps its values in collected objects and on its stack.
            unsafe { world.spawn(&format!("scheme-{index}"), work) }
        })
        .collect();
    for thread in crew {
        thread.map_err(|error| error.to_string())?.join().map_err(|_| "the thread panicked")??;
    }
    let printed = printed.lock().unwrap();
    match printed.iter().find(|text| **text != printed[0]) {
        Some(other) => Err(format!("one thread printed {:?}, another {other:?}", printed[0])),
        None => Ok(printed[0].clone()),
    }
}
