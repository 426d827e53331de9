//! What becomes of sampled allocations (`.profile.samples`) in the child of a fork, in a collection that is discarded, in arenas and in the pinned
//! space.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rstest::rstest;
use stopworld::{Arena, CollectError, Gc, GcCell, Local, Mutator, Trace, World, keep_alive, traced};

use crate::allocations::{attached, list, many, with_fixed_seed, world};
use crate::hazard::{self, By, while_collecting};

/// The number of samples, and of those whose objects are in use, of the types whose names end with this.
fn samples(world: &World, of_type: &str) -> (u64, u64) {
    let profile = world.allocation_profile().unwrap();
    let sites = profile.sites.iter().filter(|site| site.type_info.name().ends_with(of_type));
    let sum = sites.fold((0, 0), |(all, in_use), site| (all + site.samples, in_use + site.samples_in_use));
    assert_eq!((profile.dropped, profile.untracked), (0, 0));
    sum
}

/// Holds the lock of the dynamic loader most of the time.
fn hold_the_loaders_lock(is_over: &AtomicBool) {
    unsafe extern "C" fn linger(_: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
        std::thread::sleep(Duration::from_millis(2));
        1
    }
    while !is_over.load(Ordering::Relaxed) {
        // SAFETY: the callback reads none of its arguments.
        unsafe { libc::dl_iterate_phdr(Some(linger), ptr::null_mut()) };
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Samples in the child of a fork, which is not attached. Returns 0, or a code for the step that failed.
fn sample_on(world: &World) -> i32 {
    let (before, _) = samples(world, "Other");
    let m = attached(world);
    many(&m, 1000);
    let kept = list(&m, 1000);
    let code = match () {
        () if before == 0 => 1,
        () if samples(world, "Other").0 != before + 1000 => 2,
        () if m.collect().is_err() => 3,
        // Those of the parent's threads are dead, but for what is still on this stack.
        () if samples(world, "Other").1 > 10 => 4,
        () if samples(world, "Link") != (1000, 1000) => 5,
        () => 0,
    };
    keep_alive(kept);
    code
}

/// The forking thread finds other threads in the middle of samples, and the loader's lock held.
#[rstest]
fn the_child_of_a_fork_samples_on(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    let world = world(by, 1);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| hold_the_loaders_lock(&is_over));
        for _ in 0..3 {
            scope.spawn(|| {
                let m = attached(&world);
                while !is_over.load(Ordering::Relaxed) {
                    many(&m, 100);
                }
            });
        }
        hazard::wait_for("the first samples", || samples(&world, "Other").0 > 0);
        let failed = (0..5).map(|_| hazard::fork(|| sample_on(&world))).find(|code| *code != 0);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(failed, None, "the child of a fork does not sample, or hung until SIGALRM");
    });
}

/// The child must not list the files in memory itself: the thread that had the loader's lock does not exist there.
#[test]
fn a_child_that_is_forked_before_the_first_sample_samples() {
    crate::alone!("a_child_that_is_forked_before_the_first_sample_samples");
    let world = world(By::Signals, 1);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| hold_the_loaders_lock(&is_over));
        let sample = || {
            many(&attached(&world), 100);
            i32::from(samples(&world, "Other").0 != 100)
        };
        let fork = |_| {
            std::thread::sleep(Duration::from_millis(3));
            hazard::fork(sample)
        };
        let failed = (0..5).map(fork).find(|code| *code != 0);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(failed, None, "the child of a fork does not sample, or hung until SIGALRM");
    });
}

#[test]
fn a_discarded_collection_leaves_all_objects_in_use() {
    let after_failures = Arc::new(Mutex::new(Vec::new()));
    let listening = Arc::new(OnceLock::<World>::new());
    let builder = {
        let (after, world) = (Arc::clone(&after_failures), Arc::clone(&listening));
        hazard::builder().allocation_sampling(with_fixed_seed(1)).on_failure(move |error| {
            assert!(matches!(error, CollectError::Discarded { .. }), "{error}");
            // Called between the lost collection and the one that repeats it.
            after.lock().unwrap().push(samples(world.get().unwrap(), "Other"));
        })
    };
    let world = hazard::build(builder, By::Signals);
    listening.set(world.clone()).unwrap();
    hazard::Losing::install(&world).store(true, Ordering::Relaxed);
    many(&attached(&world), 1000);
    world.collect().unwrap();
    assert_eq!(*after_failures.lock().unwrap(), [(1000, 1000)], "a lost stop ends the use of an object");
    assert_eq!(samples(&world, "Other"), (1000, 0));
}

#[derive(Trace)]
struct Node<'gc> {
    next: GcCell<Option<Local<'gc, Node<'gc>>>>,
}

/// In a scope all objects are in use, after it those that the root reaches: exactly, because no stack is searched.
#[rstest]
fn the_objects_of_an_arena_are_in_use_as_long_as_the_root_reaches_them(#[values(By::Signals, By::Safepoints)] by: By) {
    let world = world(by, 1);
    while_collecting(&world, || {
        let arena = Arena::<Node<'static>>::new(&world, "arena", |_| Node { next: GcCell::new(None) }).unwrap();
        for round in 1..=20 {
            arena.enter(|scope, root| {
                let (all, in_use) = samples(&world, "Node");
                root.next.set(None);
                let mut nodes = Vec::new();
                for index in 0..200 {
                    let node = scope.alloc(Node { next: root.next.clone() }).unwrap();
                    if index % 2 == 0 {
                        root.next.set(Some(node));
                    }
                    nodes.push(node);
                }
                assert_eq!(samples(&world, "Node"), (all + 200, in_use + 200), "no collection begins in a scope");
                assert_eq!(nodes.len(), 200);
            });
            arena.collect().unwrap();
            assert_eq!(samples(&world, "Node"), (1 + 200 * round, 1 + 100));
        }
    });
}

traced! {
    struct Pinned { next: GcCell<Option<Gc<Pinned>>>, padding: [u64; 5] }
}

#[inline(never)]
fn pinned(m: &Mutator, objects: u64) -> Gc<Pinned> {
    let mut first = None;
    for _ in 0..objects {
        first = Some(m.alloc_pinned(Pinned { next: GcCell::new(first), padding: [0; 5] }).unwrap());
    }
    first.unwrap()
}

#[rstest]
fn pinned_objects_are_in_use_until_they_die(#[values(By::Signals, By::Safepoints)] by: By) {
    let world = world(by, 1);
    while_collecting(&world, || {
        let m = attached(&world);
        let kept = pinned(&m, 3000);
        m.collect().unwrap();
        assert_eq!(samples(&world, "Pinned"), (3000, 3000));
        keep_alive(kept);
        let profile = world.allocation_profile().unwrap();
        let site = profile.sites.iter().find(|site| site.type_info.name().ends_with("Pinned")).unwrap();
        assert_eq!(site.object_bytes, 56, "six words and a header");
    });
    // The thread that kept the objects has detached.
    world.collect().unwrap();
    assert_eq!(samples(&world, "Pinned"), (3000, 0));
}
