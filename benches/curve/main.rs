//! Time and worst pause against memory, for this collector and others: `cargo bench --bench curve`.
//!
//! The programs are gcbench and binary-trees, with one thread, written for each collector in its language. Each runs with heaps of 1.5, 2, 3
//! and 5 times the bytes that it has alive at most. These bytes are computed from the program: the largest number of live objects, times
//! their size in C and a word for a header. So all collectors get the same number of bytes, and one that needs more for an object may not fit
//! into the smallest heap.
//!
//! | collector | how its heap is limited |
//! |---|---|
//! | stopworld | `WorldBuilder::heap_limit` and `World::set_minimum_heap`, both the heap's size |
//! | bdwgc | `GC_INITIAL_HEAP_SIZE` and `GC_MAXIMUM_HEAP_SIZE`, both the heap's size: it collects when the heap is full |
//! | Go | `GOGC=off` and `GOMEMLIMIT`: a target for all memory of the runtime, which it exceeds if it must |
//! | OCaml | `space_overhead`, the dead memory in percent of the live one: 50, 100, 200, 400. There is no limit |
//! | malloc, mimalloc, jemalloc | not limited: the C program calls `free`, and there is one point |
//! | whippet | a heap of fixed size; its source must be in the folder that `STOPWORLD_WHIPPET` names |
//!
//! A collector is skipped, with the reason, if a tool for it is missing. Each round runs each program once per point, as a process of its own,
//! in alternating order; the table has the medians. Peak memory is the resident memory of the process (`VmHWM`), with the runtime's. The
//! pictures are written to `target/curve/PROGRAM.svg`: there, time and pause are drawn over the peak memory.
//!
//! ```text
//! cargo bench --bench curve                        both programs, 5 rounds
//! cargo bench --bench curve -- gcbench --rounds 9  one program, 9 rounds
//! cargo bench --bench curve -- --quick             1 round: a smoke test, not for quoting
//! ```

#[path = "../compare/line.rs"]
mod line;
#[path = "../compare/child/measure.rs"]
mod measure;
mod picture;
mod points;
#[path = "../compare/child/programs.rs"]
mod programs;
mod run;
mod table;
#[path = "../compare/tools.rs"]
mod tools;

use std::path::Path;
use std::process::ExitCode;

use measure::Failure;
use points::{PROGRAMS, Program};

struct Options {
    programs: Vec<&'static Program>,
    rounds: usize,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let outcome = match arguments.split_first() {
        Some((first, rest)) if first == "--child" => child(rest),
        _ => options(&arguments).and_then(|options| curve(&options)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("curve: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one of our programs: `curve --child PROGRAM ARGUMENTS… HEAP_BYTES`.
fn child(arguments: &[String]) -> Result<(), Failure> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["gcbench", rest @ ..] => programs::gcbench(rest),
        ["bintrees", rest @ ..] => programs::bintrees(rest),
        _ => Err("usage: curve --child gcbench|bintrees ARGUMENTS…".into()),
    }
}

fn options(arguments: &[String]) -> Result<Options, Failure> {
    let mut options = Options { programs: Vec::new(), rounds: 5 };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--quick" => options.rounds = 1,
            "--rounds" => {
                let count = rest.next().and_then(|count| count.parse().ok()).filter(|count| *count > 0);
                options.rounds = count.ok_or("--rounds needs a number of at least 1")?;
            }
            name => {
                let program = PROGRAMS.iter().find(|program| program.name == name);
                options.programs.push(program.ok_or_else(|| {
                    format!("unknown argument {name:?}; expected gcbench, bintrees, --rounds N or --quick")
                })?);
            }
        }
    }
    if options.programs.is_empty() {
        options.programs.extend(&PROGRAMS);
    }
    Ok(options)
}

fn curve(options: &Options) -> Result<(), Failure> {
    let collectors = points::build()?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("curve");
    std::fs::create_dir_all(&folder)?;
    for program in &options.programs {
        let points = points::of(program, &collectors);
        let results = run::in_turns(&points, options.rounds);
        table::print(program, options.rounds, &results);
        let file = folder.join(program.name).with_extension("svg");
        std::fs::write(&file, picture::draw(program.name, &results))?;
        println!("\npicture: {}\n", file.display());
    }
    for (name, reason) in points::skipped(&collectors) {
        println!("{name}: skipped: {reason}");
    }
    Ok(())
}
