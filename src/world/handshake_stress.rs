//! Tests of the handshake, the latch and mark termination with real threads: more threads and more rounds than a model.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::handshake::{Abandoned, Handshake, HandshakeState, HoldOutcome, Holder, Parked, StopState};
use super::latch::Latch;
use crate::collector::termination::{Idle, Termination};
use crate::os::clock::Budget;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const MUTATORS: usize = 4;

struct World {
    handshake: Handshake,
    threads: [Thread; MUTATORS],
    over: AtomicBool,
}

#[derive(Default)]
struct Thread {
    state: StopState,
    /// Incremented while the thread runs, and only then.
    steps: AtomicU64,
    published: AtomicUsize,
}

impl Default for StopState {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    fn new() -> Self {
        let world = Self { handshake: Handshake::new(), threads: Default::default(), over: AtomicBool::new(false) };
        world.threads.iter().for_each(|thread| thread.state.attach());
        world
    }

    fn mutate(&self, i: usize) {
        let thread = &self.threads[i];
        let publish = || thread.published.store(i + 1, Ordering::Relaxed);
        let unpublish = || thread.published.store(0, Ordering::Relaxed);
        for n in 0_usize.. {
            if self.over.load(Ordering::Relaxed) {
                break;
            }
            thread.steps.store(thread.steps.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            if thread.state.is_held() && thread.state.park_if_held(&self.handshake, publish) == Parked::Yes {
                unpublish();
            }
            if n % (7 + i) == 0 {
                thread.state.enter_blocking(&self.handshake, publish);
                let _ = thread.state.leave_blocking();
                unpublish();
            }
        }
        thread.state.detach(&self.handshake);
    }

    fn request_stop(&self, holder: Holder) {
        let epoch = self.handshake.begin(holder, MUTATORS as u32);
        let already = |thread: &&Thread| thread.state.hold(holder, epoch) == HoldOutcome::Already;
        let satisfied = self.threads.iter().filter(already).count();
        self.handshake.satisfied(holder, epoch, satisfied as u32);
    }

    fn stop(&self, holder: Holder) {
        self.request_stop(holder);
        let late = Instant::now() + Duration::from_secs(20);
        while self.handshake.wait_slice(holder, 10_000_000) != 0 {
            assert!(Instant::now() < late, "a stop has not ended");
        }
    }

    fn stand_still(&self) {
        let steps = |thread: &Thread| thread.steps.load(Ordering::Relaxed);
        let before: Vec<_> = self.threads.iter().map(steps).collect();
        (0..20).for_each(|_| std::hint::spin_loop());
        let after: Vec<_> = self.threads.iter().map(steps).collect();
        assert_eq!(before, after, "a thread ran in a stopped world");
        for (i, thread) in self.threads.iter().enumerate() {
            assert_ne!(thread.state.handshake_state(), HandshakeState::Running);
            assert_eq!(thread.published.load(Ordering::Relaxed), i + 1, "a stopped thread has published nothing");
        }
    }

    fn start(&self, holder: Holder) {
        self.threads.iter().for_each(|thread| thread.state.release(holder));
    }

    fn run(&self, stops: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            for i in 0..MUTATORS {
                scope.spawn(move || self.mutate(i));
            }
            stops();
            self.over.store(true, Ordering::Relaxed);
        });
        assert!(self.threads.iter().all(|thread| thread.state.handshake_state() == HandshakeState::Detached));
    }
}

#[test]
fn no_thread_runs_in_a_stopped_world() {
    let world = World::new();
    world.run(|| {
        for _ in 0..1_500 {
            world.stop(Holder::Collection);
            world.stand_still();
            world.start(Holder::Collection);
        }
    });
}

/// `.stop.late`
#[test]
fn an_abandoned_stop_does_not_disturb_a_later_one() {
    let world = World::new();
    let mut unanswered = 0;
    world.run(|| {
        for n in 0..1_500 {
            world.request_stop(Holder::Collection);
            if n % 2 == 0 {
                world.handshake.close(Holder::Collection);
                let silent = |thread: &&Thread| thread.state.abandon(Holder::Collection) == Abandoned::Unanswered;
                unanswered += world.threads.iter().filter(silent).count();
                continue;
            }
            while world.handshake.wait_slice(Holder::Collection, 10_000_000) != 0 {}
            world.stand_still();
            world.start(Holder::Collection);
        }
    });
    assert!(unanswered > 0, "every stop was acknowledged before it could be abandoned");
}

/// `.vtable.nested`, `.vtable.exact-restore`
#[test]
fn holds_of_a_user_and_of_a_collection_are_independent() {
    let world = World::new();
    world.run(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..600 {
                    let epoch = world.handshake.begin(Holder::User, 1);
                    let frozen = &world.threads[0];
                    let satisfied = u32::from(frozen.state.hold(Holder::User, epoch) == HoldOutcome::Already);
                    world.handshake.satisfied(Holder::User, epoch, satisfied);
                    while world.handshake.wait_slice(Holder::User, 10_000_000) != 0 {}
                    let before = frozen.steps.load(Ordering::Relaxed);
                    std::thread::yield_now();
                    assert!(frozen.state.is_held_by(Holder::User), "a collection released a user's hold");
                    assert_eq!(frozen.steps.load(Ordering::Relaxed), before, "a suspended thread ran");
                    frozen.state.release(Holder::User);
                }
            });
            for _ in 0..600 {
                world.stop(Holder::Collection);
                world.stand_still();
                world.start(Holder::Collection);
            }
        });
    });
}

/// `.vtable.swap`
#[test]
fn a_swap_returns_a_value_without_users() {
    let latch = Latch::new(Mutex::new(()));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let latched = latch.latch();
                    latched.with(|value| drop(value.try_lock()));
                    drop(latched);
                    // Without this, three users could keep the value in use for ever: a swap waits until there is no user.
                    std::thread::yield_now();
                }
            });
        }
        let mut swapped = 0;
        for _ in 0..200 {
            let mut budget = Budget::new(Duration::from_millis(20));
            // SAFETY: no other thread swaps.
            if let Ok(outgoing) = unsafe { latch.swap(Mutex::new(()), &mut budget) } {
                assert!(outgoing.try_lock().is_ok(), "the outgoing value is in use");
                swapped += 1;
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(swapped > 0);
    });
}

/// `.mark.termination`
#[test]
fn marking_ends_when_everything_is_marked() {
    const MARKERS: u32 = 4;
    const ITEMS: u64 = 2_000;
    let termination = Termination::new();
    for _ in 0..50 {
        termination.start(MARKERS);
        let (pool, marked) = (Mutex::new(vec![ITEMS]), AtomicU64::new(0));
        let marker = || {
            loop {
                let seen = termination.snapshot();
                let taken = pool.lock().unwrap().pop();
                let Some(mut items) = taken else {
                    match termination.became_idle(seen) {
                        Idle::Finished => break,
                        Idle::LookAgain => continue,
                    }
                };
                while items > 0 {
                    marked.fetch_add(1, Ordering::Relaxed);
                    items -= 1;
                    if items > 1 && termination.has_idle() {
                        pool.lock().unwrap().push(items / 2);
                        termination.work_added();
                        items -= items / 2;
                    }
                }
            }
            assert_eq!(marked.load(Ordering::Relaxed), ITEMS, "marking ended too early");
        };
        std::thread::scope(|scope| (0..MARKERS).for_each(|_| drop(scope.spawn(marker))));
    }
}
