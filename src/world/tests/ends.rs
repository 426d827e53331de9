//! Threads that end, with and without detaching, and forks.

use rstest::rstest;

use super::*;
use crate::os::memory::conservative_word;

/// `.stop.exit-race`
#[test]
fn a_thread_that_ends_without_detaching_is_detached() {
    let threads = threads(By::Signals);
    for _ in 0..20 {
        let threads = threads.clone();
        std::thread::spawn(move || threads.attach("forgetful").map(|info| info.tid())).join().unwrap().unwrap();
    }
    // `join` returns after the thread has ended, when libc has run the thread's destructors too.
    assert_eq!(stop(&threads).live().len(), 0);
    assert_eq!(Arc::strong_count(&threads), 1);
}

/// `.stop.exit-race`
#[test]
fn a_thread_that_ends_by_a_raw_exit_is_removed() {
    let threads = threads(By::Signals);
    let (sender, receiver) = mpsc::channel();
    let inner = threads.clone();
    std::thread::spawn(move || {
        let info = inner.attach("silent death").unwrap();
        sender.send(info.tid()).unwrap();
        drop((inner, sender));
        // SAFETY: ends only this thread, without running any destructor, as the test needs.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    });
    let tid = receiver.recv().unwrap();
    assert!(within(LONG, || !thread::is_alive(tid)));
    stop(&threads).start();
    assert_eq!(stop(&threads).live().len(), 0);
    assert_eq!(Arc::strong_count(&threads), 1);
}

/// `.stop.create-race`, `.stop.exit-race`
#[rstest]
fn threads_attach_and_end_while_the_world_is_stopped_repeatedly(#[values(By::Signals, By::Safepoints)] by: By) {
    let threads = threads(by);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for i in 0..3 {
            let (threads, done) = (&threads, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let threads = threads.clone();
                    std::thread::spawn(move || {
                        let info = threads.attach(&format!("child of {i}")).unwrap();
                        info.safepoint();
                        if i != 0 {
                            threads.detach(info);
                        }
                    })
                    .join()
                    .unwrap();
                }
            });
        }
        for _ in 0..300 {
            let world = stop(&threads);
            // Debuggers see the same threads.
            let sorted = |mut ids: Vec<i32>| {
                ids.sort_unstable();
                ids
            };
            let live = world.live().iter().map(|info| info.tid().0).collect();
            assert_eq!(sorted(threads.published().thread_ids()), sorted(live));
            for info in world.live() {
                assert_ne!(info.stack_ptr(), 0);
                world.scan_ranges(info, |low, high| {
                    // SAFETY: the test checks this: every range that is scanned can be read.
                    unsafe { conservative_word(low) };
                    assert!(low < high);
                });
            }
            world.start();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(stop(&threads).live().len(), 0);
    assert!(threads.published().thread_ids().is_empty());
}

/// `.stop.fork`
#[rstest]
fn the_child_of_a_fork_has_one_thread_and_stops_its_world(
    #[values(By::Signals, By::Safepoints)] by: By,
    #[values(true, false)] from_attached: bool,
) {
    let threads = threads(by);
    let _workers: Vec<_> = (0..3).map(|i| Worker::new(&threads, &format!("w{i}"), spin)).collect();
    for _ in 0..10 {
        let own = from_attached.then(|| threads.attach("forker").unwrap());
        assert_eq!(thread::known_tid(), thread::gettid());
        // SAFETY: the child calls only the tested functions, then _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: SIGALRM ends a deadlock.
            unsafe { libc::alarm(20) };
            let code = std::panic::catch_unwind(|| child_of_fork(&threads, own)).unwrap_or(99);
            // SAFETY: leaves without running the parent's destructors.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
        if let Some(own) = own {
            threads.detach(own);
        }
        stop(&threads).start();
    }
}

fn child_of_fork(threads: &Arc<Threads>, own: Option<&'static ThreadStopInfo>) -> i32 {
    let expected = usize::from(own.is_some());
    if threads.with_live(<[_]>::len) != expected {
        return 1;
    }
    if own.is_some_and(|own| own.tid() != thread::gettid()) || thread::known_tid() != thread::gettid() {
        return 2;
    }
    // A thread of the child, stopped by the child.
    let worker = Worker::new(threads, "grandchild", spin);
    for _ in 0..5 {
        let collected = match own {
            Some(own) => own.with_own_stack(|own| {
                let mut budget = budget(10_000);
                let locks = threads.lock_for_stop(&mut budget)?;
                threads.stop(locks, Some(own), StopBy::InForce, budget).map(|world| world.live().len())
            }),
            None => stop_within(threads, 10_000).map(|world| world.live().len()),
        };
        if !matches!(collected, Ok(n) if n == expected + 1) {
            return 3;
        }
    }
    if !worker.runs() {
        return 4;
    }
    drop(worker);
    0
}
