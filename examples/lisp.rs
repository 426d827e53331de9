//! Runs Scheme programs, each on several threads at once, and prints the collector's table.
//!
//!     cargo run --release --example lisp -- [--threads N] [--limit MIB] FILE.scm…
//! Without files it runs those programs of `examples/scheme` that terminate. What to look at: every cell of these
//! programs is a collected object, including their stacks and their compiled code. Each thread has its own interpreter,
//! and all of them share one heap, so a collection that one thread requests stops all the others in the middle
//! of their work. Each program is checked: all threads must print the same output. `leak.scm` is worth running by
//! hand, with `--limit 16`: it fills the heap, recovers, fills it again, and ends with an error that names the place.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use stopworld::{CollectionReport, JoinHandle, Mutator, World};
use stopworld_analysis::report::{Run, RunSummary, table};
use stopworld_trace::mps;
use stopworld_workloads::lisp::{LispError, run_file};

const PROGRAMS: [&str; 8] =
    ["nqueens", "metacircular", "strings", "mccarthy", "gc-bench", "continuations", "errors", "tour"];

/// The arguments of the command line.
struct Arguments {
    threads: usize,
    limit: usize,
    files: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let asked = asked()?;
    let summary = Arc::new(Mutex::new(RunSummary::default()));
    let noted = Arc::clone(&summary);
    let listener = move |report: &CollectionReport| noted.lock().unwrap_or_else(PoisonError::into_inner).note(report);
    let world = World::builder()
        .record_to(&mps::Trace::from_environment()?)
        .heap_limit(asked.limit << 20)
        .initial_heap(4 << 20)
        .on_collection(listener)
        .build()?;

    let begun = Instant::now();
    for file in &asked.files {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let began = Instant::now();
        let before = world.totals().collections;
        let printed = on_all_threads(&world, file, &text, asked.threads)?;
        print!("{printed}");
        let collections = world.totals().collections - before;
        println!("; {file}: {} threads, {:.2?}, {collections} collections\n", asked.threads, began.elapsed());
    }

    let allocated = world.totals().allocated_bytes;
    let heap_limit = Some((asked.limit as u64) << 20);
    let run = Run { wall: begun.elapsed(), allocated, heap_limit, threads: asked.threads, trace: None, stops: None };
    println!("{}", table::render(&summary.lock().unwrap_or_else(PoisonError::into_inner), &run));
    Ok(())
}

/// Runs a program on each of `threads` threads. All must print the same output, which is returned.
fn on_all_threads(world: &World, file: &str, text: &str, threads: usize) -> Result<String, Box<dyn Error>> {
    let mut crew: Vec<JoinHandle<Result<String, LispError>>> = Vec::new();
    for index in 0..threads {
        let (file, text) = (file.to_owned(), text.to_owned());
        let work = move |m: &Mutator| {
            let mut out = Vec::new();
            let result = run_file(m, &file, &text, &mut out);
            let printed = String::from_utf8_lossy(&out).into_owned();
            if let Err(error) = result {
                print!("{printed}");
                return Err(error);
            }
            Ok(printed)
        };
        // SAFETY: the interpreter keeps its values in collected objects and on its stack; no other code here has values.
        crew.push(unsafe { world.spawn(&format!("scheme {index}"), work) }?);
    }
    let mut all = crew.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked"));
    let first = all.next().ok_or("at least one thread is needed")???;
    for other in all {
        if other?? != first {
            return Err(format!("{file}: two threads printed different output").into());
        }
    }
    Ok(first)
}

fn asked() -> Result<Arguments, Box<dyn Error>> {
    let mut asked = Arguments { threads: 2, limit: 256, files: Vec::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let text = arguments.next().unwrap_or_default();
            text.parse().ok().filter(|&n| n > 0).ok_or(format!("{argument} needs a number, at least 1"))
        };
        match argument.as_str() {
            "--threads" => asked.threads = number()?,
            "--limit" => asked.limit = number()?,
            _ => asked.files.push(argument),
        }
    }
    if asked.files.is_empty() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/scheme");
        asked.files = PROGRAMS.iter().map(|name| format!("{folder}/{name}.scm")).collect();
    }
    Ok(asked)
}
