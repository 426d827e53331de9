//! The cost of the debugger protocol, compared with the minimum of system calls: `cargo bench --bench ptrace`.
//!
//! A program with 8, and then with 128 sleeping mutators collects repeatedly. In turns, a debugger stops its world by the contract, and a
//! bare loop stops the same threads with only the calls that any tracer needs: interrupt each thread, wait for each, read the general
//! registers and the extended state of each, and write both and one word into the program with one call. A debugger whose
//! threads park if it dies is compared with a loop that also writes the general registers of each thread, since that
//! debugger has to redirect the threads. The numbers are medians in microseconds: for the debugger from the notification to its acknowledgement,
//! for the bare loop one round.
//!
//! Other load on the machine changes from second to second. So the four measurements alternate in short turns, each turn gives its
//! ratios, and the limit applies to the median of the ratios.
//!
//! `-- --quick` makes a fifth of the stops. Exits with a failure if the limit is exceeded.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use stopworld::World;
use stopworld_ptrace::{Debugger, DebuggerOptions, Event, OnDeath};

/// The maximum cost of the protocol, relative to the bare loop.
const LIMIT: f64 = 1.3;
const TURNS: usize = 25;
/// The pause between two stops, in which all threads go back to sleep.
const PAUSE: Duration = Duration::from_millis(3);

/// The debugged program: `threads` sleeping mutators, and a thread that collects.
fn target(threads: usize) -> ! {
    let world = World::builder().markers(1).build().expect("a world");
    for _ in 0..threads {
        // SAFETY: the thread has no references.
        let spawned = unsafe { world.spawn("sleeper", |_| std::thread::sleep(Duration::from_secs(100_000))) };
        std::mem::forget(spawned.expect("a thread"));
    }
    println!("ready");
    loop {
        world.collect().expect("a collection");
        std::thread::sleep(PAUSE);
    }
}

struct Program(Child);

impl Program {
    fn start(threads: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let command = command.args(["--target", &threads.to_string()]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("its first line");
        Self(child)
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the median time of `stops` stops by the contract.
fn by_contract(pid: i32, stops: usize, on_death: OnDeath) -> f64 {
    let mut debugger =
        Debugger::attach(pid, DebuggerOptions { on_death, ..DebuggerOptions::default() }).expect("attached");
    let mut seen = 0;
    while seen < stops {
        if let Some(Event::WorldStopped { .. }) = debugger.poll(Duration::from_secs(10)).expect("served") {
            seen += 1;
        }
    }
    let mut times: Vec<f64> = debugger.statistics().stop_ns.iter().map(|ns| *ns as f64 / 1000.0).collect();
    debugger.detach().expect("detached");
    median(&mut times)
}

/// Returns the median time of `rounds` rounds of the bare loop. It stops all threads except the first one, which collects and stays
/// stopped during the measurement.
fn bare(pid: i32, rounds: usize, writes: bare::Writes) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let threads: Vec<i32> = ids.filter(|tid| *tid != pid).collect();
    bare::seize(pid);
    threads.iter().for_each(|tid| bare::seize(*tid));
    let mut room = bare::room(threads.len());
    bare::halt(&[pid]);
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let begin = Instant::now();
        bare::stop(&threads, &mut room, writes);
        times.push(begin.elapsed().as_secs_f64() * 1e6);
        threads.iter().for_each(|tid| bare::go_on(*tid));
        std::thread::sleep(PAUSE);
    }
    bare::halt(&threads);
    threads.iter().chain([&pid]).for_each(|tid| bare::detach(*tid));
    median(&mut times)
}

/// The bare loop's system calls.
mod bare {
    const NT_PRSTATUS: usize = 1;
    const NT_X86_XSTATE: usize = 0x202;
    const GENERAL: usize = size_of::<libc::user_regs_struct>();
    /// The maximum number of bytes of extended state that are read.
    const EXTENDED: usize = 4096;

    /// The data that a round writes.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub enum Writes {
        Memory,
        /// The memory, and the unchanged general registers of each thread.
        Registers,
    }

    fn request(request: libc::c_uint, tid: i32, address: usize, data: usize) {
        // SAFETY: these requests write nothing in this process, or only to the buffer that `data` describes.
        let result = unsafe { libc::ptrace(request, tid, address, data) };
        assert_ne!(result, -1, "request {request:#x}: {}", std::io::Error::last_os_error());
    }

    pub fn seize(tid: i32) {
        request(libc::PTRACE_SEIZE, tid, 0, 0);
    }

    pub fn go_on(tid: i32) {
        request(libc::PTRACE_CONT, tid, 0, 0);
    }

    pub fn detach(tid: i32) {
        request(libc::PTRACE_DETACH, tid, 0, 0);
    }

    fn regset(what: libc::c_uint, tid: i32, which: usize, bytes: &mut [u8]) -> usize {
        let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        request(what, tid, which, &raw mut piece as usize);
        piece.iov_len
    }

    /// Allocates a buffer for the registers of `threads` threads.
    pub fn room(threads: usize) -> Vec<u8> {
        vec![0; threads * (GENERAL + EXTENDED)]
    }

    pub fn halt(threads: &[i32]) {
        threads.iter().for_each(|tid| request(libc::PTRACE_INTERRUPT, *tid, 0, 0));
        for tid in threads {
            let mut status = 0;
            // SAFETY: the kernel stores one int. The thread may first stop for a suspend signal, which is passed on.
            while unsafe { libc::waitpid(*tid, &mut status, libc::__WALL) } == *tid && status >> 16 == 0 {
                request(libc::PTRACE_CONT, *tid, 0, libc::WSTOPSIG(status) as usize);
            }
        }
    }

    pub fn stop(threads: &[i32], room: &mut [u8], writes: Writes) {
        halt(threads);
        let (mut local, mut remote) = (Vec::new(), Vec::new());
        for (tid, bytes) in threads.iter().zip(room.chunks_exact_mut(GENERAL + EXTENDED)) {
            let (general, extended) = bytes.split_at_mut(GENERAL);
            regset(libc::PTRACE_GETREGSET, *tid, NT_PRSTATUS, general);
            let len = GENERAL + regset(libc::PTRACE_GETREGSET, *tid, NT_X86_XSTATE, extended);
            let rsp = u64::from_le_bytes(std::array::from_fn(|i| general[19 * 8 + i])) as usize;
            let below = (rsp - 128 - len) & !63;
            local.push(libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len });
            remote.push(libc::iovec { iov_base: below as *mut _, iov_len: len });
            // One more word, like `stack_ptr`, is written.
            local.push(libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 8 });
            remote.push(libc::iovec { iov_base: (below - 64) as *mut _, iov_len: 8 });
        }
        let count = local.len() as u64;
        // SAFETY: unused memory below the red zones of stopped threads.
        let written = unsafe { libc::process_vm_writev(threads[0], local.as_ptr(), count, remote.as_ptr(), count, 0) };
        assert!(written > 0, "{}", std::io::Error::last_os_error());
        if writes == Writes::Registers {
            for (tid, bytes) in threads.iter().zip(room.chunks_exact_mut(GENERAL + EXTENDED)) {
                // The segment registers, which follow rsp, are not written.
                regset(libc::PTRACE_SETREGSET, *tid, NT_PRSTATUS, &mut bytes[..20 * 8]);
            }
        }
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--target") {
        target(arguments[at + 1].parse().expect("a number of threads"));
    }
    let stops = if arguments.iter().any(|argument| argument == "--quick") { 8 } else { 40 };
    println!("world stop through ptrace, {TURNS} turns of {stops} stops, microseconds");
    println!(
        "  threads            bare loop    OnDeath::RunOn   ratio    bare + registers    OnDeath::Park   ratio   limit"
    );
    let mut holds = true;
    for threads in [8, 128] {
        let program = Program::start(threads);
        let pid = program.pid();
        let turn = |_| {
            [
                bare(pid, stops, bare::Writes::Memory),
                by_contract(pid, stops, OnDeath::RunOn),
                bare(pid, stops, bare::Writes::Registers),
                by_contract(pid, stops, OnDeath::Park),
            ]
        };
        let turns: Vec<[f64; 4]> = (0..TURNS).map(turn).collect();
        let of = |what: &dyn Fn(&[f64; 4]) -> f64| median(&mut turns.iter().map(what).collect::<Vec<_>>());
        let [loops, runs, redirected, parks] = [0, 1, 2, 3].map(|which| of(&|turn| turn[which]));
        let (of_runs, of_parks) = (of(&|turn| turn[1] / turn[0]), of(&|turn| turn[3] / turn[2]));
        println!(
            "  {threads:>7} {loops:>20.1} {runs:>18.1} {of_runs:>7.2} {redirected:>18.1} {parks:>16.1} {of_parks:>7.2} {LIMIT:>7.2}"
        );
        holds &= of_runs <= LIMIT && of_parks <= LIMIT;
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
