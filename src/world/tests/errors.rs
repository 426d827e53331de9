//! The errors that a user gets: each failed stop names the threads, the reason and the remedy, and the world runs on.

use super::*;

/// Repeats a stop until it fails with an error for which `is_it` returns true, and returns that error.
fn refused(threads: &Threads, ms: u64, is_it: impl Fn(&StopError) -> bool) -> StopError {
    let found = std::cell::RefCell::new(None);
    let is_found = || {
        let error = stop_within(threads, ms).err().filter(&is_it);
        *found.borrow_mut() = error;
        found.borrow().is_some()
    };
    assert!(within(LONG, is_found), "the stop did not fail with the expected error");
    found.into_inner().unwrap()
}

/// `.stop.lost`
#[test]
fn a_thread_that_masks_the_signal_is_named_and_stops_when_it_unmasks_it() {
    let threads = threads(By::Signals);
    let masked = Arc::new(AtomicBool::new(true));
    let wish = masked.clone();
    let worker = Worker::new(&threads, "masked-one", move |_| {
        if wish.load(Ordering::Relaxed) {
            if !signals::is_blocked(signals::DEFAULT) {
                std::mem::forget(signals::block(signals::DEFAULT));
            }
        } else {
            signals::unblock(signals::DEFAULT);
        }
    });
    let other = Worker::new(&threads, "innocent", spin);
    assert!(within(LONG, || worker.count() > 2));
    // On a busy machine the other thread may not have stopped in time either.
    let error =
        refused(&threads, 200, |error| matches!(error, StopError::Unanswered { threads, .. } if threads.len() == 1));
    let StopError::Unanswered { threads: silent, of, .. } = &error else { panic!("{error}") };
    assert_eq!((silent.len(), *of), (1, 2), "{error}");
    assert_eq!(silent[0].tid, worker.info.tid());
    assert_eq!(silent[0].reason, SilenceReason::MasksSignal { signal: signals::DEFAULT });
    assert!(error.to_string().contains("masked-one"), "{error}");
    assert!(worker.runs() && other.runs(), "the world does not run after the error");
    masked.store(false, Ordering::Relaxed);
    assert!(worker.runs());
    let world = stop(&threads);
    assert!(worker.is_stopped() && other.is_stopped());
    world.start();
}

/// `.stop.lost`: a stop does not fail only because its time is over. It fails if a thread has not stopped, and names it.
#[rstest::rstest]
fn a_stop_with_no_time_succeeds_if_all_threads_are_stopped_and_names_a_thread_otherwise(
    #[values(By::Signals, By::Safepoints)] by: By,
) {
    let threads = threads(by);
    let awake = Arc::new(AtomicBool::new(false));
    let until = awake.clone();
    let asleep = Worker::new(&threads, "asleep", move |info| {
        info.blocking(|| {
            while !until.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    });
    assert!(within(LONG, || asleep.info.is_blocking()));
    // Another test may fork, which takes the locks of all worlds.
    let at_once = || loop {
        match stop_within(&threads, 0) {
            Err(StopError::LockHeld { .. }) => std::thread::yield_now(),
            outcome => break outcome,
        }
    };
    at_once().expect("the only thread is stopped").start();
    let spinning = Worker::new(&threads, "spinning", spin);
    for _ in 0..1000 {
        match at_once() {
            Ok(world) => drop(world),
            Err(StopError::Unanswered { threads: silent, .. }) => assert_eq!(silent[0].tid, spinning.info.tid()),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(spinning.runs());
    awake.store(true, Ordering::Relaxed);
}

/// `.stop.late`: the signal of the stop that was abandoned arrives when the thread unmasks it.
#[test]
fn a_late_signal_stops_no_thread() {
    let threads = threads(By::Signals);
    let (masked, deaf) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let (wish, is_deaf) = (masked.clone(), deaf.clone());
    let worker = Worker::new(&threads, "late", move |_| {
        let _mask = signals::block(signals::DEFAULT);
        while wish.load(Ordering::Relaxed) {
            is_deaf.store(true, Ordering::Relaxed);
            std::thread::yield_now();
        }
    });
    for _ in 0..5 {
        deaf.store(false, Ordering::Relaxed);
        masked.store(true, Ordering::Relaxed);
        assert!(within(LONG, || deaf.load(Ordering::Relaxed)));
        assert!(stop_within(&threads, 60).is_err());
        masked.store(false, Ordering::Relaxed);
        assert!(worker.runs(), "the late signal has stopped the thread");
    }
}

#[test]
fn a_thread_without_safepoints_is_named_under_the_cooperative_stopper() {
    let threads = threads(By::Safepoints);
    let worker = Worker::new(&threads, "no-safepoint", |_| std::thread::yield_now());
    let error = stop_within(&threads, 100).err().expect("the thread polls nowhere");
    assert!(error.to_string().contains("no-safepoint") && error.to_string().contains("safepoint()"), "{error}");
    assert!(worker.runs());
}

/// `.debug.frozen-owner`
#[test]
fn the_holder_of_a_lock_that_is_not_released_is_named() {
    let threads = threads(By::Signals);
    let hold = Arc::new(AtomicBool::new(true));
    let wish = hold.clone();
    let inner = threads.clone();
    let (sender, receiver) = mpsc::channel();
    let worker = Worker::new(&threads, "lock owner", move |_| {
        if wish.load(Ordering::Relaxed) {
            let _held = inner.locks().allocation.lock();
            let _ = sender.send(());
            while wish.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }
    });
    receiver.recv().unwrap();
    let error = stop_within(&threads, 100).err().expect("the lock is held");
    let StopError::LockHeld { lock, holder, .. } = &error else { panic!("{error}") };
    assert_eq!((*lock, holder.tid), ("allocation", worker.info.tid()));
    assert!(error.to_string().contains("lock owner"), "{error}");
    hold.store(false, Ordering::Relaxed);
    stop(&threads).start();
}

/// `.stop.lost`: the error when a debugger has stopped a thread.
#[test]
fn a_thread_held_by_a_debugger_is_named_with_the_debuggers_pid() {
    let threads = threads(By::Signals);
    let worker = Worker::new(&threads, "at a breakpoint", spin);
    let tid = worker.info.tid().0;
    let (mut ready, sender) = std::io::pipe().unwrap();
    let (hear, go) = std::io::pipe().unwrap();
    // SAFETY: the child only makes system calls, then _exit.
    let tracer = unsafe { libc::fork() };
    if tracer == 0 {
        use std::os::fd::AsRawFd;
        // SAFETY: plain system calls of a tracer.
        unsafe {
            libc::alarm(30);
            let held = libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0) == 0
                && libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0) == 0
                && libc::waitpid(tid, &mut 0, libc::__WALL) == tid;
            libc::write(sender.as_raw_fd(), [u8::from(held)].as_ptr().cast(), 1);
            libc::read(hear.as_raw_fd(), [0u8].as_mut_ptr().cast(), 1);
            libc::ptrace(libc::PTRACE_DETACH, tid, 0, 0);
            libc::_exit(0);
        }
    }
    let mut held = [0u8];
    std::io::Read::read_exact(&mut ready, &mut held).unwrap();
    let outcome = (held[0] == 1).then(|| stop_within(&threads, 200).err());
    std::io::Write::write_all(&mut { go }, b"x").unwrap();
    // SAFETY: our own child.
    unsafe { libc::waitpid(tracer, &mut 0, 0) };
    let Some(error) = outcome else { return eprintln!("skipped: ptrace is not allowed here") };
    let error = error.expect("the thread was held");
    let StopError::Unanswered { threads: silent, .. } = &error else { panic!("{error}") };
    assert_eq!(silent[0].reason, SilenceReason::HeldByDebugger { tracer });
    assert!(worker.runs());
    stop(&threads).start();
}

/// `.stop.lost`: a thread inside vfork is in an uninterruptible sleep until its child execs or ends.
#[test]
fn a_thread_in_vfork_is_waited_for_or_named() {
    extern "C" fn child(_: *mut libc::c_void) -> i32 {
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 400_000_000 };
        // SAFETY: a plain system call, in a child that shares the memory and does not touch it.
        unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
        0
    }
    let threads = threads(By::Signals);
    let worker = Worker::new(&threads, "vforker", |_| {
        const SIZE: usize = 64 << 10;
        let stack = crate::os::memory::map_anonymous(SIZE).unwrap();
        // SAFETY: as vfork does: the child runs on its own stack, and this thread sleeps until it ends.
        unsafe {
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            let pid = libc::clone(child, stack.add(SIZE).cast(), flags, std::ptr::null_mut());
            libc::waitpid(pid, &mut 0, 0);
            crate::os::memory::unmap(stack, SIZE);
        }
    });
    // Between two children the thread can be stopped.
    let error = refused(
        &threads,
        100,
        |error| matches!(error, StopError::Unanswered { threads, .. } if threads[0].reason == SilenceReason::Uninterruptible),
    );
    let StopError::Unanswered { threads: silent, .. } = &error else { panic!("{error}") };
    assert_eq!(silent[0].reason, SilenceReason::Uninterruptible, "{error}");
    // With enough time, the stop waits for it.
    stop(&threads).start();
    assert!(worker.runs());
}

#[test]
fn a_thread_belongs_to_one_world_at_a_time() {
    let (one, two) = (threads(By::Signals), threads(By::Safepoints));
    let info = one.attach("first").unwrap();
    assert!(two.attach("second").unwrap_err().to_string().contains("first"));
    one.detach(info);
    let info = two.attach("second").unwrap();
    two.detach(info);
}

#[test]
fn a_second_suspend_signal_is_refused() {
    drop(threads(By::Signals));
    let error = SignalStopper::new(libc::SIGWINCH).unwrap_err();
    assert!(error.to_string().contains("SIGURG") && error.to_string().contains("SIGWINCH"), "{error}");
    assert!(SignalStopper::new(libc::SIGKILL).is_err());
    assert!(SignalStopper::new(0).is_err());
}
