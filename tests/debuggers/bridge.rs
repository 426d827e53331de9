//! The bridge to debuggers outside the process: a debugger that is present, one that is absent, and one that dies.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;

use crate::debugger_support::{Lie, Resumption, TAKEN, Tracer};
use crate::numbered_list::{a_list, sum};
use crate::patience::patience;
use crate::players::{Player, role};
use rstest::rstest;
use stopworld::debugger::contract::{Control, Mode, stopworld_debugger};
use stopworld::events::{Event, EventId, MemorySink, Selection};
use stopworld::profile::census::{Breakdown, Every, HeapProfile};
use stopworld::{Mutator, Paranoid, Stopper, World, WorldBuilder};

/// The process has one control word, so these tests run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn word(mode: Mode, flags: u64) -> u64 {
    let mode = match mode {
        Mode::Full => Control::FULL,
        Mode::Assisted => Control::ASSISTED,
    };
    mode | flags | 4711 << 32
}

/// `.debug.acknowledged`, `.debug.dies`: the control word is set, but there is no debugger.
#[rstest]
fn a_control_word_without_a_debugger_is_cleared_and_signals_continue(
    #[values(Mode::Full, Mode::Assisted)] mode: Mode,
    #[values(0, Control::BREAKPOINT, Control::PHASES)] flags: u64,
    #[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper,
) {
    let _alone = alone();
    let world = World::builder().stopper(stopper).paranoid(Paranoid::On).build().unwrap();
    let sink = Arc::new(MemorySink::with_capacity(64).unwrap());
    let wanted = [EventId::DebuggerAttached, EventId::DebuggerDetached, EventId::DebuggerLost];
    world.events().listen(sink.clone(), Selection::of(wanted.into_iter().collect())).unwrap();
    // SAFETY: every reference is in a local variable.
    let m = unsafe { world.attach("main") }.unwrap();
    let work = |m: &Mutator| {
        let list = a_list(m, 1000);
        for _ in 0..50 {
            m.safepoint();
            assert_eq!(sum(list), 499_500);
            a_list(m, 100);
        }
    };
    // SAFETY: as above.
    let workers: Vec<_> = (0..3).map(|_| unsafe { world.spawn("worker", work) }.unwrap()).collect();
    let list = a_list(&m, 1000);
    m.collect().unwrap();
    let asked = word(mode, flags);
    stopworld_debugger.control.store(asked, Ordering::Relaxed);
    m.collect().unwrap();
    assert_eq!(stopworld_debugger.control.load(Ordering::Relaxed), 0);
    m.collect().unwrap();
    assert_eq!(sum(list), 499_500);
    for worker in workers {
        worker.join().unwrap();
    }
    let told: Vec<_> = sink.drain().map(|record| record.event()).collect();
    // A thread that exited in between may have been the first to find out.
    let lost = told.iter().filter(|event| matches!(event, Event::DebuggerLost(lost) if lost.control == asked));
    assert_eq!(lost.count(), 1, "{told:?}");
}

/// The program under the debugger; not a test by itself. Three threads build, drop and check lists, and one collects, until the test ends
/// them.
#[test]
fn the_program_under_the_debugger() {
    let Some(part) = role("target ") else { return };
    let stopper = if part.starts_with("Safepoints") { Stopper::Safepoints } else { Stopper::Signals };
    let (masks, verifies) = (part.ends_with("masked"), part.ends_with("verifying"));
    // Threads that only a signal stops.
    let only_sums = part.contains("timing");
    let mut builder = World::builder().stopper(stopper).paranoid(Paranoid::On);
    if part.ends_with("counting") {
        builder = counting(builder);
    }
    let failures = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&failures);
    builder = builder.on_failure(move |error| noted.lock().unwrap().push(error.to_string()));
    let longest = Arc::new(AtomicU64::new(0));
    if only_sums {
        let longest = Arc::clone(&longest);
        builder = builder.on_collection(move |report| _ = longest.fetch_max(report.stop_ns, Ordering::Relaxed));
    }
    let world = builder.build().unwrap();
    let sink = Arc::new(MemorySink::with_capacity(1024).unwrap());
    let wanted = [EventId::DebuggerAttached, EventId::DebuggerDetached, EventId::DebuggerLost];
    let wanted = wanted.into_iter().chain([EventId::CollectionDiscarded, EventId::StopAbandoned]);
    world.events().listen(sink.clone(), Selection::of(wanted.collect())).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let rounds = Arc::new(AtomicU64::new(0));
    let worker = |i: u64| {
        let (done, rounds) = (Arc::clone(&done), Arc::clone(&rounds));
        let work = move |m: &Mutator| {
            let list = a_list(m, 300);
            while only_sums && !done.load(Ordering::Relaxed) {
                assert_eq!(sum(list), 44_850);
                rounds.fetch_add(1, Ordering::Relaxed);
            }
            while !done.load(Ordering::Relaxed) {
                let list = a_list(m, 300 + i);
                for _ in 0..5 {
                    m.safepoint();
                    a_list(m, 50);
                    assert_eq!(sum(list), (0..300 + i).sum());
                }
                if i == 2 {
                    m.blocking(|| std::thread::sleep(Duration::from_micros(300)));
                }
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        };
        // SAFETY: every reference is in a local variable.
        unsafe { world.spawn("worker", work) }.unwrap()
    };
    let mut workers: Vec<_> = (0..3).map(worker).collect();
    if masks {
        let done = Arc::clone(&done);
        // SAFETY: the thread has no references.
        workers.push(unsafe { world.spawn("masked", move |_: &Mutator| mask_again_and_again(&done)) }.unwrap());
    }
    if part.ends_with("deep") {
        let done = Arc::clone(&done);
        // SAFETY: the thread has no references.
        workers.push(unsafe { world.spawn("deep", move |_: &Mutator| dive_masked(&done)) }.unwrap());
    }
    if part.ends_with("births") {
        let (done, inner) = (Arc::clone(&done), world.clone());
        // SAFETY: the thread has no references.
        let mother = unsafe { world.spawn("mother", move |m: &Mutator| give_birth(m, &inner, &done)) };
        workers.push(mother.unwrap());
    }
    let (begin, begun) = mpsc::channel();
    // SAFETY: this thread has no references.
    let collector = unsafe {
        let done = Arc::clone(&done);
        world.spawn("collector", move |m: &Mutator| {
            let world = m.world();
            let (ask, asked) = mpsc::channel();
            let (answer, answered) = mpsc::channel();
            let (answered, inner) = (Mutex::new(answered), world.clone());
            // A mutator of another world, in which no thread starts or exits under the debugger: the world that first notices that a
            // debugger has died is the one that reports it.
            std::thread::spawn(move || {
                let other = World::builder().heap_limit(1 << 20).build().unwrap();
                let _mutator = other.attach("of another world").unwrap();
                answer.send(Ok(())).unwrap();
                asked.into_iter().for_each(|()| answer.send(inner.collect().map(drop)).unwrap());
            });
            let answer = || answered.lock().unwrap().recv().unwrap();
            m.blocking(answer).unwrap();
            begin.send(()).unwrap();
            for round in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                // Every kind of thread that can collect does so, in turn.
                let collected = match round % 5 {
                    0 => m.collect().map(drop),
                    1 => m.blocking(|| world.collect()).map(drop),
                    3 if verifies => m.blocking(|| world.verify()).map(drop),
                    2 => m.blocking(|| {
                        ask.send(()).unwrap();
                        answer()
                    }),
                    _ => m.blocking(|| std::thread::scope(|s| s.spawn(|| world.collect().map(drop)).join().unwrap())),
                };
                collected.unwrap();
                m.blocking(|| std::thread::sleep(Duration::from_millis(1)));
            }
        })
    }
    .unwrap();
    // No debugger comes before the other world has its mutator: that world would report the death of the debugger.
    begun.recv().unwrap();
    println!("\n:ready");
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).unwrap() != 0 && line.trim() != "end" {
        if line.trim() == "failures" {
            println!("\n:failures {}", failures.lock().unwrap().join(" | "));
        } else if line.trim() == "longest stop" {
            println!("\n:{}", longest.load(Ordering::Relaxed));
        } else {
            println!("\n:at {} {}", world.totals().collections, rounds.load(Ordering::Relaxed));
        }
        line.clear();
    }
    done.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.join().unwrap();
    }
    collector.join().unwrap();
    let told: Vec<_> = sink.drain().map(|record| format!("{:?}", record.id)).collect();
    println!("\n:told {}", told.join(" "));
}

/// A world in which every collection scans the roots a second time: for a heap dump, and for a census by retainer, whose sum must equal
/// what the collection reports.
fn counting(builder: WorldBuilder) -> WorldBuilder {
    // Keyed by collection: another thread's collection may be reported between the census and the report of this one.
    let counted = Arc::new(Mutex::new(HashMap::new()));
    let its_own = Arc::clone(&counted);
    let profile = HeapProfile::by(Breakdown::Retainer).every(Every::Collections(1)).on_census(move |census| {
        assert_eq!(census.bands.iter().map(|band| band.bytes).sum::<u64>(), census.live_bytes, "{census:?}");
        its_own.lock().unwrap().insert(census.collection, census.live_bytes);
    });
    let dumped = [EventId::DumpRoot, EventId::DumpNode, EventId::DumpEdge];
    let sink = Arc::new(MemorySink::with_capacity(1024).unwrap());
    builder.profile(profile).listen(sink, Selection::of(dumped.into_iter().collect())).on_collection(move |report| {
        let counted = counted.lock().unwrap().remove(&report.number);
        assert_eq!(counted, Some(report.live.total()), "collection {}", report.number);
    })
}

/// Starts short-lived threads.
fn give_birth(m: &Mutator, world: &World, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        // SAFETY: every reference is in a local variable.
        let child = unsafe { world.spawn("child", |m: &Mutator| assert_eq!(sum(a_list(m, 20)), 190)) }.unwrap();
        m.blocking(|| child.join().unwrap());
    }
}

/// A thread that blocks all signals most of the time, so it does not acknowledge.
fn mask_again_and_again(done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        masked(|| std::thread::sleep(Duration::from_millis(150)));
    }
}

/// Blocks all signals during `work`.
fn masked(work: impl FnOnce()) {
    // SAFETY: changes this thread's signal mask, and restores it at once.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        work();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
}

/// A thread that blocks all signals most of the time, and whose stack grows and shrinks then.
fn dive_masked(done: &AtomicBool) {
    fn dive(depth: u32) -> u32 {
        std::hint::black_box(if depth == 0 { 0 } else { 1 + dive(depth - 1) })
    }
    while !done.load(Ordering::Relaxed) {
        masked(|| (0..2000).for_each(|_| assert_eq!(dive(100), 100)));
    }
}

/// The debugger, in a process of its own that may be killed; not a test by itself.
#[test]
fn the_debugger_of_the_program() {
    let Some(orders) = role("debugger ") else { return };
    let mut orders = orders.split(' ');
    let pid = orders.next().unwrap().parse().unwrap();
    let mode = if orders.next() == Some("Full") { Mode::Full } else { Mode::Assisted };
    let order = orders.next();
    let lie = order.and_then(lie_of);
    let resumes = order.and_then(resumption_of);
    let dies_at = order.filter(|_| lie.is_none() && resumes.is_none()).map(|step| (step.to_owned(), 3));
    let phases = lie.is_some()
        || resumes.is_some()
        || dies_at.as_ref().is_some_and(|(step, _)| ["phase", "looking"].contains(&&**step));
    let dies_at = dies_at.map(|(step, times)| {
        let once = ["attached", "control-written", "again-notified", "stop-with-a-clone-acknowledged", TAKEN]
            .contains(&&*step);
        (step, if once { 1 } else { times })
    });
    let attach = || Tracer::attach(pid, mode, if phases { Control::PHASES } else { 0 }, dies_at.clone());
    let mut tracer = attach();
    tracer.resumes = resumes;
    if lie.is_some() {
        tracer.lie = lie;
        tracer.serve(Duration::from_millis(2500));
        println!("\n:lied");
        return tracer.detach();
    }
    // In a full stop no notification is repeated, except to a debugger that attaches during a stop that the collector has begun by itself.
    while dies_at.as_ref().is_some_and(|(step, _)| step == "again-notified") {
        tracer.serve(Duration::from_millis(150));
        tracer.detach();
        std::thread::sleep(Duration::from_millis(20));
        tracer = attach();
    }
    // The tracer serves until it is killed, or has served enough stops.
    for round in 0.. {
        tracer.serve(Duration::from_millis(20));
        let frozen = tracer.freeze_one(round);
        tracer.serve(Duration::from_millis(60));
        tracer.thaw(frozen);
        let has_seen_enough = round >= 9 && tracer.stops > 50 && (resumes.is_none() || tracer.resumed >= 3);
        if dies_at.is_none() && (has_seen_enough || !tracer.is_in_control()) {
            break;
        }
    }
    println!("\n:stops {} acknowledged for {}", tracer.stops, tracer.answered_for);
    tracer.detach();
}

/// Runs the program; a debugger attaches and detaches, or dies. A [`Resumption`] in place of a step is a debugger that does not die. Returns
/// what the program and the debugger reported.
fn under_a_debugger(stopper: Stopper, mode: Mode, dies_at: Option<&str>) -> (String, Option<String>) {
    let manner = match dies_at {
        Some("again-notified") => " masked",
        Some("looking") => " counting",
        Some("stop-with-a-clone-acknowledged") => " births",
        Some("Deeper") => " deep",
        Some(order) if resumption_of(order).is_some() => " timing",
        _ => "",
    };
    let mut target = Player::new("bridge::the_program_under_the_debugger", &format!("target {stopper:?}{manner}"));
    assert_eq!(target.hear().as_deref(), Some("ready"));
    let orders = format!("debugger {} {mode:?} {}", target.child.id(), dies_at.unwrap_or_default());
    let mut debugger = Player::new("bridge::the_debugger_of_the_program", orders.trim_end());
    let reported = debugger.hear();
    let ended = debugger.child.wait().unwrap();
    let (collections, rounds) = target.progress();
    // The whole program continues.
    let begin = std::time::Instant::now();
    let patience = patience(120, 20);
    loop {
        let (now, worked) = target.progress();
        if now > collections + 20 && worked > rounds + 20 {
            break;
        }
        assert!(begin.elapsed() < patience, "no progress after {now} collections, {worked} rounds");
        std::thread::sleep(Duration::from_millis(5));
    }
    let told = target.ask("end");
    assert!(target.child.wait().unwrap().success(), "{told}");
    assert_eq!(ended.success(), dies_at.is_none_or(|order| resumption_of(order).is_some()), "{ended}");
    (told, reported)
}

#[rstest]
fn a_debugger_stops_the_world_and_restores_it(
    #[values(Mode::Full, Mode::Assisted)] mode: Mode,
    #[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper,
) {
    let (told, reported) = under_a_debugger(stopper, mode, None);
    assert_eq!(told, "told DebuggerAttached DebuggerDetached");
    let reported = reported.unwrap();
    println!("{mode:?}, {stopper:?}: {reported}");
    let stops: u32 = reported.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(stops > 50, "{reported}");
}

/// `.debug.dies`
#[rstest]
fn a_debugger_that_is_killed_leaves_nothing_behind(
    #[values(Mode::Full, Mode::Assisted)] mode: Mode,
    #[values(
        "attached",
        "control-written",
        "stop-notified",
        "some-stopped",
        "all-stopped",
        "registers-written",
        "frozen-served",
        "stop-acknowledged",
        "collecting",
        "again-notified",
        "phase",
        "looking",
        "start-notified",
        "some-restored",
        "start-acknowledged"
    )]
    step: &str,
) {
    let full_only = ["some-stopped", "all-stopped", "registers-written", "some-restored"];
    if mode == Mode::Assisted && full_only.contains(&step) || mode == Mode::Full && step == "frozen-served" {
        return;
    }
    let (told, _) = under_a_debugger(Stopper::Signals, mode, Some(step));
    println!("{mode:?}, {step}: {told}");
    if step != "attached" {
        assert!(told.contains("DebuggerLost"), "{told}");
    }
    if mode == Mode::Full && ["stop-acknowledged", "phase"].contains(&step) {
        assert!(told.contains("CollectionDiscarded"), "{told}");
    }
    // If the debugger dies during `looking`, the threads that its death resumes park, and the marking stays valid.
    if step == "looking" {
        assert!(!told.contains("CollectionDiscarded"), "{told}");
    }
    assert!(!told.contains("StopAbandoned"), "{told}");
}

/// A thread that is stopped inside a `clone` has no result of the call yet. If a frame were pushed there and the debugger killed, the call
/// would appear to have failed and yet have created a thread.
#[test]
fn a_debugger_that_is_killed_in_a_stop_that_began_in_the_middle_of_a_clone_leaves_nothing_behind() {
    let (told, _) = under_a_debugger(Stopper::Signals, Mode::Full, Some("stop-with-a-clone-acknowledged"));
    assert!(told.contains("DebuggerLost") && told.contains("CollectionDiscarded"), "{told}");
    assert!(!told.contains("StopAbandoned"), "{told}");
}

/// `.debug.dies`: a debugger has answered for a thread, has taken the suspend signal that was pending for it, and is killed. The kernel drops
/// the signal, and the thread runs on. It gets another one at once: the stop does not wait a second for it.
#[test]
fn a_thread_whose_suspend_signal_was_lost_with_the_debugger_is_signalled_again() {
    let mut longest_stops = [(); 5].map(|()| {
        let mut target = Player::new("bridge::the_program_under_the_debugger", "target Signals timing");
        assert_eq!(target.hear().as_deref(), Some("ready"));
        let orders = format!("debugger {} Assisted {TAKEN}", target.child.id());
        let mut debugger = Player::new("bridge::the_debugger_of_the_program", &orders);
        assert!(!debugger.child.wait().unwrap().success(), "the debugger was not killed");
        let collections = target.progress().0;
        while target.progress().0 < collections + 5 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let longest: u64 = target.ask("longest stop").parse().unwrap();
        assert!(target.ask("end").contains("DebuggerLost"));
        Duration::from_nanos(longest)
    });
    longest_stops.sort_unstable();
    // The median: on a busy machine a stop may take long for another reason.
    assert!(longest_stops[2] < Duration::from_millis(800), "{longest_stops:?}");
}

fn resumption_of(name: &str) -> Option<Resumption> {
    use Resumption::*;
    [IntoTheHandler, IntoTheHandlerAfterMarking, Deeper].into_iter().find(|way| format!("{way:?}") == name)
}

/// A thread that a debugger has answered for and then resumed parks in a moment: the answer is not false, although the stack may reach below
/// the stack pointer of the answer then.
#[rstest]
fn a_debugger_that_resumes_threads_in_the_middle_of_a_stop_stays_in_control(
    #[values(Resumption::IntoTheHandler, Resumption::IntoTheHandlerAfterMarking, Resumption::Deeper)] way: Resumption,
) {
    let (told, _) = under_a_debugger(Stopper::Signals, Mode::Assisted, Some(&format!("{way:?}")));
    assert_eq!(told, "told DebuggerAttached DebuggerDetached");
}

const LIES: [(Lie, Mode); 4] = [
    (Lie::FrozenAndRuns, Mode::Assisted),
    (Lie::NobodyStopped, Mode::Full),
    (Lie::LetGoEarly, Mode::Full),
    (Lie::LetGoAndStopped, Mode::Full),
];

fn lie_of(name: &str) -> Option<Lie> {
    LIES.into_iter().map(|(lie, _)| lie).find(|lie| format!("{lie:?}") == name)
}

/// `.debug.lies`
#[rstest]
#[case::frozen_and_runs(Lie::FrozenAndRuns, &["is not stopped", "stack reaches below"])]
#[case::no_thread_stopped(Lie::NobodyStopped, &["is not stopped", "is not at `park`"])]
#[case::resumed_early(Lie::LetGoEarly, &["was resumed before", "is not at `park`"])]
#[case::resumed_and_stopped(Lie::LetGoAndStopped, &["is not at `park`", "was resumed before"])]
fn a_debugger_that_makes_false_claims_is_detected_and_the_heap_stays_intact(
    #[case] lie: Lie,
    #[case] expected: &[&str],
) {
    let (_, mode) = LIES.into_iter().find(|(one, _)| *one == lie).unwrap();
    // A thread that runs and parks by itself before anything is scanned makes the claim about it harmless.
    let manner = if mode == Mode::Assisted { "timing verifying" } else { "verifying" };
    let mut target = Player::new("bridge::the_program_under_the_debugger", &format!("target Signals {manner}"));
    assert_eq!(target.hear().as_deref(), Some("ready"));
    let orders = format!("debugger {} {mode:?} {lie:?}", target.child.id());
    let mut debugger = Player::new("bridge::the_debugger_of_the_program", &orders);
    assert_eq!(debugger.hear().as_deref(), Some("lied"), "the program died of a false acknowledgement");
    assert!(debugger.child.wait().unwrap().success(), "the program died of a false acknowledgement");
    let (collections, rounds) = target.progress();
    while target.progress().0 < collections + 20 || target.progress().1 < rounds + 20 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let failures = target.ask("failures");
    println!("{lie:?}: {failures}");
    assert!(expected.iter().any(|text| failures.contains(text)), "{failures}");
    assert!(failures.contains("the debugger reported thread \"") && failures.contains("(tid "), "{failures}");
    let told = target.ask("end");
    assert!(target.child.wait().unwrap().success(), "{told}");
    assert!(told.contains("DebuggerLost"), "{told}");
}
