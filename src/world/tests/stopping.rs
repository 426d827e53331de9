//! Stopped threads do not run, and are started in the state in which they were.

use rstest::rstest;

use super::*;
use crate::world::handler;
use crate::world::stop::ThreadActivity;

#[rstest]
fn stopped_threads_do_not_run_and_continue_after_the_start(
    #[values(By::Signals, By::Safepoints)] by: By,
    #[values(1, 4)] n: usize,
    #[values(spin as fn(&ThreadStopInfo), sleep_in_region)] work: fn(&ThreadStopInfo),
) {
    let threads = threads(by);
    let workers: Vec<_> = (0..n).map(|i| Worker::new(&threads, &format!("worker-{i}"), work)).collect();
    for round in 0..50 {
        let world = stop(&threads);
        assert_eq!(world.live().len(), n);
        let before: Vec<_> = workers.iter().map(Worker::count).collect();
        for worker in &workers {
            let mut covered = 0;
            world.scan_ranges(worker.info, |low, high| covered += high - low);
            assert!(covered > 0);
        }
        if round % 10 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        // A thread in a blocking region may continue to run in its region, but it increments the counter only outside of it.
        if work as usize == spin as *const () as usize {
            assert_eq!(before, workers.iter().map(Worker::count).collect::<Vec<_>>());
        }
        world.start();
    }
    assert!(workers.iter().all(Worker::runs));
    drop(workers);
    assert_eq!(stop(&threads).live().len(), 0);
}

/// `.stop.blocking`
#[rstest]
fn a_thread_can_not_leave_a_blocking_region_into_a_stopped_world(#[values(By::Signals, By::Safepoints)] by: By) {
    let threads = threads(by);
    let worker = Worker::new(&threads, "blocker", sleep_in_region);
    for _ in 0..20 {
        let world = stop(&threads);
        assert!(worker.is_stopped());
        world.start();
    }
    assert!(worker.runs());
}

/// `.stop.two-collectors`
#[rstest]
fn attached_threads_that_collect_at_once_take_turns(#[values(By::Signals, By::Safepoints)] by: By) {
    let threads = threads(by);
    let inside = AtomicUsize::new(0);
    let ready = std::sync::Barrier::new(3);
    std::thread::scope(|scope| {
        for i in 0..3 {
            let (threads, inside, ready) = (&threads, &inside, &ready);
            scope.spawn(move || {
                let info = threads.attach(&format!("collector-{i}")).unwrap();
                ready.wait();
                for _ in 0..30 {
                    info.with_own_stack(|own| {
                        let mut budget = budget(60_000);
                        let locks = threads.lock_for_stop(&mut budget).unwrap();
                        let world = threads.stop(locks, Some(own), StopBy::InForce, budget).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        assert_ne!(info.stack_ptr(), 0);
                        // Long enough for the other threads to begin to wait.
                        std::thread::sleep(Duration::from_millis(1));
                        inside.fetch_sub(1, Ordering::Relaxed);
                        world.start();
                    });
                }
                threads.detach(info);
            });
        }
    });
}

/// `.vtable.nested`: the end of a collection releases only the collection's hold.
#[rstest]
fn a_thread_stopped_by_the_user_stays_stopped_after_a_collection(#[values(By::Signals, By::Safepoints)] by: By) {
    let threads = threads(by);
    let frozen = Worker::new(&threads, "frozen", spin);
    let free = Worker::new(&threads, "free", spin);
    threads.suspend(frozen.info.tid(), budget(60_000)).unwrap();
    for _ in 0..3 {
        let world = stop(&threads);
        assert_ne!(frozen.info.stack_ptr(), 0);
        assert!(frozen.is_stopped() && free.is_stopped());
        world.start();
        assert!(frozen.is_stopped(), "the start after a collection resumed the thread that the user suspended");
        assert!(free.runs());
    }
    assert!(threads.resume(frozen.info.tid()));
    assert!(!threads.resume(frozen.info.tid()));
    assert!(frozen.runs());
}

#[test]
fn a_thread_that_the_user_suspends_during_a_stop_stays_stopped() {
    let threads = threads(By::Signals);
    let worker = Worker::new(&threads, "worker", spin);
    let world = stop(&threads);
    let tid = worker.info.tid();
    // The thread list is locked now: a user's suspension waits for the collection.
    let suspender = {
        let threads = threads.clone();
        std::thread::spawn(move || threads.suspend(tid, budget(60_000)))
    };
    world.start();
    suspender.join().unwrap().unwrap();
    assert!(worker.is_stopped());
    threads.resume(tid);
    assert!(worker.runs());
}

/// `.stop.errno`
#[test]
fn errno_is_preserved_even_if_a_chained_handler_changes_it() {
    extern "C" fn spoil(_: i32) {
        CHAINED.fetch_add(1, Ordering::Relaxed);
        nix::errno::Errno::set_raw(libc::EOVERFLOW);
    }
    static CHAINED: AtomicUsize = AtomicUsize::new(0);
    let threads = threads(By::Signals);
    let _spoiler = crate::world::handler::chain_to(spoil);
    let info = threads.attach("errno").unwrap();
    nix::errno::Errno::set_raw(libc::E2BIG);
    // The collector did not send this signal: it is the program's own, and is passed to the program's handler.
    // SAFETY: a signal to this thread. A raw system call, because the project's wrapper would preserve errno, too.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread::gettid().0, signals::DEFAULT) };
    let errno = nix::errno::Errno::last_raw();
    threads.detach(info);
    assert!(CHAINED.load(Ordering::Relaxed) >= 1, "a foreign signal was not passed on");
    assert_eq!(errno, libc::E2BIG);
}

/// `.stop.eintr`
#[test]
fn a_read_that_a_stop_interrupts_continues() {
    let threads = threads(By::Signals);
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let (sender, receiver) = mpsc::channel();
    let inner = threads.clone();
    let handle = std::thread::spawn(move || {
        let info = inner.attach("reader").unwrap();
        sender.send(()).unwrap();
        let mut byte = [0u8];
        let result = std::io::Read::read(&mut reader, &mut byte).map(|n| (n, byte[0]));
        inner.detach(info);
        result
    });
    receiver.recv().unwrap();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(1));
        stop(&threads).start();
    }
    std::io::Write::write_all(&mut writer, b"x").unwrap();
    assert_eq!(handle.join().unwrap().unwrap(), (1, b'x'));
}

/// What a thread that was slow to stop does then.
#[derive(Clone, Copy)]
enum Then {
    PollsASafepoint,
    EntersABlockingRegion,
    Detaches,
}

/// The other thread stops at once, in one way or the other.
#[rstest]
fn the_slowest_thread_is_named(
    #[values(Then::PollsASafepoint, Then::EntersABlockingRegion, Then::Detaches)] then: Then,
    #[values(false, true)] quick_polls: bool,
) {
    let threads = threads(By::Safepoints);
    let _quick = Worker::new(&threads, "quick", move |info| match quick_polls {
        true => info.safepoint(),
        false => info.blocking(|| std::thread::sleep(Duration::from_millis(5))),
    });
    let (sender, receiver) = mpsc::channel();
    let all = threads.clone();
    let slow = std::thread::spawn(move || {
        let info = all.attach("slow").unwrap();
        sender.send(()).unwrap();
        // The thread does not reach a safepoint for a long time.
        while !info.state.is_held() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(500));
        match then {
            Then::PollsASafepoint => info.safepoint(),
            Then::EntersABlockingRegion => info.blocking(|| ()),
            Then::Detaches => {}
        }
        all.detach(info);
    });
    receiver.recv().unwrap();
    let stopped = stop(&threads);
    let slowest = stopped.summary().slowest.expect("the stop waited for a thread");
    assert_eq!(slowest.name.as_str(), "slow");
    stopped.start();
    slow.join().unwrap();
}

/// Threads that have ended without detaching are not reported.
#[test]
fn a_stop_reports_what_each_thread_did() {
    let threads = threads(By::Safepoints);
    let leave = Arc::new(AtomicBool::new(false));
    let stays = |leave: &Arc<AtomicBool>| {
        let leave = Arc::clone(leave);
        move || {
            while !leave.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    let running = Worker::new(&threads, "running", spin);
    let stay = stays(&leave);
    // It reaches no safepoint, and enters a region when a stop waits for it.
    let entering = Worker::new(&threads, "entering", move |info| {
        if info.state.is_held() {
            info.blocking(&stay);
        }
    });
    let stay = stays(&leave);
    let in_region = Worker::new(&threads, "in a region", move |info| info.blocking(&stay));
    let suspended = Worker::new(&threads, "suspended", spin);
    threads.suspend(suspended.info.tid(), budget(60_000)).unwrap();
    let dead: Vec<Tid> = [false, true].map(|is_in_region| die(&threads, is_in_region)).into();
    assert!(within(LONG, || in_region.info.is_blocking() && dead.iter().all(|tid| !thread::is_alive(*tid))));

    let own = threads.attach("collecting").unwrap();
    let (mut found, mut count, begun) = (std::collections::BTreeMap::new(), 0, Instant::now());
    own.with_own_stack(|stack| {
        let mut budget = budget(60_000);
        let locks = threads.lock_for_stop(&mut budget).unwrap();
        let world = threads.stop(locks, Some(stack), StopBy::InForce, budget).unwrap();
        world.thread_stops(|tid, activity, ns| {
            found.insert(tid.0, (activity, ns));
            count += 1;
        });
        world.start();
    });
    let longest = begun.elapsed().as_nanos() as u64;
    leave.store(true, Ordering::Relaxed);
    threads.resume(suspended.info.tid());
    for (thread, activity) in [
        (running.info, ThreadActivity::Running),
        (entering.info, ThreadActivity::Entering),
        (in_region.info, ThreadActivity::InRegion),
        (suspended.info, ThreadActivity::Suspended),
        (own, ThreadActivity::Collecting),
    ] {
        let (found, ns) = found[&thread.tid().0];
        assert_eq!(found, activity, "{}", thread.name().as_str());
        let is_waited_for = matches!(activity, ThreadActivity::Running | ThreadActivity::Entering);
        assert_eq!((1..=longest).contains(&ns), is_waited_for, "{}: {ns} ns of {longest}", thread.name().as_str());
    }
    assert_eq!((found.len(), count), (5, 5), "{found:?}: neither of {dead:?}");
    threads.detach(own);
}

/// A thread that ends without detaching and without running any destructor, in its own code or in a blocking region.
fn die(threads: &Arc<Threads>, is_in_region: bool) -> Tid {
    let (sender, receiver) = mpsc::channel();
    let threads = threads.clone();
    std::thread::spawn(move || {
        let info = threads.attach("silent death").unwrap();
        sender.send(info.tid()).unwrap();
        drop((threads, sender));
        // SAFETY: ends only this thread, as the test needs.
        let exit = || unsafe { libc::syscall(libc::SYS_exit, 0) };
        if is_in_region { info.blocking(exit) } else { exit() }
    });
    receiver.recv().unwrap()
}

/// A stop of threads in blocking regions takes far less than the microseconds of a signal. The bound is loose; the benchmark measures
/// the cost.
#[test]
fn stopping_threads_in_blocking_regions_is_cheap() {
    let threads = threads(By::Signals);
    let end = Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let (sender, receiver) = mpsc::channel();
    let handles: Vec<_> = (0..128)
        .map(|i| {
            let (threads, end, sender) = (threads.clone(), end.clone(), sender.clone());
            std::thread::Builder::new()
                .stack_size(64 << 10)
                .spawn(move || {
                    let info = threads.attach(&format!("idle-{i}")).unwrap();
                    info.blocking(|| {
                        sender.send(()).unwrap();
                        drop(end.1.wait_while(end.0.lock().unwrap(), |end| !*end).unwrap());
                    });
                    threads.detach(info);
                })
                .unwrap()
        })
        .collect();
    (0..128).for_each(|_| receiver.recv().unwrap());
    std::thread::sleep(Duration::from_millis(50));
    let mut best = u64::MAX;
    for _ in 0..200 {
        let mut budget = budget(60_000);
        let locks = threads.lock_for_stop(&mut budget).unwrap();
        let start = crate::os::clock::now_ns();
        let world = threads.stop(locks, None, StopBy::InForce, budget).unwrap();
        world.start();
        best = best.min(crate::os::clock::now_ns() - start);
    }
    *end.0.lock().unwrap() = true;
    end.1.notify_all();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    eprintln!("stop and start of 128 threads in blocking regions: {} ns each", best / 128);
    assert!(best / 128 < 20_000, "{} ns per thread", best / 128);
}

/// `.stop.locks`: a thread that a debugger has stopped may be in the middle of installing the handler.
#[test]
fn an_installation_in_a_stop_does_not_wait() {
    let held = handler::lock().lock();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(handler::install_in_a_stop(signals::DEFAULT)));
    let installed = receiver.recv_timeout(LONG);
    drop(held);
    assert_eq!(installed, Ok(false));
}
