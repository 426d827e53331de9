//! What the debugger's protocol costs beside the system calls that nobody can do without: `cargo bench --bench ptrace`.
//!
//! A program with 8 and then with 128 sleeping mutators collects without end. In turns, one debugger stops its world by the contract, and
//! a bare loop stops the same threads by nothing but what any tracer must do: interrupt each, wait for each, read the general registers and
//! the extended state of each, write both and one word into the program by one call. The numbers are medians, in microseconds,
//! from the notification to its acknowledgement for the one, for one round of the loop for the other.
//!
//! `-- --quick`: a fifth of the stops. Ends with a failure if the limit does not hold.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use stopworld::World;
use stopworld::debugger::ptrace::{Debugger, Event, OnDeath, Options};

/// What the protocol may cost, of the bare loop.
const LIMIT: f64 = 1.3;
const TURNS: usize = 5;
/// Between two stops: until all have gone back to sleep.
const PAUSE: Duration = Duration::from_millis(3);

/// The program: as many sleeping mutators, and a thread that collects.
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

/// The times of so many stops by the contract.
fn by_contract(pid: i32, stops: usize, on_death: OnDeath, into: &mut Vec<f64>) {
    let mut debugger = Debugger::attach(pid, Options { on_death, ..Options::default() }).expect("attached");
    let mut seen = 0;
    while seen < stops {
        if let Some(Event::WorldStopped { .. }) = debugger.poll(Duration::from_secs(10)).expect("served") {
            seen += 1;
        }
    }
    into.extend(debugger.statistics().stop_ns.iter().map(|ns| *ns as f64 / 1000.0));
    debugger.detach().expect("detached");
}

/// The times of so many rounds of the bare loop over all threads but the first one, which collects and stands meanwhile.
fn bare(pid: i32, rounds: usize, into: &mut Vec<f64>) {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let threads: Vec<i32> = ids.filter(|tid| *tid != pid).collect();
    bare::seize(pid);
    threads.iter().for_each(|tid| bare::seize(*tid));
    let mut room = bare::room(threads.len());
    bare::halt(&[pid]);
    for _ in 0..rounds {
        let begin = Instant::now();
        bare::stop(&threads, &mut room);
        into.push(begin.elapsed().as_secs_f64() * 1e6);
        threads.iter().for_each(|tid| bare::go_on(*tid));
        std::thread::sleep(PAUSE);
    }
    bare::halt(&threads);
    threads.iter().chain([&pid]).for_each(|tid| bare::detach(*tid));
}

/// The bare loop's system calls.
mod bare {
    const NT_PRSTATUS: usize = 1;
    const NT_X86_XSTATE: usize = 0x202;
    const GENERAL: usize = size_of::<libc::user_regs_struct>();
    /// Of this machine's extended state no more is looked at.
    const EXTENDED: usize = 4096;

    fn request(request: libc::c_uint, tid: i32, address: usize, data: usize) {
        // SAFETY: requests that write nothing here, or into the buffer that `data` describes.
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

    fn regset(tid: i32, which: usize, into: &mut [u8]) -> usize {
        let mut piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        request(libc::PTRACE_GETREGSET, tid, which, &raw mut piece as usize);
        piece.iov_len
    }

    /// Room for the registers of so many threads.
    pub fn room(threads: usize) -> Vec<u8> {
        vec![0; threads * (GENERAL + EXTENDED)]
    }

    pub fn halt(threads: &[i32]) {
        threads.iter().for_each(|tid| request(libc::PTRACE_INTERRUPT, *tid, 0, 0));
        for tid in threads {
            let mut status = 0;
            // SAFETY: the kernel stores one int. A suspend signal may come first, and is passed on.
            while unsafe { libc::waitpid(*tid, &mut status, libc::__WALL) } == *tid && status >> 16 == 0 {
                request(libc::PTRACE_CONT, *tid, 0, libc::WSTOPSIG(status) as usize);
            }
        }
    }

    pub fn stop(threads: &[i32], room: &mut [u8]) {
        halt(threads);
        let (mut local, mut remote) = (Vec::new(), Vec::new());
        for (tid, bytes) in threads.iter().zip(room.chunks_exact_mut(GENERAL + EXTENDED)) {
            let (general, extended) = bytes.split_at_mut(GENERAL);
            regset(*tid, NT_PRSTATUS, general);
            let len = GENERAL + regset(*tid, NT_X86_XSTATE, extended);
            let rsp = u64::from_le_bytes(std::array::from_fn(|i| general[19 * 8 + i])) as usize;
            let below = (rsp - 128 - len) & !63;
            local.push(libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len });
            remote.push(libc::iovec { iov_base: below as *mut _, iov_len: len });
            // And one word, as `stack_ptr` is one.
            local.push(libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 8 });
            remote.push(libc::iovec { iov_base: (below - 64) as *mut _, iov_len: 8 });
        }
        let count = local.len() as u64;
        // SAFETY: dead memory below the red zones of threads that stand.
        let written = unsafe { libc::process_vm_writev(threads[0], local.as_ptr(), count, remote.as_ptr(), count, 0) };
        assert!(written > 0, "{}", std::io::Error::last_os_error());
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
    let stops = if arguments.iter().any(|argument| argument == "--quick") { 40 } else { 200 };
    println!("world stop through ptrace, median of {} , microseconds", TURNS * stops);
    println!("  threads   bare loop   run on if we die   ratio   park if we die   ratio   limit");
    let mut holds = true;
    for threads in [8, 128] {
        let program = Program::start(threads);
        let (mut loops, mut runs, mut parks) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TURNS {
            bare(program.pid(), stops, &mut loops);
            by_contract(program.pid(), stops, OnDeath::RunOn, &mut runs);
            by_contract(program.pid(), stops, OnDeath::Park, &mut parks);
        }
        let (loops, runs, parks) = (median(&mut loops), median(&mut runs), median(&mut parks));
        let (of_runs, of_parks) = (runs / loops, parks / loops);
        println!("  {threads:>7} {loops:>11.1} {runs:>18.1} {of_runs:>7.2} {parks:>16.1} {of_parks:>7.2} {LIMIT:>7.2}");
        holds &= of_parks <= LIMIT;
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
