//! The debugger in C that was written from `docs/debugger-contract.md` and the header alone: `.debug.dies`, `.vtable.exact-restore`,
//! `.stop.registers`; and the document's statements about ptrace.
//!
//! The debugged program is `examples/debuggee.rs`: threads whose references are hard to find, threads that start and exit, and a heap that
//! is verified after each collection.
//!
//! `STOPWORLD_C_DEBUGGER_SECONDS=N cargo test --release --test debuggers -- --ignored` kills debuggers for N seconds.

use std::collections::HashMap;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::debuggee;
use crate::tools::has;
use rstest::rstest;
use stopworld::{Gc, Leaf, Mutator, Paranoid, World};

/// The environment variable with the arguments of the debugged program.
const ARGUMENTS: &str = "STOPWORLD_DEBUGGEE";
const HARNESS: [&str; 4] = ["--exact", "in_c::the_debuggee", "--nocapture", "--test-threads=1"];

/// The debugged program; not a test by itself.
#[test]
fn the_debuggee() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    if arguments == ON_ITS_ALTERNATE_STACK {
        return on_its_alternate_stack();
    }
    debuggee::run(arguments.split_whitespace().map(str::to_owned)).unwrap();
}

/// The argument that selects the other program.
const ON_ITS_ALTERNATE_STACK: &str = "on its alternate stack";

static DISGUISED: AtomicUsize = AtomicUsize::new(0);
static IS_THERE: AtomicBool = AtomicBool::new(false);
static OVER: AtomicBool = AtomicBool::new(false);

/// Holds the only reference to an object, in its frame on the alternate stack.
extern "C" fn spin_on_the_alternate_stack(_: i32) {
    let address = !DISGUISED.load(Relaxed);
    IS_THERE.store(true, Relaxed);
    while !OVER.load(Relaxed) {
        black_box(&address);
        std::hint::spin_loop();
    }
}

/// Collects until its input ends, while a mutator is in a signal handler on its alternate stack.
fn on_its_alternate_stack() {
    static FAILED: AtomicUsize = AtomicUsize::new(0);
    let world = World::builder().heap_limit(16 << 20).paranoid(Paranoid::On).on_failure(|error| {
        eprintln!("{error}");
        FAILED.fetch_add(1, Relaxed);
    });
    let world = world.build().unwrap();
    // SAFETY: every Gc is a local variable of a thread that has ended before the first collection.
    let maker = unsafe {
        world.spawn("maker", |m| {
            let object = m.alloc(Leaf([7u64; 3])).unwrap();
            std::mem::forget(m.root(m.alloc_weak(object).unwrap()));
            DISGUISED.store(!Gc::addr(object), Relaxed);
        })
    };
    maker.unwrap().join().unwrap();
    let raise = |_: &Mutator| {
        // SAFETY: a handler that touches only atomics and its own frame; zeroes are a valid mask.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = spin_on_the_alternate_stack as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK;
            libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut());
            libc::raise(libc::SIGUSR2);
        }
    };
    // SAFETY: its one reference is in the handler's frame.
    let worker = unsafe { world.spawn("worker", raise) }.unwrap();
    while !IS_THERE.load(Relaxed) {
        std::thread::yield_now();
    }
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        OVER.store(true, Relaxed);
    });
    println!("ready");
    let (mut collections, mut lost) = (0, 0);
    while !OVER.load(Relaxed) {
        if let Ok(report) = world.collect() {
            (collections, lost) = (collections + 1, lost + report.weak_cleared);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    worker.join().unwrap();
    println!("collections {collections} failed {} lost {lost} clobbered 0", FAILED.load(Relaxed));
}

/// Compiles a program of `tests/debugger_c`; returns its path.
fn compiled(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // A separate file for each process and thread that compiles: no test runs a file that another one writes.
    let unique = format!("{name}-{}-{:?}", std::process::id(), std::thread::current().id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique.replace(['(', ')'], ""));
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(root.join("debugger/include"))
        .arg("-o")
        .args([&program, &root.join(format!("tests/debugger_c/{name}.c"))])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Returns the path of the compiled debugger.
pub fn debugger() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("debugger"))
}

fn numbers(line: &str) -> HashMap<String, i64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.chunks_exact(2).map(|pair| (pair[0].to_owned(), pair[1].parse().unwrap())).collect()
}

/// The debugged program.
struct Target {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Target {
    fn start() -> Self {
        Self::start_as("--threads 6 --until-end-of 0")
    }

    fn start_as(arguments: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(HARNESS)
            .env(ARGUMENTS, arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the program ended before it was ready");
        }
        Self { child, output }
    }

    /// Runs a debugger with these options on it.
    fn debug(&mut self, options: &[(&str, u64)], mode: &str) -> Output {
        let mut command = Command::new(debugger());
        command.args(["--mode", mode]);
        for (option, value) in options {
            command.args([format!("--{option}"), value.to_string()]);
        }
        let output = command.args(["attach", &self.child.id().to_string()]).output().unwrap();
        let ended = self.child.try_wait().unwrap();
        assert!(
            ended.is_none(),
            "the program ended, {ended:?}, under the debugger with {mode} {options:?}: {output:?}"
        );
        output
    }

    /// Returns the program's final figures, after checking that no object was lost, no register changed, and no collection failed for good.
    fn assert_sound(mut self) -> HashMap<String, i64> {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        let mut complaints = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
        // No debugger here makes false claims, whenever it is killed (`.debug.lies`).
        assert!(!complaints.contains("the debugger reported thread"), "{complaints}");
        let status = self.child.wait().unwrap();
        let line = text.lines().find(|line| line.contains("collections "));
        let line = line.unwrap_or_else(|| panic!("the program ended by {status} without its line: {text}"));
        let outcome = numbers(&line[line.find("collections").unwrap()..].replace("of ", "all "));
        for name in ["lost", "clobbered", "failed"] {
            assert_eq!(outcome[name], 0, "{outcome:?}");
        }
        assert!(status.success(), "{status}: {text}");
        outcome
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ptrace_behaves_as_documented() {
    if !has("cc") {
        return;
    }
    let output = Command::new(compiled("ptrace_facts")).output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{output:?}");
}

/// The debugger's mode, the milliseconds between its user's holds (0: no holds), and 1 if all registers go to save areas.
#[rstest]
#[case::full("full", 0, 0)]
#[case::full_with_holds("full", 2, 0)]
#[case::full_without_room_on_the_stacks("full", 2, 1)]
#[case::assisted("assisted", 0, 0)]
#[case::assisted_with_holds("assisted", 1, 0)]
fn a_debugger_that_was_written_from_the_document_stops_the_world_a_thousand_times(
    #[case] mode: &str,
    #[case] holds: u64,
    #[case] save_area: u64,
) {
    if !has("cc") {
        return;
    }
    let mut target = Target::start();
    let mut sums: HashMap<String, i64> = HashMap::new();
    let begin = Instant::now();
    for seed in 0.. {
        let options = [("milliseconds", 1000), ("holds", holds), ("save-area", save_area), ("seed", seed)];
        let output = target.debug(&options, mode);
        assert!(output.status.success(), "{output:?}");
        for (name, number) in numbers(&String::from_utf8_lossy(&output.stdout)) {
            *sums.entry(name).or_default() += number;
        }
        let is_enough = sums["stops"] >= 1000 && sums["births"] > 0 && (holds == 0 || sums["holds"] > 100);
        // A slow machine completes fewer rounds.
        if is_enough || begin.elapsed() > Duration::from_secs(60) {
            break;
        }
    }
    let outcome = target.assert_sound();
    println!("{mode}, holds {holds}, save area {save_area}: {sums:?}\n{outcome:?}");
    assert!(sums["stops"] > 20 && sums["starts"] > 20 && sums["given-up"] == 0, "{sums:?}");
    match mode {
        "full" if save_area == 0 => assert_eq!(sums["parked"], sums["stops"]),
        "full" => assert!(sums["save-areas"] > sums["stops"] && sums["parked"] < sums["stops"]),
        _ => assert_eq!(sums["answered"] > 0, holds != 0),
    }
}

/// `.stop.altstack`: the stack pointer that the debugger writes is outside the thread's own stack, and the thread's registers are in the
/// save area.
#[rstest]
#[case::full("full", 0)]
#[case::assisted("assisted", 5)]
fn what_a_handler_on_the_alternate_stack_refers_to_survives_a_stop_by_a_debugger(
    #[case] mode: &str,
    #[case] holds: u64,
) {
    if !has("cc") {
        return;
    }
    let mut target = Target::start_as(ON_ITS_ALTERNATE_STACK);
    let output = target.debug(&[("milliseconds", 2000), ("holds", holds)], mode);
    let done = numbers(&String::from_utf8_lossy(&output.stdout));
    let outcome = target.assert_sound();
    assert!(done["stops"] > 0 && done["frames"] == 0, "{done:?}");
    assert_eq!((done["save-areas"] > 0, done["answered"] > 0), (mode == "full", mode == "assisted"), "{done:?}");
    assert!(outcome["collections"] > 0);
}

/// A linear congruential generator.
fn below(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % bound
}

/// Kills debuggers, one after the other, at random steps of the protocol.
fn kill_debuggers(is_enough: impl Fn(u32, Duration) -> bool, seed: u64) {
    let mut target = Target::start();
    let (mut random, mut kills, mut lived) = (seed, 0, 0);
    let begin = Instant::now();
    while !is_enough(kills, begin.elapsed()) {
        let mode = ["full", "assisted"][below(&mut random, 2) as usize];
        // Most die in their first stops, which have the most kinds of steps.
        let latest = [40, 150, 600][below(&mut random, 3) as usize];
        let die_at = 1 + below(&mut random, latest);
        let (holds, save_area) = (below(&mut random, 4), u64::from(below(&mut random, 5) == 0));
        let options =
            [("milliseconds", 400), ("holds", holds), ("save-area", save_area), ("seed", random), ("die-at", die_at)];
        let output = target.debug(&options, mode);
        match output.status.code() {
            None => kills += 1,
            Some(0) => lived += 1,
            Some(_) => panic!("{mode} {options:?}: {output:?}"),
        }
    }
    let outcome = target.assert_sound();
    println!("{kills} debuggers were killed, {lived} detached (seed {seed}): {outcome:?}");
    assert!(outcome["collections"] > 0 && kills > 0);
}

/// `.debug.dies`; on a busy machine also `.debug.exits` and `.debug.answers`
#[rstest]
fn debuggers_in_c_that_are_killed_at_random_steps_leave_nothing_behind(#[values(1, 2)] seed: u64) {
    if has("cc") {
        kill_debuggers(|kills, time| kills >= 150 || time > Duration::from_secs(60), seed);
    }
}

/// `.debug.dies`: the same test, for the time that the environment variable sets.
#[test]
#[ignore = "runs as long as STOPWORLD_C_DEBUGGER_SECONDS says"]
fn debuggers_in_c_that_are_killed_at_random_steps_for_a_long_time() {
    let seconds = std::env::var("STOPWORLD_C_DEBUGGER_SECONDS").map_or(60, |text| text.parse().unwrap());
    if has("cc") {
        kill_debuggers(|_, time| time > Duration::from_secs(seconds), u64::from(std::process::id()));
    }
}

/// At the exec stop the pointers of a position-independent program are not relocated yet; a control word written there remains in effect.
#[test]
fn a_program_launched_by_the_debugger_in_c_is_controlled_from_the_first_stop() {
    if !has("cc") {
        return;
    }
    let output = Command::new(debugger())
        .args(["--milliseconds", "600000", "launch"])
        .arg(std::env::current_exe().unwrap())
        .args(HARNESS)
        .env(ARGUMENTS, "--threads 6 --collections 10")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let done = numbers(text.lines().find(|line| line.starts_with("stops ")).unwrap());
    assert_eq!((done["unrelocated"], done["relocated"]), (1, 1), "{text}");
    // Ten stops, the final one of the verifier, and at most those that the allocators request.
    assert!(done["stops"] >= 10 && done["parked"] == done["stops"], "{text}");
    let outcome = text.lines().find(|line| line.contains("collections 10 of")).unwrap();
    assert!(outcome.contains("repeated 0 failed 0 lost 0 clobbered 0"), "{outcome}");
}
