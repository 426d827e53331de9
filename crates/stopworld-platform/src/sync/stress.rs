//! Tests with real threads on a real futex, for what the models can't show: the kernel's part, and more than three threads.
//! A lost wake would make a test hang.

use std::time::Duration;

use super::lock::{HeldBy, Lock, Patience};
use super::{AtomicBool, AtomicU32, AtomicU64, Ordering, Semaphore, UnsafeCell, port};

/// A counter without atomics, which the lock under test must protect.
struct Plain(UnsafeCell<u64>);

// SAFETY: the tests access it only under the protection that they test.
unsafe impl Sync for Plain {}

impl Plain {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn add(&self, n: u64) {
        // SAFETY: the caller excludes other threads.
        self.0.with_mut(|value| unsafe { value.write_volatile(value.read_volatile() + n) });
    }

    fn get(&self) -> u64 {
        // SAFETY: the caller excludes other threads.
        self.0.with(|value| unsafe { value.read_volatile() })
    }
}

#[test]
fn every_permit_arrives() {
    const THREADS: u64 = 4;
    const PERMITS: u64 = 15_000;
    let semaphore = Semaphore::new();
    let taken = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for i in 0..THREADS {
            let (semaphore, taken) = (&semaphore, &taken);
            scope.spawn(move || {
                for n in 0..PERMITS {
                    // Some wait without a limit, some in slices so short that most time out.
                    if (i + n) % 3 == 0 {
                        while !semaphore.wait_slice(2_000) {}
                    } else {
                        semaphore.wait();
                    }
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            });
            scope.spawn(move || (0..PERMITS).for_each(|_| semaphore.post()));
        }
    });
    assert_eq!(taken.into_inner(), THREADS * PERMITS);
    assert!(!semaphore.try_wait());
}

#[test]
fn two_threads_hand_each_other_the_turn() {
    let (ping, pong, count) = (Semaphore::new(), Semaphore::new(), Plain::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5_000 {
                ping.wait();
                count.add(1);
                pong.post();
            }
        });
        for n in 0..5_000 {
            assert_eq!(count.get(), n);
            ping.post();
            pong.wait();
        }
    });
}

#[test]
fn permits_stop_at_their_limit() {
    let semaphore = Semaphore::new();
    (0..70_000).for_each(|_| semaphore.post());
    assert_eq!((0..70_000).filter(|_| semaphore.try_wait()).count(), 65_535);
}

#[test]
fn every_way_of_locking_excludes_other_threads() {
    const ROUNDS: u64 = 15_000;
    let (lock, count) = (Lock::new(), Plain::new());
    let locked = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let (lock, count, locked) = (&lock, &count, &locked);
            scope.spawn(move || {
                for n in 0..ROUNDS {
                    let guard = match (i + n) % 4 {
                        0 => lock.try_lock().ok(),
                        1 => lock.lock_slice(1_000).ok(),
                        _ => Some(lock.lock()),
                    };
                    if let Some(guard) = guard {
                        count.add(1);
                        locked.fetch_add(1, Ordering::Relaxed);
                        drop(guard);
                    }
                }
            });
        }
    });
    assert_eq!(count.get(), locked.into_inner());
    assert!(count.get() >= 2 * ROUNDS);
    assert_eq!(lock.holder(), None);
}

/// `.debug.frozen-owner`
#[test]
fn a_lock_that_is_not_released_names_its_holder() {
    struct ThreeSlices(u32);
    impl Patience for ThreeSlices {
        fn slice(&mut self, wait: &mut dyn FnMut(u64)) -> bool {
            if self.0 == 0 {
                return false;
            }
            self.0 -= 1;
            wait(1_000_000);
            true
        }
    }
    let lock = Lock::new();
    let (asked, holder) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = lock.lock();
            assert!(lock.is_mine());
            holder.store(port::current_tid(), Ordering::Release);
            while !asked.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        while holder.load(Ordering::Acquire) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let refused = lock.lock_within(&mut ThreeSlices(3)).map(drop);
        assert_eq!(refused, Err(HeldBy(holder.load(Ordering::Relaxed))));
        assert!(!lock.is_mine());
        asked.store(true, Ordering::Release);
    });
    assert!(lock.try_lock().is_ok());
}
