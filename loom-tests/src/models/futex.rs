//! The semaphore and the lock on the futex port: no wake is lost, also if waits time out.

use std::sync::Arc;

use crate::check::Preemptions::{AtMost, Unbounded};
use crate::check::{Fault, explore, must_fail_without};
use crate::kernel::{self, Kernel};
use crate::playground::Slices;
use crate::sabotage::Guard;
use crate::sync::{HeldBy, Lock, Semaphore, UnsafeCell};

struct Shared {
    semaphore: Semaphore,
    verdict: Semaphore,
    lock: Lock,
    counter: UnsafeCell<u32>,
}

// SAFETY: the data that is not Sync is in a loom cell, and loom reports unordered accesses to it.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            semaphore: Semaphore::new(),
            verdict: Semaphore::new(),
            lock: Lock::new(),
            counter: UnsafeCell::new(0),
        })
    }

    fn count(&self) {
        // SAFETY: loom reports every concurrent access.
        self.counter.with_mut(|counter| unsafe { *counter += 1 });
    }

    fn counted(&self) -> u32 {
        // SAFETY: loom reports every concurrent write.
        self.counter.with(|counter| unsafe { *counter })
    }
}

/// Starts threads 2, 3, … with these bodies, runs `mine` on this thread, waits for all, and runs `end`.
fn together(bodies: Vec<fn(&Shared)>, mine: fn(&Shared), end: fn(&Shared)) {
    let kernel = Kernel::boot(bodies.len() as u32 + 1);
    let shared = Shared::new();
    let spawn = |(i, body): (usize, fn(&Shared))| {
        let shared = Arc::clone(&shared);
        kernel.spawn(i as u32 + 2, move || body(&shared))
    };
    let handles: Vec<_> = bodies.into_iter().enumerate().map(spawn).collect();
    mine(&shared);
    handles.into_iter().for_each(|h| h.join().expect("loom reports what fails"));
    end(&shared);
}

#[test]
fn a_permit_carries_what_its_poster_did() {
    explore("semaphore, 1 waiter", Unbounded, || {
        let waiter: fn(&Shared) = |shared| {
            shared.semaphore.wait();
            assert_eq!(shared.counted(), 1);
        };
        let poster: fn(&Shared) = |shared| {
            shared.count();
            shared.semaphore.post();
        };
        together(vec![waiter], poster, |shared| assert!(!shared.semaphore.try_wait()));
    });
}

#[test]
fn each_permit_wakes_one_waiter() {
    explore("semaphore, 2 waiters", AtMost(3), || {
        let waiter: fn(&Shared) = |shared| shared.semaphore.wait();
        let poster: fn(&Shared) = |shared| {
            shared.semaphore.post();
            shared.semaphore.post();
        };
        together(vec![waiter, waiter], poster, |shared| assert!(!shared.semaphore.try_wait()));
    });
}

#[test]
fn a_wait_that_runs_out_of_time_loses_no_permit() {
    explore("semaphore, timed and untimed waiter", AtMost(2), || {
        let timed: fn(&Shared) = |shared| {
            if !shared.semaphore.wait_slice(1) {
                shared.semaphore.wait();
            }
        };
        let untimed: fn(&Shared) = |shared| shared.semaphore.wait();
        let poster: fn(&Shared) = |shared| {
            shared.semaphore.post();
            kernel::time_is_up();
            shared.semaphore.post();
        };
        together(vec![timed, untimed], poster, |shared| assert!(!shared.semaphore.try_wait()));
    });
}

#[test]
fn a_waiter_that_sleeps_despite_a_permit_is_caught() {
    must_fail_without(Guard::SyncLostWake, "models::futex::a_permit_carries_what_its_poster_did", Fault::Deadlock);
}

fn locked(shared: &Shared) {
    let guard = shared.lock.lock();
    shared.count();
    drop(guard);
}

#[test]
fn one_at_a_time_two_threads() {
    explore("lock, 2 threads, twice each", Unbounded, || {
        let twice: fn(&Shared) = |shared| {
            locked(shared);
            locked(shared);
        };
        together(vec![twice], twice, |shared| assert_eq!((shared.counted(), shared.lock.holder()), (4, None)));
    });
}

#[test]
fn one_at_a_time_three_threads() {
    explore("lock, 3 threads", AtMost(3), || {
        together(vec![locked, locked], locked, |shared| assert_eq!(shared.counted(), 3));
    });
}

/// A waiter with a time limit may be given the wake of an unlock and then lose the lock to a third thread.
#[test]
fn a_waiter_that_gives_up_passes_its_wake_on() {
    explore("lock, a waiter that gives up, 3 threads", AtMost(3), || {
        let gives_up: fn(&Shared) = |shared| {
            if let Ok(guard) = shared.lock.lock_slice(1) {
                shared.count();
                drop(guard);
            }
        };
        let holder: fn(&Shared) = |shared| {
            locked(shared);
            locked(shared);
        };
        together(vec![gives_up, locked], holder, |shared| {
            assert!(matches!(shared.counted(), 3 | 4));
            assert_eq!(shared.lock.holder(), None);
        });
    });
}

#[test]
fn a_wake_that_is_not_passed_on_is_caught() {
    must_fail_without(Guard::SyncTimedOut, "models::futex::a_waiter_that_gives_up_passes_its_wake_on", Fault::Deadlock);
}

/// The holder keeps the lock until the other thread has its result, so the other thread's wait for the lock times out. The error must name
/// the holder.
#[test]
fn a_lock_wait_that_times_out_names_the_holder() {
    explore("lock, a wait that runs out of time", AtMost(3), || {
        let asks: fn(&Shared) = |shared| {
            shared.semaphore.wait();
            let refused = shared.lock.lock_within(&mut Slices(2)).expect_err("the lock is not released");
            assert_eq!(refused, HeldBy(1));
            shared.verdict.post();
        };
        let holder: fn(&Shared) = |shared| {
            let guard = shared.lock.lock();
            assert!(shared.lock.is_mine());
            shared.semaphore.post();
            kernel::time_is_up();
            shared.verdict.wait();
            drop(guard);
        };
        together(vec![asks], holder, |shared| assert_eq!(shared.lock.holder(), None));
    });
}
