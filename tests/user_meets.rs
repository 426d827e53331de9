//! Situations that a user may encounter: masked signals, debuggers, vfork, alternate stacks, forks, Ctrl-Z, interrupted system calls.
//!
//! When the world cannot be stopped the user gets an error that names the thread and the reason, the world continues, and the next
//! collection after the cause is removed succeeds.

mod hazard;
mod skipped;

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hazard::{
    By, Flags, Hidden, build, builder, collect, handle, mask_suspend_signal, spawn, tell, vfork_until, wait_for,
    wait_for_child, world,
};
use rstest::rstest;
use stopworld::events::{EventId, Record, Selection, Sink};
use stopworld::profile::census::{Breakdown, CensusRequest, Every, HeapProfile};
use stopworld::{CollectError, Gc, GcCell, Leaf, Mutator, SilenceReason, SilentThread, StopError, World, traced};

/// The configured timeout in tests that wait for it to expire.
const SHORT: Duration = Duration::from_millis(250);

traced! {
    struct Link {
        next: GcCell<Option<Gc<Link>>>,
        number: u64,
    }
}

/// Allocates a list of garbage and reads it back.
fn allocate(m: &Mutator, length: u64) {
    assert!(allocates(m, length), "out of memory");
}

/// Like [`allocate`], but returns false if there is no room, which is not a failure while no collection is possible.
fn allocates(m: &Mutator, length: u64) -> bool {
    let mut head: Option<Gc<Link>> = None;
    for number in 0..length {
        match m.alloc(Link { next: GcCell::new(head), number }) {
            Ok(link) => head = Some(link),
            Err(_) => return false,
        }
    }
    let mut expected = length;
    while let Some(link) = head {
        expected -= 1;
        assert_eq!(link.number, expected);
        head = link.next.get();
    }
    assert_eq!(expected, 0);
    true
}

/// A thread that allocates, which shows that the world runs.
struct Busy {
    turns: Arc<AtomicU64>,
    flags: Arc<Flags>,
    thread: Option<stopworld::JoinHandle<()>>,
}

impl Busy {
    fn new(world: &World, name: &str) -> Self {
        Self::with(world, name, |m| {
            if !allocates(m, 50) {
                m.blocking(|| std::thread::sleep(Duration::from_millis(1)));
            }
            m.safepoint();
        })
    }

    /// A thread that is never in a blocking region and never holds a lock.
    fn spinning(world: &World, name: &str) -> Self {
        Self::with(world, name, |_| std::hint::spin_loop())
    }

    fn with(world: &World, name: &str, turn: impl Fn(&Mutator) + Send + 'static) -> Self {
        let (turns, flags) = (Arc::<AtomicU64>::default(), Flags::new());
        let (counted, inner) = (Arc::clone(&turns), Arc::clone(&flags));
        let thread = spawn(world, name, move |m| {
            while !inner.is_ended() {
                turn(m);
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { turns, flags, thread: Some(thread) }
    }

    fn assert_runs(&self) {
        let before = self.turns.load(Ordering::Relaxed);
        wait_for("another thread to run", || self.turns.load(Ordering::Relaxed) > before + 2);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.flags.end();
        let joined = self.thread.take().unwrap().join();
        assert!(joined.is_ok() || std::thread::panicking());
    }
}

/// The threads that did not acknowledge.
fn silent(error: &CollectError) -> &[SilentThread] {
    match error {
        CollectError::Stop(StopError::Unanswered { threads, .. }) => threads,
        _ => panic!("not an error about a silent thread: {error}"),
    }
}

/// Asserts that a collection is possible again. On a busy machine the first attempt may fail, because the timeout is short.
fn collects_again(world: &World) {
    wait_for("a collection", || world.collect().is_ok());
}

/// Collects until the error names the thread, within the configured timeout, while the others run.
fn assert_names(world: &World, busy: &Busy, name: &str, reason: &SilenceReason) {
    let first = Instant::now();
    let (error, took) = loop {
        let begin = Instant::now();
        assert!(begin - first < Duration::from_secs(600), "{name} is never named");
        let error = world.collect().expect_err("the thread can't be stopped");
        match &error {
            // The busy thread has run out of cells, and its own collection fails; or a fork of another test holds the locks.
            CollectError::Stop(StopError::LockHeld { .. }) => {}
            // The machine is so busy that other threads had no time to acknowledge, either.
            CollectError::Stop(StopError::Unanswered { threads, .. })
                if threads.iter().any(|thread| thread.reason == SilenceReason::Unknown) => {}
            _ => break (error, begin.elapsed()),
        }
    };
    assert!(took < SHORT + Duration::from_secs(300), "took {took:?}");
    let [thread] = silent(&error) else { panic!("{error}") };
    assert_eq!(thread.name.unwrap().as_str(), name);
    assert_eq!(thread.reason, *reason, "{error}");
    for part in [name, &thread.tid.to_string(), "State ", "TracerPid ", "SigBlk ", "wchan "] {
        assert!(error.to_string().contains(part), "no {part:?} in: {error}");
    }
    busy.assert_runs();
}

/// `.stop.lost`
#[test]
fn a_thread_that_masks_the_signal_is_named_and_stops_again_when_it_unmasks() {
    let world = builder().stop_timeout(SHORT).build().unwrap();
    let busy = Busy::new(&world, "busy");
    let (flags, unmask) = (Flags::new(), Arc::new(AtomicBool::new(false)));
    let (inner, may) = (Arc::clone(&flags), Arc::clone(&unmask));
    let thread = spawn(&world, "deaf", move |m| {
        let kept = m.alloc(Leaf(77_u64)).unwrap();
        mask_suspend_signal(libc::SIG_BLOCK);
        inner.set_ready();
        while !may.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        mask_suspend_signal(libc::SIG_UNBLOCK);
        while !inner.is_ended() {
            std::thread::yield_now();
        }
        assert_eq!(kept.0, 77);
    });
    flags.wait_ready();
    assert_names(&world, &busy, "deaf", &SilenceReason::MasksSignal { signal: libc::SIGURG });
    assert_names(&world, &busy, "deaf", &SilenceReason::MasksSignal { signal: libc::SIGURG });
    unmask.store(true, Ordering::Relaxed);
    wait_for("a collection", || world.collect().is_ok());
    busy.assert_runs();
    flags.end();
    thread.join().unwrap();
}

/// A ptrace debugger, in a process of its own, that holds one thread of this one.
struct Tracer {
    pid: i32,
    go_on: std::io::PipeWriter,
}

impl Tracer {
    /// `None` where ptrace is not allowed.
    fn holding(tid: i32) -> Option<Self> {
        let (mut is_held, tell) = std::io::pipe().unwrap();
        let (hear, go_on) = std::io::pipe().unwrap();
        // SAFETY: allows child processes to trace this one, where a security module requires that.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
        // SAFETY: the child makes system calls only, then ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: plain system calls of a tracer; SIGALRM ends a tracer that is forgotten.
            unsafe {
                libc::alarm(90);
                let held = libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0) == 0
                    && libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0) == 0
                    && libc::waitpid(tid, &mut 0, libc::__WALL) == tid;
                libc::write(tell.as_raw_fd(), [u8::from(held)].as_ptr().cast(), 1);
                libc::read(hear.as_raw_fd(), [0u8].as_mut_ptr().cast(), 1);
                libc::ptrace(libc::PTRACE_DETACH, tid, 0, 0);
                libc::_exit(0);
            }
        }
        let mut held = [0];
        is_held.read_exact(&mut held).unwrap();
        let tracer = Self { pid, go_on };
        (held[0] == 1).then_some(tracer)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.go_on.write_all(b"x").unwrap();
        wait_for_child(self.pid);
    }
}

fn a_debugger_holds_a_thread_for(long: Duration) {
    let world = builder().stop_timeout(SHORT).build().unwrap();
    let busy = Busy::new(&world, "busy");
    let held = Busy::spinning(&world, "at a breakpoint");
    held.assert_runs();
    let tid = world.threads().iter().find(|thread| thread.name.as_str() == "at a breakpoint").unwrap().tid;
    // A debugger that catches the thread in the suspend handler holds a thread that is already stopped: that does not disturb a collection,
    // and is not tested here.
    let tracer = loop {
        let Some(tracer) = Tracer::holding(tid.0) else {
            skipped::skipped("ptrace");
            return;
        };
        match world.collect() {
            Err(CollectError::Stop(StopError::Unanswered { threads, .. }))
                if threads.len() == 1 && threads[0].tid == tid =>
            {
                break tracer;
            }
            _ => drop(tracer),
        }
    };
    let begin = Instant::now();
    let reason = SilenceReason::HeldByDebugger { tracer: tracer.pid };
    while begin.elapsed() < long {
        assert_names(&world, &busy, "at a breakpoint", &reason);
    }
    drop(tracer);
    held.assert_runs();
    collects_again(&world);
    held.assert_runs();
    busy.assert_runs();
}

/// `.stop.lost`
#[test]
fn a_thread_that_a_debugger_holds_is_named_with_the_debugger_and_stops_again_afterwards() {
    a_debugger_holds_a_thread_for(3 * SHORT);
}

/// `.debug.frozen-owner`: wherever the debugger catches it, also while it owns a lock or sweeps. In a process of its own: a fork of another
/// test takes the locks of all worlds and waits for the one that the held thread owns, and the error would name the thread that forks.
#[test]
fn a_thread_that_a_debugger_holds_in_the_allocator_is_named() {
    alone!("a_thread_that_a_debugger_holds_in_the_allocator_is_named");
    let world = builder().stop_timeout(Duration::from_millis(100)).build().unwrap();
    let held = Busy::new(&world, "in the allocator");
    let tid = world.threads()[0].tid;
    for _ in 0..8 {
        held.assert_runs();
        let Some(tracer) = Tracer::holding(tid.0) else {
            skipped::skipped("ptrace");
            return;
        };
        // Otherwise the debugger caught the thread in a blocking region, where it does not delay a stop.
        if let Err(error) = world.collect() {
            let text = error.to_string();
            let pid = format!("pid {} has stopped it", tracer.pid);
            assert!(text.contains("in the allocator") && text.contains(&pid), "{text}");
        }
        drop(tracer);
        collects_again(&world);
    }
}

/// The same test, for thirty seconds; run with `--ignored`.
#[test]
#[ignore = "takes 30 s"]
fn a_thread_that_a_debugger_holds_for_thirty_seconds_is_named() {
    a_debugger_holds_a_thread_for(Duration::from_secs(30));
}

/// `.stop.lost`: no signal reaches a thread whose vfork child has neither exited nor executed another program.
#[test]
fn a_thread_in_vfork_is_named_and_a_patient_collection_waits_for_it() {
    let world = builder().stop_timeout(SHORT).build().unwrap();
    let busy = Busy::new(&world, "busy");
    let flags = Flags::new();
    let inner = Arc::clone(&flags);
    let thread = spawn(&world, "spawning", move |m| {
        let kept = m.alloc(Leaf(5_u64)).unwrap();
        inner.set_ready();
        let child = vfork_until(&inner.end);
        assert!(child > 0);
        assert_eq!(wait_for_child(child), 0);
        assert_eq!(kept.0, 5);
    });
    flags.wait_ready();
    let tid = world.threads().iter().find(|thread| thread.name.as_str() == "spawning").unwrap().tid;
    let status = format!("/proc/self/task/{tid}/status");
    wait_for("the vfork", || std::fs::read_to_string(&status).is_ok_and(|text| text.contains("State:\tD")));
    assert_names(&world, &busy, "spawning", &SilenceReason::Uninterruptible);
    flags.end();
    wait_for("a collection", || world.collect().is_ok());
    thread.join().unwrap();

    let patient = builder().stop_timeout(Duration::from_secs(20)).build().unwrap();
    let flags = Flags::new();
    let inner = Arc::clone(&flags);
    let thread = spawn(&patient, "spawning", move |_| {
        inner.set_ready();
        wait_for_child(vfork_until(&inner.end))
    });
    flags.wait_ready();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            flags.end();
        });
        collect(&patient);
    });
    assert_eq!(thread.join().unwrap(), 0);
}

/// Holds an address in one word of the calling thread's own stack until the end flag is set.
#[unsafe(naked)]
extern "C" fn keep_on_the_stack(disguised: usize, end: *const AtomicBool, ready: *const AtomicBool) {
    std::arch::naked_asm!(
        "not rdi",
        "push rdi",
        "xor edi, edi",
        "mov byte ptr [rdx], 1",
        "2: pause",
        "cmp byte ptr [rsi], 0",
        "je 2b",
        "mov qword ptr [rsp], 0",
        "pop rdi",
        "ret",
    )
}

static DISGUISED: AtomicUsize = AtomicUsize::new(0);
static HANDLER_FLAGS: AtomicPtr<Flags> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn keep_in_the_handler(_: i32) {
    // SAFETY: the test keeps the flags until the handler has returned.
    let flags = unsafe { &*HANDLER_FLAGS.load(Ordering::Acquire) };
    keep_on_the_stack(DISGUISED.load(Ordering::Relaxed), &flags.end, &flags.ready);
}

/// `.stop.altstack`
#[test]
fn both_stacks_of_a_thread_caught_on_its_alternate_stack_are_scanned() {
    handle(libc::SIGUSR2, keep_in_the_handler, libc::SA_ONSTACK);
    for by in [By::Signals, By::Debugger] {
        let world = world(by);
        let (on_own, on_alternate) = (Hidden::new(&world), Hidden::new(&world));
        DISGUISED.store(on_alternate.disguised(0), Ordering::Relaxed);
        let handler_flags = Flags::new();
        HANDLER_FLAGS.store(Arc::as_ptr(&handler_flags).cast_mut(), Ordering::Release);
        let (disguised, flags) = (on_own.disguised(0), Flags::new());
        let inner = Arc::clone(&flags);
        let thread = spawn(&world, "acrobat", move |_| keep_on_the_stack(disguised, &inner.end, &inner.ready));
        flags.wait_ready();
        tell(world.threads()[0].tid, libc::SIGUSR2);
        handler_flags.wait_ready();
        let dead_on_the_way = collect(&world).weak_cleared;
        handler_flags.end();
        flags.end();
        thread.join().unwrap();
        assert_eq!(dead_on_the_way, 0, "{by:?}: not both stacks were scanned");
        assert_eq!(collect(&world).weak_cleared, 2, "{by:?}: control");
    }
}

/// Runs a function on another stack.
#[unsafe(naked)]
extern "C" fn on_stack(
    top: usize,
    f: extern "C" fn(usize, *const AtomicBool, *const AtomicBool),
    disguised: usize,
    end: *const AtomicBool,
    ready: *const AtomicBool,
) {
    std::arch::naked_asm!(
        "push rbx",
        "mov rbx, rsp",
        "mov rsp, rdi",
        "mov rax, rsi",
        "mov rdi, rdx",
        "mov rsi, rcx",
        "mov rdx, r8",
        "call rax",
        "mov rsp, rbx",
        "pop rbx",
        "ret",
    )
}

/// The binding of a program with coroutines: it has the end of a stack, or 0.
struct KnowsTheStack(AtomicUsize);

// SAFETY: the end is that of leaked memory, which contains the stack pointer.
unsafe impl stopworld::untyped::Binding for KnowsTheStack {
    fn stack_end(&self, _: &stopworld::ThreadStopInfo, _: usize) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|end| *end != 0)
    }
}

/// `.stop.coroutine`, `.stop.binding`
#[rstest]
fn a_coroutines_stack_is_an_error_until_it_is_known_and_then_scanned(
    #[values(By::Signals, By::Debugger)] by: By,
    #[values(false, true)] by_the_binding: bool,
    #[values(32 << 10, 128 << 10)] words: usize,
) {
    let binding = Arc::new(KnowsTheStack(AtomicUsize::new(0)));
    let world = build(builder().binding(binding.clone()), by);
    let hidden = Hidden::new(&world);
    let stack = vec![0_usize; words].leak();
    let bounds = stack.as_ptr_range();
    let (low, top) = (bounds.start as usize, bounds.end as usize & !15);
    let (disguised, flags) = (hidden.disguised(0), Flags::new());
    let inner = Arc::clone(&flags);
    let thread = spawn(&world, "coroutine", move |_| {
        on_stack(top, keep_on_the_stack, disguised, &inner.end, &inner.ready);
    });
    flags.wait_ready();
    let error = world.collect().expect_err("the stack is unknown");
    assert!(matches!(error, CollectError::Stop(StopError::UnknownStack { .. })), "{error}");
    assert!(error.to_string().contains("register_stack"), "{error}");
    let registered = (!by_the_binding).then(|| {
        // SAFETY: leaked memory stays readable.
        spawn(&world, "registrar", move |m| unsafe { m.register_stack(low as _, top as _) }).join().unwrap()
    });
    binding.0.store(if by_the_binding { top } else { 0 }, Ordering::Relaxed);
    let died = collect(&world).weak_cleared;
    flags.end();
    thread.join().unwrap();
    assert_eq!(died, 0, "the coroutine's stack was not scanned");
    drop(registered);
    assert_eq!(collect(&world).weak_cleared, 1, "control");
}

/// Uses the copy of the world in the child of a fork. Returns 0, or a code for the step that failed.
fn live_on(world: &World, own: Option<&Mutator>) -> i32 {
    let threads = world.threads();
    if threads.len() != usize::from(own.is_some()) {
        return 1;
    }
    // SAFETY: a plain system call.
    let me = unsafe { libc::gettid() };
    if own.is_some() && threads[0].tid.0 != me {
        return 2;
    }
    if let Some(m) = own {
        allocate(m, 2000);
    }
    if world.collect().is_err() {
        return 3;
    }
    let grandchild = spawn(world, "child's own", |m| allocate(m, 5000));
    for _ in 0..3 {
        if world.collect().is_err() {
            return 4;
        }
    }
    if grandchild.join().is_err() || world.verify().is_err() {
        return 5;
    }
    0
}

/// `.stop.fork`, `.heap.reserve`
#[rstest]
fn the_child_of_a_fork_from_four_allocating_threads_collects(
    #[values(By::Signals, By::Safepoints, By::Debugger)] by: By,
    #[values("attached", "stranger")] forking: &str,
) {
    let world = world(by);
    let busy: Vec<_> = (0..4).map(|i| Busy::new(&world, &format!("busy-{i}"))).collect();
    let attached = forking == "attached";
    for _ in 0..5 {
        // SAFETY: every Gc is a local variable.
        let own = attached.then(|| unsafe { world.attach("forking") }.unwrap());
        let kept = own.as_ref().map(|m| m.alloc(Leaf(42_u64)).unwrap());
        let code = hazard::fork(|| match live_on(&world, own.as_ref()) {
            0 if kept.is_some_and(|kept| kept.0 != 42) => 6,
            code => code,
        });
        assert_eq!(code, 0, "the child of the fork does not collect");
        assert!(kept.is_none_or(|kept| kept.0 == 42));
        drop(own);
        collect(&world);
    }
    busy.iter().for_each(Busy::assert_runs);
}

/// `.fork.services`: the profile stays with the parent; the child can have its own.
#[rstest]
fn a_heap_profile_stays_with_the_parent_of_a_fork(#[values(By::Signals, By::Safepoints)] by: By) {
    let world = world(by);
    let every = Every::Time(Duration::from_millis(2));
    world.profile(HeapProfile::by(Breakdown::Type).every(every)).unwrap();
    let busy = Busy::new(&world, "busy");
    for _ in 0..5 {
        let code = hazard::fork(|| {
            let own_sample = || {
                world.profile(HeapProfile::by(Breakdown::Kind).every(Every::Demand)).ok()?;
                world.sample().ok()?
            };
            match () {
                () if world.heap_profile().is_some() => 1,
                () if world.collect().is_err() => 2,
                () if world.census(&CensusRequest::by(Breakdown::Retainer)).is_err() => 3,
                () if own_sample().is_none_or(|census| census.era != 1) => 4,
                () => 0,
            }
        });
        assert_eq!(code, 0);
        assert!(world.sample().unwrap().is_some());
    }
    busy.assert_runs();
    assert!(world.end_profile().unwrap().unwrap().censuses >= 5);
}

/// `.stop.fork`: between the steps of the fork another thread completes the world that it is building. A world that was not prepared for
/// the fork must not get the steps after it.
#[test]
fn a_fork_while_another_thread_builds_a_world_leaves_every_lock_to_its_holder() {
    alone!("a_fork_while_another_thread_builds_a_world_leaves_every_lock_to_its_holder");
    unsafe extern "C" fn linger() {
        std::thread::sleep(Duration::from_millis(3));
    }
    // The handler is registered before the first world, so libc calls it after the worlds have prepared.
    // SAFETY: a function of this program.
    assert_eq!(unsafe { libc::pthread_atfork(Some(linger), None, None) }, 0);
    let world = world(By::Signals);
    let flags = Flags::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut latest = None;
            while !flags.is_ended() {
                latest = Some(builder().markers(8).build().unwrap());
            }
            drop(latest);
        });
        for _ in 0..40 {
            assert_eq!(hazard::fork(|| 0), 0);
        }
        flags.end();
    });
    collect(&world);
}

/// `.fork.services`: the markers of the parent do not exist in the child.
#[test]
fn the_child_of_a_fork_marks_without_its_parents_markers() {
    let world = builder().markers(3).build().unwrap();
    let _busy = Busy::new(&world, "busy");
    // The number of objects is large enough that the collecting thread wakes the markers.
    let leaf = |m: &Mutator| GcCell::new(Some(m.alloc(Leaf(1_u64)).unwrap()));
    let _kept = spawn(&world, "builder", move |m| m.root(m.alloc_array(50_000, |_| leaf(m)).unwrap())).join().unwrap();
    collect(&world);
    assert_eq!(hazard::fork(|| live_on(&world, None)), 0, "the child waits for markers that it does not have");
    collect(&world);
}

/// `.fork.services`: the finalizer thread does not exist in the child either; there it is restarted when needed.
#[test]
fn finalizers_run_in_the_child_of_a_fork() {
    static RUN: AtomicUsize = AtomicUsize::new(0);
    let world = world(By::Signals);
    let finalize_one = |world: &World| {
        spawn(world, "maker", |m| {
            let object = m.alloc(Leaf(1_u64)).unwrap();
            let count = |_: &Mutator, _: Gc<Leaf<u64>>| {
                RUN.fetch_add(1, Ordering::Relaxed);
            };
            m.set_finalizer(object, count).unwrap();
        })
        .join()
        .unwrap();
        let before = RUN.load(Ordering::Relaxed);
        wait_for("the finalizer", || {
            collect(world);
            RUN.load(Ordering::Relaxed) > before
        });
    };
    finalize_one(&world);
    let code = hazard::fork(|| {
        finalize_one(&world);
        0
    });
    assert_eq!(code, 0);
    finalize_one(&world);
}

/// Writes a byte at the beginning of each stop.
#[derive(Debug)]
struct TellsOfStops(std::io::PipeWriter);

impl Sink for TellsOfStops {
    fn record(&self, _: &Record) {
        // SAFETY: a byte of this function.
        unsafe { libc::write(self.0.as_raw_fd(), [0_u8].as_ptr().cast(), 1) };
    }
}

/// Stops this whole process during a collection, for `long`, as Ctrl-Z and a later `fg` do.
fn job_control_stops_the_process_for(long: Duration) {
    const PATIENCE: Duration = Duration::from_secs(1);
    assert!(long > PATIENCE + PATIENCE / 2);
    let world = builder().stop_timeout(PATIENCE).build().unwrap();
    let flags = Flags::new();
    let (inner, continued) = (Arc::clone(&flags), Arc::new(AtomicBool::new(false)));
    let seen = Arc::clone(&continued);
    let thread = spawn(&world, "answers afterwards", move |_| {
        mask_suspend_signal(libc::SIG_BLOCK);
        inner.set_ready();
        let mut before = Instant::now();
        // A gap in the times shows that the process has been stopped and continued.
        while before.elapsed() < PATIENCE {
            before = Instant::now();
            std::thread::sleep(Duration::from_millis(2));
        }
        seen.store(true, Ordering::Relaxed);
        // If the collector counted that gap as time, it would abandon the stop now, before this thread acknowledges.
        std::thread::sleep(Duration::from_millis(100));
        mask_suspend_signal(libc::SIG_UNBLOCK);
    });
    flags.wait_ready();
    let (begun, tell) = std::io::pipe().unwrap();
    let only = Selection::of([EventId::SuspendBegin].into_iter().collect());
    world.events().listen(Arc::new(TellsOfStops(tell)), only).unwrap();
    let begin = Instant::now();
    // SAFETY: the child makes system calls only, then ends.
    let shell = unsafe { libc::fork() };
    if shell == 0 {
        // SAFETY: as above.
        unsafe {
            libc::read(begun.as_raw_fd(), [0_u8].as_mut_ptr().cast(), 1);
            libc::kill(libc::getppid(), libc::SIGSTOP);
            libc::sleep(long.as_secs() as u32);
            libc::kill(libc::getppid(), libc::SIGCONT);
            libc::_exit(0);
        }
    }
    let report = collect(&world);
    assert!(continued.load(Ordering::Relaxed), "the collection was over before the process was stopped");
    assert!(begin.elapsed() > long, "{:?}", begin.elapsed());
    assert_eq!(report.threads_stopped, 1);
    assert_eq!(wait_for_child(shell), 0);
    thread.join().unwrap();
}

/// `.stop.jobcontrol`
#[test]
fn a_stop_of_the_whole_process_in_mid_collection_is_not_reported() {
    alone!("a_stop_of_the_whole_process_in_mid_collection_is_not_reported");
    job_control_stops_the_process_for(Duration::from_secs(2));
}

/// The same test, for 30 s; run with `--ignored`.
#[test]
#[ignore = "takes 30 s"]
fn a_stop_of_the_whole_process_for_thirty_seconds_is_not_reported() {
    if let Some(output) =
        hazard::in_own_process_ignored(module_path!(), "a_stop_of_the_whole_process_for_thirty_seconds_is_not_reported")
    {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    job_control_stops_the_process_for(Duration::from_secs(30));
}

/// `.stop.eintr`: restartable calls are restarted.
#[rstest]
fn a_read_that_stops_interrupt_continues(#[values(By::Signals, By::Debugger)] by: By) {
    let world = world(by);
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let flags = Flags::new();
    let inner = Arc::clone(&flags);
    let thread = spawn(&world, "reader", move |_| {
        inner.set_ready();
        let mut byte = [0];
        reader.read(&mut byte).map(|count| (count, byte[0]))
    });
    flags.wait_ready();
    let stat = format!("/proc/self/task/{}/stat", world.threads()[0].tid);
    wait_for("the reader to sleep", || std::fs::read_to_string(&stat).unwrap().contains(") S "));
    for _ in 0..20 {
        collect(&world);
    }
    let written = writer.write_all(b"x");
    // A reader that was interrupted has closed the pipe. Its error explains a failed write, so it is checked first.
    assert_eq!(thread.join().unwrap().unwrap(), (1, b'x'));
    written.unwrap();
}

/// `.stop.eintr`: `nanosleep` cannot be restarted (signal(7)); it returns EINTR and the remaining time, and nothing else.
#[test]
fn a_sleep_that_stops_interrupt_returns_the_remaining_time() {
    let world = world(By::Signals);
    let flags = Flags::new();
    let interrupted = Arc::new(AtomicUsize::new(0));
    let (inner, counted) = (Arc::clone(&flags), Arc::clone(&interrupted));
    let thread = spawn(&world, "sleeper", move |_| {
        inner.set_ready();
        while !inner.is_ended() {
            let begin = Instant::now();
            let mut left = libc::timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            // SAFETY: valid places, and errno of this thread.
            unsafe {
                while libc::nanosleep(&left.clone(), &mut left) != 0 {
                    assert_eq!(*libc::__errno_location(), libc::EINTR);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
            assert!(begin.elapsed() >= Duration::from_millis(99));
        }
    });
    flags.wait_ready();
    let mut collections = 0;
    wait_for("a collection to interrupt the sleep", || {
        collect(&world);
        collections += 1;
        std::thread::sleep(Duration::from_millis(5));
        interrupted.load(Ordering::Relaxed) > 0
    });
    flags.end();
    thread.join().unwrap();
    println!("{collections} collections interrupted the sleep {} times", interrupted.load(Ordering::Relaxed));
}

/// `.stop.errno`: the program's own handler of the signal, to which the collector's handler chains, changes errno; the interrupted code
/// does not see that.
#[test]
fn errno_is_restored_and_a_previous_handler_is_called_for_other_signals() {
    alone!("errno_is_restored_and_a_previous_handler_is_called_for_other_signals");
    static CALLED: AtomicI32 = AtomicI32::new(0);
    extern "C" fn spoil(_: i32) {
        CALLED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: errno of this thread.
        unsafe { *libc::__errno_location() = libc::EOVERFLOW };
    }
    handle(libc::SIGURG, spoil, 0);
    let world = world(By::Signals);
    // SAFETY: no Gc is kept.
    let m = unsafe { world.attach("errno") }.unwrap();
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = libc::E2BIG };
    tell(m.tid(), libc::SIGURG);
    // SAFETY: as above.
    let errno = unsafe { *libc::__errno_location() };
    assert_eq!(CALLED.load(Ordering::Relaxed), 1, "a signal of the program's own was not passed on");
    assert_eq!(errno, libc::E2BIG, "the handler of the suspend signal changed errno");
    // The collector's own signals are not passed on.
    let busy = Busy::new(&world, "busy");
    for _ in 0..20 {
        m.collect().unwrap();
    }
    busy.assert_runs();
    assert_eq!(CALLED.load(Ordering::Relaxed), 1);
}

/// `.stop.lost`
#[test]
fn a_replaced_handler_is_named_as_the_reason() {
    alone!("a_replaced_handler_is_named_as_the_reason");
    extern "C" fn other(_: i32) {}
    let world = builder().stop_timeout(SHORT).build().unwrap();
    let busy = Busy::spinning(&world, "busy");
    collects_again(&world);
    busy.assert_runs();
    let ours = handle(libc::SIGURG, other, libc::SA_RESTART);
    assert_names(&world, &busy, "busy", &SilenceReason::HandlerReplaced { signal: libc::SIGURG });
    // SAFETY: restores the old handler.
    unsafe { libc::sigaction(libc::SIGURG, &ours, std::ptr::null_mut()) };
    collects_again(&world);
    busy.assert_runs();
}

#[test]
fn a_check_of_the_promise_without_its_allocator_is_an_error_with_the_remedy() {
    let built = World::builder().check_promise(stopworld::check::CheckPromise::report()).build();
    let error = built.unwrap_err().to_string();
    assert!(
        error.starts_with("check_promise needs the checked allocator: declare `#[global_allocator] static"),
        "{error}"
    );
    assert!(!error.contains('\n'), "{error}");
}
