//! Programs to be debugged, which are these tests' own executable, and debuggers driven through their prompt.

#![allow(dead_code, reason = "each test uses its part")]

use std::fmt::Display;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use stopworld::{Array, Gc, GcCell, Mutator, Paranoid, Weak, World, traced};
use stopworld_workloads::binary_trees::{build, count, full};

/// Inserts an instruction into the calling function that uses a value, so that the compiler keeps the value.
macro_rules! here {
    ($value:expr) => {
        // SAFETY: an instruction that does nothing.
        unsafe { std::arch::asm!("nop /* {0:r} */", in(reg) $value as usize) }
    };
}

/// The environment variable with the name and the arguments of the debugged program.
pub const PROGRAM: &str = "STOPWORLD_DEBUGGED";

/// A time limit: no debugger takes longer to answer and no program takes longer to end, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(600);

/// The number of threads that only read their trees. They take no lock, so a debugger may hold them anywhere.
const READERS: usize = 4;
/// Depth of the trees.
const DEPTH: u32 = 7;

/// The number of times that each reader has counted its tree.
#[unsafe(no_mangle)]
pub static DEBUGGED_COUNTS: [AtomicU64; READERS] = [const { AtomicU64::new(0) }; READERS];

static WORLD: OnceLock<World> = OnceLock::new();

/// Runs the program that the environment names, if any.
pub fn run() {
    let Ok(program) = std::env::var(PROGRAM) else { return };
    let words: Vec<&str> = program.split_whitespace().collect();
    match words[..] {
        ["mutators", rounds, allocating, signal] => {
            mutators(rounds.parse().unwrap(), allocating.parse().unwrap(), signal.parse().unwrap());
        }
        ["values"] => values(),
        _ => panic!("no program: {program}"),
    }
}

/// A world that verifies its heap after each collection.
fn world(signal: i32) -> World {
    let world = World::builder()
        .heap_limit(256 << 20)
        .markers(1)
        .paranoid(Paranoid::On)
        .suspend_signal(signal)
        .build()
        .unwrap();
    assert!(WORLD.set(world.clone()).is_ok());
    world
}

/// Readers and allocators, and a main thread that collects `rounds` times; 0 means at least twenty times, and until standard input is
/// closed.
fn mutators(rounds: u64, allocating: usize, signal: i32) {
    static OVER: AtomicBool = AtomicBool::new(false);
    static TOLD: AtomicBool = AtomicBool::new(false);
    if rounds == 0 {
        std::thread::spawn(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            TOLD.store(true, Relaxed);
        });
    }
    let is_over = |round| if rounds == 0 { round >= 20 && TOLD.load(Relaxed) } else { round == rounds };
    let world = world(signal);
    // SAFETY: this thread keeps no reference.
    let m = unsafe { world.attach("main") }.unwrap();
    // SAFETY: the closures keep their references on their stacks.
    let threads: Vec<_> = (0..READERS)
        .map(|number| unsafe { world.spawn(&format!("reader-{number}"), move |m| read(m, number, &OVER)) }.unwrap())
        .chain((0..allocating).map(|number| {
            // SAFETY: as above.
            unsafe { world.spawn(&format!("worker-{number}"), |m| allocate(m, &OVER)) }.unwrap()
        }))
        .collect();
    while DEBUGGED_COUNTS.iter().any(|count| count.load(Relaxed) == 0) {
        m.blocking(std::thread::yield_now);
    }
    debugged_begin();
    let mut round = 0;
    while !is_over(round) {
        assert_eq!(count(build(&m, 4).unwrap()), full(4));
        debugged_steps(&m);
        round += 1;
        if round == rounds / 2 {
            debugged_halfway();
        }
    }
    debugged_end();
    OVER.store(true, Relaxed);
    let right = m.blocking(|| threads.into_iter().all(|thread| thread.join().unwrap()));
    println!("{}: {round} collections", if right { "all trees are whole" } else { "A TREE IS BROKEN" });
}

/// Reads a tree that only this thread's stack references.
fn read(m: &Mutator, number: usize, over: &AtomicBool) -> bool {
    let tree = build(m, DEPTH).unwrap();
    let mut right = true;
    while !over.load(Relaxed) {
        right &= count(tree) == full(DEPTH);
        DEBUGGED_COUNTS[number].fetch_add(1, Relaxed);
        debugged_reads(number);
    }
    right
}

fn allocate(m: &Mutator, over: &AtomicBool) -> bool {
    let mut right = true;
    while !over.load(Relaxed) {
        right &= count(build(m, DEPTH).unwrap()) == full(DEPTH);
    }
    right
}

/// A function for a breakpoint.
#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn debugged_reads(number: usize) {
    here!(number);
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn debugged_begin() {
    here!(0);
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn debugged_halfway() {
    here!(1);
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn debugged_end() {
    here!(2);
}

/// Collects, and returns the number of the collection. A debugger calls it, too.
#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn debugged_collects() -> u64 {
    here!(3);
    u64::from(WORLD.get().unwrap().collect().unwrap().number)
}

/// A debugger steps through this function line by line.
#[inline(never)]
#[unsafe(no_mangle)]
fn debugged_steps(m: &Mutator) {
    let before = debugged_collects();
    let tree = build(m, 3).unwrap();
    let after = m.blocking(|| debugged_collects());
    assert!(after > before);
    assert_eq!(count(tree), full(3));
}

traced! {
    struct Node {
        next: GcCell<Option<Gc<Node>>>,
        plain: Option<Gc<Node>>,
        small: GcCell<u32>,
        real: GcCell<f64>,
        value: u64
    }
}

/// Objects for a debugger to print.
fn values() {
    let world = world(23);
    // SAFETY: this thread keeps its references on its stack.
    let m = unsafe { world.attach("main") }.unwrap();
    let node = |value, next| {
        let (small, real) = (GcCell::new(7), GcCell::new(1.5));
        m.alloc(Node { next: GcCell::new(next), plain: next, small, real, value }).unwrap()
    };
    let first = node(1, None);
    let second = node(2, Some(first));
    first.next.set(Some(second));
    let numbers = m.alloc_array::<u64>(5, |i| i as u64 * 10).unwrap();
    let nodes = m.alloc_array::<Option<Gc<Node>>>(3, |i| (i == 1).then_some(first)).unwrap();
    let weak = m.alloc_weak(second).unwrap();
    let text = m.alloc_str("five!").unwrap();
    let shown = m.alloc_dyn(5_u64, |number| number as &dyn Display).unwrap();
    debugged_values(second, numbers, nodes, weak, None, &second.small);
    debugged_unsized(text, shown);
    for _ in 0..100 {
        assert_eq!(count(build(&m, DEPTH).unwrap()), full(DEPTH));
    }
    m.collect().unwrap();
    debugged_end();
    black_box((first, second, numbers, nodes, weak, text, shown));
}

#[inline(never)]
#[unsafe(no_mangle)]
fn debugged_values(
    node: Gc<Node>,
    numbers: Gc<Array<u64>>,
    nodes: Gc<Array<Option<Gc<Node>>>>,
    weak: Weak<Node>,
    none: Option<Gc<Node>>,
    small: &GcCell<u32>,
) {
    here!(std::ptr::from_ref(&(node, numbers, nodes, weak, none, small)));
}

#[inline(never)]
#[unsafe(no_mangle)]
fn debugged_unsized(text: Gc<str>, shown: Gc<dyn Display>) {
    here!(std::ptr::from_ref(&(text, shown)));
}

/// Returns a command that runs this executable as `program`, through the test that calls [`run`].
pub fn program(executable: &Path, program: &str) -> Command {
    let mut command = Command::new(executable);
    command.args(ARGUMENTS).env(PROGRAM, program);
    command
}

/// Makes the test harness run only that test, and show its output.
pub const ARGUMENTS: [&str; 5] = ["--exact", "the_program_in_the_debugger", "--test-threads", "1", "--nocapture"];

/// A program in a process of its own whose output is read line by line; killed when this is dropped.
pub struct Talk {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    heard: Vec<String>,
    marks: usize,
}

impl Talk {
    pub fn with(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes != 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                if sender.send(text).is_err() {
                    break;
                }
            }
        });
        Self { input: child.stdin.take().unwrap(), child, lines, heard: Vec::new(), marks: 0 }
    }

    /// gdb for this executable, which runs as the program `what`. Its standard error is merged into its lines.
    pub fn gdb(executable: &Path, what: &str, settings: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "exec gdb \"$@\" 2>&1", "gdb", "-nx", "-q"]);
        let common = ["set confirm off", "set pagination off", "set width 0", "set print thread-events off"];
        for setting in common.iter().chain(settings) {
            command.args(["-iex", setting]);
        }
        command.args(["-iex", "set auto-load safe-path /", "--args"]).arg(executable).args(ARGUMENTS);
        Self::with(command.env(PROGRAM, what))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn say(&mut self, command: &str) {
        writeln!(self.input, "{command}").unwrap();
    }

    /// Returns its output up to and including a line that contains `what`.
    pub fn until(&mut self, what: &str) -> String {
        let (from, end) = (self.heard.len(), Instant::now() + PATIENCE);
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let found = line.contains(what);
                    self.heard.push(line);
                    if found {
                        return self.heard[from..].join("\n");
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("no `{what}` in:\n{}", self.heard.join("\n")),
                Err(RecvTimeoutError::Disconnected) => panic!("ended without `{what}`:\n{}", self.heard.join("\n")),
            }
        }
    }

    /// Returns all its output so far, up to a line that contains `what`, which may have been printed before.
    pub fn all_until(&mut self, what: &str) -> String {
        if !self.heard.iter().any(|line| line.contains(what)) {
            self.until(what);
        }
        self.heard.join("\n")
    }

    /// Returns gdb's answer to a command.
    pub fn ask(&mut self, command: &str) -> String {
        self.marks += 1;
        let mark = format!("<<{}>>", self.marks);
        self.say(command);
        self.say(&format!("echo {mark}\\n"));
        self.until(&mark).replace("(gdb) ", "").replace(&mark, "").trim().to_owned()
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end; returns all its output.
    pub fn finish(mut self) -> (bool, String) {
        drop(std::mem::replace(
            &mut self.input,
            Command::new("true").stdin(Stdio::piped()).spawn().unwrap().stdin.take().unwrap(),
        ));
        let end = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.heard.push(line);
        }
        let right = self.child.wait().unwrap().success();
        (right, std::mem::take(&mut self.heard).join("\n"))
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.kill();
    }
}
