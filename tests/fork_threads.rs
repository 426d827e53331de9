//! A fork while threads of Rust's std start and exit (`.fork.threads`).
//!
//! std records each thread's guard page under a lock of its own. A child forked while another thread holds that lock cannot start a thread
//! through std. In this program `malloc` is slow on new threads, and std calls it while it holds the lock; so at many forks some thread
//! holds it.

mod hazard;

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use stopworld::{Leaf, World};

/// Whether `malloc` is slow on new threads.
static SLOW: AtomicBool = AtomicBool::new(false);
/// The number of threads that live at once. std's map of threads has eleven entries per node, so it grows and shrinks by several nodes.
const NEWBORN: usize = 60;
/// A node of that map is larger than this. Everything else that a new thread allocates is smaller.
const NODE_BYTES: usize = 400;

thread_local! {
    static IS_NEWBORN: Cell<bool> = const { Cell::new(true) };
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
}

#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    if SLOW.load(Ordering::Relaxed) && size >= NODE_BYTES && IS_NEWBORN.get() {
        let time = libc::timespec { tv_sec: 0, tv_nsec: 500_000 };
        // SAFETY: a valid time; the remaining time is not requested.
        unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
    }
    // SAFETY: libc's own function.
    unsafe { __libc_malloc(size) }
}

/// Runs a finalizer and two markers in the child, each on a thread that is started in the child.
fn live_on(world: &World) -> Option<()> {
    static FINALIZED: AtomicUsize = AtomicUsize::new(0);
    SLOW.store(false, Ordering::Relaxed);
    let other = World::builder().markers(2).build().ok()?;
    // SAFETY: every Gc is a local variable.
    let m = unsafe { world.attach("forked") }.ok()?;
    for _ in 0..3 {
        m.set_finalizer(m.alloc(Leaf(1_u64)).ok()?, |_, _| _ = FINALIZED.fetch_add(1, Ordering::Relaxed)).ok()?;
    }
    while FINALIZED.load(Ordering::Relaxed) == 0 {
        m.collect().ok()?;
    }
    other.collect().ok().map(drop)
}

#[test]
fn the_child_of_a_fork_among_newborn_threads_starts_the_collectors_own() {
    IS_NEWBORN.set(false);
    let world = World::builder().build().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            IS_NEWBORN.set(false);
            while !is_over.load(Ordering::Relaxed) {
                let all = Barrier::new(NEWBORN);
                std::thread::scope(|wave| (0..NEWBORN).for_each(|_| drop(wave.spawn(|| all.wait()))));
            }
        });
        SLOW.store(true, Ordering::Relaxed);
        let failed = (0..100).map(|_| hazard::fork(|| live_on(&world).map_or(1, |()| 0))).find(|code| *code != 0);
        SLOW.store(false, Ordering::Relaxed);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(failed, None, "the child of a fork failed, or hung until SIGALRM");
    });
}
