//! Whole worlds: several at once, dropped in any order, threads that start and exit, forks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::heap_support::*;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use rstest::rstest;
use stopworld::{Gc, Leaf, Mutator, Stopper, World};

#[rstest]
fn several_worlds_collect_at_once_without_touching_each_other(
    #[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper,
) {
    let worlds: Vec<World> = (0..4).map(|i| paranoid().stopper(stopper).markers(1 + i % 2).build().unwrap()).collect();
    let threads: Vec<_> = worlds
        .iter()
        .enumerate()
        .flat_map(|(i, world)| {
            let start = move |j: u64| {
                let work = move |m: &Mutator| {
                    for round in 0..25 {
                        let height = 8 + (i as u64 + j + round) % 4;
                        assert_eq!(check_tree(tree(m, height).unwrap()), tree_size(height));
                        m.collect().unwrap();
                    }
                };
                // SAFETY: every Gc is a local variable.
                unsafe { world.spawn(&format!("world-{i}-{j}"), work) }.unwrap()
            };
            [start(0), start(1)]
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for world in &worlds {
        assert!(world.totals().collections >= 50);
        assert_eq!(world.collect().unwrap().live_objects, 0);
    }
}

#[test]
fn a_thread_may_collect_a_world_that_it_is_not_attached_to() {
    let (mine, other) = (paranoid().build().unwrap(), paranoid().build().unwrap());
    // SAFETY: every Gc is a local variable.
    let m = unsafe { mine.attach("main") }.unwrap();
    let kept = tree(&m, 7).unwrap();
    let root = on_a_thread(&other, |m| m.root(list(m, 100).unwrap()));
    assert_eq!(other.collect().unwrap().live_objects, 100);
    // Meanwhile the thread counts as blocking in its own world, which other threads may stop.
    on_a_thread(&mine, |m| assert!(m.collect().is_ok()));
    assert_eq!(check_tree(kept), tree_size(7));
    drop(root);
    assert_eq!(other.collect().unwrap().live_objects, 0);
    // SAFETY: the result is not used.
    assert!(unsafe { other.attach("main") }.is_err(), "a thread is attached to one world at a time");
}

#[test]
fn a_collection_may_be_requested_from_a_blocking_region() {
    let world = paranoid().build().unwrap();
    // SAFETY: every Gc is a local variable.
    let m = unsafe { world.attach("main") }.unwrap();
    let kept = tree(&m, 7).unwrap();
    let report = m.blocking(|| world.collect()).unwrap();
    assert!(report.live_objects >= tree_size(7));
    assert_eq!(check_tree(kept), tree_size(7));
}

/// A mutator keeps its world: nothing is freed while a thread is attached.
#[rstest]
fn a_world_may_be_dropped_while_threads_are_attached(
    #[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper,
) {
    for _ in 0..20 {
        let world = paranoid().stopper(stopper).markers(2).build().unwrap();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let work = |m: &Mutator| {
                    let kept = tree(m, 9).unwrap();
                    for _ in 0..10 {
                        assert_eq!(check_tree(tree(m, 9).unwrap()), tree_size(9));
                    }
                    m.collect().unwrap();
                    check_tree(kept)
                };
                // SAFETY: every Gc is a local variable.
                unsafe { world.spawn("survivor", work) }.unwrap()
            })
            .collect();
        drop(world);
        for thread in threads {
            assert_eq!(thread.join().unwrap(), tree_size(9));
        }
    }
}

#[test]
fn a_root_may_outlive_its_world() {
    let world = paranoid().build().unwrap();
    let root = on_a_thread(&world, |m| m.root(tree(m, 4).unwrap()));
    let copy = root.clone();
    drop(world);
    assert!(format!("{root:?}").starts_with("Root(0x"));
    drop(root);
    drop(copy);
}

#[test]
fn a_root_of_another_world_is_refused() {
    let (first, second) = (paranoid().build().unwrap(), paranoid().build().unwrap());
    let root = on_a_thread(&first, |m| m.root(node(m, 1).unwrap()));
    // SAFETY: every Gc is a local variable.
    let thread = unsafe { second.spawn("thief", move |m| root.get(m).key) }.unwrap();
    assert!(thread.join().is_err());
}

#[test]
fn hundreds_of_threads_leak_no_blocks() {
    let world = paranoid().heap_limit(16 << 20).build().unwrap();
    for _ in 0..400 {
        on_a_thread(&world, |m| {
            for key in 0..50 {
                assert_eq!(node(m, key).unwrap().key, key);
                assert_eq!(m.alloc_array(key as usize * 20, |_| 1_u8).unwrap().len(), key as usize * 20);
            }
        });
    }
    let report = world.collect().unwrap();
    assert_eq!((report.live_objects, report.live.total()), (0, 0));
    assert_eq!(world.verify().unwrap().free_cells, 0);
}

#[test]
fn a_thread_that_panics_detaches_and_what_it_held_dies() {
    let world = paranoid().build().unwrap();
    // SAFETY: every Gc is a local variable.
    let thread = unsafe {
        world.spawn("unlucky", |m| -> () {
            let kept = tree(m, 8).unwrap();
            std::panic::resume_unwind(Box::new(check_tree(kept)));
        })
    };
    let payload: Box<dyn std::any::Any + Send> = thread.unwrap().join().unwrap_err();
    assert_eq!(payload.downcast_ref::<u64>(), Some(&tree_size(8)));
    assert_eq!(world.collect().unwrap().live_objects, 0);
    assert!(world.threads().is_empty());
}

/// Runs `body` in a child process and reports a panic, a crash or a hang of the child.
fn in_a_child(body: impl FnOnce()) {
    // SAFETY: this test is about what the child may do between fork and exit.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            // SAFETY: ends the child at once: the test runner's threads and atexit handlers are the parent's.
            unsafe { libc::_exit(i32::from(outcome.is_err())) }
        }
        ForkResult::Parent { child } => assert_eq!(wait_for(child), WaitStatus::Exited(child, 0)),
    }
}

fn wait_for(child: Pid) -> WaitStatus {
    for _ in 0..30_000 {
        let status = waitpid(child, Some(WaitPidFlag::WNOHANG)).unwrap();
        if status != WaitStatus::StillAlive {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).unwrap();
    waitpid(child, None).unwrap();
    panic!("the child hung");
}

/// `.stop.fork`, `.fork.services`: the child of a process with several mutators, markers and a finalizer thread has
/// one thread; it collects, finalizes, allocates and starts threads of its own.
#[rstest]
fn the_child_of_a_fork_collects_and_finalizes(
    #[values(1, 3)] markers: usize,
    #[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper,
) {
    static FINALIZED: AtomicU32 = AtomicU32::new(0);
    let world = paranoid().markers(markers).stopper(stopper).build().unwrap();
    let stop = Arc::new(AtomicU32::new(0));
    let others: Vec<_> = (0..4)
        .map(|_| {
            let stop = Arc::clone(&stop);
            let work = move |m: &Mutator| {
                while stop.load(Ordering::Relaxed) == 0 {
                    assert_eq!(check_tree(tree(m, 8).unwrap()), tree_size(8));
                    m.safepoint();
                }
            };
            // SAFETY: every Gc is a local variable.
            unsafe { world.spawn("other", work) }.unwrap()
        })
        .collect();
    let root = on_a_thread(&world, |m| m.root(tree(m, 10).unwrap()));
    // SAFETY: every Gc is a local variable.
    let m = unsafe { world.attach("main") }.unwrap();
    // The finalizer thread runs, and has something to do, before the fork.
    m.alloc(Leaf(String::from("dies soon"))).unwrap();
    for _ in 0..10 {
        let kept = list(&m, 1000).unwrap();
        in_a_child(|| {
            assert_eq!(m.world().threads().len(), 1);
            for key in 0..20 {
                let finalizer = |_: &Mutator, _: Gc<Node>| {
                    FINALIZED.fetch_add(1, Ordering::Relaxed);
                };
                m.set_finalizer(node(&m, key).unwrap(), finalizer).unwrap();
            }
            scrub_stack();
            for _ in 0..5 {
                let report = m.collect().unwrap();
                assert!(report.live_objects < 40_000, "{report:#?}");
            }
            wait_until("the child's finalizers have run", || {
                m.blocking(|| std::thread::sleep(Duration::from_millis(1)));
                // A stale address on the stack may keep one alive.
                FINALIZED.load(Ordering::Relaxed) >= 15
            });
            assert_eq!(check_list(kept), 1000);
            assert_eq!(check_tree(root.get(&m)), tree_size(10));
            for _ in 0..20 {
                assert_eq!(check_tree(tree(&m, 12).unwrap()), tree_size(12));
            }
            // SAFETY: every Gc is a local variable.
            let thread = unsafe { m.world().spawn("grandchild", |m| check_tree(tree(m, 9).unwrap())) };
            assert_eq!(thread.unwrap().join().unwrap(), tree_size(9));
            m.world().close(Duration::from_secs(120)).unwrap();
        });
        m.collect().unwrap();
        assert_eq!(check_list(kept), 1000);
    }
    stop.store(1, Ordering::Relaxed);
    others.into_iter().for_each(|other| other.join().unwrap());
}

/// Finalizers that were queued, but had not run, when the process forked.
#[test]
fn the_child_of_a_fork_runs_the_finalizers_that_were_due_before_it() {
    static RUN: AtomicU32 = AtomicU32::new(0);
    static STARTED: AtomicU32 = AtomicU32::new(0);
    static GO: AtomicU32 = AtomicU32::new(0);
    let world = paranoid().build().unwrap();
    on_a_thread(&world, |m| {
        // The first one keeps the parent's finalizer thread busy until the fork is over.
        let slow = |m: &Mutator, _: Gc<Node>| {
            STARTED.store(1, Ordering::Relaxed);
            m.blocking(|| {
                while GO.load(Ordering::Relaxed) == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        };
        m.set_finalizer(node(m, 0).unwrap(), slow).unwrap();
        for key in 1..=10 {
            let quick = |_: &Mutator, _: Gc<Node>| {
                RUN.fetch_add(1, Ordering::Relaxed);
            };
            m.set_finalizer(node(m, key).unwrap(), quick).unwrap();
        }
    });
    assert_eq!(world.collect().unwrap().finalizers_queued, 11);
    wait_until("the first finalizer runs", || STARTED.load(Ordering::Relaxed) == 1);
    in_a_child(|| {
        world.collect().unwrap();
        wait_until("the due finalizers have run", || RUN.load(Ordering::Relaxed) == 10);
    });
    GO.store(1, Ordering::Relaxed);
    wait_until("the parent's finalizers have run", || RUN.load(Ordering::Relaxed) == 10);
}
