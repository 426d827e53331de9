//! A demanding test program for debuggers: every thread keeps its references in places where they are hard to find, and checks whether the
//! debugger has changed anything that it must not change.
//!
//!     cargo run --example debuggee -- --threads 8 --collections 1000
//!     stopworld debug -- target/debug/examples/debuggee --threads 8
//!
//! What to look at in the last line:
//! - `lost 0`: no object was freed whose only reference was in r12, in xmm8, in the red zone, one past its end, or on the stack of a
//!   sleeping thread.
//! - `clobbered 0`: no thread found its red zone or its registers changed.
//! - `interrupted`: the number of the sleeper's naps that were interrupted. With signals, nearly every nap during which a collection
//!   occurs; under a debugger that stops the world itself, none.

use std::arch::naked_asm;
use std::error::Error;
use std::io::Write;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stopworld::{CollectError, Gc, GcCell, JoinHandle, Leaf, Mutator, OutOfMemory, Paranoid, StopError, World, traced};
use stopworld_trace::mps;

traced! {
    struct Bead { next: GcCell<Option<Gc<Bead>>>, number: u64 }
}

/// The data that all threads share.
#[derive(Default)]
struct Shared {
    over: AtomicBool,
    ready: AtomicU64,
    lost: AtomicU64,
    repeated: AtomicU64,
    failed: AtomicU64,
    clobbered: AtomicU64,
    naps: AtomicU64,
    interrupted: AtomicU64,
    born: AtomicU64,
    verified: AtomicU64,
}

/// `(address with every bit flipped, over, ready)`: restores the address in one register or stack slot only, and spins. Returns 1 if
/// its value was changed.
type KeepAliveFn = extern "C" fn(usize, *const AtomicBool, *const AtomicU64) -> u64;

macro_rules! keeper {
    ($name:ident, [$($take:expr),*], [$($forget:expr),*], $check:expr) => {
        #[unsafe(naked)]
        extern "C" fn $name(disguised: usize, over: *const AtomicBool, ready: *const AtomicU64) -> u64 {
            naked_asm!(
                "push rbx", "push r12", "push r13",
                // Keep the disguised address, for the comparison.
                "mov r13, rdi", "xor eax, eax",
                "not rdi",
                $($take,)*
                "xor edi, edi",
                "lock inc qword ptr [rdx]",
                "2: pause",
                $check, "not rcx", "cmp rcx, r13", "mov rcx, 0", "jne 3f",
                "cmp byte ptr [rsi], 0",
                "je 2b",
                "jmp 4f",
                "3: mov eax, 1",
                "4:",
                $($forget,)*
                "pop r13", "pop r12", "pop rbx",
                "ret",
            )
        }
    };
}
keeper!(in_r12, ["mov r12, rdi"], ["xor r12, r12"], "mov rcx, r12");
keeper!(in_xmm8, ["movq xmm8, rdi"], ["pxor xmm8, xmm8"], "movq rcx, xmm8");
keeper!(in_the_near_red_zone, ["mov [rsp - 8], rdi"], ["mov qword ptr [rsp - 8], 0"], "mov rcx, [rsp - 8]");
keeper!(in_the_far_red_zone, ["mov [rsp - 128], rdi"], ["mov qword ptr [rsp - 128], 0"], "mov rcx, [rsp - 128]");

/// Allocates an object and returns its address with every bit flipped, which the collector does not recognise. A weak reference to
/// the object detects its end.
fn hidden(world: &World) -> Result<usize, Box<dyn Error>> {
    // SAFETY: every Gc is a local variable of a thread that has ended when this returns.
    let maker = unsafe {
        world.spawn("maker", |m| -> Result<_, OutOfMemory> {
            let object = m.alloc(Leaf([7u64; 3]))?;
            // The root is never dropped.
            std::mem::forget(m.root(m.alloc_weak(object)?));
            Ok(!Gc::addr(object))
        })
    }?;
    Ok(maker.join().map_err(|_| "the maker panicked")??)
}

/// The role of a thread.
#[derive(Clone, Copy, Debug)]
enum Role {
    Keep(&'static str, KeepAliveFn, usize),
    Sleep,
    Allocate,
    Churn,
}

const PAYLOAD_BYTES: usize = size_of::<[u64; 3]>();
const ROLES: [Role; 8] = [
    Role::Keep("r12", in_r12, 0),
    Role::Sleep,
    Role::Keep("xmm8", in_xmm8, 0),
    Role::Allocate,
    Role::Keep("near red zone", in_the_near_red_zone, 0),
    Role::Churn,
    Role::Keep("far red zone", in_the_far_red_zone, 0),
    Role::Keep("past the end", in_r12, PAYLOAD_BYTES),
];

type Outcome = Result<(), OutOfMemory>;

fn start(world: &World, role: Role, shared: &Arc<Shared>) -> Result<JoinHandle<Outcome>, Box<dyn Error>> {
    let inner = Arc::clone(shared);
    // SAFETY: every Gc is a local variable, or in the place where a keeper holds it.
    let handle = unsafe {
        match role {
            Role::Keep(name, keeper, offset) => {
                // !(x + n) == !x - n.
                let disguised = hidden(world)? - offset;
                world.spawn(name, move |_| {
                    let changed = keeper(disguised, &inner.over, &inner.ready);
                    inner.clobbered.fetch_add(changed, Ordering::Relaxed);
                    Ok(())
                })
            }
            Role::Sleep => world.spawn("sleeper", move |m| sleep(m, &inner)),
            Role::Allocate => world.spawn("allocator", move |m| allocate(m, &inner)),
            Role::Churn => world.spawn("churner", move |m| churn(m, &inner)),
        }
    };
    Ok(handle?)
}

/// Sleeps, with a list on its stack.
fn sleep(m: &Mutator, shared: &Shared) -> Outcome {
    let list = beads(m, 50)?;
    shared.ready.fetch_add(1, Ordering::Relaxed);
    while !shared.over.load(Ordering::Relaxed) {
        let nap = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        // SAFETY: a system call without effects.
        if unsafe { libc::nanosleep(&nap, std::ptr::null_mut()) } != 0 {
            shared.interrupted.fetch_add(1, Ordering::Relaxed);
        }
        shared.naps.fetch_add(1, Ordering::Relaxed);
        verify(list, 50, shared);
    }
    Ok(())
}

/// Repeatedly blocks all signals for this time, and so delays every collection that stops threads by signals.
fn mask(nap: Duration, shared: &Shared) -> Outcome {
    while !shared.over.load(Ordering::Relaxed) {
        // SAFETY: changes only the mask of this thread; all zeroes is a valid value of a signal set.
        unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            std::thread::sleep(nap);
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
    }
    Ok(())
}

/// Allocates and drops lists.
fn allocate(m: &Mutator, shared: &Shared) -> Outcome {
    shared.ready.fetch_add(1, Ordering::Relaxed);
    while !shared.over.load(Ordering::Relaxed) {
        verify(beads(m, 500)?, 500, shared);
    }
    Ok(())
}

/// Starts threads that end soon.
fn churn(m: &Mutator, shared: &Arc<Shared>) -> Outcome {
    shared.ready.fetch_add(1, Ordering::Relaxed);
    while !shared.over.load(Ordering::Relaxed) {
        let inner = Arc::clone(shared);
        let life = move |m: &Mutator| -> Outcome {
            verify(beads(m, 20)?, 20, &inner);
            Ok(())
        };
        // SAFETY: every Gc is a local variable.
        if unsafe { m.world().spawn("child", life) }.is_ok_and(|child| child.join().is_ok()) {
            shared.born.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn beads(m: &Mutator, count: u64) -> Result<Gc<Bead>, OutOfMemory> {
    let mut list = m.alloc(Bead { next: GcCell::new(None), number: 1 })?;
    for number in 2..=count {
        list = m.alloc(Bead { next: GcCell::new(Some(list)), number })?;
    }
    Ok(list)
}

fn verify(list: Gc<Bead>, count: u64, shared: &Shared) {
    let mut expected = count;
    let mut bead = Some(list);
    while let Some(at) = bead {
        assert_eq!(at.number, expected, "the collector has freed a part of the list");
        expected -= 1;
        bead = at.next.get();
    }
    assert_eq!(expected, 0);
    shared.verified.fetch_add(1, Ordering::Relaxed);
}

/// Returns whether the other end of this pipe has been closed.
fn is_at_its_end(fd: RawFd) -> bool {
    let mut asked = libc::pollfd { fd, events: 0, revents: 0 };
    // SAFETY: one valid structure on this stack; the timeout is 0.
    unsafe { libc::poll(&raw mut asked, 1, 0) == 1 }
}

fn main() -> Result<(), Box<dyn Error>> {
    run(std::env::args().skip(1))
}

/// Runs the whole program.
pub fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let (mut threads, mut collections, mut pause, mut limit) = (8, u64::MAX, Duration::from_micros(200), None);
    let (mut masked, mut source) = (None, None);
    while let Some(option) = arguments.next() {
        let value: u64 = arguments.next().ok_or("each option needs a number")?.parse()?;
        match option.as_str() {
            "--threads" => threads = value as usize,
            "--collections" => collections = value,
            "--pause-us" => pause = Duration::from_micros(value),
            "--masked-ms" => masked = Some(Duration::from_millis(value)),
            "--until-end-of" => source = Some(value as RawFd),
            "--milliseconds" => limit = Some(Duration::from_millis(value)),
            _ => return Err(format!("unknown option {option}").into()),
        }
    }
    if collections == u64::MAX && limit.is_none() && source.is_none() {
        collections = 1000;
    }
    let shared = Arc::new(Shared::default());
    let inner = Arc::clone(&shared);
    let builder =
        World::builder().heap_limit(256 << 20).paranoid(Paranoid::On).record_to(&mps::Trace::from_environment()?);
    let world = builder
        .on_failure(move |error| {
            eprintln!("{error}");
            use CollectError::{Discarded, Stop};
            let is_repeated = matches!(error, Discarded { .. } | Stop(StopError::FalseAnswer(_)));
            let counter = if is_repeated { &inner.repeated } else { &inner.failed };
            counter.fetch_add(1, Ordering::Relaxed);
        })
        .build()?;
    let roles = ROLES.into_iter().cycle().take(threads);
    let mut workers = roles.map(|role| start(&world, role, &shared)).collect::<Result<Vec<_>, _>>()?;
    if let Some(nap) = masked {
        let inner = Arc::clone(&shared);
        // SAFETY: the thread has no references.
        workers.push(unsafe { world.spawn("masked", move |_| mask(nap, &inner)) }?);
    }
    while shared.ready.load(Ordering::Relaxed) < threads as u64 {
        std::thread::yield_now();
    }
    println!("ready {}", std::process::id());
    std::io::stdout().flush()?;

    let (begin, mut done, mut longest) = (Instant::now(), 0, 0);
    while done < collections && limit.is_none_or(|limit| begin.elapsed() < limit) && !source.is_some_and(is_at_its_end)
    {
        // Alternately as a thread outside the world and as a mutator in a blocking region. The listener counts failures.
        let collected = if done % 2 == 0 {
            world.collect()
        } else {
            // SAFETY: this thread has no references.
            let m = unsafe { world.attach("collector") }?;
            m.blocking(|| world.collect())
        };
        if let Ok(report) = collected {
            shared.lost.fetch_add(report.weak_cleared as u64, Ordering::Relaxed);
            longest = longest.max(report.pause_ns);
            done += 1;
        }
        std::thread::sleep(pause);
    }
    shared.over.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.join().map_err(|_| "a thread panicked")??;
    }
    world.verify()?;
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "collections {done} of {} repeated {} failed {} lost {} clobbered {} naps {} interrupted {} born {} verified {} longest-us {}",
        world.totals().collections,
        get(&shared.repeated),
        get(&shared.failed),
        get(&shared.lost),
        get(&shared.clobbered),
        get(&shared.naps),
        get(&shared.interrupted),
        get(&shared.born),
        get(&shared.verified),
        longest / 1000,
    );
    Ok(())
}
