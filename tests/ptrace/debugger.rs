//! The ptrace debugger with difficult programs: `.vtable.exact-restore`, `.vtable.nested`, `.vtable.attach`, `.stop.registers`, and
//! `.debug.dies` with a debugger in a process of its own.
//!
//! The program is `examples/debuggee.rs`, compiled into this test and run as a process of its own.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::debuggee;
use crate::skipped::skipped;
use crate::tasks;
use crate::tasks::{assert_none_stopped, assert_none_traced};
use crate::unfinished_clone::create_a_thread_slowly;
use rstest::rstest;
use stopworld::debugger::Phase;
use stopworld::{Tid, World};
use stopworld_ptrace::{
    Address, CallError, Channel, Debugger, DebuggerError, DebuggerOptions, Difference, Event, Held, Inspect, Mode,
    OnDeath, PhaseSet, Phases, Restored, RunState, Snapshot, Statistics, TargetState, ThreadState,
};

/// The environment variable with the arguments of the debugged program.
const ARGUMENTS: &str = "STOPWORLD_DEBUGGEE";

/// The debugged program; not a test by itself.
#[test]
fn the_debuggee() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    debuggee::run(arguments.split_whitespace().map(str::to_owned)).unwrap();
}

/// Code for the process's first thread runs before `main`, because the test harness keeps that thread for itself.
extern "C" fn on_the_first_thread() {
    match std::env::var(ARGUMENTS).as_deref() {
        Ok("vfork") => odd(vfork_on_request),
        Ok("no leader") => odd(end_this_thread),
        Ok("creates") => {
            create_a_thread_slowly();
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            std::process::exit(0);
        }
        _ => {}
    }
}

// SAFETY: an array of functions of this type, which the C library calls in order; this one needs nothing that is initialised later.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = on_the_first_thread;

/// Collects on a thread of its own while the first thread does something unusual.
fn odd(what: impl FnOnce()) {
    let world = World::builder().heap_limit(16 << 20).build().unwrap();
    std::thread::spawn(move || {
        println!("ready");
        loop {
            world.collect().unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    what();
}

/// The process's first thread exits silently; the others continue.
fn end_this_thread() {
    // SAFETY: no other thread uses anything of this thread.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// While its child lives, the parent of a vfork sleeps uninterruptibly.
/// One byte on standard input starts the vfork, another ends the child.
fn vfork_on_request() {
    let mut byte = 0_u8;
    // SAFETY: the child only reads a byte and exits; it shares the parent's stack, whose frame does not change.
    #[allow(deprecated, reason = "what a debugger must cope with")]
    unsafe {
        while libc::syscall(libc::SYS_read, 0, &raw mut byte, 1) < 0 {}
        if libc::vfork() == 0 {
            while libc::syscall(libc::SYS_read, 0, &raw mut byte, 1) < 0 {}
            libc::_exit(0);
        }
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// A running program, and its output.
struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(arguments: &str) -> Self {
        let mut program = Self::launch(arguments);
        program.line("ready");
        program
    }

    fn launch(arguments: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "debugger::the_debuggee", "--nocapture", "--test-threads=1"])
            .env(ARGUMENTS, arguments);
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Reads up to a line that contains this word.
    fn line(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the program ended without a line of \"{word}\"");
            if line.contains(word) {
                return line;
            }
        }
    }

    /// Sends a byte to the program's standard input.
    fn tell(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    }

    /// Ends a program that runs "until the end of 0".
    fn finish(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Returns the program's final figures, after checking that it succeeded.
    fn end(mut self) -> Outcome {
        self.finish();
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        let line = text.lines().find(|line| line.contains("collections")).map(str::to_owned);
        let line = line.unwrap_or_else(|| panic!("the program ended by {status} without its line: {text}"));
        assert!(status.success(), "{status}: {text}");
        Outcome::parse(&line[line.find("collections").unwrap()..])
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The figures in the program's last line.
#[derive(Debug)]
struct Outcome(HashMap<String, u64>);

impl Outcome {
    fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split_whitespace().collect();
        Self(words.chunks_exact(2).map(|pair| (pair[0].to_owned(), pair[1].parse().unwrap())).collect())
    }

    fn get(&self, name: &str) -> u64 {
        self.0[name]
    }

    /// Returns whether no object was lost, no register was changed, and no collection was refused.
    fn is_sound(&self) -> bool {
        ["lost", "clobbered", "failed"].iter().all(|name| self.get(name) == 0)
    }
}

/// The timeouts are long enough for threads on a busy machine.
fn options(mode: Mode) -> DebuggerOptions {
    DebuggerOptions { mode, stop_within: Duration::from_secs(60), ..DebuggerOptions::default() }
}

/// Serves until the process has ended, or for this time. Returns the events.
fn serve(debugger: &mut Debugger, within: Duration) -> Vec<Event> {
    let until = Instant::now() + within;
    let mut events = Vec::new();
    while debugger.state() == TargetState::Alive && Instant::now() < until {
        if let Some(event) = debugger.poll(Duration::from_millis(100)).unwrap() {
            assert!(!matches!(event, Event::Refused(_) | Event::Silent { .. }), "{event:?}");
            if !matches!(event, Event::ThreadCreated { .. } | Event::ThreadExited { .. }) {
                events.push(event);
            }
        }
    }
    events
}

const LONG: Duration = Duration::from_secs(300);

/// `.stop.registers`, `.vtable.exact-restore`
#[rstest]
#[case::full(Mode::Full, OnDeath::Park, Channel::Signal)]
#[case::full_without_a_place_to_wait(Mode::Full, OnDeath::RunOn, Channel::Signal)]
#[case::full_by_breakpoint(Mode::Full, OnDeath::Park, Channel::Breakpoint)]
#[case::assisted(Mode::Assisted, OnDeath::Park, Channel::Signal)]
fn a_program_collects_under_the_debugger_and_nothing_is_lost_or_changed(
    #[case] mode: Mode,
    #[case] on_death: OnDeath,
    #[case] channel: Channel,
) {
    let mut program = Program::start("--threads 8 --until-end-of 0");
    let options = DebuggerOptions { on_death, channel, restored: Restored::Compared, ..options(mode) };
    let mut debugger = Debugger::attach(program.pid(), options).unwrap();
    assert_eq!(debugger.libraries().len(), 1);
    let (mut events, begun) = (Vec::new(), Instant::now());
    let is_enough = |s: &Statistics| s.stops >= 250 && s.mutators_created > 10 && s.mutators_exited > 10;
    while !is_enough(debugger.statistics()) && begun.elapsed() < LONG {
        events.extend(serve(&mut debugger, Duration::from_millis(10)));
    }
    program.finish();
    events.extend(serve(&mut debugger, LONG));
    assert_eq!(debugger.state(), TargetState::Exited(0));
    let outcome = program.end();
    let statistics = debugger.statistics();
    println!("{outcome:?}\n{statistics:?}",);
    assert!(outcome.is_sound(), "{outcome:?}");
    assert!(statistics.stops >= 250 && statistics.stops <= statistics.starts + 1, "{statistics:?}");
    assert!(statistics.mutators_created > 10 && statistics.mutators_exited > 10);
    assert_eq!(events.iter().filter(|e| matches!(e, Event::WorldStopped { .. })).count() as u64, statistics.stops);
    assert_eq!(statistics.changed, 0);
    assert_eq!(statistics.compared > 7 * statistics.starts, mode == Mode::Full);
    if mode == Mode::Full {
        // A nap is interrupted only by collections before the debugger attached, and by those in which some thread had no place to park:
        // there the collector sends signals before it relies on the debugger to live.
        // The last stop is the verifier's.
        let by_signals = outcome.get("of") + 1 - statistics.parked_stops;
        assert!(
            outcome.get("interrupted") <= by_signals,
            "{by_signals} of {}, {} signals: {outcome:?}",
            statistics.stops,
            statistics.suspend_signals
        );
        assert!(statistics.slots_written > 7 * statistics.stops);
        assert_eq!(statistics.parked_stops > 0, on_death == OnDeath::Park);
    }
}

/// `.vtable.exact-restore`: shows that the comparison detects a change.
#[test]
fn a_thread_that_was_changed_in_a_stop_is_reported() {
    let program = Program::start("--threads 8 --until-end-of 0");
    let options = DebuggerOptions { restored: Restored::Compared, ..options(Mode::Full) };
    let mut debugger = Debugger::attach(program.pid(), options).unwrap();
    debugger.hold_at(PhaseSet::NONE.with(Phase::MarkEnd)).unwrap();
    assert!(serve_until(&mut debugger, |event| matches!(event, Event::Phase { held: Held::Yes, .. })));
    let sleeper = lasting(&mut debugger).into_iter().find(|t| t.comm == "sleeper").unwrap().tid;
    let far = Address(debugger.registers(sleeper).unwrap().rsp().0 - 128);
    let mut byte = [0];
    debugger.read(far, &mut byte).unwrap();
    debugger.write(far, &[!byte[0]]).unwrap();
    debugger.hold_at(PhaseSet::NONE).unwrap();
    debugger.go_on().unwrap();
    let expected = |event: &Event| {
        assert!(!matches!(event, Event::WorldStarted { .. }));
        matches!(event, Event::Changed { tid, difference: Difference::RedZone } if *tid == sleeper)
    };
    assert!(serve_until(&mut debugger, expected));
    assert_eq!(debugger.statistics().changed, 1);
}

/// A generator of small numbers; tests print their seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// The number of repetitions of a test: more on demand.
fn times(few: usize) -> usize {
    std::env::var("STOPWORLD_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(few)
}

/// The mutators that live as long as the program: not the children of a thread, and not the main thread, which attaches for some
/// collections.
fn lasting(debugger: &mut Debugger) -> Vec<ThreadState> {
    let mut threads = debugger.threads().unwrap();
    threads.retain(|t| t.managed.as_ref().is_some_and(|m| !["child", "collector"].contains(&m.record.name.as_str())));
    threads
}

/// The part of a snapshot for these threads.
fn part(snapshot: Snapshot, tids: &[Tid]) -> Vec<(Tid, String)> {
    let of = |tid: &Tid| snapshot.threads.get(tid).map(|thread| (*tid, format!("{thread:?}")));
    tids.iter().filter_map(of).collect()
}

/// `.vtable.exact-restore`, `.vtable.nested`: a thread that the user has stopped is bit for bit the same after each collection, and still
/// stopped; all others run.
#[rstest]
fn what_the_user_has_stopped_stays_as_it_is_through_collections(#[values(Mode::Full, Mode::Assisted)] mode: Mode) {
    let program = Program::start("--threads 8 --until-end-of 0");
    let mut debugger = Debugger::attach(program.pid(), options(mode)).unwrap();
    let mut dice = Dice(7);
    let lasting: Vec<Tid> = lasting(&mut debugger).iter().map(|t| t.tid).collect();
    assert_eq!(lasting.len(), 8);
    let mut frozen: Vec<Tid> = Vec::new();
    let mut before = Vec::new();
    let (mut interleavings, mut collections, begun) = (0, 0, Instant::now());
    // On a busy machine, continues until everything of interest has happened.
    let is_more_to_see = |debugger: &Debugger, collections: usize| {
        let statistics = debugger.statistics();
        let unserved = mode == Mode::Assisted && statistics.frozen_served == 0;
        collections <= times(100) / 10 || statistics.kept_frozen == 0 || unserved
    };
    while interleavings < times(100) || (is_more_to_see(&debugger, collections) && begun.elapsed() < LONG) {
        interleavings += 1;
        match dice.below(3) {
            0 => {
                let tid = lasting[dice.below(lasting.len())];
                debugger.freeze(tid).unwrap();
                if !frozen.contains(&tid) {
                    frozen.push(tid);
                }
                before = part(debugger.snapshot().unwrap(), &frozen);
            }
            1 if !frozen.is_empty() => {
                let tid = frozen.swap_remove(dice.below(frozen.len()));
                assert!(debugger.thaw(tid).unwrap());
                before.retain(|(other, _)| *other != tid);
            }
            _ => {}
        }
        before.sort();
        // There are up to two collections; fewer if a frozen thread holds a lock that prevents collections.
        let until = Instant::now() + Duration::from_millis(20);
        let mut seen = 0;
        while seen < 2 && Instant::now() < until {
            if let Some(Event::WorldStarted { .. }) = debugger.poll(Duration::from_millis(5)).unwrap() {
                seen += 1;
                let mut after = part(debugger.snapshot().unwrap(), &frozen);
                after.sort();
                assert_eq!(before, after);
                for thread in debugger.threads().unwrap() {
                    let expected = frozen.contains(&thread.tid);
                    assert_eq!(thread.frozen, expected, "{thread:?}");
                    assert!(expected || !matches!(thread.run, RunState::Frozen | RunState::StoppedForCollection));
                }
            }
        }
        collections += seen;
        if seen == 0 && frozen.len() > 2 {
            debugger.cont_all().unwrap();
            frozen.clear();
            before.clear();
        }
    }
    assert!(collections > times(100) / 10, "{collections} collections in {interleavings} interleavings");
    let statistics = debugger.statistics().clone();
    assert!(statistics.kept_frozen > 0);
    if mode == Mode::Assisted {
        assert!(statistics.frozen_served > 0);
    }
    debugger.cont_all().unwrap();
    debugger.detach().unwrap();
    assert_none_stopped(program.pid());
}

/// `.vtable.attach`, `.vtable.swap`
#[rstest]
fn debuggers_attach_and_detach_at_any_moment(#[values(Mode::Full, Mode::Assisted)] mode: Mode) {
    let program = Program::start("--threads 8 --until-end-of 0 --pause-us 0");
    let mut dice = Dice(11);
    for _ in 0..times(40) {
        let mut debugger = Debugger::attach(program.pid(), options(mode)).unwrap();
        let until = Instant::now() + Duration::from_micros(dice.below(4000) as u64);
        while Instant::now() < until {
            debugger.poll(Duration::from_micros(200)).unwrap();
        }
        if dice.below(3) == 0 {
            let threads = lasting(&mut debugger);
            debugger.freeze(threads[dice.below(threads.len())].tid).unwrap();
        }
        debugger.detach().unwrap();
        assert_none_stopped(program.pid());
    }
}

/// The debugger detaches in the middle of a stop, at each phase of it.
#[rstest]
fn a_debugger_that_detaches_in_mid_stop_leaves_a_collection_that_ends(
    #[values(Mode::Full, Mode::Assisted)] mode: Mode,
    #[values(Phase::SuspendBegin, Phase::RootsBegin, Phase::MarkEnd, Phase::RestartBegin)] phase: Phase,
) {
    let program = Program::start("--threads 8 --until-end-of 0");
    let mut debugger = Debugger::attach(program.pid(), options(mode)).unwrap();
    debugger.hold_at(PhaseSet::NONE.with(phase)).unwrap();
    let held = serve_until(&mut debugger, |event| matches!(event, Event::Phase { held: Held::Yes, .. }));
    assert!(held, "no collection reached {phase:?}");
    assert_eq!(debugger.held().unwrap().phase, phase);
    let threads = debugger.threads().unwrap();
    let stopped = threads.iter().filter(|t| t.run == RunState::StoppedForCollection).count();
    assert_eq!(stopped > 0, mode == Mode::Full && phase > Phase::SuspendBegin && phase <= Phase::RestartBegin);
    debugger.detach().unwrap();
    assert!(program.end().is_sound());
}

fn serve_until(debugger: &mut Debugger, wanted: impl Fn(&Event) -> bool) -> bool {
    let until = Instant::now() + LONG;
    while debugger.state() == TargetState::Alive && Instant::now() < until {
        if debugger.poll(Duration::from_millis(100)).unwrap().is_some_and(|event| wanted(&event)) {
            return true;
        }
    }
    false
}

/// With `step` the program runs from phase to phase.
#[test]
fn a_collection_is_stepped_through_phase_by_phase() {
    let program = Program::start("--threads 4 --until-end-of 0");
    let options = DebuggerOptions { phases: Phases::Reported, ..options(Mode::Full) };
    let mut debugger = Debugger::attach(program.pid(), options).unwrap();
    debugger.hold_at(PhaseSet::ALL).unwrap();
    let mut seen = Vec::new();
    while seen.len() < 40 {
        if let Some(Event::Phase { phase, held: Held::Yes, .. }) = debugger.poll(Duration::from_secs(10)).unwrap() {
            seen.push(phase.unwrap());
            assert!(debugger.go_on().unwrap());
        }
    }
    let begin = seen.iter().position(|phase| *phase == Phase::SuspendBegin).unwrap();
    let one: Vec<Phase> = seen[begin..].iter().copied().take(13).collect();
    assert_eq!(one, Phase::ALL[1..]);
}

/// A debugger in a process of its own: it attaches and serves until it dies.
#[test]
fn the_debugger() {
    let Ok(plan) = std::env::var("STOPWORLD_DEBUGGER") else { return };
    let words: Vec<&str> = plan.split(' ').collect();
    let mode = if words[1] == "full" { Mode::Full } else { Mode::Assisted };
    let options = DebuggerOptions { phases: Phases::Reported, ..options(mode) };
    let attach = || Debugger::attach(words[0].parse().unwrap(), options).unwrap();
    if std::env::var("STOPWORLD_DEBUGGER_DIES_AT").is_ok_and(|step| step == "again-notified") {
        // In a full stop no notification is repeated, except to a debugger that attaches during a stop that the collector has begun by
        // itself.
        let begin = Instant::now();
        while begin.elapsed() < LONG {
            serve(&mut attach(), Duration::from_millis(150));
            std::thread::sleep(Duration::from_millis(20));
        }
        return;
    }
    let mut debugger = attach();
    let frozen = lasting(&mut debugger)[1].tid;
    debugger.freeze(frozen).unwrap();
    let begin = Instant::now();
    while debugger.poll(Duration::from_millis(10)).is_ok() {
        if begin.elapsed() > Duration::from_millis(200) {
            let _ = debugger.thaw(frozen);
        }
        let leaves = std::env::var("STOPWORLD_DEBUGGER_DIES_AT").is_ok_and(|step| step == "detaching");
        if begin.elapsed() > if leaves { Duration::from_millis(300) } else { LONG } {
            debugger.detach().unwrap();
            return;
        }
    }
}

/// `.debug.dies`: the debugger is killed at each step of its protocol. The program continues within a second, and its heap is undamaged.
#[rstest]
fn a_debugger_that_is_killed_at_any_step_leaves_a_program_that_runs(
    #[values("full", "assisted")] mode: &str,
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
        "phase:20",
        "start-notified",
        "some-restored:3",
        "start-acknowledged",
        "detaching"
    )]
    step: &str,
) {
    let of_full = ["some-stopped", "all-stopped", "registers-written", "some-restored:3"];
    if mode == "assisted" && of_full.contains(&step) || mode == "full" && step == "frozen-served" {
        return;
    }
    let masked = if step == "again-notified" { " --masked-ms 150" } else { "" };
    let program = Program::start(&format!("--threads 8 --until-end-of 0{masked}"));
    let mut debugger = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "debugger::the_debugger", "--nocapture"])
        .env("STOPWORLD_DEBUGGER", format!("{} {mode}", program.pid()))
        .env("STOPWORLD_DEBUGGER_DIES_AT", step)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let end = debugger.wait().unwrap();
    let killed = std::os::unix::process::ExitStatusExt::signal(&end);
    assert_eq!(killed, Some(libc::SIGKILL), "the debugger did not reach {step}");
    std::thread::sleep(Duration::from_secs(1));
    assert_none_stopped(program.pid());
    let outcome = program.end();
    assert!(outcome.is_sound(), "{outcome:?}");
    assert!(outcome.get("collections") > 1, "{outcome:?}");
}

/// The address of a function of this program in another process that runs the same program.
fn in_target(debugger: &Debugger, function: usize) -> Address {
    let exe = std::env::current_exe().unwrap();
    let base = |maps: &str| {
        let line = maps.lines().find(|line| line.ends_with(exe.to_str().unwrap())).unwrap();
        usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap()
    };
    let here = base(&std::fs::read_to_string("/proc/self/maps").unwrap());
    Address((function - here + base(&debugger.maps().unwrap())) as u64)
}

extern "C" fn six(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64 {
    a + 10 * b + 100 * c + 1000 * d + 10_000 * e + 100_000 * f
}

extern "C" fn endless() {
    loop {
        std::hint::spin_loop();
    }
}

extern "C" fn fault() {
    // SAFETY: invalid on purpose: the debugger catches the fault.
    unsafe { std::ptr::null_mut::<u8>().write_volatile(1) };
}

#[test]
fn functions_are_called_in_threads_that_are_unchanged_afterwards() {
    let program = Program::start("--threads 8 --until-end-of 0");
    let attach = |call_within: Duration| {
        let options = DebuggerOptions { call_within, ..options(Mode::Full) };
        Debugger::attach(program.pid(), options).unwrap()
    };
    let mut debugger = attach(Duration::from_secs(60));
    for thread in lasting(&mut debugger) {
        let tid = thread.tid;
        debugger.freeze(tid).unwrap();
        let before = debugger.snapshot().unwrap().threads[&tid].clone();
        let at = in_target(&debugger, six as *const () as usize);
        assert_eq!(debugger.call(tid, at, &[1, 2, 3, 4, 5, 6]).unwrap(), 654_321);
        let at = in_target(&debugger, fault as *const () as usize);
        let faulted = debugger.call(tid, at, &[]);
        assert!(matches!(faulted, Err(CallError::Faulted { signal: libc::SIGSEGV, .. })), "{faulted:?}");
        assert_eq!(debugger.snapshot().unwrap().threads[&tid], before);
        debugger.thaw(tid).unwrap();
    }
    let heap = debugger.worlds().unwrap()[0].heap.0;
    let (scratch, _) = debugger.scratch().unwrap();
    let described = debugger.library_call(None, Inspect::Describe, &[heap.0, scratch.0]).unwrap();
    assert!(described >= 0, "{described}");
    debugger.detach().unwrap();

    // A call that does not return, with a shorter timeout.
    let mut debugger = attach(Duration::from_millis(500));
    for thread in lasting(&mut debugger) {
        let tid = thread.tid;
        debugger.freeze(tid).unwrap();
        let before = debugger.snapshot().unwrap().threads[&tid].clone();
        let at = in_target(&debugger, endless as *const () as usize);
        assert!(matches!(debugger.call(tid, at, &[]), Err(CallError::TooLong(_))));
        assert_eq!(debugger.snapshot().unwrap().threads[&tid], before);
        debugger.thaw(tid).unwrap();
    }
    assert!(serve_until(&mut debugger, |event| matches!(event, Event::WorldStarted { .. })));
}

#[test]
fn a_program_is_run_under_the_debugger_from_its_first_instruction() {
    let exe = std::env::current_exe().unwrap();
    // The program is started through another program, which executes it.
    let environment = format!("{ARGUMENTS}=--threads 4 --collections 100");
    let arguments: Vec<OsString> =
        [environment.into(), exe.into(), "--exact".into(), "debugger::the_debuggee".into(), "--nocapture".into()]
            .into();
    let mut debugger = Debugger::launch("env".as_ref(), &arguments, options(Mode::Full)).unwrap();
    assert_eq!(debugger.threads().unwrap()[0].run, RunState::Frozen);
    debugger.cont_all().unwrap();
    let events = serve(&mut debugger, LONG);
    assert_eq!(debugger.state(), TargetState::Exited(0));
    assert!(events.iter().any(|event| matches!(event, Event::Executed)));
    // Each collection of its life, including the first.
    assert!(debugger.statistics().stops >= 100, "{:?}", debugger.statistics().stops);
    let missing = Debugger::launch("/no/such/program".as_ref(), &[], options(Mode::Full));
    assert!(missing.err().unwrap().to_string().contains("/no/such/program cannot be run"));
}

#[test]
fn a_stopped_job_stays_stopped_and_continues_with_its_signals() {
    let mut program = Program::start("--threads 8 --until-end-of 0");
    let mut debugger = Debugger::attach(program.pid(), options(Mode::Full)).unwrap();
    for _ in 0..3 {
        serve(&mut debugger, Duration::from_millis(50));
        // SAFETY: signals to the program.
        unsafe { libc::kill(program.pid(), libc::SIGSTOP) };
        assert!(serve_until(&mut debugger, |event| matches!(event, Event::GroupStopped { .. })));
        // The event reports the first thread that has stopped. The test waits until all threads have stopped.
        let begun = Instant::now();
        while tasks::states(program.pid()).contains(|state| !"tTXZ".contains(state)) {
            assert!(begun.elapsed() < LONG, "{}", tasks::states(program.pid()));
            serve(&mut debugger, Duration::from_millis(10));
        }
        let stops = debugger.statistics().stops;
        serve(&mut debugger, Duration::from_millis(50));
        assert_eq!(debugger.statistics().stops, stops, "a stopped job collects");
        // SAFETY: as above.
        unsafe { libc::kill(program.pid(), libc::SIGCONT) };
        assert!(serve_until(&mut debugger, |event| matches!(event, Event::WorldStarted { .. })));
    }
    program.finish();
    serve(&mut debugger, LONG);
    assert!(program.end().is_sound());
}

/// Also in the middle of a stop, when the registers of its threads are no longer readable.
#[rstest]
fn a_program_that_is_killed_at_any_moment_is_reported_as_ended(#[values(Mode::Full, Mode::Assisted)] mode: Mode) {
    let mut dice = Dice(13);
    for _ in 0..times(10) {
        let program = Program::start("--threads 40 --until-end-of 0 --pause-us 0");
        let mut debugger = Debugger::attach(program.pid(), options(mode)).unwrap();
        let frozen = lasting(&mut debugger)[2].tid;
        debugger.freeze(frozen).unwrap();
        let (pid, nap) = (program.pid(), Duration::from_micros(dice.below(20_000) as u64));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(nap);
            // SAFETY: a signal to the program.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        });
        serve(&mut debugger, LONG);
        assert_eq!(debugger.state(), TargetState::Killed(libc::SIGKILL));
        killer.join().unwrap();
    }
}

/// A program whose first thread waits for its vfork's child, which the debugger has reported.
fn in_vfork() -> (Program, Debugger) {
    let mut program = Program::start("vfork");
    let options = DebuggerOptions { stop_within: Duration::from_millis(100), ..DebuggerOptions::default() };
    let mut debugger = Debugger::attach(program.pid(), options).unwrap();
    program.tell();
    let is_named = |event: &Event| match event {
        Event::Silent { threads } => threads.iter().any(|(_, why)| why.to_string().contains("vfork")),
        _ => false,
    };
    assert!(serve_until(&mut debugger, is_named));
    (program, debugger)
}

#[test]
fn a_thread_that_waits_for_its_vforks_child_is_named_and_the_collector_continues_by_itself() {
    let (mut program, mut debugger) = in_vfork();
    let given_up = debugger.statistics().given_up;
    // When the child has ended, the debugger is in control again.
    program.tell();
    assert!(serve_until(&mut debugger, |event| matches!(event, Event::WorldStopped { .. })));
    assert!(given_up >= 1);
    debugger.kill().unwrap();
    assert_eq!(debugger.state(), TargetState::Killed(libc::SIGKILL));
}

/// `.vtable.attach`: a thread that does not stop cannot be detached, and without a tracer it would stay stopped as soon as it did stop.
#[rstest]
#[case::in_time(Duration::from_millis(300), false)]
#[case::late(Duration::ZERO, true)]
fn a_thread_that_waits_for_its_vforks_child_is_detached_when_it_stops(#[case] after: Duration, #[case] is_late: bool) {
    let (mut program, mut debugger) = in_vfork();
    let pid = program.pid();
    let is_silent =
        |silent: &DebuggerError| matches!(silent, DebuggerError::Silent { tid: Tid(tid), .. } if *tid == pid);
    // If the thread is not detached, the debugger must have waited for the full timeout.
    let mut is_detached = || {
        let begun = Instant::now();
        let Err(silent) = debugger.detach() else { return true };
        assert!(is_silent(&silent) && begun.elapsed() > Duration::from_secs(1), "{silent}");
        false
    };
    if is_late {
        assert!(!is_detached());
    }
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(after);
            program.tell();
        });
        while !is_detached() {
            assert!(begun.elapsed() < LONG);
        }
    });
    assert_none_traced(program.pid());
    assert_none_stopped(program.pid());
}

/// `.debug.missed`: a thread is seized in the middle of creating another one, which is listed much later.
#[test]
fn a_thread_that_is_being_created_during_the_attach_is_traced() {
    let mut program = Program::launch("creates");
    let begun = program.line("creat");
    if !begun.contains("creating") {
        return skipped(&format!("userfaultfd, and threads with a pidfd: {begun}"));
    }
    let mut debugger = Debugger::attach(program.pid(), options(Mode::Assisted)).unwrap();
    let created = program.line("creat");
    let Some(tid) = created.trim().strip_prefix(":created ") else {
        return skipped(&format!("userfaultfd, and threads with a pidfd: {created}"));
    };
    let tid = Tid(tid.parse().unwrap());
    assert!(debugger.threads().unwrap().iter().any(|thread| thread.tid == tid), "the debugger has missed thread {tid}");
    debugger.freeze(tid).unwrap();
    debugger.detach().unwrap();
    assert_none_traced(program.pid());
}

#[test]
fn an_attach_that_fails_leaves_no_thread_traced() {
    let program = Program::start("--threads 8 --until-end-of 0");
    let pid = program.pid();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
    let is_sleeper = |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name == "sleeper\n");
    let path = threads.into_iter().find(is_sleeper).unwrap();
    let other: i32 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    // SAFETY: a system call that writes nothing here.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SEIZE, other, 0usize, 0usize) }, 0);
    // On a thread of its own, which reads the tracers while it exists: its exit would detach every thread that it traces.
    let attempt = std::thread::spawn(move || {
        let refused = Debugger::attach(pid, options(Mode::Full)).err().unwrap();
        (refused, tasks::tracers(pid))
    });
    let (refused, tracers) = attempt.join().unwrap();
    // SAFETY: a signal to the program; this process traces the thread and must reap it before the program's end is reported to its parent.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        while libc::waitpid(other, std::ptr::null_mut(), libc::__WALL) == other {}
    }
    assert!(matches!(refused, DebuggerError::NotAllowed { tracer, .. } if tracer != 0), "{refused}");
    assert_eq!(tracers.len(), 1, "{tracers:?}");
}

#[test]
fn a_process_without_its_first_thread_is_debugged_like_any_other() {
    let program = Program::start("no leader");
    std::thread::sleep(Duration::from_millis(100));
    let mut debugger = Debugger::attach(program.pid(), options(Mode::Full)).unwrap();
    let begun = debugger.statistics().starts;
    for _ in 0..20 {
        assert!(serve_until(&mut debugger, |event| matches!(event, Event::WorldStarted { .. })));
    }
    assert!(debugger.statistics().starts >= begun + 20);
    debugger.detach().unwrap();
}
