//! The full contract: the debugger stops all threads itself, and restores them.

use crate::check::Preemptions::{self, AtMost};
use crate::check::{Fault, explore, must_fail_without, must_fail_without_all};
use crate::debugger::protocol::{Answer, Control};
use crate::debugging::{Debugger, IMMORTAL, Killed, Notice, Target};
use crate::sabotage::Guard;

const PARKS: u64 = Answer::PARKED_ON_DEATH;
const RUNS_ON: u64 = 0;

/// Runs a collection with a debugger that calls `then` after it has attached. Returns how many times the marks were used, and how many
/// times they were discarded.
fn collection(
    threads: usize,
    debugger: impl FnMut(&Target) -> Debugger,
    then: impl FnOnce(&mut Debugger) -> Result<(), Killed> + Send + 'static,
) -> (u32, u32) {
    let target = Target::new(1, threads as u32);
    collect(&target, threads, debugger, then);
    (target.used.get(), target.discarded.get())
}

fn collect(
    target: &Target,
    threads: usize,
    mut debugger: impl FnMut(&Target) -> Debugger,
    then: impl FnOnce(&mut Debugger) -> Result<(), Killed> + Send + 'static,
) {
    let spawn = |i| {
        target.run(i, move |target| {
            target.work(i);
            target.block(i);
        })
    };
    let handles: Vec<_> = (0..threads).map(spawn).collect();
    let mut debugger = debugger(target);
    let attached = debugger.attach();
    let debugger = target.outside(2, move |_| {
        let _: Result<(), Killed> = attached.and_then(|()| then(&mut debugger));
    });
    target.collect();
    target.kernel.no_more_notifications();
    debugger.join().expect("the checker reports what fails");
    handles.into_iter().for_each(|h| h.join().expect("the checker reports what fails"));
}

fn serves_to_the_end(debugger: &mut Debugger) -> Result<(), Killed> {
    while debugger.serve()?.is_some() {}
    debugger.detach();
    Ok(())
}

#[test]
fn stop_and_start() {
    explore("full, 1 thread", AtMost(2), || {
        let by = |target: &Target| Debugger::new(target, Control::FULL, 7, PARKS, IMMORTAL);
        assert_eq!(collection(1, by, serves_to_the_end), (1, 0));
    });
}

/// A thread that the user has stopped stays stopped, and the others run again.
#[test]
fn a_thread_that_the_user_stopped_stays_stopped() {
    explore("full, one stopped by the user, one runs", AtMost(1), || {
        let by = |target: &Target| Debugger::new(target, Control::FULL, 7, PARKS, IMMORTAL);
        let then = |debugger: &mut Debugger| {
            debugger.freeze(0)?;
            let before = debugger.steps_of(0);
            while !matches!(debugger.serve()?, None | Some(Notice::StartWorld)) {}
            assert_eq!(debugger.steps_of(0), before, "a thread that the user stopped ran");
            debugger.thaw(0)?;
            serves_to_the_end(debugger)
        };
        assert_eq!(collection(2, by, then), (1, 0));
    });
}

/// The debugger dies before each of `steps`, wherever the collector and the thread are at that time.
fn dies(name: &str, answer: u64, wishes: u64, steps: impl Iterator<Item = u32>, preemptions: Preemptions) {
    for steps in steps {
        explore(&format!("{name}, death before step {steps}"), preemptions, move || {
            let by = move |target: &Target| Debugger::new(target, Control::FULL | wishes, 7, answer, steps);
            let (used, discarded) = collection(1, by, serves_to_the_end);
            assert!(used == 1 && discarded <= 1, "the marks of the repeated collection were not used");
        });
    }
}

#[test]
fn a_debugger_that_parks_all_threads_when_it_dies() {
    dies("full, parks", PARKS, 0, 0..14, AtMost(1));
}

/// The debugger's step at which the collecting thread resumes. From this step on the debugger may die before or after the collector's
/// check.
const COLLECTING: u32 = 7;

#[test]
fn a_debugger_that_parks_all_threads_when_it_dies_at_any_moment_of_a_collection() {
    dies("full, parks, any moment", PARKS, 0, COLLECTING..COLLECTING + 1, AtMost(2));
}

#[test]
#[ignore = "takes four minutes; the one above explores it with two preemptions"]
fn a_debugger_that_parks_all_threads_when_it_dies_at_any_moment_with_three_preemptions() {
    dies("full, parks, any moment, 3", PARKS, 0, COLLECTING..COLLECTING + 1, AtMost(3));
}

#[test]
fn a_thread_that_is_not_left_at_park_is_caught() {
    let model = "models::full::a_debugger_that_parks_all_threads_when_it_dies_at_any_moment_with_three_preemptions";
    must_fail_without(Guard::DebugParks, model, Fault::RanInScan);
}

/// Without `park` the threads run until they take the signal that the collector sends before its check.
#[test]
fn a_debugger_that_parks_no_thread_when_it_dies() {
    dies("full, runs on", RUNS_ON, Control::PHASES, 0..16, AtMost(1));
}

#[test]
fn a_debugger_that_parks_no_thread_when_it_dies_at_any_moment_of_a_collection() {
    dies("full, runs on, any moment", RUNS_ON, 0, COLLECTING..COLLECTING + 1, AtMost(3));
}

/// `.debug.exits`: the kernel resumes the threads of a dying debugger one after the other, the collecting thread last.
#[test]
fn a_debugger_whose_threads_resume_one_by_one_when_it_dies_has_made_no_false_claim() {
    for answer in [PARKS, RUNS_ON] {
        explore(&format!("full, answer {answer}, threads resume one by one"), AtMost(2), move || {
            let target = Target::new(1, 1);
            let by = |target: &Target| {
                let mut debugger = Debugger::new(target, Control::FULL, 7, answer, COLLECTING);
                debugger.resumed_last = Some(1);
                debugger
            };
            collect(&target, 1, by, serves_to_the_end);
            assert_eq!(target.refused.get(), 0, "the death of the debugger was taken for a false claim");
        });
    }
}

#[test]
fn a_death_that_is_only_looked_for_in_the_calling_thread_is_caught() {
    let model = "models::full::a_debugger_whose_threads_resume_one_by_one_when_it_dies_has_made_no_false_claim";
    must_fail_without(Guard::DebugExits, model, Fault::Claim("the death of the debugger was taken for a false claim"));
}

#[test]
fn a_stop_that_is_not_checked_again_is_caught() {
    let model = "models::full::a_debugger_that_parks_no_thread_when_it_dies";
    for guard in [Guard::DebugAcknowledged, Guard::DebugAskedLate] {
        must_fail_without(guard, model, Fault::RanInScan);
    }
    // Guard::DebugLies is removed too, because its check of each thread would also find running threads.
    for guard in [Guard::DebugDies, Guard::DebugLost] {
        must_fail_without_all(&[guard, Guard::DebugLies], model, Fault::RanInScan);
    }
}

#[test]
fn a_check_before_the_signals_are_sent_is_caught() {
    let model = "models::full::a_debugger_that_parks_no_thread_when_it_dies_at_any_moment_of_a_collection";
    must_fail_without(Guard::DebugSignalledBefore, model, Fault::RanInScan);
}

fn says_so_of_threads_that_run(target: &Target) -> Debugger {
    let mut debugger = Debugger::new(target, Control::FULL, 7, PARKS, IMMORTAL);
    debugger.lies = true;
    debugger
}

#[test]
fn a_debugger_that_stops_no_thread() {
    explore("full, no thread is stopped", AtMost(2), || {
        assert_eq!(collection(1, says_so_of_threads_that_run, serves_to_the_end).0, 1);
    });
}

/// The debugger restores the threads before the collector's check.
#[test]
fn a_debugger_that_restores_in_mid_collection() {
    explore("full, restored in mid-collection", AtMost(2), || {
        let by = |target: &Target| Debugger::new(target, Control::FULL | Control::PHASES, 7, PARKS, IMMORTAL);
        let (used, _) = collection(1, by, |debugger| {
            assert_eq!(debugger.serve()?, Some(Notice::StopWorld));
            debugger.wait()?;
            debugger.restore_early()?;
            serves_to_the_end(debugger)
        });
        assert_eq!(used, 1);
    });
}

#[test]
fn an_answer_that_is_believed_is_caught() {
    for model in ["a_debugger_that_stops_no_thread", "a_debugger_that_restores_in_mid_collection"] {
        must_fail_without(Guard::DebugLies, &format!("models::full::{model}"), Fault::RanInScan);
    }
}

/// The debugger stops the world and dies. Another debugger seizes the process before the collector's check.
#[test]
fn another_debugger_attaches_right_after_a_death() {
    explore("full, death, and another one has seized the process", AtMost(2), || {
        let by = |target: &Target| Debugger::new(target, Control::FULL | Control::PHASES, 7, RUNS_ON, IMMORTAL);
        let (used, _) = collection(1, by, |debugger| {
            assert_eq!(debugger.serve()?, Some(Notice::StopWorld));
            debugger.is_replaced_by(8);
            serves_to_the_end(debugger)
        });
        assert_eq!(used, 1);
    });
}

#[test]
fn a_tracer_that_is_read_after_the_stop_is_caught() {
    let model = "models::full::another_debugger_attaches_right_after_a_death";
    must_fail_without(Guard::DebugTracerFirst, model, Fault::RanInScan);
}

/// A full debugger detaches in mid-stop, and attaches again as an assisted one.
#[test]
fn a_debugger_that_changes_its_contract_in_mid_stop() {
    explore("full, detach in mid-stop, attach as assisted", AtMost(2), || {
        let by = |target: &Target| Debugger::new(target, Control::FULL, 7, RUNS_ON, IMMORTAL);
        let (used, _) = collection(1, by, |debugger| {
            assert_eq!(debugger.serve()?, Some(Notice::StopWorld));
            debugger.detach();
            debugger.comes_again_as(Control::ASSISTED, 7 + 1)?;
            serves_to_the_end(debugger)
        });
        assert_eq!(used, 1);
    });
}

#[test]
fn a_contract_that_is_read_again_is_caught() {
    let model = "models::full::a_debugger_that_changes_its_contract_in_mid_stop";
    must_fail_without_all(&[Guard::DebugLatched, Guard::DebugLies], model, Fault::RanInScan);
}
