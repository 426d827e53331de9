//! Threads that attach, exit, collect, allocate and acknowledge late, while the world is being stopped.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::hazard;
use crate::hazard::patience::patience;
use crate::hazard::{
    By, Flags, Hidden, Payload, builder, collect, collection_kills, mask_suspend_signal, spawn, wait_for, world,
};
use rstest::rstest;
use stopworld::{
    CollectError, Gc, GcCell, Leaf, Mutator, SilenceReason, StopError, World, keep_alive, testing, traced,
};

traced! {
    struct Holder {
        kept: GcCell<usize>,
        reference: GcCell<Option<Gc<Payload>>>,
    }
}

/// `.stop.create-race`, `.stop.exit-race`: threads start and exit: in order, by a panic, and without detaching.
#[rstest]
fn threads_that_start_and_exit_while_others_collect_leave_no_record(
    #[values(By::Signals, By::Safepoints, By::Debugger)] by: By,
) {
    let world = world(by);
    let done = Arc::new(AtomicBool::new(false));
    let born: Arc<[AtomicU64; 3]> = Arc::default();
    let few = |born: &AtomicU64| born.load(Ordering::Relaxed) < 20;
    let parents: Vec<_> = (0..3)
        .map(|parent| {
            let (world, done, count) = (world.clone(), Arc::clone(&done), Arc::clone(&born));
            std::thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let born = count[parent].fetch_add(1, Ordering::Relaxed);
                    let child = world.clone();
                    let ends = std::thread::spawn(move || {
                        // SAFETY: every Gc is a local variable.
                        let m = unsafe { child.attach("short-lived") }.unwrap();
                        let kept = m.alloc(Leaf([born; 3])).unwrap();
                        m.safepoint();
                        assert_eq!(kept.0[2], born);
                        match parent {
                            0 => drop(m),
                            1 => std::panic::resume_unwind(Box::new("on purpose")),
                            _ => std::mem::forget(m),
                        }
                    })
                    .join();
                    assert_eq!(ends.is_err(), parent == 1);
                }
            })
        })
        .collect();
    let begin = Instant::now();
    let mut collections = 0;
    while collections < 100 || (born.iter().any(few) && begin.elapsed() < Duration::from_secs(300)) {
        collect(&world);
        collections += 1;
        // A thread that collects all the time holds the locks all the time; no thread could attach.
        std::thread::sleep(Duration::from_micros(100));
    }
    done.store(true, Ordering::Relaxed);
    parents.into_iter().for_each(|parent| parent.join().unwrap());
    println!("{by:?}: {collections} collections, threads born {born:?}");
    assert!(!born.iter().any(few));
    assert_eq!(world.threads().len(), 0, "{:?}", world.threads());
    collect(&world);
}

/// `.stop.progress`: the other thread is stopped where it runs, waits for the lock with which it takes memory, or for those with which it
/// attaches.
#[rstest]
#[case::running(true, |_: &World, m: Mutator| {
    (0..100_000).for_each(|number| _ = std::hint::black_box(number));
    m
})]
#[case::allocating(true, |_: &World, m: Mutator| {
    for _ in 0..2_000 {
        m.alloc(Leaf([0_u64; 6])).unwrap();
    }
    m
})]
#[case::attaching(false, |world: &World, m: Mutator| {
    drop(m);
    // SAFETY: no Gc is kept.
    unsafe { world.attach("other") }.unwrap()
})]
fn a_thread_that_collects_in_a_loop_does_not_starve_the_others(
    #[case] is_always_attached: bool,
    #[case] step: fn(&World, Mutator) -> Mutator,
) {
    const STEPS: u64 = 20_000;
    let limit = patience(600, 20);
    let world = world(By::Signals);
    let (done, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let other = std::thread::spawn({
        let (world, done, over) = (world.clone(), Arc::clone(&done), Arc::clone(&over));
        move || {
            // SAFETY: no Gc is kept.
            let mut m = unsafe { world.attach("other") }.unwrap();
            while done.fetch_add(1, Ordering::Relaxed) < STEPS && !over.load(Ordering::Relaxed) {
                m = step(&world, m);
            }
        }
    });
    // SAFETY: every Gc is a local variable.
    let m = unsafe { world.attach("collector") }.unwrap();
    // The pause is much longer than the time until this thread requests the next one.
    let kept: Vec<_> = (0..20_000).map(|number| m.root(m.alloc(Leaf(number)).unwrap())).collect();
    wait_for("the other thread to attach", || done.load(Ordering::Relaxed) > 0);
    let begin = Instant::now();
    let (mut collections, mut paused) = (0, Duration::ZERO);
    while done.load(Ordering::Relaxed) < STEPS && begin.elapsed() < limit {
        paused += Duration::from_nanos(m.collect().unwrap().pause_ns);
        collections += 1;
    }
    let (steps, ran) = (done.load(Ordering::Relaxed), begin.elapsed() - paused);
    println!("{collections} collections, {steps} steps in {ran:?} between pauses of {paused:?}");
    over.store(true, Ordering::Relaxed);
    drop((kept, m));
    other.join().unwrap();
    assert!(steps >= STEPS, "the other thread made only {steps} steps of {STEPS}");
    // In the third case a collection may find that there is no other thread.
    let due = if is_always_attached { Duration::from_micros(200) * (collections - 1) } else { Duration::ZERO };
    assert!(ran >= due, "the other thread had only {ran:?} between {collections} collections");
}

/// `.stop.exit-race`
#[test]
fn a_thread_that_ends_without_detaching_is_removed_from_the_world() {
    let world = world(By::Signals);
    let inner = world.clone();
    let name = std::thread::spawn(move || {
        // SAFETY: no Gc is kept.
        let m = unsafe { inner.attach("forgetful") }.unwrap();
        m.alloc(Leaf(1_u64)).unwrap();
        let name = m.name();
        std::mem::forget(m);
        name
    })
    .join()
    .unwrap();
    assert_eq!(name.as_str(), "forgetful");
    assert!(world.threads().is_empty(), "a thread that has ended is still listed: {:?}", world.threads());
    collect(&world);
}

/// `.stop.exit-race`: the thread is ended by the kernel without running any destructor, which is the worst case.
#[test]
fn a_thread_that_ends_silently_is_found_and_removed() {
    let world = world(By::Signals);
    let inner = world.clone();
    let flags = Flags::new();
    let told = Arc::clone(&flags);
    let _never_joined = std::thread::spawn(move || {
        // SAFETY: no Gc is kept.
        std::mem::forget(unsafe { inner.attach("vanishes") }.unwrap());
        told.set_ready();
        // SAFETY: ends this thread only, without any cleaning up. Its handle is never joined.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    });
    flags.wait_ready();
    assert_eq!(world.threads().len(), 1);
    wait_for("the thread to be removed", || {
        collect(&world);
        world.threads().is_empty()
    });
    // libc does not know of its exit; the test process would wait for it at its own end.
    std::mem::forget(_never_joined);
}

/// `.stop.silent-death`: a thread in a blocking region gets no signal; if it ended there, its stack no longer exists after the thread was
/// joined.
#[test]
fn a_thread_that_ends_silently_in_a_blocking_region_is_not_scanned() {
    crate::alone!("a_thread_that_ends_silently_in_a_blocking_region_is_not_scanned");
    const STACK: usize = 256 << 10;
    extern "C" fn vanish(world: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the test waits for this thread's end.
        let world = unsafe { &*world.cast::<World>() };
        // SAFETY: every Gc is a local variable.
        let m = unsafe { world.attach("vanishes") }.unwrap();
        let _kept = m.alloc(Leaf(1_u64)).unwrap();
        m.blocking(|| {
            // SAFETY: ends this thread only, without any cleaning up.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        });
        std::ptr::null_mut()
    }
    for by in [By::Signals, By::Safepoints, By::Debugger] {
        let world = world(by);
        for _ in 0..3 {
            // SAFETY: a thread on a stack allocated here, which is unmapped after the thread has ended and was joined.
            unsafe {
                let (access, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
                let stack = libc::mmap(std::ptr::null_mut(), STACK, access, private, -1, 0);
                assert_ne!(stack, libc::MAP_FAILED);
                let mut attributes = std::mem::zeroed::<libc::pthread_attr_t>();
                assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
                assert_eq!(libc::pthread_attr_setstack(&mut attributes, stack, STACK), 0);
                let (mut thread, argument) = (0, std::ptr::from_ref(&world).cast_mut().cast());
                assert_eq!(libc::pthread_create(&mut thread, &attributes, vanish, argument), 0);
                assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
                assert_eq!(libc::munmap(stack, STACK), 0);
            }
            assert_eq!(world.threads().len(), 1);
            collect(&world);
            assert!(world.threads().is_empty(), "{by:?}: {:?}", world.threads());
        }
    }
}

/// `.stop.two-collectors`: several threads decide to collect at once; each that waits for its turn can be stopped meanwhile.
#[rstest]
fn threads_that_collect_at_the_same_time_take_turns(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    const EACH: u32 = 25;
    let world = hazard::build(builder().stop_timeout(Duration::from_secs(60)), by);
    let collecting: Vec<_> = (0..4)
        .map(|i| {
            spawn(&world, &format!("collector-{i}"), |m| {
                let mine = m.alloc(Leaf([3_u64; 3])).unwrap();
                for _ in 0..EACH {
                    m.collect().unwrap_or_else(|error| panic!("{error}"));
                    assert_eq!(mine.0[0], 3);
                }
            })
        })
        .collect();
    for thread in collecting {
        thread.join().unwrap();
    }
    assert_eq!(world.totals().collections, 4 * EACH);
}

/// `.stop.mid-alloc`: the value is in its cell, the cell is not an object yet, and no register has the reference.
#[rstest]
fn what_a_partially_initialised_object_references_survives(#[values(By::Signals, By::Debugger)] by: By) {
    let world = world(by);
    let hidden = Hidden::new(&world);
    let (disguised, flags) = (hidden.disguised(0), Flags::new());
    let inner = Arc::clone(&flags);
    let thread = spawn(&world, "builder", move |m| {
        let build = |holder: *mut Holder| write_undisguised(holder.cast::<usize>(), disguised);
        let pause = || {
            inner.set_ready();
            while !inner.is_ended() {
                std::hint::spin_loop();
            }
        };
        // SAFETY: a holder is one word, which `build` writes.
        let holder = unsafe { testing::alloc_with_a_pause::<Holder>(m, build, pause) };
        let kept = holder.unwrap().reference.get().unwrap();
        assert_eq!(kept.0, [7; 3]);
    });
    flags.wait_ready();
    let killed = collection_kills(&world);
    flags.end();
    thread.join().unwrap();
    assert!(!killed, "the only reference was in the cell that a thread was initialising");
    assert!(collection_kills(&world), "control: nothing else kept it");
}

/// Writes `[7, !disguised]`, the value of a [`Holder`], without leaving the address in a register.
fn write_undisguised(holder: *mut usize, disguised: usize) {
    // SAFETY: the holder's two words.
    unsafe {
        std::arch::asm!(
            "mov qword ptr [{holder}], 7",
            "not {word}",
            "mov [{holder} + 8], {word}",
            "xor {word}, {word}",
            holder = in(reg) holder,
            word = inout(reg) disguised => _,
        );
    }
}

/// `.stop.mid-alloc`: threads are stopped at random, at any instruction of the allocator.
#[rstest]
fn threads_stopped_anywhere_in_the_allocator_lose_nothing(#[values(By::Signals, By::Debugger)] by: By) {
    traced! {
        struct Link {
            next: GcCell<Option<Gc<Link>>>,
            number: u64,
        }
    }
    let world = world(by);
    let done = Arc::new(AtomicBool::new(false));
    let lists: Arc<[AtomicU64; 2]> = Arc::default();
    let threads: Vec<_> = (0..2)
        .map(|index| {
            let (done, lists) = (Arc::clone(&done), Arc::clone(&lists));
            spawn(&world, "allocator", move |m| {
                while !done.load(Ordering::Relaxed) {
                    let mut head: Option<Gc<Link>> = None;
                    for number in 0..300 {
                        head = Some(m.alloc(Link { next: GcCell::new(head), number }).unwrap());
                    }
                    let mut expected = 300;
                    while let Some(link) = head {
                        expected -= 1;
                        assert_eq!(link.number, expected);
                        head = link.next.get();
                    }
                    assert_eq!(expected, 0);
                    lists[index].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let begin = Instant::now();
    let few = |lists: &AtomicU64| lists.load(Ordering::Relaxed) < 100;
    let mut collections = 0;
    while collections < 200 || (lists.iter().any(few) && begin.elapsed() < Duration::from_secs(300)) {
        collect(&world);
        collections += 1;
        std::thread::sleep(Duration::from_micros(100));
    }
    done.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{by:?}: {collections} collections, lists {lists:?}");
    assert!(!lists.iter().any(few));
}

/// `.vtable.nested`: two holders of one thread, counted separately.
#[rstest]
fn a_thread_stopped_by_the_user_stays_stopped_after_a_collection(#[values(By::Signals, By::Safepoints)] by: By) {
    let world = world(by);
    let turns = Arc::new(AtomicUsize::new(0));
    let flags = Flags::new();
    let (counted, inner) = (Arc::clone(&turns), Arc::clone(&flags));
    let thread = spawn(&world, "suspended", move |m| {
        inner.set_ready();
        while !inner.is_ended() {
            counted.fetch_add(1, Ordering::Relaxed);
            m.safepoint();
        }
    });
    flags.wait_ready();
    let tid = world.threads()[0].tid;
    world.suspend(tid).unwrap();
    let at = turns.load(Ordering::Relaxed);
    for _ in 0..5 {
        assert_eq!(collect(&world).threads_stopped, 1);
    }
    std::thread::sleep(Duration::from_millis(50));
    let still_at = turns.load(Ordering::Relaxed);
    assert!(world.threads()[0].suspended);
    assert!(world.resume(tid));
    assert!(!world.resume(tid));
    wait_for("the thread to run again", || turns.load(Ordering::Relaxed) > still_at);
    flags.end();
    thread.join().unwrap();
    assert_eq!(at, still_at, "a collection has resumed the user's thread");
}

/// Returns the error of a stop that cannot succeed. A fork of another test may hold the locks of all worlds for a while.
fn refused(world: &World) -> CollectError {
    let mut attempts = (0..100).map(|_| world.collect().unwrap_err());
    attempts.find(|error| !matches!(error, CollectError::Stop(StopError::LockHeld { .. }))).expect("the locks are free")
}

/// `.stop.late`, `.stop.lost`: the signal of an abandoned stop arrives after the stop was given up.
#[test]
fn a_signal_that_arrives_after_its_stop_was_given_up_stops_no_thread() {
    let world = builder().stop_timeout(Duration::from_millis(150)).build().unwrap();
    let (flags, turns) = (Flags::new(), Arc::new(AtomicUsize::new(0)));
    let (inner, counted) = (Arc::clone(&flags), Arc::clone(&turns));
    let unmask = Arc::new(AtomicBool::new(false));
    let may_unmask = Arc::clone(&unmask);
    let thread = spawn(&world, "late", move |_| {
        mask_suspend_signal(libc::SIG_BLOCK);
        inner.set_ready();
        while !may_unmask.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        mask_suspend_signal(libc::SIG_UNBLOCK);
        while !inner.is_ended() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    flags.wait_ready();
    let error = refused(&world).to_string();
    assert!(error.contains("late"), "{error}");
    unmask.store(true, Ordering::Relaxed);
    wait_for("the thread to run on", || turns.load(Ordering::Relaxed) > 1000);
    for _ in 0..20 {
        wait_for("a collection", || world.collect().is_ok());
    }
    flags.end();
    thread.join().unwrap();
}

/// `.stop.lost`, cooperatively: a thread that does not poll does not notice a stop.
#[test]
fn a_thread_that_reaches_no_safepoint_is_named_with_a_remedy() {
    let world = hazard::build(builder().stop_timeout(Duration::from_millis(150)), By::Safepoints);
    let flags = Flags::new();
    let inner = Arc::clone(&flags);
    let thread = spawn(&world, "number cruncher", move |m| {
        inner.set_ready();
        while !inner.is_ended() {
            std::hint::spin_loop();
        }
        m.blocking(|| std::thread::sleep(Duration::from_millis(300)));
    });
    flags.wait_ready();
    let error = refused(&world);
    let CollectError::Stop(StopError::Unanswered { threads, .. }) = &error else { panic!("{error}") };
    assert_eq!(threads[0].name.unwrap().as_str(), "number cruncher");
    assert_eq!(threads[0].reason, SilenceReason::NoSafepoint);
    assert!(error.to_string().contains("safepoint()"), "{error}");
    flags.end();
    wait_for("a collection", || world.collect().is_ok());
    thread.join().unwrap();
}

/// `.root.derived`, `.final.early`: only the program knows how long it depends on an object; `keep_alive` marks the end.
#[test]
fn an_object_lives_until_its_keep_alive() {
    let world = world(By::Signals);
    let hidden = Hidden::new(&world);
    let hidden = Arc::new(hidden);
    let inner = Arc::clone(&hidden);
    spawn(&world, "owner", move |m| {
        // SAFETY: the address of a live object of this type, checked by the weak reference.
        let object: Gc<Payload> = unsafe { Gc::from_addr(!inner.disguised(0)) };
        assert!(inner.is_alive(m));
        // After this, only a number derived from the object is used.
        let derived = object.0[0] + 1;
        m.collect().unwrap();
        assert_eq!(derived, 8);
        assert!(inner.is_alive(m), "collected before its keep_alive");
        keep_alive(object);
    })
    .join()
    .unwrap();
    assert!(collection_kills(&world));
}

/// The markers are not mutators and are never stopped. (`.fork.services` is about the child of a fork.)
#[test]
fn service_threads_are_not_among_the_worlds_threads() {
    let world = builder().markers(3).build().unwrap();
    assert!(world.threads().is_empty());
    assert_eq!(collect(&world).threads_stopped, 0);
}

/// `.final.thread`: a finalizer that panics does not stop the others.
#[test]
fn the_finalizers_after_one_that_panics_still_run() {
    static RUN: AtomicUsize = AtomicUsize::new(0);
    let world = world(By::Signals);
    spawn(&world, "maker", |m| {
        for number in 0..10_u64 {
            let object = m.alloc(Leaf([number; 3])).unwrap();
            m.set_finalizer(object, |_, object| {
                RUN.fetch_add(1, Ordering::Relaxed);
                if object.0[0] % 2 == 0 {
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
            })
            .unwrap();
        }
    })
    .join()
    .unwrap();
    collect(&world);
    wait_for("all finalizers", || {
        collect(&world);
        RUN.load(Ordering::Relaxed) == 10
    });
    wait_for("the finalizers to be counted", || world.totals().finalizers_run == 10);
    assert_eq!(world.totals().finalizers_panicked, 5);
    world.close(Duration::from_secs(10)).unwrap();
}

/// `.final.order`: an object whose drop is due is still intact when a finalizer that reaches it runs.
#[test]
fn a_finalizer_sees_the_objects_it_reaches_before_they_are_dropped() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    static SEEN: AtomicUsize = AtomicUsize::new(usize::MAX);
    struct Counts;
    impl Drop for Counts {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::SeqCst);
        }
    }
    traced! {
        struct Owner {
            part: GcCell<Option<Gc<Leaf<Counts>>>>,
        }
    }
    let world = world(By::Signals);
    spawn(&world, "maker", |m| {
        let part = m.alloc(Leaf(Counts)).unwrap();
        let owner = m.alloc(Owner { part: GcCell::new(Some(part)) }).unwrap();
        m.set_finalizer(owner, |_, owner| {
            SEEN.store(DROPPED.load(Ordering::SeqCst), Ordering::SeqCst);
            assert!(owner.part.get().is_some());
        })
        .unwrap();
    })
    .join()
    .unwrap();
    wait_for("the finalizer, then the drop", || {
        collect(&world);
        SEEN.load(Ordering::SeqCst) != usize::MAX && DROPPED.load(Ordering::SeqCst) == 1
    });
    assert_eq!(SEEN.load(Ordering::SeqCst), 0, "the part was dropped before its owner's finalizer ran");
}

/// `.weak.clear`
#[test]
fn a_weak_reference_to_a_dead_object_is_cleared() {
    let world = world(By::Signals);
    let hidden = Hidden::new(&world);
    assert!(collection_kills(&world));
    spawn(&world, "looker", move |m| assert!(!hidden.is_alive(m))).join().unwrap();
}

/// `.heap.limit`
#[test]
fn the_heap_limit_is_an_error_and_the_world_continues() {
    const LIMIT: usize = (1 << 20) + (48 << 10);
    let world = World::builder().heap_limit(LIMIT).build().unwrap();
    spawn(&world, "hungry", |m| {
        traced! {
            struct Big {
                next: GcCell<Option<Gc<Big>>>,
                body: [u64; 60],
            }
        }
        let kept = Cell::new(None);
        let error = (0..100_000)
            .find_map(|_| match m.alloc(Big { next: GcCell::new(kept.get()), body: [1; 60] }) {
                Ok(big) => {
                    kept.set(Some(big));
                    None
                }
                Err(error) => Some(error),
            })
            .expect("the limit was never reached");
        assert!(m.world().totals().committed_bytes <= LIMIT as u64, "above the limit: {:?}", m.world().totals());
        assert_eq!(error.limit, LIMIT as u64);
    })
    .join()
    .unwrap();
    // Another thread: the list may have left addresses on the stack of the first one.
    assert!(spawn(&world, "modest", |m| m.alloc(Leaf([0_u64; 3])).is_ok()).join().unwrap(), "there is room again");
}
