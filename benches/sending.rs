//! Stopping and restarting one thread after the other, or in a tree: `cargo bench --bench sending`.
//!
//! In a tree, the thread that collects signals a few threads, and the handler of each signals the next ones before the thread waits. The restart
//! works in the same way: each thread that is woken wakes the next ones. So the number of steps grows with the logarithm of the number of
//! threads, if there are as many processors as threads.
//!
//! There are two parts. The experiment runs each order here, with threads that are blocked in `read`, and measures the costs of a signal and of a
//! wake. The simulation computes from these costs how long a stop and a restart would take on machines with more processors. Nothing
//! here uses the collector: it has the same protocol of tgkill and futex, one thread after the other.
//!
//! `-- --quick` makes few rounds, as a smoke test.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// In which order threads are signalled and woken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// The thread that collects does it all. In the experiment, `fan_out` is larger than the number of threads.
    OneByOne,
    /// Each thread signals or wakes this many others.
    Tree(usize),
    /// Signals as `OneByOne`; all threads wait on one futex word, and one system call wakes all.
    OneWord,
}

impl Sending {
    const ALL: [Self; 5] = [Self::OneByOne, Self::Tree(2), Self::Tree(4), Self::Tree(8), Self::OneWord];

    fn name(self) -> String {
        match self {
            Self::OneByOne => "one by one".into(),
            Self::Tree(fan_out) => format!("tree of {fan_out}"),
            Self::OneWord => "one word".into(),
        }
    }

    /// The number of threads to which one thread sends, or that are sent to by the thread that collects, if there are `threads`.
    fn fan_out(self, threads: usize) -> usize {
        if let Self::Tree(fan_out) = self { fan_out } else { threads }
    }
}

/// The children of a sender in a tree of `threads` threads. Sender 0 is the thread that collects, and sender n + 1 is thread n.
fn children(sender: usize, fan_out: usize, threads: usize) -> std::ops::Range<usize> {
    let first = sender * fan_out;
    first.min(threads)..(first + fan_out).min(threads)
}

/// The data of a thread, on a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Record {
    tid: AtomicI32,
    /// The last stop that is over for this thread.
    go: AtomicU32,
}

static RECORDS: OnceLock<Vec<Record>> = OnceLock::new();
static FAN_OUT: AtomicUsize = AtomicUsize::new(0);
/// 1: all threads wait on [`EVERYONE`].
static SHARED_WORD: AtomicU32 = AtomicU32::new(0);
static EVERYONE: AtomicU32 = AtomicU32::new(0);
static STOP: AtomicU32 = AtomicU32::new(0);
/// The number of threads that have not stopped yet.
static RUNNING: AtomicU32 = AtomicU32::new(0);
/// The number of threads that have not continued yet.
static WAITING: AtomicU32 = AtomicU32::new(0);
/// When the last thread continued, in nanoseconds of the monotonic clock.
static CONTINUED_AT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// One more than the thread's index. Its initial value is constant and it has no destructor, so that the handler can read it.
    static SELF: Cell<usize> = const { Cell::new(0) };
}

extern "C" fn on_suspend(_signal: libc::c_int) {
    // SAFETY: errno's address is valid for the life of the thread.
    let errno = unsafe { *libc::__errno_location() };
    if let (me @ 1.., Some(records)) = (SELF.get(), RECORDS.get()) {
        // Acquire: pairs with the Release by which the stop began.
        let stop = STOP.load(Ordering::Acquire);
        let next = children(me, FAN_OUT.load(Ordering::Relaxed), records.len());
        signal(&records[next.clone()]);
        if RUNNING.fetch_sub(1, Ordering::AcqRel) == 1 {
            futex_wake(&RUNNING, 1);
        }
        let is_shared = SHARED_WORD.load(Ordering::Relaxed) == 1;
        let word = if is_shared { &EVERYONE } else { &records[me - 1].go };
        loop {
            // Acquire: pairs with the Release of `wake`.
            match word.load(Ordering::Acquire) {
                go if go == stop => break,
                go => futex_wait(word, go),
            }
        }
        if !is_shared {
            wake(&records[next], stop);
        }
        CONTINUED_AT.fetch_max(now_ns(), Ordering::Relaxed);
        WAITING.fetch_sub(1, Ordering::Release);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn signal(records: &[Record]) {
    for record in records {
        // SAFETY: tgkill takes three integers; the thread lives until the process ends.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), record.tid.load(Ordering::Relaxed), libc::SIGPWR) };
    }
}

fn wake(records: &[Record], stop: u32) {
    for record in records {
        record.go.store(stop, Ordering::Release);
        futex_wake(&record.go, 1);
    }
}

fn futex_wait(word: &AtomicU32, expected: u32) {
    let forever = ptr::null::<libc::timespec>();
    // SAFETY: the word outlives the call; no timeout.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, expected, forever) };
}

fn futex_wake(word: &AtomicU32, threads: i32) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, threads) };
}

fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec. The function is async-signal-safe.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Makes threads that wait in `read` for ever.
fn make_threads(threads: usize) -> &'static [Record] {
    let records = RECORDS.get_or_init(|| (0..threads).map(|_| Record::default()).collect());
    // SAFETY: a zeroed sigaction is valid; the pointers outlive the calls; the handler makes only async-signal-safe calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_suspend as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(libc::SIGPWR, &action, ptr::null_mut());
    }
    let mut pipe = [0; 2];
    // SAFETY: there is room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0, "a pipe");
    for (index, record) in records.iter().enumerate() {
        let body = move || {
            SELF.set(index + 1);
            // SAFETY: gettid has no arguments and can't fail.
            record.tid.store(unsafe { libc::gettid() }, Ordering::Release);
            let mut byte = 0_u8;
            // SAFETY: `byte` has room for the one byte that is read.
            unsafe { libc::read(pipe[0], (&raw mut byte).cast(), 1) };
        };
        std::thread::Builder::new().stack_size(256 << 10).spawn(body).expect("a thread");
    }
    while records.iter().any(|record| record.tid.load(Ordering::Acquire) == 0) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(50));
    records
}

/// The times of one stop and restart, in microseconds.
#[derive(Clone, Copy, Default)]
struct Times {
    /// Until all threads had stopped.
    stop: f64,
    /// The part of it in which the thread that collects sent signals.
    sending: f64,
    /// Until the thread that collects had woken its part.
    waking: f64,
    /// Until all threads continued.
    restart: f64,
}

fn stop_and_restart(records: &[Record], how: Sending) -> Times {
    let threads = records.len();
    let fan_out = how.fan_out(threads);
    FAN_OUT.store(fan_out, Ordering::Relaxed);
    SHARED_WORD.store(u32::from(how == Sending::OneWord), Ordering::Relaxed);
    RUNNING.store(threads as u32, Ordering::Relaxed);
    WAITING.store(threads as u32, Ordering::Relaxed);
    CONTINUED_AT.store(0, Ordering::Relaxed);
    // Release: pairs with the Acquire in the handler.
    let stop = STOP.fetch_add(1, Ordering::Release) + 1;
    let first = &records[children(0, fan_out, threads)];
    let begin = Instant::now();
    signal(first);
    let sending = microseconds(begin);
    loop {
        // Acquire: pairs with the AcqRel in the handler.
        match RUNNING.load(Ordering::Acquire) {
            0 => break,
            running => futex_wait(&RUNNING, running),
        }
    }
    let stopped = microseconds(begin);
    let begin = (Instant::now(), now_ns());
    if how == Sending::OneWord {
        EVERYONE.store(stop, Ordering::Release);
        futex_wake(&EVERYONE, i32::MAX);
    } else {
        wake(first, stop);
    }
    let waking = microseconds(begin.0);
    // Acquire: pairs with the Release in the handler.
    while WAITING.load(Ordering::Acquire) != 0 {
        std::thread::sleep(Duration::from_micros(100));
    }
    let restart = CONTINUED_AT.load(Ordering::Relaxed).saturating_sub(begin.1) as f64 / 1e3;
    // The threads are back in `read`.
    std::thread::sleep(Duration::from_millis(1));
    Times { stop: stopped, sending, waking, restart }
}

fn microseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the medians of `rounds` rounds in each order. The orders take turns.
fn measure(records: &[Record], rounds: usize) -> Vec<Times> {
    let mut samples = vec![Vec::new(); Sending::ALL.len()];
    for _ in 0..=rounds {
        for (samples, how) in samples.iter_mut().zip(Sending::ALL) {
            samples.push(stop_and_restart(records, how));
        }
    }
    let of = |samples: &[Times], pick: fn(&Times) -> f64| median(samples[1..].iter().map(pick).collect());
    let medians = samples.iter().map(|samples| Times {
        stop: of(samples, |times| times.stop),
        sending: of(samples, |times| times.sending),
        waking: of(samples, |times| times.waking),
        restart: of(samples, |times| times.restart),
    });
    medians.collect()
}

/// What the steps cost, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// A system call that signals a thread or wakes it.
    send: f64,
    /// From then until the thread runs, on a processor that has nothing else to do.
    arrive: f64,
    /// What a thread does in addition to sending: its handler, its acknowledgement, its wait.
    handle: f64,
    /// An acknowledgement takes the cache line of the counter from the processor that acknowledged before.
    line: f64,
}

/// Simulates sending to `threads` threads on `processors` processors, all of them idle, and returns the microseconds until the last thread has
/// acknowledged. Thread n runs on processor n + 1 modulo their number. A processor does one thing at a time.
fn simulate(costs: Costs, threads: usize, processors: usize, fan_out: usize) -> f64 {
    let mut free_at = vec![0.0_f64; processors];
    let mut line_free_at = 0.0_f64;
    let mut last = 0.0_f64;
    // The senders by the time at which they can begin, in picoseconds, which are whole numbers and so can be ordered.
    let mut senders = BinaryHeap::from([Reverse((0_u64, 0_usize))]);
    while let Some(Reverse((ready, sender))) = senders.pop() {
        let processor = sender % processors;
        let mut now = (ready as f64 / 1e6).max(free_at[processor]);
        for child in children(sender, fan_out, threads) {
            now += costs.send;
            senders.push(Reverse((((now + costs.arrive) * 1e6) as u64, child + 1)));
        }
        if sender > 0 {
            now = (now + costs.handle).max(line_free_at) + costs.line;
            line_free_at = now;
            last = last.max(now);
        }
        free_at[processor] = now;
    }
    last
}

/// The time that a cache line takes from one processor to another: half of a round trip between two threads.
fn line_cost(rounds: u32) -> f64 {
    static TURN: AtomicU32 = AtomicU32::new(0);
    TURN.store(0, Ordering::Relaxed);
    let wait_for = |turn: u32| {
        // Acquire: pairs with the Release of the other thread's store.
        while TURN.load(Ordering::Acquire) != turn {
            std::hint::spin_loop();
        }
    };
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..rounds {
                wait_for(2 * turn + 1);
                TURN.store(2 * turn + 2, Ordering::Release);
            }
        });
        for turn in 0..rounds {
            wait_for(2 * turn);
            TURN.store(2 * turn + 1, Ordering::Release);
        }
        wait_for(2 * rounds);
    });
    microseconds(begin) / f64::from(rounds) / 2.0
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    // A child measures one number of threads: they never end.
    if let Some(count) = std::env::var("SENDING_THREADS").ok().and_then(|text| text.parse().ok()) {
        let rounds = arguments.next().and_then(|text| text.parse().ok()).expect("the number of rounds");
        for (how, times) in Sending::ALL.iter().zip(measure(make_threads(count), rounds)) {
            println!(
                "{}\t{:.2}\t{:.2}\t{:.2}\t{:.2}",
                how.name(),
                times.stop,
                times.sending,
                times.waking,
                times.restart
            );
        }
        std::process::exit(0);
    }
    let quick = arguments.any(|argument| argument == "--quick");
    let counts: &[usize] = if quick { &[1, 8] } else { &[1, 8, 32, 128, 512] };
    println!("Blocked threads on this machine, medians in µs");
    println!(
        "{:>8}  {:12} {:>8} {:>12} {:>8} {:>12}",
        "threads", "order", "stop", "of that sent", "woken", "all continue"
    );
    let (mut one, mut many) = ([0.0; 4], [0.0; 4]);
    for &count in counts {
        let rounds = if quick { 3 } else { 15 + 400 / count };
        for (order, times) in in_a_child(count, rounds) {
            let [stop, sending, waking, restart] = times;
            println!("{count:>8}  {order:12} {stop:8.1} {sending:12.1} {waking:8.1} {restart:12.1}");
            if order == Sending::OneByOne.name() {
                one = if count == 1 { times } else { one };
                many = times.map(|time| time / count as f64);
            }
        }
    }
    // With many threads, one processor sends while the other runs the handlers, so the slower of the two determines the time of each thread. With
    // one thread on an idle processor, the rest is the way there.
    let costs = |send: f64, all: f64, of_many: f64, line: f64| {
        let handle = of_many.max(send);
        Costs { send, arrive: (all - send - handle).max(0.0), handle, line }
    };
    let stop = costs(many[1], one[0], many[0], line_cost(if quick { 1_000 } else { 200_000 }));
    let restart = costs(many[2], one[3], many[3], 0.0);
    println!("\nSimulated from these costs (µs): {stop:.2?} for a stop, {restart:.2?} for a restart");
    println!("{:>10} {:>8}  {:12} {:>8} {:>8}", "processors", "threads", "order", "stop", "restart");
    for processors in [2, 16, 64, 256, 1024] {
        for threads in [processors - 1, 4 * processors] {
            for how in [Sending::OneByOne, Sending::Tree(2), Sending::Tree(4), Sending::Tree(8)] {
                let time = |costs| simulate(costs, threads, processors, how.fan_out(threads));
                println!("{processors:>10} {threads:>8}  {:12} {:8.1} {:8.1}", how.name(), time(stop), time(restart));
            }
        }
    }
}

/// Measures in a child process. Returns the name of each order, and its times.
fn in_a_child(threads: usize, rounds: usize) -> Vec<(String, [f64; 4])> {
    let program = std::env::current_exe().expect("the path of this program");
    let output = std::process::Command::new(program)
        .arg(rounds.to_string())
        .env("SENDING_THREADS", threads.to_string())
        .output()
        .expect("a child");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines = text.lines().map(|line| {
        let mut fields = line.split('\t');
        let name = fields.next().expect("a name").to_owned();
        let mut next = || fields.next().expect("four times").parse().expect("a time");
        (name, [next(), next(), next(), next()])
    });
    lines.collect()
}
