//! The bare limit of stopping and restarting: tgkill and futex without a collector. This is the same loop as the protocol `bare` of
//! `benches/peers/stwproto.c`, compiled by the compiler that compiles the collector.
//!
//! A counter tracks the threads that have not stopped yet; the last thread to stop wakes the collector's futex. Every thread waits on its
//! own futex word. The restart wakes each thread, and the threads do not acknowledge the restart.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::threads::{Mode, ThreadGroup};
use super::{Failure, Rounds, median, nanoseconds, number, percentile};

/// The data of a thread that its signal handler reads and writes, on a separate cache line.
#[repr(align(128))]
#[derive(Default)]
struct Stopped {
    tid: AtomicI32,
    stack_pointer: AtomicUsize,
    /// The latest generation that may resume.
    go: AtomicU32,
    /// The number of stops that the thread has completed.
    left: AtomicU64,
}

static OUTSTANDING: AtomicU32 = AtomicU32::new(0);
static GENERATION: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The thread's record. Its initial value is constant and it has no destructor, so that the handler can read it without lazy
    /// initialisation.
    static SELF: Cell<*const Stopped> = const { Cell::new(ptr::null()) };
}

pub fn run(arguments: &[&str], mut rounds: Rounds) -> Result<(), Failure> {
    let threads: usize = number(arguments, 0, "threads")?;
    let mode = Mode::parse(arguments.get(1).ok_or("the mode is missing")?)?;
    let stops: usize = number(arguments, 2, "rounds")?;
    if arguments.get(3) != Some(&"bare") {
        return Err("the protocol must be bare; stwproto.c has others".into());
    }
    install_handler();
    let crew = Arc::new(ThreadGroup::new(threads, mode)?);
    let stopped: Arc<[Stopped]> = (0..threads).map(|_| Stopped::default()).collect();
    for index in 0..threads {
        let (crew, stopped) = (crew.clone(), stopped.clone());
        std::thread::Builder::new().stack_size(256 * 1024).spawn(move || {
            let me = &stopped[index];
            SELF.set(me);
            // SAFETY: gettid has no arguments and can't fail.
            me.tid.store(unsafe { libc::gettid() }, Ordering::Release);
            crew.live(index);
        })?;
    }
    crew.wait_until_settled();
    while rounds.next() {
        let (mut stop_ns, mut restart_ns) = (Vec::new(), Vec::new());
        crew.let_them_run();
        for number in 0..=stops {
            let left_before: Vec<u64> = stopped.iter().map(|thread| thread.left.load(Ordering::Relaxed)).collect();
            let start = Instant::now();
            stop(&stopped);
            let stop_took = nanoseconds(start);
            let start = Instant::now();
            restart(&stopped);
            let restart_took = nanoseconds(start);
            for (thread, before) in stopped.iter().zip(left_before) {
                while thread.left.load(Ordering::Relaxed) == before {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
            // the first one warms up
            if number > 0 {
                stop_ns.push(stop_took);
                restart_ns.push(restart_took);
            }
            std::thread::sleep(Duration::from_millis(2));
            crew.wait_until_all_ran();
        }
        crew.make_them_rest();
        println!(
            "program=stwproto protocol=bare threads={threads} mode={} n={stops} stop_us={:.2} stop_p99_us={:.2} \
             restart_us={:.2} restart_p99_us={:.2}",
            arguments[1],
            median(&mut stop_ns) / 1e3,
            percentile(&mut stop_ns, 0.99) / 1e3,
            median(&mut restart_ns) / 1e3,
            percentile(&mut restart_ns, 0.99) / 1e3,
        );
    }
    // the threads never end by themselves
    std::process::exit(0)
}

fn stop(threads: &[Stopped]) {
    OUTSTANDING.store(threads.len() as u32, Ordering::Relaxed);
    GENERATION.fetch_add(1, Ordering::Release);
    // SAFETY: getpid has no arguments and can't fail.
    let process = unsafe { libc::getpid() };
    for thread in threads {
        // SAFETY: tgkill takes three integers; the thread lives until the process ends.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread.tid.load(Ordering::Acquire), libc::SIGPWR) };
    }
    loop {
        match OUTSTANDING.load(Ordering::Acquire) {
            0 => break,
            outstanding => futex_wait(&OUTSTANDING, outstanding),
        }
    }
}

fn restart(threads: &[Stopped]) {
    let generation = GENERATION.load(Ordering::Relaxed);
    for thread in threads {
        thread.go.store(generation, Ordering::Release);
        futex_wake(&thread.go);
    }
}

extern "C" fn on_suspend(_signal: libc::c_int) {
    // SAFETY: errno's address is valid for the life of the thread.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: set before the thread can be signalled (its tid is published afterwards), and never freed: the
    // thread records live until the process ends.
    if let Some(me) = unsafe { SELF.get().as_ref() } {
        let generation = GENERATION.load(Ordering::Acquire);
        me.stack_pointer.store((&raw const errno).addr(), Ordering::Relaxed);
        if OUTSTANDING.fetch_sub(1, Ordering::AcqRel) == 1 {
            futex_wake(&OUTSTANDING);
        }
        loop {
            match me.go.load(Ordering::Acquire) {
                go if go == generation => break,
                go => futex_wait(&me.go, go),
            }
        }
        me.left.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn install_handler() {
    // SAFETY: a zeroed sigaction is valid; the pointers outlive the calls; the handler makes only async-signal-safe
    // calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_suspend as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(libc::SIGPWR, &action, ptr::null_mut());
    }
}

fn futex_wait(word: &AtomicU32, expected: u32) {
    let forever = ptr::null::<libc::timespec>();
    // SAFETY: the word outlives the call; no timeout.
    unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, expected, forever);
    }
}

fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
    }
}
