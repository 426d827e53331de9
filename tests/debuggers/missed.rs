//! A debugger that does not trace every thread: `.debug.missed`. And threads whose creation is in progress when a debugger attaches, which a
//! debugger misses that does not know of them.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::debugger_support::Tracer;
use crate::in_c;
use crate::numbered_list::{a_list, sum};
use crate::patience::patience;
use crate::players::{Player, role};
use crate::tools::{has, skipped};
use crate::unfinished_clone::create_a_thread_slowly;
use rstest::rstest;
use stopworld::debugger::contract::Mode;
use stopworld::{Mutator, Paranoid, World};

const TARGET: &str = "missed::the_program_with_a_missed_thread";
const DEBUGGER: &str = "missed::the_debugger_that_misses_a_thread";

/// The time limit for a stop of the program.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the debugger freezes a thread: a stop that waits for this thread fails.
const FROZEN: Duration = Duration::from_secs(8);

fn until_stdin_ends() {
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}

/// The program; not a test by itself.
#[test]
fn the_program_with_a_missed_thread() {
    match role("program that ").as_deref() {
        None => {}
        Some("creates") => {
            create_a_thread_slowly();
            until_stdin_ends();
        }
        Some(role) => collects_and_attaches(role == "collects"),
    }
}

/// A worker that the debugger freezes, a thread that collects, and a thread that attaches and detaches again and again. The debugger misses
/// one of the last two.
fn collects_and_attaches(misses_the_collector: bool) {
    let failures = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&failures);
    let world = World::builder().paranoid(Paranoid::On).stop_timeout(STOP_TIMEOUT);
    let world = world.on_failure(move |error| noted.lock().unwrap().push(error.to_string())).build().unwrap();
    let (done, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (sender, tids) = mpsc::channel();
    let (over, counted, tell) = (Arc::clone(&done), Arc::clone(&rounds), sender.clone());
    let work = move |m: &Mutator| {
        tell.send(m.tid().0).unwrap();
        while !over.load(Ordering::Relaxed) {
            assert_eq!(sum(a_list(m, 300)), 44_850);
            counted.fetch_add(1, Ordering::Relaxed);
            // Nearly always the debugger freezes it here, where it neither collects nor has a lock of the world.
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(1) {
                std::hint::spin_loop();
            }
        }
    };
    // SAFETY: every reference is in a local variable.
    let worker = unsafe { world.spawn("worker", work) }.unwrap();
    let worker_tid = tids.recv().unwrap();
    let repeat = |act: fn(&World)| {
        let (world, done, tell) = (world.clone(), Arc::clone(&done), sender.clone());
        let thread = std::thread::spawn(move || {
            // SAFETY: no arguments, no failure.
            tell.send(unsafe { libc::gettid() }).unwrap();
            while !done.load(Ordering::Relaxed) {
                act(&world);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        (thread, tids.recv().unwrap())
    };
    let (collector, collector_tid) = repeat(|world| drop(world.collect()));
    // SAFETY: the thread has no references.
    let (newcomer, newcomer_tid) = repeat(|world| drop(unsafe { world.attach("newcomer") }));
    println!("\n:ready {} {worker_tid}", if misses_the_collector { collector_tid } else { newcomer_tid });
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).unwrap() != 0 && line.trim() != "end" {
        match line.trim() {
            "failures" => println!("\n:failures {}", failures.lock().unwrap().join(" | ")),
            _ => println!("\n:at {} {}", world.totals().collections, rounds.load(Ordering::Relaxed)),
        }
        line.clear();
    }
    done.store(true, Ordering::Relaxed);
    worker.join().unwrap();
    collector.join().unwrap();
    newcomer.join().unwrap();
    println!("\n:ended");
}

/// The debugger; not a test by itself. Its arguments are the process, and, unless it traces all threads and only waits, the thread that it
/// misses and the one that it freezes.
#[test]
fn the_debugger_that_misses_a_thread() {
    let Some(ids) = role("debugger of ") else { return };
    let ids: Vec<i32> = ids.split(' ').map(|id| id.parse().unwrap()).collect();
    let &[pid, missed, frozen] = &ids[..] else {
        let tracer = Tracer::attach(ids[0], Mode::Assisted, 0, None);
        println!("\n:attached");
        until_stdin_ends();
        return tracer.detach();
    };
    let mut tracer = Tracer::attach_without(Some(missed), pid, Mode::Assisted, 0, None);
    tracer.serve(Duration::from_millis(100));
    tracer.freeze_in_its_own_code(frozen);
    tracer.serve(FROZEN);
    let is_in_control = tracer.is_in_control();
    tracer.thaw(frozen);
    println!("\n:control {is_in_control} answered {}", tracer.answered_for);
    tracer.detach();
}

/// The debugger misses a thread of a program and freezes another one. Returns what the debugger reports, how many collections there were
/// meanwhile, and the program's failures.
fn with_a_missed_thread(kind: &str) -> (String, u64, String) {
    let mut target = Player::new(TARGET, &format!("program that {kind}"));
    let ready = target.hear().unwrap();
    let tids = ready.strip_prefix("ready ").unwrap();
    let collections = target.progress().0;
    let mut debugger = Player::new(DEBUGGER, &format!("debugger of {} {tids}", target.child.id()));
    let reported = debugger.hear().unwrap();
    assert!(debugger.child.wait().unwrap().success());
    let (after, rounds) = target.progress();
    let failures = target.ask("failures");
    // Without the debugger everything runs on.
    let begin = Instant::now();
    while target.progress().0 < after + 20 || target.progress().1 < rounds + 20 {
        assert!(begin.elapsed() < patience(120, 20), "the program does not run on");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(target.ask("end"), "ended");
    (reported, after - collections, failures)
}

/// `.debug.missed`: a thread that the debugger does not trace attaches and detaches. No tracer sees its notifications. The debugger keeps
/// control, and is requested to answer for the thread that it holds: no stop fails.
#[test]
fn a_thread_that_the_debugger_has_missed_takes_no_control_away() {
    let (reported, collections, failures) = with_a_missed_thread("attaches");
    println!("{reported}; {collections} collections");
    assert_eq!(failures, "failures ");
    assert!(reported.starts_with("control true answered ") && !reported.ends_with(" 0"), "{reported}");
    assert!(collections > 20, "{collections}");
}

/// `.debug.missed`: the thread that collects is not traced, so it cannot request the debugger to answer for the thread that it holds. The
/// stop fails, and the error gives the reason.
#[test]
fn a_stop_by_a_thread_that_the_debugger_has_missed_fails_with_the_reason() {
    let (reported, _, failures) = with_a_missed_thread("collects");
    assert_eq!(reported, "control true answered 0");
    for part in ["did not stop within 5s", "suspend signal not taken", "traces other threads of this process, but not"]
    {
        assert!(failures.contains(part), "no {part:?} in: {failures}");
    }
}

/// A debugger that attaches.
#[derive(Clone, Copy, Debug)]
enum Attaching {
    Rust,
    C,
}

/// The creator of a thread is seized in the middle of the call that creates the thread, and the thread is listed much later.
#[rstest]
fn a_thread_that_is_being_created_while_a_debugger_attaches_is_traced(
    #[values(Attaching::Rust, Attaching::C)] debugger: Attaching,
) {
    if matches!(debugger, Attaching::C) && !has("cc") {
        return;
    }
    let mut target = Player::new(TARGET, "program that creates");
    let said = target.hear().unwrap();
    if said != "creating" {
        return skipped(&format!("userfaultfd, and threads with a pidfd: {said}"));
    }
    let pid = target.child.id();
    let _rust;
    let mut in_c = None;
    match debugger {
        Attaching::Rust => {
            let mut player = Player::new(DEBUGGER, &format!("debugger of {pid}"));
            assert_eq!(player.hear().as_deref(), Some("attached"));
            _rust = player;
        }
        Attaching::C => {
            let mut command = Command::new(in_c::debugger());
            command.args(["--mode", "assisted", "--milliseconds", "120000", "attach", &pid.to_string()]);
            in_c = Some(command.stdout(std::process::Stdio::null()).spawn().unwrap());
        }
    }
    let created = target.hear().unwrap();
    let Some(tid) = created.strip_prefix("created ") else {
        return skipped(&format!("userfaultfd, and threads with a pidfd: {created}"));
    };
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:\t")).unwrap();
    if let Some(mut debugger) = in_c {
        assert_eq!(debugger.try_wait().unwrap(), None, "the debugger has ended too early");
        drop(target);
        debugger.wait().unwrap();
    }
    assert_ne!(tracer, "0", "the debugger has missed the thread");
}
