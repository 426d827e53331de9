//! `.stop.no-mutator`: hostile safe code (no `unsafe`) called by the collector. Whatever it calls in the interface, the process ends with one line
//! that names the function; the code never gets an object that is swept while in use.
//!
//! Each attempt is a process of its own: this program again, running the one ignored test below.

use std::cell::{Cell, RefCell};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::hazard::patience::patience;
use rstest::rstest;
use stopworld::debugger::{Phase, PublishedWorld};
use stopworld::events::{EventId, Record, Selection, Sink};
use stopworld::{
    AtFork, AtInstall, AtPhase, AtSwap, ByHandshake, DebuggerClient, DebuggerNews, ForkStep, Gc, GcCell, Leaf, Mutator,
    Paranoid, Root, SignalStopper, Slot, StopError, StopRequest, ThreadStopInfo, ThreadVtable, Tid, World, traced,
};

traced! {
    struct Node {
        next: GcCell<Option<Gc<Node>>>,
        value: u64,
    }
}

fn node(value: u64) -> Node {
    Node { next: GcCell::new(None), value }
}

thread_local! {
    /// This thread's mutator, for programs that do not pass it around.
    static MUTATOR: Cell<Option<&'static Mutator>> = const { Cell::new(None) };
    /// A mutator that can be dropped.
    static OWNED: RefCell<Option<Mutator>> = const { RefCell::new(None) };
}

/// The world and the handles that the hostile callbacks can use, besides the mutators.
struct Captured {
    world: World,
    kept: Mutex<Option<Root<Node>>>,
    range: Mutex<Option<stopworld::RangeGuard>>,
    /// The last handle of a world that is closed already.
    closed: Mutex<Option<World>>,
}

fn mutator() -> &'static Mutator {
    MUTATOR.get().expect("a mutator in this thread")
}

/// An action that is forbidden in a callback: its name, the function's name in the refusal, and the code.
type Act = (&'static str, &'static str, fn(&Captured));

const ACTS: &[Act] = &[
    ("alloc-another-size", "an allocation", |_| {
        let _ = mutator().alloc([0_u64; 9]);
    }),
    ("alloc", "an allocation", |loot| {
        // A use after free, if it succeeds: the object that keeps the new one has been marked already.
        let kept = mutator().alloc(node(7)).unwrap();
        drop(loot.kept.lock().unwrap().replace(mutator().root(kept)));
    }),
    ("alloc-pinned", "an allocation", |_| {
        let _ = mutator().alloc_pinned(1_u64);
    }),
    ("alloc-large", "an allocation", |_| {
        let _ = mutator().alloc([0_u64; 5000]);
    }),
    ("alloc-with-drop", "an allocation", |_| {
        let _ = mutator().alloc(Leaf(String::new()));
    }),
    ("alloc-array", "an allocation", |_| {
        let _ = mutator().alloc_array(3, |index| index as u64);
    }),
    ("alloc-large-array", "an allocation", |_| {
        let _ = mutator().alloc_array(30_000, |index| index as u64);
    }),
    ("alloc-bytes", "an allocation", |_| {
        let _ = mutator().alloc_bytes(40);
    }),
    ("root-get", "Root::get", |loot| {
        // Tries to move a reference from an object that is not marked yet to one that is.
        let root = loot.kept.lock().unwrap();
        let kept = root.as_ref().unwrap().get(mutator());
        kept.next.set(None);
    }),
    ("root-clone", "Root::clone", |loot| drop(loot.kept.lock().unwrap().clone())),
    ("root-drop", "the drop of a Root", |loot| drop(loot.kept.lock().unwrap().take())),
    ("collect", "a collection", |loot| drop(loot.world.collect())),
    ("mutator-collect", "a collection", |_| drop(mutator().collect())),
    ("verify", "World::verify", |loot| drop(loot.world.verify())),
    ("attach", "World::attach", |loot| {
        // SAFETY: the result is only dropped.
        drop(unsafe { loot.world.attach("again") });
    }),
    ("spawn", "World::spawn", |loot| {
        // SAFETY: the thread does nothing.
        drop(unsafe { loot.world.spawn("another", |_| ()) });
    }),
    ("detach", "the drop of a Mutator", |_| drop(OWNED.take())),
    ("suspend", "World::suspend", |loot| drop(loot.world.suspend(Tid(1)))),
    ("resume", "World::resume", |loot| {
        let _ = loot.world.resume(Tid(1));
    }),
    ("threads", "World::threads", |loot| drop(loot.world.threads())),
    ("totals", "World::totals", |loot| {
        let _ = loot.world.totals();
    }),
    ("close", "World::close", |loot| drop(loot.world.close(Duration::ZERO))),
    ("range-drop", "the drop of a RangeGuard", |loot| drop(loot.range.lock().unwrap().take())),
    ("closed-drop", "the last drop of a World", |loot| drop(loot.closed.lock().unwrap().take())),
    ("held-blocks", "World::with_held_blocks", |loot| loot.world.with_held_blocks(|_| ())),
    ("with-threads", "World::with_threads", |loot| loot.world.with_threads(|_| ())),
    ("tick-interval", "World::tick_interval", |loot| {
        let _ = loot.world.tick_interval();
    }),
    ("heap-profile", "World::heap_profile", |loot| drop(loot.world.heap_profile())),
    ("censuses", "World::censuses", |loot| {
        let _ = loot.world.censuses();
    }),
    ("sample-next", "World::sample_next_collection", |loot| drop(loot.world.sample_next_collection())),
    ("sample", "World::sample", |loot| drop(loot.world.sample())),
    ("end-profile", "World::end_profile", |loot| drop(loot.world.end_profile())),
    ("set-vtable", "World::set_thread_vtable", |loot| {
        drop(loot.world.set_thread_vtable(Arc::new(SignalStopper::new(libc::SIGURG).unwrap())));
    }),
];

/// A sink that acts once: at one kind of event, or at any event of a thread that is not a mutator.
struct Hostile {
    at: EventId,
    by_marker: bool,
    main: i32,
    act: fn(&Captured),
    loot: Arc<Captured>,
    armed: Arc<AtomicBool>,
}

impl std::fmt::Debug for Hostile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hostile")
    }
}

impl Sink for Hostile {
    fn record(&self, record: &Record) {
        let by_main = record.tid as i32 == self.main;
        if record.id == self.at && by_main != self.by_marker && self.armed.swap(false, Ordering::Relaxed) {
            (self.act)(&self.loot);
        }
    }
}

fn gettid() -> i32 {
    // SAFETY: a plain system call.
    unsafe { libc::gettid() }
}

fn leak(mutator: Mutator) {
    MUTATOR.set(Some(Box::leak(Box::new(mutator))));
}

fn build(markers: usize) -> World {
    World::builder().heap_limit(64 << 20).paranoid(Paranoid::On).markers(markers).build().unwrap()
}

fn attached(world: &World) -> Mutator {
    // SAFETY: every `Gc` is in a local variable or in the heap; what the hostile code does with it is what is tested.
    unsafe { world.attach("main") }.unwrap()
}

/// An action that no safe capability of a vtable may take.
const PANIC: Act = ("panic", "", |_| panic!("hostile"));

/// A way to call the hostile code, by name.
type Way = (&'static str, fn(Act, EventId));

const WAYS: &[Way] = &[
    ("sink", |act, at| in_a_sink(act, at, &build(1), |world| drop(world.collect()))),
    ("blocking", |act, at| in_a_sink(act, at, &build(1), |world| mutator().blocking(|| drop(world.collect())))),
    ("verify-vtable", |act, _| in_a_vtable(act, Where::Stop, |world| drop(world.verify()))),
    ("vtable", |act, _| in_a_vtable(act, Where::Stop, |world| drop(world.collect()))),
    ("enter", |act, _| in_a_vtable(act, Where::Enter, |_| {})),
    ("swap", |act, _| in_a_vtable(act, Where::Swap, |_| {})),
    ("phase", |act, _| in_a_vtable(act, Where::Phase, |world| drop(world.collect()))),
    ("check", |act, _| in_a_vtable(act, Where::RequestCheck, suspend_another)),
    ("news", |act, _| in_a_vtable(act, Where::News, |world| drop(world.collect()))),
    ("fork", |act, _| in_a_vtable(act, Where::Fork, fork_once)),
    ("marker", |act, at| {
        let world = build(2);
        let m = attached(&world);
        let (loot, armed) = loot(&world, &m);
        listen(act, at, true, &loot, &armed);
        // A wide structure, so that the markers have work to share.
        let nodes = m.alloc_array(20_000, |value| m.alloc(node(value as u64)).unwrap()).unwrap();
        armed.store(true, Ordering::Relaxed);
        for _ in 0..50 {
            world.collect().unwrap();
        }
        assert_eq!(nodes[9].value, 9);
    }),
    ("stranger", |act, at| {
        // The mutator belongs to another world, whose collection stops this thread during this world's collection.
        let (own, other) = (build(1), build(1));
        let m = attached(&own);
        let (loot, armed) = loot(&own, &m);
        leak(m);
        other.events().listen(Arc::new(hostile(act, at, false, &loot, &armed)), everything()).unwrap();
        armed.store(true, Ordering::Relaxed);
        drop(other.collect());
    }),
];

fn loot(world: &World, m: &Mutator) -> (Arc<Captured>, Arc<AtomicBool>) {
    static MEMORY: [usize; 4] = [0; 4];
    let kept = m.alloc(node(1)).unwrap();
    // SAFETY: a static; zeroes are no references.
    let range = unsafe { world.register_range(MEMORY.as_ptr().cast(), size_of_val(&MEMORY)) };
    let kept = Mutex::new(Some(m.root(kept)));
    let other = build(1);
    let closed = Mutex::new(other.downgrade().upgrade());
    drop(other);
    (Arc::new(Captured { world: world.clone(), kept, range: Mutex::new(range), closed }), Arc::default())
}

fn everything() -> Selection {
    Selection::everything()
}

fn hostile(act: Act, at: EventId, by_marker: bool, loot: &Arc<Captured>, armed: &Arc<AtomicBool>) -> Hostile {
    Hostile { at, by_marker, main: gettid(), act: act.2, loot: Arc::clone(loot), armed: Arc::clone(armed) }
}

fn listen(act: Act, at: EventId, by_marker: bool, loot: &Arc<Captured>, armed: &Arc<AtomicBool>) {
    let selection = Selection::of([at].into_iter().collect());
    loot.world.events().listen(Arc::new(hostile(act, at, by_marker, loot, armed)), selection).unwrap();
}

fn in_a_sink(act: Act, at: EventId, world: &World, collect: impl FnOnce(&World)) {
    let m = attached(world);
    let (loot, armed) = loot(world, &m);
    listen(act, at, false, &loot, &armed);
    // The cache has room, so the next allocation would take the fast path if no collection was in progress.
    let _ = m.alloc(node(2)).unwrap();
    if act.0 == "detach" {
        OWNED.set(Some(m));
        armed.store(true, Ordering::Relaxed);
        drop(world.collect());
        return;
    }
    leak(m);
    armed.store(true, Ordering::Relaxed);
    collect(world);
    // Without the guard, the object that the sink allocated has been swept, and these allocations reuse its memory.
    for value in 100..200 {
        let _ = mutator().alloc(node(value)).unwrap();
    }
    let stolen = loot.kept.lock().unwrap().as_ref().map(|root| root.get(mutator()).value);
    println!("the sink has got an object, which now reads {stolen:?}");
}

/// Where a vtable runs hostile code.
#[derive(Clone, Copy, PartialEq)]
enum Where {
    Stop,
    Enter,
    Swap,
    Phase,
    RequestCheck,
    News,
    Fork,
}

/// A vtable that stops the world by signals, has every safe capability, and runs hostile code in one of its functions.
struct Treacherous {
    signals: SignalStopper,
    at: Where,
    act: fn(&Captured),
    loot: Arc<Captured>,
    asked_for_news: AtomicU32,
}

impl Treacherous {
    fn act_in(&self, at: Where) {
        if at == self.at {
            (self.act)(&self.loot);
        }
    }
}

// SAFETY: the built-in stopper stops and starts the threads; what else runs during the stop is what is tested.
unsafe impl ThreadVtable for Treacherous {
    fn name(&self) -> &'static str {
        "treacherous"
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        self.signals.stop_world(stop)?;
        self.act_in(Where::Stop);
        Ok(())
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        self.signals.start_world(stop);
    }

    fn thread_created(&self, tid: Tid, slot: Slot) {
        self.signals.thread_created(tid, slot);
    }

    fn thread_exited(&self, tid: Tid, slot: Slot) {
        self.signals.thread_exited(tid, slot);
    }

    fn by_handshake(&self) -> Option<&dyn ByHandshake> {
        Some(self)
    }

    fn at_install(&self) -> Option<&dyn AtInstall> {
        Some(self)
    }

    fn at_swap(&self) -> Option<&dyn AtSwap> {
        Some(self)
    }

    fn at_phase(&self) -> Option<&dyn AtPhase> {
        Some(self)
    }

    fn debugger_client(&self) -> Option<&dyn DebuggerClient> {
        Some(self)
    }

    fn at_fork(&self) -> Option<&dyn AtFork> {
        Some(self)
    }
}

impl ByHandshake for Treacherous {
    fn signal(&self) -> Option<i32> {
        Some(libc::SIGURG)
    }

    fn request_check(&self, _: &ThreadStopInfo) {
        self.act_in(Where::RequestCheck);
    }
}

impl AtInstall for Treacherous {
    fn enter_world(&self, _: &PublishedWorld) -> Result<(), String> {
        self.act_in(Where::Enter);
        Ok(())
    }

    fn leave_world(&self, _: &PublishedWorld) {}
}

impl AtSwap for Treacherous {
    fn add_all_threads(&self, _: &[&'static ThreadStopInfo]) {
        self.act_in(Where::Swap);
    }

    fn remove_all_threads(&self, _: &[&'static ThreadStopInfo]) {}
}

impl AtPhase for Treacherous {
    fn phase(&self, _: &PublishedWorld, phase: Phase) {
        if phase == Phase::MarkEnd {
            self.act_in(Where::Phase);
        }
    }
}

impl DebuggerClient for Treacherous {
    fn news(&self) -> Option<DebuggerNews> {
        // The first call of a collection is in the stop, the second one after it.
        if self.asked_for_news.fetch_add(1, Ordering::Relaxed) == 1 {
            self.act_in(Where::News);
        }
        None
    }
}

impl AtFork for Treacherous {
    unsafe fn fork(&self, step: ForkStep) {
        if step == ForkStep::Prepare {
            self.act_in(Where::Fork);
        }
    }
}

/// Installs the vtable, then calls `next`, in which the hostile code is reached if it is not in the installation.
fn in_a_vtable(act: Act, at: Where, next: impl FnOnce(&World)) {
    let world = build(1);
    let m = attached(&world);
    let (loot, _) = loot(&world, &m);
    if act.0 == "detach" {
        OWNED.set(Some(m));
    } else {
        leak(m);
    }
    let signals = SignalStopper::new(libc::SIGURG).unwrap();
    let vtable = Treacherous { signals, at, act: act.2, loot, asked_for_news: AtomicU32::new(0) };
    world.set_thread_vtable(Arc::new(vtable)).unwrap();
    next(&world);
}

/// Suspends another thread, which makes the vtable request a check of it.
fn suspend_another(world: &World) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    // SAFETY: it holds no reference.
    let other = unsafe {
        world.spawn("other", move |m| {
            sender.send(gettid()).unwrap();
            while ended.try_recv().is_err() {
                m.safepoint();
            }
        })
    };
    drop(world.suspend(Tid(receiver.recv().unwrap())));
    drop(end);
    other.unwrap().join().unwrap();
}

/// Forks. The child ends at once.
fn fork_once(_: &World) {
    // SAFETY: the child only ends.
    unsafe {
        if libc::fork() == 0 {
            libc::_exit(0);
        }
    }
}

const WAY: &str = "CALLBACKS_WAY";

/// Runs only in the child process.
#[test]
#[ignore = "run by the other tests, each time in a process of its own"]
fn attempt() {
    let Ok(what) = std::env::var(WAY) else { return };
    let mut words = what.split(' ');
    let (way, act, at) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    // SAFETY: a plain system call, which ends an attempt that hangs.
    unsafe { libc::alarm(patience(60, 20).as_secs() as u32) };
    let (_, run) = WAYS.iter().find(|(name, _)| *name == way).unwrap();
    let act = ACTS.iter().chain([&PANIC]).find(|(name, ..)| *name == act).unwrap();
    let event = (0..).map_while(EventId::from_index).find(|id| format!("{id:?}") == at).unwrap();
    run(*act, event);
}

fn run(way: &str, act: &str, at: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["callbacks::attempt", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(WAY, format!("{way} {act} {at}"))
        .output()
        .unwrap()
}

/// Asserts that the attempt ended with SIGABRT and the one line.
fn assert_refused(way: &str, act: &Act, at: &str) {
    let line = format!("stopworld: {} was called by an event sink, a thread vtable or a binding", act.1);
    assert_aborted(way, act, at, &line);
}

fn assert_aborted(way: &str, act: &Act, at: &str, line: &str) {
    let output = run(way, act.0, at);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = format!("{way} {} at {at}: {}\n{}{text}", act.0, output.status, String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{told}");
    assert_eq!(text.lines().filter(|text| text.starts_with(line)).count(), 1, "{told}");
}

fn act(name: &str) -> &'static Act {
    ACTS.iter().find(|(act, ..)| *act == name).unwrap()
}

#[rstest]
#[case::while_marked("MarkEnd")]
#[case::before_marking("MarkBegin")]
fn a_sink_that_uses_the_heap_while_the_world_is_stopped_ends_the_process_with_the_functions_name(#[case] at: &str) {
    for act in ACTS {
        assert_refused("sink", act, at);
    }
}

#[rstest]
fn a_sink_that_allocates_is_refused_at_every_step_of_a_collection(
    #[values(
        "SuspendBegin",
        "SuspendEnd",
        "GcStart",
        "RootsBegin",
        "RootScanned",
        "RootsEnd",
        "WeakEnd",
        "SweepBegin",
        "SweepEnd",
        "GcEnd",
        "RestartBegin",
        "RestartEnd"
    )]
    at: &str,
) {
    assert_refused("sink", act("alloc"), at);
}

#[rstest]
fn a_thread_that_collects_in_a_blocking_region_or_another_world_can_not_allocate_in_a_sink_either(
    #[values("blocking", "stranger")] way: &str,
    #[values("alloc", "alloc-large", "root-get", "collect")] name: &str,
) {
    assert_refused(way, act(name), "MarkEnd");
}

#[rstest]
fn a_sink_on_a_marker_thread_can_not_use_the_world(
    #[values("attach", "root-clone", "root-drop", "threads", "collect")] name: &str,
) {
    assert_refused("marker", act(name), "MarkerJoined");
}

#[rstest]
fn a_vtable_can_not_use_the_heap_in_the_stop(
    #[values("vtable", "verify-vtable")] way: &str,
    #[values("alloc", "alloc-large", "root-get", "root-drop", "collect", "detach", "threads")] name: &str,
) {
    assert_refused(way, act(name), "MarkEnd");
}

#[rstest]
fn a_safe_capability_of_a_vtable_can_not_use_the_world(
    #[values("enter", "swap", "phase", "check", "news", "fork")] way: &str,
    #[values("alloc-large", "root-drop", "collect", "threads")] name: &str,
) {
    assert_refused(way, act(name), "MarkEnd");
}

/// Unwinding would leave a stop, a swap or a fork half done.
#[rstest]
fn a_safe_capability_of_a_vtable_that_panics_ends_the_process(
    #[values("enter", "swap", "phase", "check", "news", "fork")] way: &str,
) {
    assert_aborted(way, &PANIC, "MarkEnd", "stopworld: a thread vtable panicked");
}

/// Callbacks that run after the world has resumed may do anything, and the collection took no cell from the thread that runs them.
#[test]
fn a_collection_listener_and_a_finalizer_may_use_the_heap() {
    static FINALIZED: AtomicU32 = AtomicU32::new(0);
    let made = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&made);
    let listener = move |_: &stopworld::CollectionReport| {
        if let Some(mutator) = MUTATOR.get() {
            let root = mutator.root(mutator.alloc(node(3)).unwrap());
            counted.fetch_add(root.get(mutator).value as u32, Ordering::Relaxed);
        }
    };
    let world = World::builder().heap_limit(64 << 20).paranoid(Paranoid::On).on_collection(listener).build().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            leak(attached(&world));
            let first = mutator().alloc(node(1)).unwrap();
            mutator()
                .set_finalizer(mutator().alloc(node(9)).unwrap(), |m, node| {
                    assert_eq!(m.alloc(Leaf(node.value)).unwrap().0, 9);
                    FINALIZED.fetch_add(1, Ordering::Relaxed);
                })
                .unwrap();
            scrub();
            world.collect().unwrap();
            let second = mutator().alloc(node(2)).unwrap();
            assert_eq!((first.value, second.value), (1, 2));
        });
    });
    assert!(made.load(Ordering::Relaxed) >= 3);
    assert!(world.damage().is_none());
}

/// Overwrites the contents of dead stack frames.
#[inline(never)]
fn scrub() {
    std::hint::black_box([0_u64; 512]);
}
