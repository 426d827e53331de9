//! A debugger of a round: a process that takes over stopping the round's world, holds threads and collections, and detaches. The
//! orchestrator kills about half of the debuggers at a random moment.

use std::error::Error;
use std::time::{Duration, Instant};

use fastrand::Rng;
use stopworld::Tid;
use stopworld::debugger::Phase;
use stopworld_ptrace::{
    Channel, Debugger, DebuggerOptions, Event, Held, Mode, OnDeath, PhaseSet, Phases, Restored, SignalRules,
    TargetState,
};

use super::counts::{Counts, one};

/// The arguments that the orchestrator passes to a debugger.
#[derive(clap::Args)]
pub(crate) struct DebuggerArguments {
    /// The id of the round's process
    pid: i32,
    /// The seed of all random choices
    seed: u64,
    /// The time for which the debugger stays attached
    milliseconds: u64,
}

/// Attaches, performs random actions for a time, and detaches.
pub(crate) fn run(arguments: &DebuggerArguments) -> Result<(), Box<dyn Error>> {
    let mut random = Rng::with_seed(arguments.seed);
    let counts = Counts::default();
    let begin = Instant::now();
    let mut debugger = Debugger::attach(arguments.pid, options(&mut random))?;
    one(&counts.debuggers_attached);
    while begin.elapsed() < Duration::from_millis(arguments.milliseconds) && debugger.state() == TargetState::Alive {
        serve(&mut debugger, Duration::from_millis(random.u64(1..30)))?;
        act(&mut debugger, &mut random, &counts)?;
    }
    if debugger.state() == TargetState::Alive {
        debugger.hold_at(PhaseSet::NONE)?;
        debugger.cont_all()?;
        debugger.detach()?;
        one(&counts.debuggers_detached);
    }
    counts.debugger_stops.store(debugger.statistics().stops, std::sync::atomic::Ordering::Relaxed);
    counts.report();
    Ok(())
}

fn options(random: &mut Rng) -> DebuggerOptions {
    // A generous timeout: on a loaded machine threads may need long to stop.
    let within = Duration::from_secs(60);
    DebuggerOptions {
        mode: if random.bool() { Mode::Full } else { Mode::Assisted },
        phases: if random.bool() { Phases::Reported } else { Phases::Unreported },
        channel: if random.u8(0..4) == 0 { Channel::Breakpoint } else { Channel::Signal },
        on_death: if random.u8(0..4) == 0 { OnDeath::RunOn } else { OnDeath::Park },
        restored: if random.bool() { Restored::Compared } else { Restored::Trusted },
        signals: SignalRules::REPORTED,
        stop_within: within,
        call_within: within,
    }
}

fn serve(debugger: &mut Debugger, time: Duration) -> Result<(), Box<dyn Error>> {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if debugger.state() != TargetState::Alive {
            break;
        }
        match debugger.poll(left)? {
            Some(Event::Refused(error)) => return Err(format!("data from the target were rejected: {error}").into()),
            Some(Event::Changed { tid, difference }) => {
                return Err(format!("a stop has changed thread {tid}: {difference:?}").into());
            }
            Some(Event::Phase { held: Held::Yes, .. }) => return Ok(()),
            _ => {}
        }
    }
    Ok(())
}

fn act(debugger: &mut Debugger, random: &mut Rng, counts: &Counts) -> Result<(), Box<dyn Error>> {
    match random.u8(0..8) {
        0 | 1 => hold_thread(debugger, random, counts)?,
        2 => hold_collection(debugger, random, counts)?,
        3 => debugger.set_mode(if random.bool() { Mode::Full } else { Mode::Assisted })?,
        4 => debugger.set_phases(if random.bool() { Phases::Reported } else { Phases::Unreported })?,
        5 => {
            debugger.stop_all()?;
            debugger.worlds()?;
            debugger.cont_all()?;
        }
        _ => {}
    }
    Ok(())
}

/// Holds one thread while the world continues to collect.
fn hold_thread(debugger: &mut Debugger, random: &mut Rng, counts: &Counts) -> Result<(), Box<dyn Error>> {
    let threads: Vec<Tid> = debugger.threads()?.into_iter().map(|thread| thread.tid).collect();
    let Some(index) = random.usize(..).checked_rem(threads.len()) else { return Ok(()) };
    // A thread that has ended meanwhile can't be held.
    if debugger.freeze(threads[index]).is_ok() {
        one(&counts.debugger_threads_held);
        serve(debugger, Duration::from_millis(random.u64(0..60)))?;
        if debugger.state() == TargetState::Alive {
            let _ = debugger.thaw(threads[index]);
        }
    }
    Ok(())
}

/// Holds the next collection that reaches a phase.
fn hold_collection(debugger: &mut Debugger, random: &mut Rng, counts: &Counts) -> Result<(), Box<dyn Error>> {
    let phases = [Phase::MarkBegin, Phase::MarkEnd, Phase::SweepEnd];
    debugger.hold_at(PhaseSet::NONE.with(phases[random.usize(0..phases.len())]))?;
    serve(debugger, Duration::from_millis(100))?;
    if debugger.state() != TargetState::Alive {
        return Ok(());
    }
    debugger.hold_at(PhaseSet::NONE)?;
    if debugger.held().is_some() {
        one(&counts.debugger_collections_held);
        serve(debugger, Duration::from_millis(random.u64(0..30)))?;
        if debugger.state() == TargetState::Alive {
            debugger.go_on()?;
        }
    }
    Ok(())
}
