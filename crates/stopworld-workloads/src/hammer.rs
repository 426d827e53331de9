//! Threads that hold the process's locks when they are stopped.
//!
//! malloc's arenas, Rust's and C's standard streams, the dynamic linker, the thread list of pthread_create, the
//! unwinder: each has a lock, and a thread that is stopped by a signal may hold any of these locks. A collector that calls
//! malloc, prints, looks up a symbol or starts a thread while the world is stopped deadlocks
//! (`.stop.no-malloc`, `.stop.locks`). In this workload every thread of the plan repeatedly takes those locks, interrupted
//! by its own timer (`.stop.eintr`), and allocates a little, while the main thread collects repeatedly.

use std::hint::black_box;
use std::io::{self, Write};
use std::panic;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::run_control::{RunControl, RunPlan};
use super::workload::{WorkerGroup, Workload, WorkloadError, Xorshift};
use stopworld::{Gc, Mutator, cost_centre, traced};
use stopworld_platform::os::dynamic;
use stopworld_platform::os::timer::OwnTimer;
use stopworld_platform::sync::{AtomicBool, Ordering};

/// The workload; see the module documentation.
pub static WORKLOAD: Workload = Workload {
    name: "hammer",
    about: "threads that take the locks of malloc, stdio, dlsym and the unwinder during constant collections",
    default_depth: None,
    needs,
    pass,
};

traced! {
    /// A link of the short list that each round allocates.
    struct Bead {
        next: Option<Gc<Bead>>,
        number: u64,
    }
}

/// The number of collections in one pass.
const COLLECTIONS: u32 = 200;
/// The time between two collections.
const BREATH: Duration = Duration::from_micros(100);
/// The number of beads in a list.
const BEADS: u64 = 100;
/// The number of rounds after which a thread starts another thread.
const SPAWN_EVERY: u64 = 8;
/// The interval of the timer that interrupts a thread, in nanoseconds.
const TICK_NS: i64 = 1_000_000;

fn pass(m: &Mutator, run_control: &RunControl) -> Result<u64, WorkloadError> {
    let enough = Arc::new(AtomicBool::new(false));
    let mut workers = WorkerGroup::default();
    for index in 0..run_control.plan().threads.get() {
        let enough = Arc::clone(&enough);
        workers.start(m, run_control, &format!("hammer-{index}"), move |m, run_control| {
            hammer(m, run_control, &enough, index)
        })?;
    }
    let collected = collect(m, run_control);
    enough.store(true, Ordering::Relaxed);
    let verified = workers.join();
    collected.and(verified)
}

/// Collects repeatedly. The pause between two collections lets the other threads take their locks again. Without the pause they would all
/// wait for the lock that a collection holds, and none of them would be stopped while it holds one of the process's locks.
fn collect(m: &Mutator, run_control: &RunControl) -> Result<(), WorkloadError> {
    for _ in 0..COLLECTIONS {
        if run_control.is_over() {
            break;
        }
        m.collect()?;
        m.blocking(|| thread::sleep(BREATH));
    }
    Ok(())
}

fn hammer(m: &Mutator, run_control: &RunControl, enough: &AtomicBool, index: usize) -> Result<u64, WorkloadError> {
    // The kernel may refuse a timer. The thread then takes the locks without being interrupted.
    let _timer = OwnTimer::start(TICK_NS).ok();
    let mut disorder = Xorshift::new(index);
    let mut verified = 0;
    let mut round: u64 = 0;
    while !run_control.is_over() && !enough.load(Ordering::Relaxed) {
        verified += string_beads(m)?;
        malloc_and_free(&mut disorder);
        take_stdout(round, index);
        black_box(dynamic::is_known(c"malloc") && dynamic::is_known(c"no such symbol"));
        unwind();
        if round.is_multiple_of(SPAWN_EVERY) {
            spawn_and_join(m, round)?;
        }
        round += 1;
        m.safepoint();
    }
    Ok(verified)
}

/// Allocates a list and checks its length.
fn string_beads(m: &Mutator) -> Result<u64, WorkloadError> {
    let _cost = cost_centre!("string of beads");
    let mut list: Option<Gc<Bead>> = None;
    for number in 0..BEADS {
        list = Some(m.alloc(Bead { next: list, number })?);
    }
    if let Some(head) = list {
        m.name_object(head, "string of beads");
    }
    let mut left = BEADS;
    while let Some(bead) = list {
        left = left.checked_sub(1).filter(|&l| l == bead.number).ok_or_else(|| wrong(bead.number))?;
        list = bead.next;
    }
    if left == 0 { Ok(BEADS) } else { Err(wrong(left)) }
}

fn wrong(bead: u64) -> WorkloadError {
    WorkloadError::Wrong(format!("a list of {BEADS} beads is broken at {bead}"))
}

/// Allocates and frees memory, in sizes that malloc takes from the thread's cache, from the arena and from mmap.
fn malloc_and_free(disorder: &mut Xorshift) {
    for limit in [64, 4096, 64 << 10, 512 << 10] {
        let size = 1 + disorder.below(limit);
        black_box(Vec::<u8>::with_capacity(size));
    }
    // calloc and realloc take the same locks on other paths.
    let (from, to) = (1 + disorder.below(2000), 1 + disorder.below(200_000));
    let mut grown = vec![0u8; from];
    grown.resize(to, 1);
    black_box(grown);
}

/// Holds the lock of Rust's stdout during a malloc. Prints a line when the number of rounds is a power of four, to show
/// progress.
fn take_stdout(round: u64, index: usize) {
    let mut stdout = io::stdout().lock();
    let line = format!("hammer {index}: {round} rounds\n");
    let shown = round >= 64 && round.is_power_of_two() && round.trailing_zeros().is_multiple_of(2);
    let text = if shown { line.as_bytes() } else { &[] };
    // A closed standard output does not end the workload.
    let _ = stdout.write_all(text);
    let _ = stdout.flush();
}

/// Raises and catches a panic: unwinding takes the dynamic linker's lock. `resume_unwind` prints nothing.
fn unwind() {
    let caught = panic::catch_unwind(|| panic::resume_unwind(Box::new(())));
    debug_assert!(caught.is_err());
}

/// Starts and joins a thread that is not attached to the world, and one that is.
fn spawn_and_join(m: &Mutator, round: u64) -> Result<(), WorkloadError> {
    let stranger = thread::spawn(move || black_box(format!("stranger {round}")).len());
    m.blocking(|| stranger.join()).map_err(|panic| super::workload::panicked(&*panic))?;
    // SAFETY: `string_beads` keeps its list on the stack.
    let member = unsafe { m.world().spawn("hammered", |m| string_beads(m).map(|_| ())) }?;
    member.join().map_err(|panic| super::workload::panicked(&*panic))?
}

/// Returns the heap size for lists of a few kilobytes on every thread, and on the threads that these start.
fn needs(plan: &RunPlan) -> usize {
    plan.threads.get() * 64 * 1024 + (8 << 20)
}
