//! A debugger that violates its contract: after an honest time it claims to have stopped threads that run. The collector must
//! reject its acknowledgements, discard the marks, and continue without it.

use std::time::Duration;

use fastrand::Rng;
use stopworld::debugger::contract::{Control, Mode};

use super::debugger_support::{Lie, Tracer};

/// The arguments that the orchestrator passes to a lying debugger.
#[derive(clap::Args)]
pub(crate) struct LiarArguments {
    /// The id of the round's process
    pid: i32,
    /// The seed of the random numbers
    seed: u64,
    /// The time for which the debugger stays attached
    milliseconds: u64,
}

/// Attaches, keeps the contract for the first third of its time, then violates it, and detaches.
pub(crate) fn run(arguments: &LiarArguments) {
    let mut random = Rng::with_seed(arguments.seed);
    let lies = [
        (Mode::Assisted, Lie::FrozenAndRuns),
        (Mode::Full, Lie::NobodyStopped),
        (Mode::Full, Lie::LetGoEarly),
        (Mode::Full, Lie::LetGoAndStopped),
    ];
    let (mode, lie) = lies[random.usize(0..lies.len())];
    println!("{mode:?} {lie:?}");
    let mut tracer = Tracer::attach(arguments.pid, mode, Control::PHASES, None);
    let time = Duration::from_millis(arguments.milliseconds);
    tracer.serve(time / 3);
    println!("{} honest stops", tracer.stops);
    tracer.lie = Some(lie);
    tracer.serve(time * 2 / 3);
    println!("{} stops", tracer.stops);
    tracer.detach();
}
