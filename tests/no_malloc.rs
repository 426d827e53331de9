//! `.stop.no-malloc`, `.stop.locks`: between the first signal of a stop and the restart, neither the collecting thread nor a thread that it
//! waits for calls malloc. With mutators that hold all of libc's locks most of the time, there is never a deadlock.
//!
//! This binary replaces two allocators by wrappers that abort the process when a thread allocates inside the stopped world: Rust's global
//! allocator, and *malloc itself*. The functions below have the names of libc's, so the dynamic linker resolves every call of `malloc` to
//! them, including libc's internal calls (`pthread_getattr_np`, `strdup`, `dlopen`). They check, and forward to libc's `__libc_malloc`.
//!
//! A handler of a signal may interrupt malloc, so it must not call it either, whether the world is stopped or not. `sigaction` is replaced,
//! too: each handler is installed with a wrapper around it, which tells the check that the thread is in a handler.

mod hazard;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_char, c_int, c_void};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hazard::{By, Flags, build, builder, collect, handle, spawn};
use rstest::rstest;
use stopworld::events::{MemorySink, Selection};
use stopworld::profile::allocations::AllocationSampling;
use stopworld::profile::census::{Breakdown, CensusRequest, Every, Filters, HeapProfile};
use stopworld::{Charging, Description, Gc, GcCell, Leaf, Mutator, WeakMap, cost_centre, testing, traced};
use stopworld_trace::eventlog;
use stopworld_trace::nettrace::{Container, Options, Providers};

/// The number of calls of malloc.
static CALLS: AtomicU64 = AtomicU64::new(0);

#[inline]
fn look(what: &[u8]) {
    if handlers::is_in_one() {
        caught(b"in the handler of a signal: ", what);
    }
    if testing::is_inside_the_stopped_world() {
        caught(b"inside the stopped world: ", what);
    }
}

/// Prints the caller's backtrace, if malloc still works, and ends the process.
#[cold]
fn caught(place: &[u8], what: &[u8]) {
    static CAUGHT: AtomicBool = AtomicBool::new(false);
    if CAUGHT.swap(true, Ordering::Relaxed) {
        // Printing the backtrace allocates, which is allowed here.
        return;
    }
    // SAFETY: plain system calls. If a stopped thread holds malloc's lock, the alarm ends the process.
    unsafe {
        libc::write(2, place.as_ptr().cast(), place.len());
        libc::write(2, what.as_ptr().cast(), what.len());
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(5);
    }
    // Not `eprintln!`, because the test harness captures it.
    let _ = write!(std::io::stderr(), "{}", std::backtrace::Backtrace::force_capture());
    std::process::abort();
}

struct Watched;

// SAFETY: the system's allocator, after a check.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        look(b"the global allocator was called\n");
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        look(b"the global allocator was called (free)\n");
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static GLOBAL: Watched = Watched;

mod interposed {
    //! malloc and its family. SAFETY of all: the arguments are passed on unchanged.
    #![allow(clippy::undocumented_unsafe_blocks, reason = "each forwards its caller's arguments")]

    use super::*;

    unsafe extern "C" {
        fn __libc_malloc(size: usize) -> *mut c_void;
        fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
        fn __libc_realloc(memory: *mut c_void, size: usize) -> *mut c_void;
        fn __libc_free(memory: *mut c_void);
        fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
    }

    fn noted(what: &'static [u8]) {
        CALLS.fetch_add(1, Ordering::Relaxed);
        look(what);
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
        noted(b"malloc was called\n");
        unsafe { __libc_malloc(size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
        noted(b"calloc was called\n");
        unsafe { __libc_calloc(count, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn realloc(memory: *mut c_void, size: usize) -> *mut c_void {
        noted(b"realloc was called\n");
        unsafe { __libc_realloc(memory, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn free(memory: *mut c_void) {
        // free(NULL) takes no lock, but its caller does not know that and must not call it here.
        noted(b"free was called\n");
        unsafe { __libc_free(memory) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
        noted(b"memalign was called\n");
        unsafe { __libc_memalign(align, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
        noted(b"aligned_alloc was called\n");
        unsafe { __libc_memalign(align, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn posix_memalign(result: *mut *mut c_void, align: usize, size: usize) -> c_int {
        noted(b"posix_memalign was called\n");
        let memory = unsafe { __libc_memalign(align, size) };
        if memory.is_null() {
            return libc::ENOMEM;
        }
        unsafe { *result = memory };
        0
    }
}

mod handlers {
    //! Wrappers around the handlers of signals.

    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const SIGNALS: usize = 65;

    type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

    /// The address of the handler of each signal that has a wrapper; 0 for the others.
    static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

    thread_local! {
        static DEPTH: Cell<u32> = const { Cell::new(0) };
    }

    /// Returns whether the calling thread is in a handler.
    #[inline]
    pub(super) fn is_in_one() -> bool {
        DEPTH.get() > 0
    }

    unsafe extern "C" {
        fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    }

    /// Queries the action that is really installed.
    pub(super) unsafe fn installed(signal: c_int, action: &mut libc::sigaction) {
        // SAFETY: a query.
        unsafe { __sigaction(signal, std::ptr::null(), action) };
    }

    unsafe extern "C" fn wrapper(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        DEPTH.set(DEPTH.get() + 1);
        let handler = HANDLERS[signal as usize].load(Ordering::Relaxed);
        // SAFETY: what `sigaction` was given as a handler. One that expects fewer arguments ignores the others.
        unsafe { std::mem::transmute::<usize, Handler>(handler)(signal, info, context) };
        DEPTH.set(DEPTH.get() - 1);
    }

    /// Installs the wrapper instead of the handler, and returns the handler if that is queried.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        let slot = usize::try_from(signal).ok().and_then(|signal| HANDLERS.get(signal));
        let before = slot.map_or(0, |slot| slot.load(Ordering::Relaxed));
        // SAFETY: the caller's arguments, but for the handler. The stored handler is replaced before the wrapper can be called for it.
        unsafe {
            let mut wrapped = new.as_ref().copied();
            if let (Some(slot), Some(action)) = (slot, &mut wrapped)
                && action.sa_sigaction != libc::SIG_DFL
                && action.sa_sigaction != libc::SIG_IGN
            {
                slot.store(action.sa_sigaction, Ordering::Relaxed);
                action.sa_sigaction = wrapper as *const () as usize;
                action.sa_flags |= libc::SA_SIGINFO;
            }
            let result = __sigaction(signal, wrapped.as_ref().map_or(std::ptr::null(), |action| action), old);
            if let Some(old) = old.as_mut()
                && old.sa_sigaction == wrapper as *const () as usize
            {
                old.sa_sigaction = before;
            }
            result
        }
    }
}

/// A handler that allocates is caught in a process of its own.
#[test]
fn an_allocation_in_a_handler_is_caught() {
    unsafe extern "C" fn allocates(_: c_int) {
        std::hint::black_box(Box::new(1));
    }
    let (mut printed, writer) = std::io::pipe().unwrap();
    // SAFETY: the child is a process of one thread, which only installs a handler, and ends.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::dup2(writer.as_raw_fd(), 2);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = allocates as *const () as usize;
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
            libc::raise(libc::SIGUSR1);
            libc::_exit(0);
        }
        child
    };
    drop(writer);
    let mut message = String::new();
    printed.read_to_string(&mut message).unwrap();
    let mut status = 0;
    // SAFETY: waits for the child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFSIGNALED(status), "{status:#x}");
    assert!(message.starts_with("in the handler of a signal: the global allocator was called\n"), "{message}");
}

/// The suspend signal's handler is called through the wrapper, although its address is what a query returns.
#[test]
fn the_suspend_signals_handler_is_watched() {
    let world = hazard::world(By::Signals);
    // SAFETY: plain queries.
    let (shown, installed) = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGURG, std::ptr::null(), &mut action);
        let shown = action.sa_sigaction;
        handlers::installed(libc::SIGURG, &mut action);
        (shown, action.sa_sigaction)
    };
    assert_ne!(shown, installed);
    drop(world);
}

#[test]
fn libcs_own_calls_of_malloc_use_this_wrapper() {
    let before = CALLS.load(Ordering::Relaxed);
    // SAFETY: a C string; freed once.
    unsafe {
        let copy: *mut c_char = libc::strdup(c"allocated by libc itself".as_ptr());
        // The compiler knows strdup and free, and could optimise both away.
        libc::free(std::hint::black_box(copy).cast());
    }
    assert!(CALLS.load(Ordering::Relaxed) >= before + 2);
    assert!(!testing::is_inside_the_stopped_world());
}

traced! {
    struct Link {
        next: GcCell<Option<Gc<Link>>>,
        number: u64,
    }
    /// Supplies its own description.
    struct Described {
        called: Description,
        to: GcCell<Option<Gc<Described>>>,
    }
}

fn allocate(m: &Mutator, length: u64) {
    let mut head: Option<Gc<Link>> = None;
    for number in 0..length {
        head = Some(m.alloc(Link { next: GcCell::new(head), number }).unwrap());
    }
    let mut expected = length;
    while let Some(link) = head {
        expected -= 1;
        assert_eq!(link.number, expected);
        head = link.next.get();
    }
    assert_eq!(expected, 0);
}

/// Everything that a collection can do, under the wrappers of both allocators: parallel marking, weak references and maps, finalizers, drops,
/// arrays, large objects, events, verification.
#[rstest]
fn a_collection_with_everything_in_it_calls_no_malloc(
    #[values(By::Signals, By::Safepoints, By::Debugger)] by: By,
    #[values(1, 3)] markers: usize,
) {
    let world = build(builder().markers(markers).mark_stack_limit(1 << 16), by);
    let sink = Arc::new(MemorySink::with_capacity(1 << 12).unwrap());
    world.events().listen(sink.clone(), Selection::everything()).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let done = Arc::clone(&done);
            spawn(&world, "allocator", move |m| {
                while !done.load(Ordering::Relaxed) {
                    allocate(m, 300);
                    let dropped = m.alloc(Leaf(vec![1_u8; 40])).unwrap();
                    let weak = m.alloc_weak(dropped).unwrap();
                    let array = m.alloc_array(300, |_| GcCell::new(Some(weak))).unwrap();
                    let large = m.alloc_array(3000, |_| GcCell::new(Some(array))).unwrap();
                    m.set_finalizer(large, |m, _| assert!(m.alloc(Leaf(0_u64)).is_ok())).unwrap();
                    // A chain of entries, each of which leads to the key of the next, and entries that die.
                    let mut map = WeakMap::new();
                    let first = m.alloc(Leaf(0)).unwrap();
                    let mut key = first;
                    for number in 0..1000_u64 {
                        let next = m.alloc(Leaf(number)).unwrap();
                        map.insert(m, key, next).unwrap();
                        map.insert(m, m.alloc(Leaf(number)).unwrap(), next).unwrap();
                        key = next;
                    }
                    let root = m.root(large);
                    m.safepoint();
                    assert!(root.get(m)[2999].get().is_some());
                    assert!(map.len() >= 1000 && map.contains_key(first));
                    // Finalizers run on one thread, which needs time for them.
                    m.blocking(|| std::thread::sleep(Duration::from_micros(500)));
                }
            })
        })
        .collect();
    let begin = Instant::now();
    for round in 0..50 {
        collect(&world);
        std::thread::sleep(Duration::from_micros(300));
        if round > 10 && begin.elapsed() > Duration::from_secs(5) {
            break;
        }
    }
    done.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(sink.stored() > 0);
    collect(&world);
}

/// The collecting thread drains while it dumps the heap: the writers of traces must work there without malloc.
#[rstest]
fn a_heap_dump_and_the_writer_of_its_trace_call_no_malloc(
    #[values(By::Signals, By::Safepoints, By::Debugger)] by: By,
    #[values(Container::V4, Container::V6)] container: Container,
) {
    let directory = tempfile::tempdir().unwrap();
    let everything = Providers::parse("Microsoft-Windows-DotNETRuntime,stopworld:ff:5").unwrap();
    let options = Options::new(directory.path().join("t.nettrace")).container(container);
    let trace = options.providers(everything).start().unwrap();
    let log = eventlog::Options::new(directory.path().join("t.eventlog")).start().unwrap();
    let world = build(builder().markers(2).record_to(&trace).record_to(&log), by);
    let allocator = spawn(&world, "allocator", move |m| {
        for _ in 0..20 {
            allocate(m, 3_000);
            m.blocking(|| std::thread::sleep(Duration::from_micros(200)));
        }
    });
    for _ in 0..10 {
        collect(&world);
    }
    allocator.join().unwrap();
    drop(world);
    let finished = trace.finish().unwrap();
    assert!(finished.is_complete() && finished.records > 10_000, "{finished:?}");
    let finished = log.finish().unwrap();
    assert!(finished.is_complete() && finished.records > 100, "{finished:?}");
}

/// A census counts in mapped memory, also when it gets more keys than ever before; its messages are printed after the world has resumed.
#[rstest]
fn a_census_calls_no_malloc(
    #[values(By::Signals, By::Safepoints, By::Debugger)] by: By,
    #[values(
        Breakdown::CostCentre,
        Breakdown::Module,
        Breakdown::Description,
        Breakdown::Type,
        Breakdown::Retainer,
        Breakdown::Kind
    )]
    breakdown: Breakdown,
) {
    let world = build(builder().markers(2).charge_allocations(Charging::On), by);
    let labels: Vec<_> = (0..3_000).map(|i| world.telemetry_intern(&format!("object-{i}")).unwrap()).collect();
    let done = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..2)
        .map(|i| {
            let (done, labels) = (Arc::clone(&done), labels.clone());
            spawn(&world, "hammer", move |m| {
                let _cost = cost_centre!("hammer");
                let mut turn = i;
                while !done.load(Ordering::Relaxed) {
                    // Every object has a description of its own, and is a retainer.
                    let mut last: Option<Gc<Described>> = None;
                    for label in labels.iter().step_by(1 + turn as usize % 7) {
                        let to = GcCell::new(last);
                        last = Some(m.alloc(Described { called: Description::new(*label), to }).unwrap());
                    }
                    // The thread takes every lock except those for printing.
                    if !matches!(turn % 8, 2 | 3) {
                        hammer(m, turn);
                    }
                    turn += 1;
                    assert!(last.is_some());
                }
            })
        })
        .collect();
    let filters = Filters { descriptions: vec!["object-7".into(), "no_malloc::Described".into()], ..Filters::none() };
    world.profile(HeapProfile::by(breakdown).every(Every::Collections(2))).unwrap();
    for turn in 0..10 {
        let filters = if turn % 2 == 0 { filters.clone() } else { Filters::none() };
        let most_retainers = 1 + turn;
        let census = world.census(&CensusRequest { breakdown, filters, most_retainers }).unwrap();
        let sum: u64 = census.bands.iter().map(|band| band.bytes).sum();
        assert_eq!(sum + census.filtered_bytes, census.live_bytes);
    }
    assert!(world.end_profile().unwrap().unwrap().censuses >= 5);
    done.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A collection removes the samples of objects that have died (`.profile.samples`), while threads are stopped anywhere in a sample, which
/// allocates memory and takes the lock of the dynamic loader.
#[rstest]
fn a_collection_while_threads_sample_calls_no_malloc(
    #[values(By::Signals, By::Safepoints, By::Debugger)] by: By,
    #[values(1, 2)] markers: usize,
) {
    let world = build(builder().markers(markers).allocation_sampling(AllocationSampling::every(64)), by);
    let done = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3)
        .map(|first| {
            let done = Arc::clone(&done);
            spawn(&world, "sampled", move |m| {
                let mut turn = first;
                while !done.load(Ordering::Relaxed) {
                    allocate(m, 300);
                    // The thread takes every lock except those for printing.
                    if !matches!(turn % 8, 2 | 3) {
                        hammer(m, turn);
                    }
                    turn += 1;
                }
            })
        })
        .collect();
    for _ in 0..100 {
        collect(&world);
        std::thread::sleep(Duration::from_micros(300));
    }
    done.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    collect(&world);
    let sites = world.allocation_profile().unwrap().sites;
    assert!(sites.iter().map(|site| site.samples).sum::<u64>() > 100);
    assert_eq!(sites.iter().map(|site| site.samples_in_use).sum::<u64>(), 0, "no thread is attached");
}

/// The work of every collection for a biography does not allocate, either.
#[cfg(feature = "biography")]
#[rstest]
fn a_biography_calls_no_malloc(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    let world = build(builder().markers(2), by);
    world.profile(HeapProfile::by(Breakdown::Biography).every(Every::Collections(2))).unwrap();
    let allocator = spawn(&world, "allocator", |m| (0..50).for_each(|_| allocate(m, 2_000)));
    for _ in 0..20 {
        collect(&world);
    }
    allocator.join().unwrap();
    let finished = world.end_profile().unwrap().unwrap();
    assert!(finished.censuses >= 10);
    for census in finished.biography {
        assert_eq!(census.bands.iter().map(|band| band.bytes).sum::<u64>(), census.live_bytes);
    }
}

/// `.stop.lost`: the error is constructed after the world has resumed.
#[rstest]
fn a_stop_that_fails_calls_no_malloc_while_threads_are_stopped(
    #[values(By::Signals, By::Safepoints, By::Debugger)] by: By,
) {
    let world = build(builder().stop_timeout(Duration::from_millis(60)), by);
    let done = Arc::new(AtomicBool::new(false));
    let flags = Flags::new();
    let threads: Vec<_> = (0..3)
        .map(|i| {
            let (done, inner) = (Arc::clone(&done), Arc::clone(&flags));
            spawn(&world, "allocator", move |m| {
                if i == 0 {
                    mask_all_signals();
                    inner.set_ready();
                }
                while !done.load(Ordering::Relaxed) {
                    drop(vec![1_u8; 100]);
                    if i > 0 {
                        allocate(m, 10);
                    }
                }
            })
        })
        .collect();
    flags.wait_ready();
    let failed = (0..5).filter(|_| world.collect().is_err()).count();
    done.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(failed > 0);
}

fn mask_all_signals() {
    // SAFETY: a plain change of this thread's mask.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

extern "C" fn tick(_: i32) {
    TICKS.fetch_add(1, Ordering::Relaxed);
}

static TICKS: AtomicU64 = AtomicU64::new(0);

/// A timer that signals the calling thread, or the process.
struct Timer(libc::timer_t);

impl Timer {
    fn new(signal: i32, whom: i32, period: Duration) -> Self {
        // SAFETY: complete arguments in valid places.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = whom;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer = std::mem::zeroed();
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
            let period = libc::timespec { tv_sec: 0, tv_nsec: period.as_nanos() as i64 };
            let setting = libc::itimerspec { it_interval: period, it_value: period };
            assert_eq!(libc::timer_settime(timer, 0, &setting, std::ptr::null_mut()), 0);
            Self(timer)
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: created by `new`.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Takes one of the C library's locks, a different one each turn.
fn hammer(m: &Mutator, turn: u64) {
    match turn % 8 {
        0 => {
            let some: Vec<Box<[u8]>> = (1..40).map(|i| vec![turn as u8; i * 50].into_boxed_slice()).collect();
            assert!(some.iter().all(|bytes| bytes[0] == turn as u8));
        }
        // SAFETY: allocated here, freed here.
        1 => unsafe {
            for i in 1..40 {
                libc::free(libc::realloc(libc::malloc(i * 30), i * 60));
            }
        },
        2 => {
            let mut out = std::io::stdout().lock();
            for _ in 0..5 {
                let _ = writeln!(out, "Rust's stdout lock, turn {turn}");
            }
        }
        // SAFETY: a C string.
        3 => unsafe {
            for _ in 0..5 {
                libc::puts(c"C's stdout lock".as_ptr());
            }
        },
        // SAFETY: names of things that exist, or not.
        4 => unsafe {
            assert!(!libc::dlsym(libc::RTLD_DEFAULT, c"qsort".as_ptr()).is_null());
            assert!(libc::dlsym(libc::RTLD_DEFAULT, c"no such symbol".as_ptr()).is_null());
            let library = libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW);
            if !library.is_null() {
                libc::dlclose(library);
            }
        },
        5 => {
            let turn = m.blocking(|| std::thread::spawn(move || vec![turn; 10].len()).join().unwrap());
            assert_eq!(turn, 10);
        }
        6 => {
            let text = format!("{turn} {:?} {:?}", std::env::var("PATH"), std::thread::current().name());
            assert!(!text.is_empty());
        }
        _ => allocate(m, 100),
    }
}

/// Checks that there is no deadlock: `mutators` mutators take all the locks in turn, with timers of their own, during `collections`
/// collections.
fn hammered(by: By, mutators: usize, collections: u32, markers: usize) {
    // The output is discarded, but takes the same locks.
    // SAFETY: plain system calls of a process that is this test's own.
    unsafe {
        let nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
        libc::dup2(nowhere, 1);
    }
    let own_signal = libc::SIGRTMIN() + 3;
    handle(own_signal, tick, libc::SA_RESTART);
    handle(libc::SIGALRM, tick, libc::SA_RESTART);
    let world = build(builder().initial_heap(8 << 20).markers(markers), by);
    let done = Arc::new(AtomicBool::new(false));
    let turns: Arc<Vec<AtomicU64>> = Arc::new((0..mutators).map(|_| AtomicU64::new(0)).collect());
    let _alarm = Timer::new(libc::SIGALRM, libc::SIGEV_SIGNAL, Duration::from_millis(3));
    let threads: Vec<_> = (0..mutators)
        .map(|i| {
            let (done, turns) = (Arc::clone(&done), Arc::clone(&turns));
            spawn(&world, &format!("hammer-{i}"), move |m| {
                let _own = Timer::new(own_signal, libc::SIGEV_THREAD_ID, Duration::from_millis(2));
                let mut turn = i as u64;
                while !done.load(Ordering::Relaxed) {
                    hammer(m, turn);
                    m.safepoint();
                    turn += 1;
                    turns[i].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let begin = Instant::now();
    for _ in 0..collections {
        collect(&world);
        // Lets the mutators take the world's locks for a moment; a program that only collects does no work.
        std::thread::yield_now();
    }
    let took = begin.elapsed();
    done.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let turns: Vec<u64> = turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect();
    eprintln!(
        "{by:?}: {collections} collections in {took:?}, turns {turns:?}, timer signals {}, calls of malloc {}",
        TICKS.load(Ordering::Relaxed),
        CALLS.load(Ordering::Relaxed)
    );
    assert!(turns.iter().all(|&turns| turns >= 16), "each thread went through all of it twice: {turns:?}");
    assert!(TICKS.load(Ordering::Relaxed) > 0);
}

#[test]
fn eight_mutators_hammer_libcs_locks_through_ten_thousand_collections_by_signals() {
    alone!("eight_mutators_hammer_libcs_locks_through_ten_thousand_collections_by_signals");
    hammered(By::Signals, 8, 10_000, 1);
}

#[test]
fn eight_mutators_hammer_libcs_locks_through_ten_thousand_collections_by_the_debugger() {
    alone!("eight_mutators_hammer_libcs_locks_through_ten_thousand_collections_by_the_debugger");
    hammered(By::Debugger, 8, 10_000, 2);
}

#[test]
fn eight_mutators_hammer_libcs_locks_through_ten_thousand_collections_at_safepoints() {
    alone!("eight_mutators_hammer_libcs_locks_through_ten_thousand_collections_at_safepoints");
    hammered(By::Safepoints, 8, 10_000, 2);
}
