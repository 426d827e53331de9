//! The contract between the collector and a thread vtable, with a debugger inside the process, and with vtables that check their calls, or
//! make false claims.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::hazard::patience::Watchdog;
use crate::hazard::{By, Flags, builder, collect, fork, spawn, wait_for, world};
use rstest::rstest;
use stopworld::debugger::mock::{MockDebugger, MockEvent};
use stopworld::events::Categories;
use stopworld::{
    AtFork, ByHandshake, CollectError, JoinHandle, Leaf, Mutator, SafepointStopper, SignalStopper, SilenceReason, Slot,
    StopError, StopRequest, ThreadVtable, Tid, World,
};
use stopworld_trace::mps::Options;

/// A thread that counts.
struct Counting {
    count: Arc<AtomicU64>,
    flags: Arc<Flags>,
    tid: Tid,
    thread: Option<JoinHandle<()>>,
}

impl Counting {
    fn new(world: &World, name: &str) -> Self {
        let (count, flags, tid) = (Arc::<AtomicU64>::default(), Flags::new(), Arc::<AtomicI32>::default());
        let (counted, inner, told) = (Arc::clone(&count), Arc::clone(&flags), Arc::clone(&tid));
        let thread = spawn(world, name, move |m| {
            told.store(m.tid().0, Ordering::Relaxed);
            inner.set_ready();
            while !inner.is_ended() {
                counted.fetch_add(1, Ordering::Relaxed);
                m.safepoint();
            }
        });
        flags.wait_ready();
        Self { count, flags, tid: Tid(tid.load(Ordering::Relaxed)), thread: Some(thread) }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn assert_runs(&self) {
        let before = self.count();
        wait_for("a thread to run", || self.count() > before + 2);
    }

    /// Returns whether the thread is stopped, that is, does not count for a while.
    fn is_stopped(&self) -> bool {
        let before = self.count();
        std::thread::sleep(Duration::from_millis(20));
        self.count() == before
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.flags.end();
        let _ = self.thread.take().unwrap().join();
    }
}

/// `.vtable.attach`: a debugger that attaches to a running program is notified of all its threads, and stops them.
#[rstest]
fn a_debugger_that_attaches_is_notified_of_all_threads(#[values(By::Signals, By::Safepoints)] by: By) {
    let world = world(by);
    let threads: Vec<_> = (0..3).map(|i| Counting::new(&world, &format!("counting-{i}"))).collect();
    let mock = MockDebugger::new().unwrap();
    let outgoing = world.set_thread_vtable(mock.clone()).unwrap();
    for _ in 0..5 {
        assert_eq!(collect(&world).threads_stopped, 3);
    }
    world.set_thread_vtable(outgoing).unwrap();
    collect(&world);
    let (log, missed) = mock.log();
    assert_eq!((log[0], missed), (MockEvent::Attached { threads: 3 }, 0));
    for thread in &threads {
        let tid = thread.tid;
        assert!(log.contains(&MockEvent::Announced { tid }));
        let stopped =
            log.iter().filter(|event| matches!(event, MockEvent::Stopped { tid: t, .. } if *t == tid)).count();
        let let_go = log.iter().filter(|event| **event == MockEvent::LetGo { tid }).count();
        assert_eq!((stopped, let_go), (5, 5));
        thread.assert_runs();
    }
    assert_eq!(log.last(), Some(&MockEvent::Detached));
}

/// `.vtable.exact-restore`, `.vtable.nested`
#[test]
fn a_thread_that_the_debugger_froze_stays_frozen_after_a_collection_and_the_others_run() {
    let world = world(By::Signals);
    let mock = MockDebugger::new().unwrap();
    world.set_thread_vtable(mock.clone()).unwrap();
    let (frozen, free) = (Counting::new(&world, "frozen"), Counting::new(&world, "free"));
    mock.freeze(frozen.tid).unwrap();
    let at = frozen.count();
    for _ in 0..5 {
        assert_eq!(collect(&world).threads_stopped, 2);
        free.assert_runs();
    }
    let is_frozen = frozen.is_stopped() && frozen.count() == at;
    mock.thaw(frozen.tid);
    assert!(is_frozen, "the collection has resumed the user's thread");
    frozen.assert_runs();
    let log = mock.log().0;
    let tid = frozen.tid;
    assert_eq!(log.iter().filter(|event| **event == MockEvent::StaysFrozen { tid }).count(), 5);
}

/// `.vtable.nested`: the debugger freezes, the collector stops, in any order and many times; the counts never mix.
#[test]
fn freezes_and_collections_from_two_threads_nest() {
    let world = world(By::Signals);
    let mock = MockDebugger::new().unwrap();
    world.set_thread_vtable(mock.clone()).unwrap();
    let threads = [Counting::new(&world, "one"), Counting::new(&world, "two")];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                collect(&world);
                std::thread::sleep(Duration::from_micros(200));
            }
            done.store(true, Ordering::Relaxed);
        });
        for thread in threads.iter().cycle() {
            mock.freeze(thread.tid).unwrap();
            let at = thread.count();
            std::thread::sleep(Duration::from_millis(1));
            let now = thread.count();
            assert!(mock.thaw(thread.tid));
            assert_eq!(at, now, "a frozen thread ran");
            if done.load(Ordering::Relaxed) {
                break;
            }
        }
    });
    threads.iter().for_each(Counting::assert_runs);
}

/// A vtable that works like the signal stopper, and checks its calls.
struct Watching {
    signals: SignalStopper,
    /// The number of threads inside `thread_created`.
    creating: AtomicUsize,
    /// The time that `thread_created` takes.
    dwell: Duration,
    /// While set, `thread_created` does not return.
    closed: AtomicBool,
    created: AtomicUsize,
    exited: AtomicUsize,
    stops: AtomicUsize,
    starts: AtomicUsize,
    /// The number of stops during a `thread_created`.
    violations: AtomicUsize,
    /// Called in `thread_exited`. Returns whether the thread is still listed in the world.
    is_listed: Box<dyn Fn(Tid, Slot) -> bool + Send + Sync>,
}

impl Watching {
    fn new(dwell: Duration) -> Arc<Self> {
        Self::asking(dwell, |_, _| true)
    }

    fn asking(dwell: Duration, is_listed: impl Fn(Tid, Slot) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            signals: SignalStopper::new(libc::SIGURG).unwrap(),
            creating: AtomicUsize::new(0),
            dwell,
            closed: AtomicBool::new(false),
            created: AtomicUsize::new(0),
            exited: AtomicUsize::new(0),
            stops: AtomicUsize::new(0),
            starts: AtomicUsize::new(0),
            violations: AtomicUsize::new(0),
            is_listed: Box::new(is_listed),
        })
    }
}

// SAFETY: the signal stopper's guarantees; the addition only counts.
unsafe impl ThreadVtable for Watching {
    fn name(&self) -> &'static str {
        "watching"
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        self.violations.fetch_add(self.creating.load(Ordering::SeqCst), Ordering::SeqCst);
        self.stops.fetch_add(1, Ordering::SeqCst);
        self.signals.stop_world(stop)
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        self.starts.fetch_add(1, Ordering::SeqCst);
        self.signals.start_world(stop);
    }

    fn thread_created(&self, tid: Tid, slot: Slot) {
        self.creating.fetch_add(1, Ordering::SeqCst);
        let begin = Instant::now();
        while begin.elapsed() < self.dwell || self.closed.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        assert_eq!(slot.record().tid(), tid);
        self.created.fetch_add(1, Ordering::SeqCst);
        self.creating.fetch_sub(1, Ordering::SeqCst);
    }

    fn thread_exited(&self, tid: Tid, slot: Slot) {
        self.exited.fetch_add(1, Ordering::SeqCst);
        if !(self.is_listed)(tid, slot) {
            self.violations.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn by_handshake(&self) -> Option<&dyn ByHandshake> {
        self.signals.by_handshake()
    }

    fn at_fork(&self) -> Option<&dyn AtFork> {
        self.signals.at_fork()
    }
}

/// `.vtable.created-under-lock`: no stop falls between a thread's creation and the vtable's notification of it.
#[test]
fn no_stop_begins_while_the_vtable_is_notified_of_a_thread() {
    let world = world(By::Signals);
    let watching = Watching::new(Duration::from_millis(3));
    world.set_thread_vtable(watching.clone()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!(spawn(&world, "short-lived", |m| m.alloc(Leaf(1_u64)).is_ok()).join().unwrap());
                }
            });
        }
        let begin = Instant::now();
        while watching.created.load(Ordering::Relaxed) < 30 && begin.elapsed() < Duration::from_secs(300) {
            collect(&world);
            std::thread::sleep(Duration::from_micros(100));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(watching.created.load(Ordering::Relaxed) >= 30);
    assert_eq!(watching.violations.load(Ordering::Relaxed), 0, "stops in the middle of thread_created");
    assert_eq!(watching.created.load(Ordering::Relaxed), watching.exited.load(Ordering::Relaxed));
}

/// `.vtable.exited-before-free`: when the vtable is notified of a thread's exit, the record still belongs to that thread.
///
/// In a process of its own: the child of a fork of another test would notify this vtable with the locks taken, and wait for itself.
#[test]
fn the_vtable_is_notified_of_an_exit_while_the_record_is_still_the_threads() {
    crate::alone!("the_vtable_is_notified_of_an_exit_while_the_record_is_still_the_threads");
    let world = world(By::Signals);
    let asked = world.clone();
    let watching = Watching::asking(Duration::ZERO, move |tid, slot| {
        slot.record().tid() == tid && asked.threads().iter().any(|thread| thread.tid == tid)
    });
    world.set_thread_vtable(watching.clone()).unwrap();
    for _ in 0..20 {
        assert!(spawn(&world, "short-lived", |m| m.alloc(Leaf(1_u64)).is_ok()).join().unwrap());
    }
    let violations = watching.violations.load(Ordering::Relaxed);
    assert_eq!(watching.exited.load(Ordering::Relaxed), 20);
    // This breaks the reference cycle, because the vtable refers to the world.
    world.set_thread_vtable(Arc::new(SignalStopper::new(libc::SIGURG).unwrap())).unwrap();
    assert_eq!(violations, 0, "the record had been given up");
}

/// `.vtable.swap`: the vtable that stopped is the one that starts, and the outgoing one is not called any more.
#[test]
fn a_swap_never_separates_a_stop_from_its_start() {
    let world = world(By::Signals);
    let threads: Vec<_> = (0..2).map(|i| Counting::new(&world, &format!("counting-{i}"))).collect();
    let done = AtomicBool::new(false);
    let collections = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                collect(&world);
                collections.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        let mut stops_seen = 0;
        for round in 0..40 {
            let watching = Watching::new(Duration::ZERO);
            world.set_thread_vtable(watching.clone()).unwrap();
            let before = collections.load(Ordering::Relaxed);
            wait_for("a collection", || collections.load(Ordering::Relaxed) > before + round % 2);
            let incoming: Arc<dyn ThreadVtable> = match round % 3 {
                0 => Arc::new(SafepointStopper),
                1 => MockDebugger::new().unwrap(),
                _ => Arc::new(SignalStopper::new(libc::SIGURG).unwrap()),
            };
            let outgoing = world.set_thread_vtable(incoming).unwrap();
            assert_eq!(outgoing.name(), "watching");
            let (stops, starts) = (watching.stops.load(Ordering::SeqCst), watching.starts.load(Ordering::SeqCst));
            assert_eq!(stops, starts, "a stop without its start");
            assert_eq!(watching.created.load(Ordering::SeqCst), 2, "threads announced");
            assert_eq!(watching.exited.load(Ordering::SeqCst), 2, "threads removed");
            stops_seen += stops;
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(watching.stops.load(Ordering::SeqCst), stops, "called after it was replaced");
        }
        done.store(true, Ordering::Relaxed);
        assert!(stops_seen > 20, "{stops_seen}");
    });
    threads.iter().for_each(Counting::assert_runs);
}

/// Returns whether the error says that the thread, suspended by the user, holds the allocation lock.
fn names(error: &CollectError, tid: Tid) -> bool {
    let CollectError::Stop(StopError::LockHeld { lock, holder, .. }) = error else { return false };
    let is_its_name = holder.name.is_some_and(|name| name.as_str() == "being born");
    *lock == "allocation" && holder.tid == tid && is_its_name && holder.reason == SilenceReason::SuspendedByUser
}

/// `.debug.frozen-owner`: the user freezes a thread that holds the allocation lock, here inside `thread_created`. Meanwhile another thread forks:
/// it takes the collection lock and waits for the allocation lock. The error names the frozen thread, not the one that waits for it.
///
/// In a process of its own: other tests fork, too.
#[test]
fn a_frozen_thread_that_holds_a_lock_of_the_world_is_named() {
    crate::alone!("a_frozen_thread_that_holds_a_lock_of_the_world_is_named");
    let world = builder().stop_timeout(Duration::from_millis(200)).build().unwrap();
    let busy = Counting::new(&world, "busy");
    let watching = Watching::new(Duration::ZERO);
    world.set_thread_vtable(watching.clone()).unwrap();
    watching.closed.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let born = scope.spawn(|| spawn(&world, "being born", |_| ()).join().unwrap());
        wait_for("the birth", || watching.creating.load(Ordering::SeqCst) == 1);
        let tid = world.threads().iter().find(|thread| thread.name.as_str() == "being born").unwrap().tid;
        wait_for("the suspension", || world.suspend(tid).is_ok());
        let mut errors = vec![world.collect().expect_err("the allocation lock is held")];
        let forking = scope.spawn(|| fork(|| 0));
        for _ in 0..4 {
            errors.push(world.collect().expect_err("the allocation lock is held"));
        }
        busy.assert_runs();
        watching.closed.store(false, Ordering::Relaxed);
        assert!(world.resume(tid));
        born.join().unwrap();
        assert_eq!(forking.join().unwrap(), 0);
        for error in errors {
            assert!(names(&error, tid), "{error}");
        }
    });
    // With this short timeout, on a busy machine, the first attempt may fail.
    wait_for("a collection", || world.collect().is_ok());
}

/// The operations that need the locks.
#[derive(Clone, Copy, Debug)]
enum Errand {
    Collect,
    Allocate,
    Detach,
    Trace,
}

/// `.fork.thaw`: the thread that forks holds the debugger's lock, and waits for a lock that the frozen thread owns: that of the table of
/// roots, or malloc's (the block is too large for malloc's cache of the thread).
#[rstest]
#[case::roots(|m: &Mutator| drop(m.root(m.alloc(Leaf(0_u64)).unwrap())))]
#[case::malloc(|_: &Mutator| drop(std::hint::black_box(vec![0_u8; 5000])))]
fn a_frozen_thread_can_be_thawed_while_another_one_forks(#[case] work: fn(&Mutator)) {
    let _watchdog = Watchdog::new("a thaw waits for a fork that waits for the frozen thread", 300, 30);
    let mock = MockDebugger::new().unwrap();
    let world = builder().build().unwrap();
    world.set_thread_vtable(mock.clone()).unwrap();
    let (flags, tid) = (Flags::new(), Arc::<AtomicI32>::default());
    let (inner, told) = (Arc::clone(&flags), Arc::clone(&tid));
    let worker = spawn(&world, "worker", move |m| {
        told.store(m.tid().0, Ordering::Relaxed);
        inner.set_ready();
        while !inner.is_ended() {
            work(m);
        }
    });
    flags.wait_ready();
    let tid = Tid(tid.load(Ordering::Relaxed));
    let (begin, forked) = (Barrier::new(2), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                begin.wait();
                assert_eq!(fork(|| 0), 0);
                forked.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 0..ROUNDS {
            mock.freeze(tid).unwrap();
            begin.wait();
            // Most forks have finished by then; the others wait.
            std::thread::sleep(Duration::from_millis(5));
            assert!(mock.thaw(tid));
            wait_for("the fork", || forked.load(Ordering::Relaxed) > round);
        }
    });
    flags.end();
    worker.join().unwrap();
}

/// The number of forks in a test.
const ROUNDS: u64 = 300;

/// `.debug.frozen-waiter`: the user suspends a thread while it waits for locks. When it gets them later, it must not stop while it holds
/// them.
#[rstest]
fn a_thread_suspended_while_it_waits_for_locks_does_not_prevent_collections(
    #[values(Errand::Collect, Errand::Allocate, Errand::Detach, Errand::Trace)] errand: Errand,
) {
    let world = builder().stop_timeout(Duration::from_secs(3)).build().unwrap();
    let watching = Watching::new(Duration::ZERO);
    world.set_thread_vtable(watching.clone()).unwrap();
    let flags = Flags::new();
    let inner = Arc::clone(&flags);
    let directory = tempfile::tempdir().unwrap();
    // The start of a recording lists the world's blocks under its allocation lock.
    let trace = Options::new(directory.path().join("t.mps"), Categories(1)).start().unwrap();
    let waiter = spawn(&world, "waiter", move |m| {
        inner.wait_ready();
        match errand {
            Errand::Trace => m.world().record_to(&trace).is_ok(),
            Errand::Collect => m.collect().is_ok(),
            // Large objects are allocated directly under the allocation lock.
            Errand::Allocate => m.alloc_array(4000, |_| 0_u64).is_ok(),
            Errand::Detach => true,
        }
    });
    let of_waiter = || world.threads().into_iter().find(|thread| thread.name.as_str() == "waiter").unwrap();
    watching.closed.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        // The thread that is being created holds the allocation lock.
        let born = scope.spawn(|| spawn(&world, "being born", |_| ()).join().unwrap());
        wait_for("the birth", || watching.creating.load(Ordering::SeqCst) == 1);
        flags.set_ready();
        wait_for("the waiter to wait", || of_waiter().blocking);
        let tid = of_waiter().tid;
        world.suspend(tid).unwrap();
        watching.closed.store(false, Ordering::Relaxed);
        // The pause lets the waiter get the locks. It must not stop while it holds them.
        std::thread::sleep(Duration::from_millis(50));
        let collected = world.collect();
        assert!(world.resume(tid), "the waiter was not suspended");
        born.join().unwrap();
        collected.unwrap();
    });
    assert!(waiter.join().unwrap());
}

/// The false claims of a vtable.
#[derive(Clone, Copy, Debug)]
enum Lie {
    LeavesTheSlotEmpty,
    PointsNowhere,
    SaysNo,
}

struct Lying(SignalStopper, Lie);

// SAFETY: that of the signal stopper, except for the slots, whose check is what is tested.
unsafe impl ThreadVtable for Lying {
    fn name(&self) -> &'static str {
        "lying"
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        let slot = match self.1 {
            Lie::SaysNo => return Err(StopError::Vtable { stopper: "lying", what: "out to lunch".into() }),
            Lie::LeavesTheSlotEmpty => 0,
            Lie::PointsNowhere => 0xdead_0000,
        };
        self.0.stop_world(stop)?;
        for thread in stop.threads() {
            // SAFETY: the stop does not succeed with this value.
            unsafe { thread.slot().store(slot) };
        }
        Ok(())
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        self.0.start_world(stop);
    }

    fn thread_created(&self, tid: Tid, slot: Slot) {
        self.0.thread_created(tid, slot);
    }
    fn thread_exited(&self, tid: Tid, slot: Slot) {
        self.0.thread_exited(tid, slot);
    }
}

/// A vtable's claims are checked if they can be. A false claim is an error, no memory is scanned because of it, and the world continues.
#[rstest]
fn a_vtable_that_makes_false_claims_is_detected_and_the_world_continues(
    #[values(Lie::LeavesTheSlotEmpty, Lie::PointsNowhere, Lie::SaysNo)] lie: Lie,
) {
    let world = world(By::Signals);
    let thread = Counting::new(&world, "believed in");
    let honest = world.set_thread_vtable(Arc::new(Lying(SignalStopper::new(libc::SIGURG).unwrap(), lie))).unwrap();
    for _ in 0..3 {
        let error = world.collect().expect_err("a lie");
        let CollectError::Stop(stop) = &error else { panic!("{error}") };
        match (lie, stop) {
            (Lie::LeavesTheSlotEmpty, StopError::NoStackPointer { name, .. }) => {
                assert_eq!(name.as_str(), "believed in")
            }
            (Lie::PointsNowhere, StopError::UnknownStack { stack_ptr, .. }) => assert_eq!(*stack_ptr, 0xdead_0000),
            (Lie::SaysNo, StopError::Vtable { what, .. }) => assert_eq!(what, "out to lunch"),
            _ => panic!("{lie:?}: {error}"),
        }
        thread.assert_runs();
    }
    world.set_thread_vtable(honest).unwrap();
    collect(&world);
    thread.assert_runs();
}
