//! Debuggers that attach, detach and die at any moment, and threads that do the same.

use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::debugger::protocol::{Answer, Control};
use crate::debugging::{Debugger, IMMORTAL, Killed, Notice, Target};
use crate::kernel;
use crate::sabotage::{Guard, removed};

const FULL: u64 = Control::FULL;
const ASSISTED: u64 = Control::ASSISTED;
const PARKS: u64 = Answer::PARKED_ON_DEATH;

fn serves_to_the_end(debugger: &mut Debugger) -> Result<(), Killed> {
    while debugger.serve()?.is_some() {}
    assert!(debugger.is_in_control(), "the control word of a live debugger was overwritten");
    debugger.detach();
    Ok(())
}

/// Runs a thread that works, a collection, and a debugger that executes `live`.
fn meet(
    live: impl FnOnce(&mut Debugger) -> Result<(), Killed> + Send + 'static,
    target: &Target,
    mut debugger: Debugger,
) {
    let mutator = target.run(0, |target| {
        target.work(0);
        target.block(0);
    });
    let debugger = target.outside(2, move |_| {
        let _: Result<(), Killed> = live(&mut debugger);
    });
    target.collect();
    target.kernel.no_more_notifications();
    assert_eq!(target.used.get(), 1);
    debugger.join().expect("the checker reports what fails");
    mutator.join().expect("the checker reports what fails");
}

#[test]
fn a_debugger_that_attaches_at_any_moment() {
    for (name, mode) in [("full", FULL), ("assisted", ASSISTED)] {
        explore(&format!("{name}, attach at any moment"), AtMost(2), move || {
            let target = Target::new(1, 1);
            let debugger = Debugger::new(&target, mode, 7, PARKS, IMMORTAL);
            let live = |debugger: &mut Debugger| {
                debugger.attach()?;
                serves_to_the_end(debugger)
            };
            meet(live, &target, debugger);
        });
    }
}

/// The debugger detaches in the middle of a stop, with a thread frozen.
#[test]
fn a_debugger_that_detaches_in_mid_stop() {
    for (name, mode, answer) in [("full", FULL, 0), ("full, parks", FULL, PARKS), ("assisted", ASSISTED, 0)] {
        explore(&format!("{name}, detach in mid-stop"), AtMost(2), move || {
            let target = Target::new(1, 1);
            let debugger = Debugger::new(&target, mode, 7, answer, IMMORTAL);
            let live = |debugger: &mut Debugger| {
                debugger.attach()?;
                debugger.freeze(0)?;
                // If the collector waits for that thread, it requests the debugger to answer for it.
                kernel::tick();
                debugger.serve()?;
                debugger.detach();
                Ok(())
            };
            meet(live, &target, debugger);
        });
    }
}

/// A debugger has died and left its control word; another debugger attaches while the collector detects the death.
#[test]
fn a_debugger_that_attaches_after_a_dead_one() {
    explore("a dead debugger's word, and the next debugger", AtMost(2), || {
        let target = Target::new(1, 1);
        let mut dead = Debugger::new(&target, ASSISTED, 7, 0, 2);
        dead.attach().expect_err("the debugger dies when it has written its control word");
        let number = if removed(Guard::DebugNumber) { 7 } else { 8 };
        let debugger = Debugger::new(&target, ASSISTED, number, 0, IMMORTAL);
        let live = |debugger: &mut Debugger| {
            debugger.attach()?;
            serves_to_the_end(debugger)
        };
        meet(live, &target, debugger);
    });
}

#[test]
fn a_control_word_that_is_overwritten_is_caught() {
    let claim = Fault::Claim("the control word of a live debugger was overwritten");
    for guard in [Guard::DebugControl, Guard::DebugNumber] {
        must_fail_without(guard, "models::attach_detach::a_debugger_that_attaches_after_a_dead_one", claim);
    }
}

/// `.debug.missed`: no tracer traces a thread that attaches and exits. Its notifications are not acknowledged, but the debugger lives: it is
/// requested to answer for the thread that it has frozen.
#[test]
fn a_thread_that_the_debugger_misses() {
    explore("a missed thread attaches and exits, another one is frozen", AtMost(1), || {
        let target = Target::with_attached(1, 2, 1);
        target.kernel.miss(target.threads[1].tid);
        let frozen = target.run(0, |target| {
            target.work(0);
            target.block(0);
        });
        let mut debugger = Debugger::new(&target, ASSISTED, 7, 0, IMMORTAL);
        let attached = debugger.attach().and_then(|()| debugger.freeze(0));
        let debugger = target.outside(2, move |_| {
            let lives = || {
                attached?;
                while debugger.serve()?.is_some() {}
                debugger.detach();
                Ok(())
            };
            let _: Result<(), Killed> = lives();
        });
        let missed = target.run(1, |target| {
            target.attach(1);
            target.exit(1);
        });
        target.collect();
        missed.join().expect("the checker reports what fails");
        target.kernel.no_more_notifications();
        assert_eq!(target.used.get(), 1);
        debugger.join().expect("the checker reports what fails");
        frozen.join().expect("the checker reports what fails");
    });
}

#[test]
fn a_missed_thread_that_clears_the_control_word_is_caught() {
    must_fail_without(Guard::DebugMissed, "models::attach_detach::a_thread_that_the_debugger_misses", Fault::Deadlock);
}

/// Runs a thread that attaches, works and detaches, while a debugger attaches.
fn thread_and_debugger(steps: u32) {
    let target = Target::with_attached(1, 1, 0);
    let thread = target.run(0, |target| {
        target.attach(0);
        target.work(0);
        target.exit(0);
    });
    let mut debugger = Debugger::new(&target, FULL, 7, PARKS, steps);
    let debugger = target.outside(2, move |_| {
        let mut live = || {
            debugger.attach()?;
            while debugger.serve()?.is_some() {}
            Ok(())
        };
        let _: Result<(), Killed> = live();
    });
    target.collect();
    thread.join().expect("the checker reports what fails");
    target.kernel.no_more_notifications();
    debugger.join().expect("the checker reports what fails");
}

#[test]
fn a_thread_that_attaches_and_exits_while_a_debugger_attaches() {
    explore("a thread attaches and exits, a debugger attaches", AtMost(1), || thread_and_debugger(IMMORTAL));
}

#[test]
fn a_debugger_that_dies_while_a_thread_notifies_it() {
    for steps in 3..12 {
        explore(&format!("a thread attaches and exits, death before step {steps}"), AtMost(1), move || {
            thread_and_debugger(steps);
        });
    }
}

/// The user stops a thread at any step of its exit, and resumes it.
#[test]
fn a_thread_that_is_frozen_in_its_exit() {
    explore("frozen in its exit", AtMost(1), || {
        let target = Target::with_attached(1, 2, 1);
        let thread = target.run(0, |target| target.exit(0));
        let mut debugger = Debugger::new(&target, ASSISTED, 7, 0, IMMORTAL);
        let attached = debugger.attach();
        let debugger = target.outside(2, move |_| {
            let live = || {
                attached?;
                debugger.freeze(0)?;
                debugger.thaw(0)?;
                while !matches!(debugger.serve()?, None | Some(Notice::Exited)) {}
                while debugger.serve()?.is_some() {}
                Ok(())
            };
            let _: Result<(), Killed> = live();
        });
        target.collect();
        thread.join().expect("the checker reports what fails");
        target.kernel.no_more_notifications();
        debugger.join().expect("the checker reports what fails");
    });
}
