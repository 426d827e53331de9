//! Twelve mutators that enter and leave blocking regions, collections, and a sequence of debuggers that act at random.

use shuttle::rand::{Rng, thread_rng};

use crate::check::explore;
use crate::checker::thread;
use crate::debugger::protocol::{Answer, Control};
use crate::debugging::{Debugger, IMMORTAL, Killed, Target};
use crate::kernel;
use crate::known_bad::{Fault, must_fail_without, must_fail_without_all};
use crate::sabotage::Guard;

const MUTATORS: u32 = 12;
const ROUNDS: usize = 5;
const COLLECTIONS: u32 = 6;
const DEBUGGERS: u32 = 4;
/// The number of random actions of a debugger.
const DEEDS: usize = 12;

fn mutate(target: &Target, i: usize) {
    for _ in 0..ROUNDS {
        if thread_rng().gen_ratio(1, 3) {
            target.block(i);
            target.unblock(i);
        } else {
            target.work(i);
        }
    }
    target.block(i);
}

/// Runs a debugger: it freezes and resumes threads and serves notifications at random, and then detaches or dies.
fn live(debugger: &mut Debugger) -> Result<(), Killed> {
    debugger.attach()?;
    let mut frozen: Vec<(usize, u32)> = Vec::new();
    for _ in 0..DEEDS {
        let i = thread_rng().gen_range(0..MUTATORS as usize);
        match thread_rng().gen_range(0..4) {
            0 if !debugger.user_stopped.contains(&i) => {
                debugger.freeze(i)?;
                frozen.push((i, debugger.steps_of(i)));
            }
            1 if !frozen.is_empty() => {
                let (i, _) = frozen.swap_remove(thread_rng().gen_range(0..frozen.len()));
                debugger.thaw(i)?;
            }
            _ => thread::yield_now(),
        }
        // Ends a wait slice of the collector.
        kernel::tick();
        if debugger.is_notified() {
            debugger.serve()?;
        }
        for (i, steps) in &frozen {
            assert_eq!(debugger.steps_of(*i), *steps, "a thread that the user stopped ran");
        }
    }
    // A debugger that has stopped the world starts it before it detaches.
    while debugger.is_in_a_stop() {
        debugger.serve()?;
    }
    debugger.detach();
    Ok(())
}

fn debuggers(modes: &'static [u64]) {
    let target = Target::new(1, MUTATORS);
    let mutators: Vec<_> = (0..MUTATORS as usize).map(|i| target.run(i, move |target| mutate(target, i))).collect();
    let debuggers = target.outside(2, move |target| {
        for number in 1..=DEBUGGERS {
            let mode = modes[thread_rng().gen_range(0..modes.len())];
            let wishes = if thread_rng().gen_bool(0.5) { Control::PHASES } else { 0 };
            let answer = if thread_rng().gen_bool(0.5) { Answer::PARKED_ON_DEATH } else { 0 };
            let steps = if thread_rng().gen_bool(0.5) { thread_rng().gen_range(0..60) } else { IMMORTAL };
            let _: Result<(), Killed> = live(&mut Debugger::new(target, mode | wishes, number, answer, steps));
        }
    });
    for _ in 0..COLLECTIONS {
        target.collect();
        thread::yield_now();
    }
    debuggers.join().expect("shuttle reports what fails");
    mutators.into_iter().for_each(|mutator| mutator.join().expect("shuttle reports what fails"));
    assert_eq!(target.used.get(), COLLECTIONS);
}

#[test]
fn full_debuggers() {
    explore("12 mutators, full debuggers", 4_000, 6, || debuggers(&[Control::FULL]));
}

#[test]
fn assisted_debuggers() {
    explore("12 mutators, assisted debuggers", 4_000, 6, || debuggers(&[Control::ASSISTED]));
}

#[test]
fn debuggers_of_either_kind() {
    explore("12 mutators, debuggers of either kind", 4_000, 6, || debuggers(&[Control::FULL, Control::ASSISTED]));
}

#[test]
fn removed_guards_are_caught() {
    let model = "debuggers::debuggers_of_either_kind";
    must_fail_without(Guard::DebugAcknowledged, model, Fault::RanInScan);
    // Guard::DebugLies is removed too, because its check of each thread would also find running threads.
    for guard in [Guard::DebugDies, Guard::DebugThawLater] {
        must_fail_without_all(&[guard, Guard::DebugLies], model, Fault::RanInScan);
    }
}

#[test]
fn a_start_without_a_notification_is_caught() {
    must_fail_without(Guard::DebugStart, "debuggers::debuggers_of_either_kind", Fault::Deadlock);
}
