//! A time profile is an account: its ticks sum to the time (`.profile.ticks`).

mod patience;

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use patience::patience;
use rstest::rstest;
use stopworld::events::{Event, EventId, MemorySink, Record, Selection, Sink, payload};
use stopworld::profile::{StackId, TickClock, TickError, TimeProfile};
use stopworld::{Gc, GcCell, Mutator, World, cost_centre, keep_alive, traced};

traced! {
    struct Node { next: GcCell<Option<Gc<Node>>>, value: u64 }
}

const INTERVAL: Duration = Duration::from_micros(200);

fn by(clock: TickClock) -> TimeProfile {
    TimeProfile { interval: INTERVAL, clock }
}

/// A world that keeps its ticks in a ring.
fn world() -> (World, Arc<MemorySink>) {
    let sink = Arc::new(MemorySink::with_capacity(1 << 18).unwrap());
    let wanted = Selection::of([EventId::Tick, EventId::TickerBegin].into_iter().collect());
    let world = World::builder().heap_limit(64 << 20).initial_heap(1 << 20).listen(sink.clone(), wanted);
    (world.build().unwrap(), sink)
}

/// Returns the ticks by thread and innermost centre, and the reported interval.
fn ticks(sink: &MemorySink) -> (HashMap<(u32, &'static str), u64>, u64) {
    assert_eq!(sink.dropped(), 0);
    let (mut ticks, mut interval) = (HashMap::new(), 0);
    for record in sink.drain() {
        match record.event() {
            Event::Tick(payload::Tick { tick, tid, stack, .. }) => {
                assert!(tick > 0);
                *ticks.entry((tid, StackId::from_raw(stack).centre().label())).or_default() += 1;
            }
            Event::TickerBegin(payload::TickerBegin { interval_ns, .. }) => interval = interval_ns,
            other => panic!("not selected: {other:?}"),
        }
    }
    (ticks, interval)
}

/// Uses processor time, much of it to allocate garbage.
fn work(m: &Mutator, time: Duration) {
    let begun = cpu_of_thread();
    let mut list = None;
    let mut n = 0_u64;
    while cpu_of_thread() - begun < time {
        for _ in 0..1000 {
            n = black_box(n.wrapping_mul(3) + 1);
            list = m.alloc(Node { next: GcCell::new(if n.is_multiple_of(64) { None } else { list }), value: n }).ok();
        }
    }
    keep_alive(list.unwrap());
}

fn cpu(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place to write to.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn cpu_of_thread() -> Duration {
    cpu(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn cpu_of_process() -> Duration {
    cpu(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Asserts that the ticks match a time between `inner` and `outer`, except for `slack` intervals and two percent. `inner` was measured
/// while the world ticked, `outer` around that: it must hold however long a busy machine delays the steps in between.
#[track_caller]
fn assert_is(ticks: u64, inner: Duration, outer: Duration, slack: u64) {
    let (ticked, slack) = (INTERVAL * ticks as u32, INTERVAL * slack as u32 + outer / 50);
    assert!(
        ticked + slack >= inner && ticked <= outer + slack,
        "{ticks} ticks are {ticked:?}, not {inner:?} to {outer:?}"
    );
}

/// Makes the tests run one at a time, because each measures the processor time of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_ticks_of_a_thread_are_its_processor_time_and_all_ticks_that_of_the_process() {
    let _alone = alone();
    let (world, sink) = world();
    // SAFETY: all references are on this stack and in collected objects.
    let m = unsafe { world.attach("main") }.unwrap();
    let (thread_before, process_before) = (cpu_of_thread(), cpu_of_process());
    world.start_ticking(by(TickClock::Cpu)).unwrap();
    let (thread_begun, process_begun) = (cpu_of_thread(), cpu_of_process());
    let body = |m: &Mutator| {
        let begun = cpu_of_thread();
        let _cost = cost_centre!("helping");
        work(m, Duration::from_millis(120));
        (m.tid().0 as u32, cpu_of_thread() - begun)
    };
    // SAFETY: as above.
    let threads: Vec<_> = (0..2).map(|_| unsafe { world.spawn("helps", body) }.unwrap()).collect();
    {
        let _cost = cost_centre!("one");
        work(&m, Duration::from_millis(150));
    }
    {
        let _cost = cost_centre!("two");
        work(&m, Duration::from_millis(50));
    }
    let helped: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let inner = (cpu_of_thread() - thread_begun, cpu_of_process() - process_begun);
    world.stop_ticking();
    let outer = (cpu_of_thread() - thread_before, cpu_of_process() - process_before);
    let (ticks, interval) = ticks(&sink);
    assert_eq!(interval, INTERVAL.as_nanos() as u64);
    let of_thread = |tid: u32| ticks.iter().filter(|((of, _), _)| *of == tid).map(|(_, ticks)| ticks).sum::<u64>();
    let me = m.tid().0 as u32;
    assert_is(of_thread(me), inner.0, outer.0, 3);
    // The remainders of two threads that exit are pooled.
    helped.iter().for_each(|(tid, cpu)| assert_is(of_thread(*tid), *cpu, *cpu, 4));
    assert_is(ticks.values().sum(), inner.1, outer.1, 12);
    // A sample has the stack at the time when the ticker woke, which is late on a busy machine.
    let of = |centre| ticks.get(&(me, centre)).copied().unwrap_or(0);
    assert!(of("one") > 0 && of("GC") > 0, "{ticks:?}");
}

#[test]
fn a_thread_that_lives_less_than_an_interval_is_not_lost() {
    let _alone = alone();
    let (world, sink) = world();
    world.start_ticking(by(TickClock::Cpu)).unwrap();
    let mut used = Duration::ZERO;
    for _ in 0..200 {
        let body = |_: &Mutator| {
            let _cost = cost_centre!("brief");
            let begun = cpu_of_thread();
            while cpu_of_thread() - begun < INTERVAL / 3 {}
            cpu_of_thread()
        };
        // SAFETY: no references at all.
        used += unsafe { world.spawn("brief", body) }.unwrap().join().unwrap();
    }
    world.stop_ticking();
    let (ticks, _) = ticks(&sink);
    let of_threads = ticks.iter().filter(|((tid, _), _)| *tid != 0).map(|(_, ticks)| ticks).sum::<u64>();
    // A thread's time before it attaches and after it detaches is charged to the system.
    let spent = INTERVAL / 3 * 200;
    assert!(INTERVAL * of_threads as u32 + INTERVAL >= spent, "{ticks:?}");
    assert!(INTERVAL * of_threads as u32 <= used + INTERVAL, "{ticks:?}");
}

/// How a program's short threads are created, and what they do besides spinning in a scope.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Brief {
    Spins,
    /// In a scope inside a scope.
    SpinsDeeper,
    /// In a scope of the thread that spawned it, which it cannot leave.
    IsSpawnedInAScope,
    Collects,
}

/// When a thread exits, it is outside all its scopes.
#[rstest]
#[case(Brief::Spins)]
#[case(Brief::SpinsDeeper)]
#[case(Brief::IsSpawnedInAScope)]
#[case(Brief::Collects)]
fn the_time_of_short_threads_is_charged_to_their_scopes(#[case] brief: Brief) {
    const LIFE: Duration = Duration::from_micros(600);
    let _alone = alone();
    let (world, sink) = world();
    // SAFETY: all references are on this stack and in collected objects.
    let m = unsafe { world.attach("main") }.unwrap();
    let mut list = None;
    if brief == Brief::Collects {
        (0..10_000).for_each(|value| list = m.alloc(Node { next: GcCell::new(list), value }).ok());
    }
    let spin = || {
        let begun = cpu_of_thread();
        while cpu_of_thread() - begun < LIFE {}
    };
    let body = move |m: &Mutator| {
        let _cost = cost_centre!("brief");
        match brief {
            Brief::SpinsDeeper => {
                let _cost = cost_centre!("deeper");
                spin();
            }
            _ => spin(),
        }
        let begun = cpu_of_thread();
        if brief == Brief::Collects {
            m.collect().unwrap();
        }
        cpu_of_thread() - begun
    };
    let interval = Duration::from_millis(1);
    world.start_ticking(TimeProfile { interval, clock: TickClock::Cpu }).unwrap();
    let _cost = (brief == Brief::IsSpawnedInAScope).then(|| cost_centre!("spawns"));
    let mut collected = Duration::ZERO;
    for _ in 0..500 {
        // SAFETY: as above.
        collected += unsafe { world.spawn("brief", body) }.unwrap().join().unwrap();
    }
    world.stop_ticking();
    list.into_iter().for_each(keep_alive);
    let (ticks, _) = ticks(&sink);
    let me = m.tid().0 as u32;
    let of = |which: &dyn Fn(&str) -> bool| {
        let theirs = ticks.iter().filter(|((tid, centre), _)| ![0, me].contains(tid) && which(centre));
        theirs.map(|(_, ticks)| ticks).sum::<u64>() as u32
    };
    let (all, gc) = (of(&|_| true), of(&|centre| centre == "GC"));
    // For a thread that was never sampled it is unknown which of two scopes used the time.
    let work = of(&|centre| ["brief", "deeper"].contains(&centre));
    assert!(2 * work >= all - gc, "{work} of {all}, {gc} of them GC");
    assert!(interval * all >= LIFE * 500, "{all}");
    // The clocks were read outside the interval that counts as collecting.
    assert!(interval * gc <= collected + 3 * interval, "{gc} of {all}, but {collected:?}");
    assert!(4 * interval * (gc + 1) >= collected, "{gc} of {all}, but {collected:?}");
    if brief == Brief::Collects {
        assert!(gc > 0, "{all}");
    }
}

/// A thread is known as soon as it exists, even if collections hold the list of threads whenever the ticker reads it.
#[test]
fn by_real_time_a_thread_that_collects_at_once_is_counted_as_collecting() {
    let _alone = alone();
    let (world, sink) = world();
    // SAFETY: all references are on this stack and in collected objects.
    let m = unsafe { world.attach("main") }.unwrap();
    let mut list = None;
    (0..100_000).for_each(|value| list = m.alloc(Node { next: GcCell::new(list), value }).ok());
    world.start_ticking(by(TickClock::Wall)).unwrap();
    let mut collecting = Duration::ZERO;
    for _ in 0..100 {
        let body = |m: &Mutator| {
            let begun = Instant::now();
            m.collect().unwrap();
            begun.elapsed()
        };
        // SAFETY: as above.
        collecting += unsafe { world.spawn("brief", body) }.unwrap().join().unwrap();
    }
    world.stop_ticking();
    list.into_iter().for_each(keep_alive);
    let (ticks, _) = ticks(&sink);
    let gc = ticks.iter().filter(|((_, centre), _)| *centre == "GC").map(|(_, ticks)| ticks).sum::<u64>();
    assert!(4 * INTERVAL * gc as u32 >= collecting, "{gc}, but {collecting:?}: {ticks:?}");
}

#[test]
fn by_real_time_a_waiting_thread_is_idle() {
    let _alone = alone();
    let (world, sink) = world();
    // SAFETY: no references at all.
    let m = unsafe { world.attach("main") }.unwrap();
    let begun = Instant::now();
    world.start_ticking(by(TickClock::Wall)).unwrap();
    let ticking = Instant::now();
    let _cost = cost_centre!("waits");
    m.blocking(|| std::thread::sleep(Duration::from_millis(100)));
    let until = Instant::now() + Duration::from_millis(50);
    while Instant::now() < until {
        black_box(());
    }
    let inner = ticking.elapsed();
    world.stop_ticking();
    let outer = begun.elapsed();
    let (ticks, _) = ticks(&sink);
    let me = m.tid().0 as u32;
    assert_is(ticks.values().sum(), inner, outer, 3);
    assert!(ticks.keys().all(|(tid, centre)| *tid == me && ["IDLE", "waits", "MAIN"].contains(centre)), "{ticks:?}");
    assert!(ticks.contains_key(&(me, "IDLE")) && ticks.contains_key(&(me, "waits")), "{ticks:?}");
}

#[test]
fn a_world_has_one_ticker_at_a_time_and_can_restart_it() {
    let _alone = alone();
    let (world, sink) = world();
    world.stop_ticking();
    for _ in 0..3 {
        world.start_ticking(by(TickClock::Cpu)).unwrap();
        assert!(matches!(world.start_ticking(by(TickClock::Wall)), Err(TickError::Already)));
        world.stop_ticking();
        assert_eq!(ticks(&sink).1, INTERVAL.as_nanos() as u64);
    }
    world.start_ticking(by(TickClock::Cpu)).unwrap();
    drop(world);
}

/// The time that a thread uses between two profiles is not charged to the later one.
#[test]
fn the_time_before_a_profile_and_between_two_is_not_charged() {
    let _alone = alone();
    let (world, sink) = world();
    world.start_ticking(by(TickClock::Cpu)).unwrap();
    // SAFETY: all references are on this stack and in collected objects.
    let m = unsafe { world.attach("main") }.unwrap();
    work(&m, Duration::from_millis(100));
    world.stop_ticking();
    work(&m, Duration::from_millis(100));
    drop(ticks(&sink));
    let before = (cpu_of_thread(), cpu_of_process());
    world.start_ticking(by(TickClock::Cpu)).unwrap();
    work(&m, Duration::from_millis(5));
    world.stop_ticking();
    let (thread, process) = (cpu_of_thread() - before.0, cpu_of_process() - before.1);
    let (ticks, _) = ticks(&sink);
    let me = m.tid().0 as u32;
    let mine = ticks.iter().filter(|((of, _), _)| *of == me).map(|(_, ticks)| ticks).sum::<u64>();
    assert_is(mine, Duration::ZERO, thread, 3);
    assert_is(ticks.values().sum(), Duration::ZERO, process, 12);
}

/// The time of several markers is charged to them from the first sample on, in the middle of a mark phase too.
#[test]
fn the_ticks_of_markers_are_not_charged_to_the_system_before_they_finish() {
    let _alone = alone();
    let sink = Arc::new(MemorySink::with_capacity(1 << 18).unwrap());
    let world = World::builder().heap_limit(512 << 20).initial_heap(256 << 20).markers(4);
    let wanted = Selection::of([EventId::Tick, EventId::TickerBegin].into_iter().collect());
    let world = world.listen(sink.clone(), wanted).build().unwrap();
    // SAFETY: all references are on this stack and in collected objects.
    let m = unsafe { world.attach("main") }.unwrap();
    // Many short lists, so that there is work for each marker.
    let lists = m.alloc_array(20_000, |_| GcCell::new(None)).unwrap();
    for list in lists.iter() {
        for value in 0..50 {
            list.set(Some(m.alloc(Node { next: GcCell::new(list.get()), value }).unwrap()));
        }
    }
    let before = cpu_of_process();
    world.start_ticking(by(TickClock::Cpu)).unwrap();
    let begun = cpu_of_process();
    m.collect().unwrap();
    let inner = cpu_of_process() - begun;
    world.stop_ticking();
    let outer = cpu_of_process() - before;
    let (ticks, _) = ticks(&sink);
    assert_is(ticks.values().sum(), inner, outer, 12);
    keep_alive(lists);
}

/// `.fork.services`
#[rstest]
fn the_child_of_a_fork_does_not_tick_and_can_start_to() {
    let _alone = alone();
    let sink = Arc::new(MemorySink::with_capacity(1 << 16).unwrap());
    let world = World::builder().heap_limit(64 << 20).time_profile(by(TickClock::Cpu)).build().unwrap();
    // SAFETY: all references are on this stack and in collected objects.
    let m = unsafe { world.attach("main") }.unwrap();
    work(&m, Duration::from_millis(5));
    // SAFETY: the child only works on the heap and leaves by `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            // If the guard is removed, the child waits for a thread that it does not have.
            // SAFETY: a plain system call.
            unsafe { libc::alarm(patience(300, 20).as_secs() as u32) };
            let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let wanted = Selection::of([EventId::Tick, EventId::TickerBegin].into_iter().collect());
                world.events().listen(sink.clone(), wanted).unwrap();
                work(&m, Duration::from_millis(20));
                assert_eq!(ticks(&sink).0.len(), 0, "the child has no ticker");
                world.start_ticking(by(TickClock::Cpu)).unwrap();
                work(&m, Duration::from_millis(20));
                world.stop_ticking();
                assert!(ticks(&sink).0.values().sum::<u64>() > 0);
            }));
            // SAFETY: ends the child.
            unsafe { libc::_exit(if fine.is_ok() { 0 } else { 1 }) };
        }
        child => {
            let mut status = 0;
            // SAFETY: a child of this process.
            assert_eq!(m.blocking(|| unsafe { libc::waitpid(child, &mut status, 0) }), child);
            assert_eq!(status, 0, "the child of the fork failed, or hung until SIGALRM");
        }
    }
    world.stop_ticking();
}

/// Takes the first tick and does not return until it is released.
#[derive(Debug, Default)]
struct Stuck {
    has_one: AtomicBool,
    may_go: AtomicBool,
}

impl Sink for Stuck {
    fn record(&self, _: &Record) {
        self.has_one.store(true, Ordering::Release);
        while !self.may_go.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_listener_that_does_not_return_from_a_tick_does_not_keep_the_world_from_closing() {
    let _alone = alone();
    let sink = Arc::new(Stuck::default());
    let world = World::builder()
        .heap_limit(64 << 20)
        .listen(sink.clone(), Selection::of([EventId::Tick].into_iter().collect()));
    let world = world.build().unwrap();
    // SAFETY: no references at all.
    let m = unsafe { world.attach("main") }.unwrap();
    world.start_ticking(by(TickClock::Wall)).unwrap();
    while !sink.has_one.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let error = world.close(Duration::from_millis(300)).unwrap_err();
    assert!(error.to_string().contains("a listener to ticks has not returned"), "{error}");
    sink.may_go.store(true, Ordering::Release);
    world.stop_ticking();
    world.close(Duration::from_secs(60)).unwrap();
    drop(m);
}
