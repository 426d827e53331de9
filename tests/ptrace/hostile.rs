//! A program whose descriptor, lists and notifications are damaged, or are a trap for debuggers. The debugger reports
//! what is wrong, neither crashes nor hangs, and the program continues.
//!
//! The program is this test, run as a process of its own; it damages itself through /proc/self/mem before it reports that it is ready.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::tasks;
use rstest::rstest;
use stopworld::debugger::WORLD_OFFSETS;
use stopworld::debugger::contract::{Descriptor, stopworld_debugger};
use stopworld::debugger::notify::{Notice, REQUEST_MAGIC, REQUEST_OFFSETS};
use stopworld::{StopInfoOffsets, World};
use stopworld_ptrace::{Debugger, DebuggerError, DebuggerOptions, Event, TargetState};

const HOSTILE: &str = "STOPWORLD_HOSTILE";

/// Writes into the memory of this process, including read-only memory.
fn poke(at: usize, bytes: &[u8]) {
    OpenOptions::new().write(true).open("/proc/self/mem").unwrap().write_all_at(bytes, at as u64).unwrap();
}

fn descriptor() -> usize {
    &raw const stopworld_debugger as usize
}

fn poke_word(at: usize, word: usize) {
    poke(at, &word.to_le_bytes());
}

const WORLDS: usize = offset_of!(Descriptor, worlds);
const THREAD: usize = offset_of!(Descriptor, thread);

/// A world that contains only a list of threads.
fn lone_world(threads: usize) -> usize {
    let world: &'static mut [usize] = Box::leak(vec![0; WORLD_OFFSETS.size / 8].into_boxed_slice());
    world[WORLD_OFFSETS.threads / 8] = threads;
    let at = world.as_ptr() as usize;
    poke_word(descriptor() + WORLDS, at);
    at
}

/// Creates `count` records, each linked to the next, the last one to `end`. Their layout is as small as possible.
fn records(count: usize, end: impl Fn(usize) -> usize) {
    const BYTES: usize = 48;
    // The size is written first. Fields whose values do not matter overlap.
    poke_word(descriptor() + THREAD, BYTES);
    for field in 1..size_of::<StopInfoOffsets>() / 8 {
        poke_word(descriptor() + THREAD + 8 * field, 0);
    }
    poke_word(descriptor() + THREAD + offset_of!(StopInfoOffsets, next), 40);
    poke_word(descriptor() + THREAD + offset_of!(StopInfoOffsets, tid), 36);
    let list: &'static mut [usize] = Box::leak(vec![0; count * BYTES / 8].into_boxed_slice());
    let at = list.as_ptr() as usize;
    for (i, record) in list.chunks_exact_mut(BYTES / 8).enumerate() {
        record[5] = if i + 1 < count { at + (i + 1) * BYTES } else { end(at) };
    }
    lone_world(at);
}

fn notify_of(at: usize) {
    let signal = u32::from_le_bytes(peek(descriptor() + offset_of!(Descriptor, notify_signal)));
    std::thread::spawn(move || {
        loop {
            // SAFETY: this process ignores the signal.
            unsafe { libc::sigqueue(libc::getpid(), signal as i32, libc::sigval { sival_ptr: at as *mut _ }) };
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Sends the notification of a stop twice, and only then the one of the start. Meanwhile a mutator sleeps, and the process aborts if that
/// sleep is ever interrupted.
fn stop_twice(world: &World) {
    let sleep = || -> () {
        let nap = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        // SAFETY: a system call without side effects.
        while unsafe { libc::nanosleep(&nap, std::ptr::null_mut()) } == 0 {}
        std::process::abort();
    };
    // SAFETY: the thread has no references.
    std::mem::forget(unsafe { world.spawn("sleeper", move |_| sleep()) }.unwrap());
    let signal = u32::from_le_bytes(peek(descriptor() + offset_of!(Descriptor, notify_signal))) as i32;
    std::thread::spawn(move || {
        let mut request = vec![0u64; REQUEST_OFFSETS.size / 8];
        for notice in [Notice::StopWorld, Notice::StopWorld, Notice::StartWorld].into_iter().cycle() {
            request[REQUEST_OFFSETS.magic / 8] = REQUEST_MAGIC;
            request[REQUEST_OFFSETS.sequence / 8] += 1;
            request[REQUEST_OFFSETS.world / 8] = u64::from_le_bytes(peek(descriptor() + WORLDS));
            // The event, followed by the mode.
            request[REQUEST_OFFSETS.event / 8] = notice as u64 | 1 << 32;
            std::thread::sleep(Duration::from_millis(1));
            let value = libc::sigval { sival_ptr: request.as_mut_ptr().cast() };
            // SAFETY: this process ignores the signal.
            unsafe { libc::pthread_sigqueue(libc::pthread_self(), signal, value) };
        }
    });
}

fn peek<const N: usize>(at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    OpenOptions::new().read(true).open("/proc/self/mem").unwrap().read_exact_at(&mut bytes, at as u64).unwrap();
    bytes
}

/// The hostile program; not a test by itself.
#[test]
fn the_hostile_program() {
    let Ok(kind) = std::env::var(HOSTILE) else { return };
    let world = World::builder().heap_limit(16 << 20).build().unwrap();
    match kind.as_str() {
        "magic" => poke(descriptor(), b"STOPWORD"),
        "version" => poke(descriptor() + 8, &77u32.to_le_bytes()),
        "small" => poke(descriptor() + 12, &16u32.to_le_bytes()),
        "large" => poke(descriptor() + 12, &u32::MAX.to_le_bytes()),
        "offset" => poke_word(descriptor() + THREAD + offset_of!(StopInfoOffsets, stack_ptr), 1 << 40),
        "unaligned" => poke_word(descriptor() + THREAD + offset_of!(StopInfoOffsets, stack_ptr), 3),
        "structure" => poke_word(descriptor() + THREAD, usize::MAX),
        "notify" => poke_word(descriptor() + offset_of!(Descriptor, notify), descriptor()),
        "nowhere" => poke_word(descriptor() + WORLDS, 0x10),
        "circle of worlds" => {
            let world = lone_world(0);
            poke_word(world + WORLD_OFFSETS.next, world);
        }
        "threads nowhere" => drop(lone_world(0xdead_0000_0000)),
        "circle of threads" => records(5, |first| first),
        "a million threads" => records(1_000_000, |_| 0),
        "stopped twice" => stop_twice(&world),
        "request nowhere" => notify_of(0x1000),
        "request elsewhere" => notify_of(descriptor()),
        other => panic!("{other}"),
    }
    println!("ready");
    // The program waits until the test has ended.
    let _ = std::io::stdin().read_line(&mut String::new());
}

struct Program(Child);

impl Program {
    fn start(kind: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "hostile::the_hostile_program", "--nocapture", "--test-threads=1"]).env(HOSTILE, kind);
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        assert!(output.lines().any(|line| line.unwrap().contains("ready")), "{kind}");
        Self(child)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The timeouts are long enough for threads on a busy machine.
fn options() -> DebuggerOptions {
    DebuggerOptions { stop_within: Duration::from_secs(60), ..DebuggerOptions::default() }
}

/// Returns the debugger's errors about the program, unprompted or when it lists the threads.
fn said_of(kind: &str) -> Vec<String> {
    let mut program = Program::start(kind);
    let mut debugger = Debugger::attach(program.0.id() as i32, options()).unwrap();
    let mut said = Vec::new();
    let at_last = Instant::now() + Duration::from_secs(60);
    // On a busy machine the first notification may be late.
    while said.is_empty() && Instant::now() < at_last {
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            if let Some(Event::Refused(error)) = debugger.poll(Duration::from_millis(20)).unwrap() {
                // Errors that differ only in the notified thread are the same.
                let text = error.to_string();
                let text = text.trim_start_matches("thread ").trim_start_matches(|c: char| c.is_ascii_digit());
                said.push(text.to_owned());
            }
        }
        for asked in [debugger.threads().map(drop), debugger.worlds().map(drop)] {
            match asked {
                Err(DebuggerError::Target(error)) => said.push(error.to_string()),
                other => other.unwrap(),
            }
        }
    }
    assert_eq!(debugger.state(), TargetState::Alive);
    debugger.detach().unwrap();
    // The whole program continues.
    tasks::assert_none_traced(program.0.id() as i32);
    tasks::assert_none_stopped(program.0.id() as i32);
    assert!(program.0.try_wait().unwrap().is_none());
    said.sort();
    said.dedup();
    said
}

#[rstest]
#[case::magic("magic", "there is no descriptor")]
#[case::version("version", "has version 77; this debugger supports version 1")]
#[case::small("small", "has size 16; expected")]
#[case::large("large", "has size 4294967295; expected")]
#[case::offset("offset", "of stack_ptr in a thread's record: outside its")]
#[case::unaligned("unaligned", "of stack_ptr in a thread's record: outside its")]
#[case::structure("structure", "a thread's record at")]
#[case::notify("notify", "is not the expected code")]
#[case::worlds_nowhere("nowhere", "a world at 0x10 cannot be read")]
#[case::circle_of_worlds("circle of worlds", "the list of worlds has a cycle: it returns to")]
#[case::threads_nowhere("threads nowhere", "a thread's record at 0xdead00000000 cannot be read")]
#[case::circle_of_threads("circle of threads", "the list of managed threads has a cycle: it returns to")]
#[case::a_million_threads("a million threads", "the list of managed threads has more than")]
#[case::request_nowhere("request nowhere", "sent a notification for address 0x1000, where there is no request")]
#[case::request_elsewhere("request elsewhere", "where there is no request")]
fn a_damaged_program_is_reported_and_does_no_harm(#[case] kind: &str, #[case] expected: &str) {
    let begin = Instant::now();
    let said = said_of(kind);
    assert_eq!(said.len(), 1, "one error each: {said:?}");
    assert!(said[0].contains(expected), "{said:?}");
    assert!(begin.elapsed() < Duration::from_secs(300));
}

/// `.vtable.exact-restore`
#[test]
fn threads_that_are_stopped_twice_and_started_once_are_unchanged() {
    let mut program = Program::start("stopped twice");
    let mut debugger = Debugger::attach(program.0.id() as i32, options()).unwrap();
    let until = Instant::now() + Duration::from_secs(300);
    while debugger.statistics().starts < 20 && Instant::now() < until {
        debugger.poll(Duration::from_millis(20)).unwrap();
    }
    let (stops, starts) = (debugger.statistics().stops, debugger.statistics().starts);
    assert_eq!((debugger.state(), starts), (TargetState::Alive, 20));
    // Both stops of the first pair may have preceded the debugger's attach.
    assert!(stops >= 2 * (starts - 1), "{stops} stops");
    debugger.detach().unwrap();
    assert!(program.0.try_wait().unwrap().is_none());
}
