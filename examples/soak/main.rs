//! Soak test: uses all features of the collector at random for minutes or hours, and checks the results.
//!
//!     cargo run --release --example soak -- --minutes 60 --seed 1
//!
//! The run is a series of rounds. Each round is a separate process with a world in which some threads allocate objects and check
//! them, while others start and end, fork, suspend each other, swap the stopper, start and end traces of every format, and
//! use finalizers, weak references, pinned objects, roots and ranges. A debugger process attaches to the round, holds threads and
//! collections, and detaches or is killed; some debuggers claim to hold threads that run. Freed cells are poisoned, and the heap is
//! verified after each collection.
//!
//! What to look at: the table of counts at the end, and the exit code. If a round fails, the command that repeats its plan is printed:
//! the same actions by the same threads. The scheduler decides the order in which threads run, so a rare failure may need several
//! `--rounds`.

mod check;
mod counts;
mod debugger;
// A minimal debugger that implements both contracts, and can violate them.
#[path = "../../tests/debugger_support/mod.rs"]
#[expect(dead_code, reason = "the tests use all of it")]
mod debugger_support;
mod liar;
mod orchestrator;
mod round;
mod traces;
mod workers;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Soak test of the collector: random actions, checked throughout.
#[derive(Parser)]
#[command(name = "soak")]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    run: orchestrator::RunArguments,
}

/// The processes of a round; the orchestrator starts them.
#[derive(Subcommand)]
enum Part {
    /// Run the program of a round
    #[command(hide = true)]
    Round(round::RoundArguments),
    /// Run a debugger of a round
    #[command(hide = true)]
    Debugger(debugger::DebuggerArguments),
    /// Run a debugger of a round that violates its contract
    #[command(hide = true)]
    Liar(liar::LiarArguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.part {
        None => orchestrator::run(&arguments.run),
        Some(Part::Round(arguments)) => round::run(arguments),
        Some(Part::Debugger(arguments)) => debugger::run(arguments),
        Some(Part::Liar(arguments)) => {
            liar::run(arguments);
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}
