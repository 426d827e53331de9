//! The assisted contract: a debugger answers for the threads that its user holds frozen.

use crate::check::Preemptions::{self, AtMost};
use crate::check::{Fault, explore, must_fail_without};
use crate::debugger::protocol::Control;
use crate::debugging::{Debugger, IMMORTAL, Killed, Notice, Target};
use crate::kernel;
use crate::sabotage::Guard;

fn debugger(target: &Target, wishes: u64, steps: u32) -> Debugger {
    Debugger::new(target, Control::ASSISTED | wishes, 7, 0, steps)
}

/// Runs threads that work, a debugger that attaches, freezes the first thread and then calls `then`, and `collections` collections. All
/// collections must use their marks.
fn frozen_first(
    threads: usize,
    collections: u32,
    wishes: u64,
    steps: u32,
    then: impl FnOnce(&mut Debugger) -> Result<(), Killed> + Send + 'static,
) {
    let target = Target::new(1, threads as u32);
    let spawn = |i| {
        target.run(i, move |target| {
            if i == 0 {
                target.work(i);
            }
            target.block(i);
        })
    };
    let handles: Vec<_> = (0..threads).map(spawn).collect();
    let mut debugger = debugger(&target, wishes, steps);
    let attached = debugger.attach().and_then(|()| debugger.freeze(0));
    let debugger = target.outside(2, move |_| {
        let _: Result<(), Killed> = attached.and_then(|()| then(&mut debugger));
    });
    (0..collections).for_each(|_| target.collect());
    target.kernel.no_more_notifications();
    assert_eq!(target.used.get(), collections);
    debugger.join().expect("the checker reports what fails");
    handles.into_iter().for_each(|h| h.join().expect("the checker reports what fails"));
}

fn serves_to_the_end(debugger: &mut Debugger) -> Result<(), Killed> {
    while debugger.serve()?.is_some() {}
    debugger.detach();
    Ok(())
}

/// Resumes the frozen thread during the stop, so that the thread acknowledges late.
fn let_go_in_mid_stop(debugger: &mut Debugger) -> Result<(), Killed> {
    assert_eq!(debugger.serve()?, Some(Notice::StopWorld));
    debugger.thaw(0)?;
    serves_to_the_end(debugger)
}

#[test]
fn a_frozen_thread_that_is_resumed_in_mid_stop() {
    explore("assisted, a frozen thread is resumed in mid-stop", AtMost(2), || {
        frozen_first(1, 1, 0, IMMORTAL, let_go_in_mid_stop);
    });
}

/// The acknowledgement of the first stop may arrive during the second.
#[test]
fn a_frozen_thread_that_is_resumed_and_two_stops() {
    explore("assisted, a frozen thread is resumed, 2 stops", AtMost(1), || {
        frozen_first(1, 2, 0, IMMORTAL, let_go_in_mid_stop);
    });
}

/// The thread is resumed only after the collector has counted the debugger's answer for it.
#[test]
fn a_frozen_thread_that_is_resumed_while_another_one_runs() {
    explore("assisted, a frozen thread is resumed, another one runs", AtMost(1), || {
        frozen_first(2, 1, 0, IMMORTAL, |debugger| {
            assert_eq!(debugger.serve()?, Some(Notice::StopWorld));
            kernel::tick();
            debugger.serve()?;
            debugger.thaw(0)?;
            serves_to_the_end(debugger)
        });
    });
}

#[test]
fn a_late_acknowledgement_that_counts_twice_is_caught() {
    must_fail_without(
        Guard::DebugCountedTwice,
        "models::assisted::a_frozen_thread_that_is_resumed_while_another_one_runs",
        Fault::Claim("the stack pointer of a stopped thread has not been written"),
    );
}

/// A thread that the user has stopped stays stopped.
#[test]
fn a_frozen_thread_stays_frozen_from_stop_to_start() {
    explore("assisted, a thread stays frozen", AtMost(2), || {
        frozen_first(1, 1, 0, IMMORTAL, |debugger| {
            let before = debugger.steps_of(0);
            assert_eq!(debugger.serve()?, Some(Notice::StopWorld));
            assert_eq!(debugger.serve()?, Some(Notice::StartWorld));
            assert_eq!(debugger.steps_of(0), before, "a frozen thread ran");
            debugger.thaw(0)?;
            serves_to_the_end(debugger)
        });
    });
}

/// The debugger claims to hold a thread that runs.
#[test]
fn a_debugger_that_has_frozen_no_thread() {
    explore("assisted, no thread is frozen", AtMost(2), || {
        let target = Target::new(1, 1);
        let worker = target.run(0, |target| {
            target.work(0);
            target.block(0);
        });
        let mut debugger = debugger(&target, 0, IMMORTAL);
        debugger.lies = true;
        let attached = debugger.attach();
        let debugger = target.outside(2, move |_| {
            let _: Result<(), Killed> = attached.and_then(|()| serves_to_the_end(&mut debugger));
        });
        target.collect();
        target.kernel.no_more_notifications();
        assert_eq!(target.used.get(), 1);
        debugger.join().expect("the checker reports what fails");
        worker.join().expect("the checker reports what fails");
    });
}

/// The debugger dies at each step of its protocol.
#[test]
fn a_debugger_that_dies() {
    for steps in 0..12 {
        explore(&format!("assisted, death before step {steps}"), AtMost(1), move || {
            frozen_first(1, 1, 0, steps, serves_to_the_end);
        });
    }
}

/// If a thread has stopped for a signal and the tracer dies, the kernel drops the signal. Here that happens after marking and before
/// the collector's check. If it happens after the check, the thread runs (a limit that the bridge documents).
#[test]
fn a_debugger_that_dies_before_it_passes_a_signal_on() {
    explore("assisted, death before it passes a signal on", AtMost(2), || {
        let lives = |debugger: &mut Debugger| {
            while debugger.wait()? != Some(Notice::Phase) {
                debugger.serve()?;
            }
            Err(debugger.thaw_and_die_with_its_signal(0))
        };
        frozen_first(1, 1, Control::PHASES, IMMORTAL, lives);
    });
}

#[test]
fn a_death_that_is_not_checked_for_is_caught() {
    let model = "models::assisted::a_debugger_that_dies_before_it_passes_a_signal_on";
    must_fail_without(Guard::DebugDies, model, Fault::RanInScan);
}

/// `.debug.answers`: a debugger that attached in mid-stop answers for a thread and dies before it acknowledges, and the kernel drops the
/// thread's signal, so that the thread runs on. Another debugger takes control in the same stop. It freezes the thread after it has
/// acknowledged a request without answering for any thread.
#[test]
fn another_debugger_freezes_the_thread_that_the_first_one_answered_for() {
    explore("assisted, death, another one freezes the thread", AtMost(2), || {
        let target = Target::new(1, 1);
        let mutator = target.run(0, |target| {
            target.work(0);
            target.work(0);
            target.block(0);
        });
        let mut debugger = debugger(&target, 0, IMMORTAL);
        let debugger = target.outside(2, move |_| {
            let mut lives = || {
                debugger.attach()?;
                debugger.freeze(0)?;
                kernel::tick();
                debugger.answers_and_is_replaced_by(8)?;
                // Ends the collector's wait slice, which is followed by AGAIN.
                kernel::tick();
                debugger.serve()?;
                debugger.freeze(0)?;
                kernel::tick();
                while debugger.serve()?.is_some() {
                    kernel::tick();
                }
                debugger.thaw(0)
            };
            let _: Result<(), Killed> = lives();
        });
        target.collect();
        target.kernel.no_more_notifications();
        debugger.join().expect("the checker reports what fails");
        mutator.join().expect("the checker reports what fails");
    });
}

#[test]
fn an_answer_that_outlives_its_debugger_is_caught() {
    must_fail_without(
        Guard::DebugAnswers,
        "models::assisted::another_debugger_freezes_the_thread_that_the_first_one_answered_for",
        Fault::Claim("the registers are from before the thread ran on"),
    );
}

/// Explores a debugger that freezes a thread, or attaches, only when the stop has already begun.
fn frozen_in_mid_stop(attach_first: bool, preemptions: Preemptions, name: &'static str) {
    explore(name, preemptions, move || {
        let target = Target::new(1, 1);
        let mutator = target.run(0, |target| {
            target.work(0);
            target.block(0);
        });
        let mut debugger = debugger(&target, 0, IMMORTAL);
        let attached = if attach_first { debugger.attach() } else { Ok(()) };
        let debugger = target.outside(2, move |_| {
            let mut lives = || {
                match attach_first {
                    true => assert_eq!(debugger.serve()?, Some(Notice::StopWorld)),
                    false => debugger.attach()?,
                }
                debugger.freeze(0)?;
                // Ends the collector's wait slice, if it waits.
                kernel::tick();
                while debugger.serve()?.is_some() {}
                debugger.thaw(0)
            };
            let _: Result<(), Killed> = attached.and_then(|()| lives());
        });
        target.collect();
        target.kernel.no_more_notifications();
        debugger.join().expect("the checker reports what fails");
        mutator.join().expect("the checker reports what fails");
    });
}

#[test]
fn a_thread_that_is_frozen_in_mid_stop() {
    frozen_in_mid_stop(true, AtMost(2), "assisted, frozen in mid-stop");
}

#[test]
fn a_debugger_that_attaches_and_freezes_in_mid_stop() {
    frozen_in_mid_stop(false, AtMost(2), "assisted, attach and freeze in mid-stop");
}

#[test]
fn a_collector_that_asks_only_once_is_caught() {
    let model = "models::assisted::a_thread_that_is_frozen_in_mid_stop";
    must_fail_without(Guard::DebugAgain, model, Fault::Deadlock);
}
