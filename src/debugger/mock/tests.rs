//! Tests of the contract between a debugger and the collector, with the debugger inside the process.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::world::stop::StopBy;
use crate::world::tests::{
    By, KEEPERS, Worker, budget, is_found, is_found_between, spin, stop, stop_within, threads, vtable,
};

fn attached(threads: &crate::world::registry::Threads) -> Arc<MockDebugger> {
    let mock = MockDebugger::new().unwrap();
    threads.set_vtable(mock.clone(), budget(10_000)).unwrap();
    mock
}

/// `.vtable.attach`, `.vtable.swap`
#[rstest]
fn a_debugger_that_attaches_gets_all_threads_and_stops_them(#[values(By::Signals, By::Safepoints)] by: By) {
    let threads = threads(by);
    let workers: Vec<_> = (0..3).map(|i| Worker::new(&threads, &format!("w{i}"), spin)).collect();
    let mock = attached(&threads);
    for _ in 0..20 {
        let world = stop(&threads);
        for worker in &workers {
            let (low, high) = worker.info.stack();
            let stack_ptr = worker.info.stack_ptr();
            assert!(low < stack_ptr && stack_ptr < high, "the registers are not on the thread's own stack");
        }
        assert_eq!(world.stopper(), "mock-debugger");
        world.start();
    }
    let world = stop(&threads);
    assert!(workers.iter().all(Worker::is_stopped));
    world.start();
    assert!(workers.iter().all(Worker::runs));
    threads.set_vtable(vtable(By::Signals), budget(10_000)).unwrap();
    stop(&threads).start();
    let (log, missed) = mock.log();
    assert_eq!(missed, 0);
    assert_eq!(log[0], MockEvent::Attached { threads: 3 });
    for worker in &workers {
        let tid = worker.info.tid();
        assert!(log.contains(&MockEvent::Announced { tid }));
        assert_eq!(log.iter().filter(|e| matches!(e, MockEvent::Stopped { tid: t, .. } if *t == tid)).count(), 21);
        assert_eq!(log.iter().filter(|e| **e == MockEvent::LetGo { tid }).count(), 21);
    }
    assert_eq!(log.last(), Some(&MockEvent::Detached));
}

/// `.stop.registers` with a debugger.
#[test]
fn a_word_that_only_a_register_or_the_red_zone_holds_is_scanned_under_the_debugger_too() {
    let threads = threads(By::Signals);
    let _mock = attached(&threads);
    for (i, keeper) in KEEPERS.into_iter().enumerate() {
        assert!(is_found(&threads, keeper), "keeper {i}");
    }
}

/// `.vtable.nested`, `.vtable.exact-restore`
#[test]
fn a_thread_frozen_by_the_user_is_scanned_and_stays_frozen_after_a_collection() {
    let threads = threads(By::Signals);
    let frozen = Worker::new(&threads, "frozen", spin);
    let free = Worker::new(&threads, "free", spin);
    let mock = attached(&threads);
    let tid = frozen.info.tid();
    mock.freeze(tid).unwrap();
    mock.freeze(tid).unwrap();
    assert!(frozen.is_stopped());
    let at = mock.threads().iter().find(|thread| thread.tid == tid).unwrap().stack_ptr;
    for _ in 0..5 {
        let world = stop(&threads);
        assert_eq!(frozen.info.stack_ptr(), at, "the frozen thread's slot was not written again");
        world.start();
        assert!(frozen.is_stopped(), "the collection resumed the thread that the user froze");
        assert!(free.runs());
    }
    assert!(mock.thaw(tid));
    assert!(!mock.thaw(tid));
    assert!(frozen.runs());
    let (log, _) = mock.log();
    assert_eq!(log.iter().filter(|e| **e == MockEvent::StaysFrozen { tid }).count(), 5);
    assert_eq!(log.iter().filter(|e| matches!(e, MockEvent::Frozen { .. })).count(), 1);
}

/// `.stop.lost`: the world is stopped by signals, and a debugger holds one thread.
#[test]
fn under_signals_a_thread_that_the_debugger_holds_is_named_and_the_next_stop_after_the_thaw_succeeds() {
    let threads = threads(By::Signals);
    let worker = Worker::new(&threads, "at the prompt", spin);
    let mock = MockDebugger::new().unwrap();
    // The debugger attaches without taking over stopping.
    mock.add_all_threads(&[worker.info]);
    mock.freeze(worker.info.tid()).unwrap();
    let error = stop_within(&threads, 150).err().expect("the thread is frozen");
    assert!(error.to_string().contains("at the prompt"), "{error}");
    assert!(worker.is_stopped());
    assert!(mock.thaw(worker.info.tid()));
    assert!(worker.runs(), "the late signal has stopped the thread");
    stop(&threads).start();
    mock.remove_all_threads(&[worker.info]);
}

#[test]
fn a_debugger_that_detaches_resumes_frozen_threads() {
    let threads = threads(By::Signals);
    let worker = Worker::new(&threads, "frozen", spin);
    let mock = attached(&threads);
    mock.freeze(worker.info.tid()).unwrap();
    threads.set_vtable(vtable(By::Safepoints), budget(10_000)).unwrap();
    assert!(worker.runs());
    assert!(mock.freeze(worker.info.tid()).is_err(), "the thread was announced as gone");
    stop(&threads).start();
}

/// `.vtable.created-under-lock`, `.vtable.exited-before-free`
#[test]
fn threads_that_attach_and_exit_under_the_debugger_are_stopped_while_they_exist() {
    let threads = threads(By::Signals);
    let mock = attached(&threads);
    let born = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let spawners = [0, 1].map(|i| {
            let (threads, born) = (&threads, &born);
            scope.spawn(move || {
                for _ in 0..100 {
                    let threads = threads.clone();
                    let short = std::thread::spawn(move || {
                        let info = threads.attach(&format!("child of {i}")).unwrap();
                        threads.detach(info);
                    });
                    short.join().unwrap();
                    born.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        // At most one stop for each thread, so that the log has room for all events.
        for seen in 0..200 {
            while born.load(Ordering::Relaxed) < seen && !spawners.iter().all(|spawner| spawner.is_finished()) {
                std::thread::yield_now();
            }
            stop(&threads).start();
        }
    });
    assert!(mock.threads().is_empty());
    let (log, missed) = mock.log();
    assert_eq!(missed, 0);
    let count = |kind: fn(&MockEvent) -> bool| log.iter().filter(|e| kind(e)).count();
    let created = count(|e| matches!(e, MockEvent::Created { .. }));
    assert_eq!(created, count(|e| matches!(e, MockEvent::Exited { .. })));
    assert_eq!(count(|e| matches!(e, MockEvent::Stopped { .. })), count(|e| matches!(e, MockEvent::LetGo { .. })));
}

#[test]
fn a_stop_waits_for_the_debuggers_thread_lock_and_names_its_holder() {
    let threads = threads(By::Signals);
    let mock = attached(&threads);
    let lock = mock.thread_lock.lock();
    let inner = threads.clone();
    let waited = std::thread::spawn(move || stop_within(&inner, 100).err().map(|e| e.to_string())).join().unwrap();
    drop(lock);
    let error = waited.expect("the thread lock is held");
    assert!(error.contains("debugger's thread") && error.contains(&thread::gettid().to_string()), "{error}");
    stop(&threads).start();
}

/// If the collecting thread is attached, the debugger does not write its registers: the thread has published them itself.
#[test]
fn the_collecting_thread_is_not_stopped_by_the_debugger() {
    let threads = threads(By::Signals);
    let _mock = attached(&threads);
    let worker = Worker::new(&threads, "other", spin);
    let info = threads.attach("collector").unwrap();
    for _ in 0..20 {
        info.with_own_stack(|own| {
            let mut budget = budget(10_000);
            let locks = threads.lock_for_stop(&mut budget).unwrap();
            let world = threads.stop(locks, Some(own), StopBy::InForce, budget).unwrap();
            assert_ne!(worker.info.stack_ptr(), 0);
            assert_ne!(info.stack_ptr(), 0);
            world.start();
        });
    }
    threads.detach(info);
    assert!(worker.runs());
}

/// `.stop.lost`: the error names a thread that even the debugger cannot stop.
#[test]
fn a_thread_that_masks_even_the_debuggers_signal_is_named() {
    let threads = threads(By::Signals);
    let worker = Worker::new(&threads, "deaf", |_| {
        let _mask = crate::os::signals::block_all();
        std::thread::sleep(Duration::from_millis(400));
    });
    let mock = attached(&threads);
    // Between two sleeps it can be stopped.
    let error = (0..400)
        .find_map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            stop_within(&threads, 100).err()
        })
        .expect("it masks everything");
    assert!(error.to_string().contains("deaf"), "{error}");
    assert!(mock.log().0.iter().any(|event| matches!(event, MockEvent::StopFailed { .. })));
    assert!(worker.runs());
    stop(&threads).start();
}

/// `.stop.fork`
#[test]
fn the_child_of_a_fork_still_has_the_debugger() {
    let threads = threads(By::Signals);
    let _mock = attached(&threads);
    let _worker = Worker::new(&threads, "stays in the parent", spin);
    let info = threads.attach("forker").unwrap();
    // SAFETY: the child stops its world and leaves by _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: SIGALRM ends a deadlock.
        unsafe { libc::alarm(20) };
        let worker = Worker::new(&threads, "child's", spin);
        let stopped = info.with_own_stack(|own| {
            let mut budget = budget(10_000);
            let locks = threads.lock_for_stop(&mut budget)?;
            threads.stop(locks, Some(own), StopBy::InForce, budget).map(|world| world.live().len())
        });
        let code = if matches!(stopped, Ok(2)) && worker.runs() { 0 } else { 1 };
        // SAFETY: exits without the parent's destructors.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    unsafe { libc::waitpid(pid, &mut status, 0) };
    threads.detach(info);
    assert_eq!(status, 0);
    stop(&threads).start();
}

/// `.vtable.nested`, `.vtable.exact-restore`: in the contract in which the collector signals the threads itself.
#[rstest]
fn an_assisting_debugger_answers_for_threads_that_its_user_has_frozen(#[values(By::Signals, By::Safepoints)] by: By) {
    let threads = threads(by);
    let mock = MockDebugger::assisted().unwrap();
    threads.set_vtable(mock.clone(), budget(10_000)).unwrap();
    let workers: Vec<_> = (0..3).map(|i| Worker::new(&threads, &format!("w{i}"), spin)).collect();
    let (frozen, others) = workers.split_first().unwrap();
    for _ in 0..20 {
        mock.freeze(frozen.info.tid()).unwrap();
        let world = stop(&threads);
        let (low, high) = frozen.info.stack();
        assert!((low..high).contains(&frozen.info.stack_ptr()));
        assert!(workers.iter().all(|worker| worker.info.stack_ptr() != 0));
        assert!(world.still_holds().is_ok());
        world.start();
        assert!(frozen.is_stopped(), "the collection resumed a thread that the user froze");
        assert!(others.iter().all(Worker::runs));
        assert!(mock.thaw(frozen.info.tid()));
        assert!(frozen.runs());
    }
    let answered = mock.log().0.iter().filter(|event| matches!(event, MockEvent::Answered { .. })).count();
    assert!(answered > 0, "it never answered for a thread");
}

/// `.debug.counted-twice`: a thread that is thawed during a collection takes its pending signal and parks.
#[test]
fn a_thread_that_is_thawed_in_the_middle_of_a_collection_is_stopped_until_its_end() {
    let threads = threads(By::Signals);
    let mock = MockDebugger::assisted().unwrap();
    threads.set_vtable(mock.clone(), budget(10_000)).unwrap();
    let workers: Vec<_> = (0..3).map(|i| Worker::new(&threads, &format!("w{i}"), spin)).collect();
    for round in 0..30 {
        let worker = &workers[round % 3];
        mock.freeze(worker.info.tid()).unwrap();
        let world = stop(&threads);
        assert!(mock.thaw(worker.info.tid()));
        assert!(worker.is_stopped());
        assert!(world.still_holds().is_ok());
        world.start();
        assert!(worker.runs());
    }
}

/// `.stop.registers`
#[test]
fn the_registers_of_a_thread_that_is_answered_for_are_scanned() {
    let threads = threads(By::Signals);
    let mock = MockDebugger::assisted().unwrap();
    threads.set_vtable(mock.clone(), budget(10_000)).unwrap();
    for (i, keeper) in KEEPERS.into_iter().enumerate() {
        let thaw = |tid| assert!(mock.thaw(tid));
        assert!(is_found_between(&threads, keeper, |tid| mock.freeze(tid).unwrap(), thaw), "keeper {i}");
    }
}
