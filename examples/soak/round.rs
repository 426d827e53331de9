//! One round: a world, and threads that use all operations that a program may use.

use std::error::Error;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use stopworld::debugger::mock::MockDebugger;
use stopworld::profile::census::{Breakdown, CensusRequest};
use stopworld::{
    Charging, CollectError, CollectionReport, Mutator, Paranoid, Root, SafepointStopper, SignalStopper, StopError,
    Stopper, ThreadVtable, WeakCell, World,
};

use super::check::{Node, assert_tree, tree};
use super::counts::{Counts, one};
use super::orchestrator::what_it_does;
use super::{traces, workers};

/// The arguments that the orchestrator passes to a round.
#[derive(clap::Args)]
pub(crate) struct RoundArguments {
    /// The seed of all random choices
    seed: u64,
    /// The duration of the round
    seconds: u64,
    /// The directory for traces
    directory: PathBuf,
}

/// The time limit of a stop. It is long, because a stop waits for threads that a debugger holds, and the machine may be loaded.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// The time after which an alarm kills a forked child.
const CHILD_SECONDS: u32 = 280;
/// The default suspend signal of a world.
const SUSPEND_SIGNAL: i32 = libc::SIGURG;

/// The data that all threads of a round share. There is one per process, and it is never freed.
#[derive(Default)]
pub(crate) struct Shared {
    over: AtomicBool,
    /// The installed stopper, as an index into the counters of [`Shared::stops`].
    stopper: AtomicUsize,
    pub(crate) counts: Counts,
    roots: Mutex<Vec<Root<Node>>>,
    weak: Mutex<Vec<Root<WeakCell<Node>>>>,
}

static SHARED: OnceLock<Shared> = OnceLock::new();

impl Shared {
    /// Returns the shared data of this process, for finalizers.
    pub(crate) fn of_process() -> Option<&'static Shared> {
        SHARED.get()
    }

    /// Returns whether threads must end.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Locks the handles that threads pass to each other. To be called in a blocking region.
    pub(crate) fn roots(&self) -> MutexGuard<'_, Vec<Root<Node>>> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the weak references that threads pass to each other. To be called in a blocking region.
    pub(crate) fn weak(&self) -> MutexGuard<'_, Vec<Root<WeakCell<Node>>>> {
        self.weak.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counter of collections with the installed stopper. A collection during a swap may count for either stopper.
    fn stops(&self) -> &AtomicU64 {
        let counts = &self.counts;
        let all = [
            &counts.stops_by_signals,
            &counts.stops_by_safepoints,
            &counts.stops_by_mock_debugger,
            &counts.stops_by_assisted_mock_debugger,
        ];
        all[self.stopper.load(Ordering::Relaxed)]
    }

    /// Checks the outcome of a requested collection. The only allowed failure is that a debugger died during it.
    pub(crate) fn collected(&self, outcome: Result<CollectionReport, CollectError>) {
        match outcome {
            Ok(_) | Err(CollectError::Discarded { .. }) => {}
            Err(error) => panic!("a collection failed: {error}"),
        }
    }
}

/// Runs a round. A failed check panics, and a panic on any thread ends the process.
pub(crate) fn run(arguments: &RoundArguments) -> Result<(), Box<dyn Error>> {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default(panic);
        std::process::abort();
    }));
    // SAFETY: a system call without pointers. It allows any process of the user to attach, as the round's debugger does.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };

    let shared = SHARED.get_or_init(Shared::default);
    let mut random = Rng::with_seed(arguments.seed);
    // Skip the number from which the orchestrator derives the round's length.
    random.u64(..);
    let world = build(&mut random, shared)?;
    let begin = Instant::now();
    let length = Duration::from_secs(arguments.seconds);
    thread::scope(|scope| {
        for index in 0..random.usize(1..7) {
            let (random, world) = (random.fork(), &world);
            scope.spawn(move || {
                // SAFETY: the functions of `workers` keep references where the collector finds them.
                let m = unsafe { world.attach(&format!("worker-{index}")) }.expect("a worker can attach");
                workers::work(&m, random, shared).expect("the heap limit is generous");
            });
        }
        let mut actor = |likely: u8, act: fn(&World, Rng, &'static Shared, &Path)| {
            let (mut random, world) = (random.fork(), &world);
            if random.u8(0..10) < likely {
                scope.spawn(move || act(world, random, shared, &arguments.directory));
            }
        };
        actor(8, |world, random, shared, _| workers::bear(world, random, shared));
        actor(9, |world, random, shared, _| collect(world, random, shared));
        actor(8, |world, random, shared, _| swap(world, random, shared));
        actor(6, |world, random, shared, _| suspend(world, random, shared));
        actor(6, |world, random, shared, _| fork(world, random, shared));
        actor(4, |world, random, shared, _| other_worlds(world, random, shared));
        actor(8, traces::record);
        actor(4, traces::record);
        thread::sleep(length.saturating_sub(begin.elapsed()));
        shared.over.store(true, Ordering::Relaxed);
    });
    let verified = world.verify();
    assert!(matches!(verified, Ok(_) | Err(CollectError::Discarded { .. })), "the last verification: {verified:?}");
    assert_eq!(world.damage(), None);
    shared.roots().clear();
    shared.weak().clear();
    world.close(Duration::from_secs(60))?;
    shared.counts.report();
    Ok(())
}

fn build(random: &mut Rng, shared: &Shared) -> Result<World, Box<dyn Error>> {
    let stopper = if random.bool() { Stopper::Signals } else { Stopper::Safepoints };
    shared.stopper.store(usize::from(stopper == Stopper::Safepoints), Ordering::Relaxed);
    let world = World::builder()
        .heap_limit(256 << 20)
        .initial_heap(random.usize(64 << 10..4 << 20))
        .growth(0.3 + random.f64())
        .markers(random.usize(1..4))
        .stopper(stopper)
        .stop_timeout(STOP_TIMEOUT)
        .charge_allocations(if random.bool() { Charging::On } else { Charging::Off })
        .paranoid(Paranoid::On)
        .on_collection(|_| {
            if let Some(shared) = Shared::of_process() {
                one(&shared.counts.collections);
                one(shared.stops());
            }
        })
        .on_failure(|error| match error {
            CollectError::Discarded { answer: None, .. } => {
                if let Some(shared) = Shared::of_process() {
                    one(&shared.counts.collections_discarded);
                }
            }
            // The orchestrator checks these counts: it knows whether a debugger lied.
            CollectError::Discarded { answer: Some(_), .. } | CollectError::Stop(StopError::FalseAnswer(_)) => {
                if let Some(shared) = Shared::of_process() {
                    one(&shared.counts.false_answers);
                }
            }
            error => panic!("a collection failed: {error}"),
        })
        .build();
    Ok(world?)
}

fn pause(random: &mut Rng, most: Duration) {
    thread::sleep(Duration::from_nanos(random.u64(0..most.as_nanos() as u64)));
}

/// Collects, verifies and takes censuses on a thread that is not attached to the world.
fn collect(world: &World, mut random: Rng, shared: &'static Shared) {
    while !shared.is_over() {
        match random.u8(0..8) {
            0 => match world.verify() {
                Ok(_) => one(&shared.counts.verifications),
                Err(CollectError::Discarded { .. }) => {}
                Err(error) => panic!("the heap could not be verified: {error}"),
            },
            1 => {
                // The census is refused if the world does not charge allocations.
                let breakdown = if random.bool() { Breakdown::Type } else { Breakdown::Retainer };
                if world.census(&CensusRequest::by(breakdown)).is_ok() {
                    one(&shared.counts.censuses);
                }
            }
            _ => shared.collected(world.collect()),
        }
        pause(&mut random, Duration::from_millis(30));
    }
}

/// Swaps the stopper. While a mock debugger is installed, it freezes threads.
fn swap(world: &World, mut random: Rng, shared: &'static Shared) {
    let mut present: Option<Arc<dyn ThreadVtable>> = None;
    while !shared.is_over() {
        let mut mock = None;
        let which = random.usize(0..5);
        let next: Arc<dyn ThreadVtable> = match which {
            0 => Arc::new(SignalStopper::new(SUSPEND_SIGNAL).expect("the signal is the world's own")),
            1 => Arc::new(SafepointStopper),
            2 => mock.insert(MockDebugger::new().expect("the mock's signal is free")).clone(),
            3 => mock.insert(MockDebugger::assisted().expect("the mock's signal is free")).clone(),
            // This installs the stopper that is already installed.
            _ => present.clone().unwrap_or_else(|| Arc::new(SafepointStopper)),
        };
        present = Some(Arc::clone(&next));
        world.set_thread_vtable(next).expect("a stopper can be swapped at any time");
        if which < 4 {
            shared.stopper.store(which, Ordering::Relaxed);
        }
        one(&shared.counts.stoppers_swapped);
        for _ in 0..random.u8(1..5) {
            pause(&mut random, Duration::from_millis(60));
            if let Some(debugger) = &mock {
                freeze(world, debugger, &mut random, shared);
            }
        }
    }
    // Remove a mock debugger before the round's other threads end: it must not outlive them.
    world.set_thread_vtable(Arc::new(SafepointStopper)).expect("a stopper can be swapped at any time");
}

fn freeze(world: &World, debugger: &MockDebugger, random: &mut Rng, shared: &Shared) {
    let threads = world.threads();
    let Some(index) = random.usize(..).checked_rem(threads.len()) else { return };
    // A thread that has ended meanwhile can't be frozen.
    if debugger.freeze(threads[index].tid).is_ok() {
        pause(random, Duration::from_millis(20));
        debugger.thaw(threads[index].tid);
        one(&shared.counts.threads_frozen);
    }
}

/// Suspends and resumes threads with the world's public functions.
fn suspend(world: &World, mut random: Rng, shared: &'static Shared) {
    while !shared.is_over() {
        pause(&mut random, Duration::from_millis(40));
        let threads = world.threads();
        let Some(index) = random.usize(..).checked_rem(threads.len()) else { continue };
        let tid = threads[index].tid;
        if world.suspend(tid).is_ok() {
            pause(&mut random, Duration::from_millis(20));
            world.resume(tid);
            one(&shared.counts.threads_suspended);
        }
    }
}

/// Forks, from a mutator or from a thread that is not attached. The child collects, allocates, verifies and ends.
fn fork(world: &World, mut random: Rng, shared: &'static Shared) {
    while !shared.is_over() {
        pause(&mut random, Duration::from_millis(300));
        if random.bool() {
            // SAFETY: this thread has no references of its own.
            let Ok(m) = (unsafe { world.attach("forker") }) else { continue };
            let child = fork_once(world, Some(&m));
            m.blocking(|| await_child(child));
        } else {
            await_child(fork_once(world, None));
        }
        one(&shared.counts.forks);
    }
}

/// Forks, on a mutator's thread (`own`) or on one that is not attached. Only the parent returns.
fn fork_once(world: &World, own: Option<&Mutator>) -> i32 {
    // SAFETY: the child calls the collector and the C library's allocator, both of which a fork leaves usable, and ends by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed: {}", std::io::Error::last_os_error());
    if child != 0 {
        return child;
    }
    // SAFETY: a system call without pointers.
    unsafe { libc::alarm(CHILD_SECONDS) };
    let live_in_child = |world: &World| -> Result<(), Box<dyn Error>> {
        let repeated = |outcome: Result<CollectionReport, CollectError>| match outcome {
            Ok(_) | Err(CollectError::Discarded { .. }) => Ok(()),
            Err(error) => Err(error),
        };
        repeated(world.collect())?;
        second_thread(world, own)?;
        repeated(world.collect())?;
        world.verify()?;
        Ok(())
    };
    let code = match live_in_child(world) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("a forked child failed: {error}");
            1
        }
    };
    // SAFETY: ends this process without running the parent's exit functions.
    unsafe { libc::_exit(code) }
}

/// Runs a mutator on a second thread of a forked child. Does not use `World::spawn`, whose documentation gives the reason.
fn second_thread(world: &World, own: Option<&Mutator>) -> Result<(), Box<dyn Error>> {
    extern "C" fn live(world: *mut c_void) -> *mut c_void {
        // SAFETY: `second_thread` owns the world and waits for this thread. The tree is on this thread's stack.
        let made = unsafe { (*world.cast::<World>()).attach("child's") }.map(|m| tree(&m, 9).map(assert_tree));
        std::ptr::without_provenance_mut(usize::from(matches!(made, Ok(Ok(_)))))
    }
    let mut thread = 0;
    let world = std::ptr::from_ref(world).cast_mut().cast();
    // SAFETY: the pointer is to a variable of this function, which waits for the thread.
    let failed = unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), live, world) };
    if failed != 0 {
        return Err(std::io::Error::from_raw_os_error(failed).into());
    }
    let join = || {
        let mut is_whole = std::ptr::null_mut();
        // SAFETY: the thread has not been joined yet.
        unsafe { libc::pthread_join(thread, &raw mut is_whole) };
        !is_whole.is_null()
    };
    let is_whole = own.map_or_else(join, |m| m.blocking(join));
    if is_whole { Ok(()) } else { Err("a thread of a forked child could not build its tree".into()) }
}

/// Waits for the end of a forked child. An alarm kills a child that runs too long; its stacks are printed before that.
fn await_child(child: i32) {
    let mut status = 0;
    let late = Instant::now() + Duration::from_secs(CHILD_SECONDS.into()) - Duration::from_secs(20);
    let mut is_shown = false;
    // SAFETY: the pointer is to a variable of this function.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } != child {
        if Instant::now() > late && !std::mem::replace(&mut is_shown, true) {
            eprintln!("a forked child is stuck:\n{}", what_it_does(child.unsigned_abs()));
        }
        thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(status, 0, "a forked child failed (wait status {status:#x})");
}

/// Builds further worlds in addition to the round's, uses them, and closes or drops them.
fn other_worlds(_: &World, mut random: Rng, shared: &'static Shared) {
    while !shared.is_over() {
        let builder = World::builder().heap_limit(32 << 20).markers(random.usize(1..3)).stop_timeout(STOP_TIMEOUT);
        let other = builder.paranoid(Paranoid::On).build().expect("a second world can be built");
        // SAFETY: the references are local variables.
        let m = unsafe { other.attach("elsewhere") }.expect("a thread can be a mutator of one more world");
        let kept = tree(&m, random.u64(4..10)).expect("the heap limit is generous");
        m.set_finalizer(tree(&m, 3).expect("the heap limit is generous"), |_, tree| assert!(assert_tree(tree) == 15))
            .expect("a finalizer can be registered");
        shared.collected(m.collect());
        assert_tree(kept);
        drop(m);
        if random.bool() {
            other.close(Duration::from_secs(60)).expect("a world closes");
        }
        drop(other);
        one(&shared.counts.worlds_closed);
        pause(&mut random, Duration::from_millis(200));
    }
}
