//! A round's debugger that breaks its contract: honest for a while, then it claims to have stopped threads that run. The collector must
//! refuse its answers, discard what was marked, and go on without it.

use std::time::Duration;

use fastrand::Rng;
use stopworld::debugger::contract::{Control, Mode};

use super::debugger_support::{Lie, Tracer};

/// What the orchestrator tells a lying debugger.
#[derive(clap::Args)]
pub(crate) struct LiarArguments {
    /// The round's process
    pid: i32,
    /// The seed of its random numbers
    seed: u64,
    /// How long it stays
    milliseconds: u64,
}

/// Attaches, keeps its contract for the first third of its time, breaks it, and detaches.
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
