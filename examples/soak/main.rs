//! Runs the collector for minutes or hours with everything that it has, at random, and checks all of it.
//!
//!     cargo run --release --example soak -- --minutes 60 --seed 1
//!
//! The run is a series of rounds. Each round is a process of its own with a world in which threads allocate and check what they hold,
//! while others are born and die, fork, suspend each other, swap the stopper, start and end traces of every format, and
//! register finalizers, weak references, pinned objects, roots and ranges. A debugger process attaches to it, holds threads and
//! collections, and detaches or is killed; some debuggers claim to hold threads that run. Freed cells are poisoned, and the heap is verified after each collection.
//!
//! What to look at: the table of counts at the end, and the exit code. A round that fails prints the command that repeats its plan: the
//! same actions by the same threads. The order in which threads run is the scheduler's, so a rare failure may take several `--rounds`.

mod check;
mod counts;
mod debugger;
// The smallest debugger that keeps both contracts, and that can break them.
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
    /// One round's program
    #[command(hide = true)]
    Round(round::RoundArguments),
    /// One round's debugger
    #[command(hide = true)]
    Debugger(debugger::DebuggerArguments),
    /// One round's debugger that breaks its contract
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
