//! Interleavings and settings that are meant to break the collector, and that the other tests do not reach.

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use crate::hazard::*;
use stopworld::{
    Gc, GcCell, Leaf, Mutator, SafepointStopper, Slot, StopError, StopRequest, ThreadVtable, Tid, Word, World, traced,
};

/// Fails, instead of hanging, if `f` takes longer than anything here may take.
fn in_time<R: Send + 'static>(what: &str, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(f()));
    result.recv_timeout(Duration::from_secs(600)).unwrap_or_else(|_| panic!("{what} hangs"))
}

// ---- blocking regions

static IN_REGION: AtomicBool = AtomicBool::new(false);
static COLLECTED: AtomicBool = AtomicBool::new(false);

/// The closure of the region captures only the reference into the object, not the `Gc`, and the reference is moved with the closure.
#[inline(never)]
fn counter_used_in_a_region(m: &Mutator) -> u64 {
    let object = m.alloc(Leaf(AtomicU64::new(42))).unwrap();
    let counter: &AtomicU64 = &object.0;
    m.blocking(move || {
        IN_REGION.store(true, Ordering::Release);
        while !COLLECTED.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        counter.load(Ordering::Relaxed)
    })
}

/// A `&AtomicU64` into a collected object is `Send`, so the types allow it in a blocking region: the object must live as long as the region
/// may use it (`.root.derived`).
#[test]
fn what_a_blocking_region_has_borrowed_from_an_object_stays_alive() {
    for by in [By::Signals, By::Safepoints] {
        let world = world(by);
        let thread = spawn(&world, "borrower", counter_used_in_a_region);
        wait_for("the region", || IN_REGION.load(Ordering::Acquire));
        collect(&world);
        IN_REGION.store(false, Ordering::Release);
        COLLECTED.store(true, Ordering::Release);
        assert_eq!(thread.join().unwrap(), 42, "{by:?}");
        COLLECTED.store(false, Ordering::Release);
    }
}

/// A mutator in a thread-local variable is accessible inside a blocking region, where it must not allocate: the world may be stopped.
#[test]
fn a_mutator_that_allocates_in_its_own_blocking_region_gets_an_error() {
    thread_local! {
        static MUTATOR: OnceCell<Mutator> = const { OnceCell::new() };
    }
    let world = world(By::Signals);
    std::thread::spawn(move || {
        MUTATOR.with(|cell| {
            // SAFETY: this thread keeps no Gc.
            let m = cell.get_or_init(|| unsafe { world.attach("local") }.unwrap());
            let caught = catch_unwind(AssertUnwindSafe(|| {
                m.blocking(|| {
                    MUTATOR.with(|cell| {
                        for _ in 0..100_000 {
                            cell.get().unwrap().alloc(Leaf([0_u64; 8])).unwrap();
                        }
                    })
                })
            }));
            assert!(caught.is_err(), "a thread allocated in its blocking region, where no stop reaches it");
            m.collect().unwrap();
        });
    })
    .join()
    .unwrap();
}

// ---- stopping

/// A vtable that stops by safepoints. Each stop begins as if a handler of an earlier, abandoned stop had stored its stack pointer late,
/// after the slots were zeroed.
struct LateStore(SafepointStopper);

// SAFETY: the built-in stopper stops and starts the threads.
unsafe impl ThreadVtable for LateStore {
    fn name(&self) -> &'static str {
        "late store"
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        for thread in stop.threads() {
            // SAFETY: the built-in stopper overwrites it before the stop succeeds.
            unsafe { thread.slot().store(thread.stack().1) };
        }
        self.0.stop_world(stop)
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        self.0.start_world(stop);
    }

    fn thread_created(&self, tid: Tid, slot: Slot) {
        self.0.thread_created(tid, slot);
    }
    fn thread_exited(&self, tid: Tid, slot: Slot) {
        self.0.thread_exited(tid, slot);
    }
}

/// `.stop.late`: the value that was published last counts, not one left in the slot.
#[test]
fn a_thread_that_acknowledges_by_blocking_is_scanned_from_where_it_blocks() {
    let world = world(By::Safepoints);
    world.set_thread_vtable(Arc::new(LateStore(SafepointStopper))).unwrap();
    let flags = Flags::new();
    let inner = Arc::clone(&flags);
    let thread = spawn(&world, "blocker", move |m| {
        let object = m.alloc(Leaf([7_u64; 3])).unwrap();
        inner.set_ready();
        while !inner.is_ended() {
            // The thread runs most of the time, so that stops find it running. It acknowledges them by entering a blocking region.
            let until = std::time::Instant::now() + Duration::from_micros(500);
            while std::time::Instant::now() < until {
                std::hint::spin_loop();
            }
            m.blocking(std::thread::yield_now);
            if object.0 != [7; 3] {
                return false;
            }
        }
        object.0 == [7; 3]
    });
    flags.wait_ready();
    for _ in 0..50 {
        let _ = world.collect();
    }
    flags.end();
    assert!(thread.join().unwrap(), "an object on the stack was lost");
}

/// `.vtable.nested`, `.debug.frozen-owner`: a user may freeze a thread that owns, or is about to own, the world's locks; thawing it must
/// need none of them.
#[test]
fn a_suspended_thread_can_be_resumed_whatever_locks_it_holds() {
    for by in [By::Signals, By::Safepoints] {
        let world = build(builder().stop_timeout(Duration::from_secs(2)), by);
        let flags = Flags::new();
        let inner = Arc::clone(&flags);
        let thread = spawn(&world, "collects", move |m| {
            while !inner.is_ended() {
                let _ = m.collect();
            }
        });
        let tid = world.threads()[0].tid;
        // Another collecting thread makes this one wait for the locks, in a blocking region.
        let other = {
            let (world, flags) = (world.clone(), Arc::clone(&flags));
            std::thread::spawn(move || {
                while !flags.is_ended() {
                    let _ = world.collect();
                }
            })
        };
        let user = world.clone();
        in_time("suspending and resuming", move || {
            for _ in 0..50 {
                if user.suspend(tid).is_ok() {
                    std::thread::sleep(Duration::from_millis(2));
                    assert!(user.resume(tid));
                }
            }
        });
        flags.end();
        thread.join().unwrap();
        other.join().unwrap();
    }
}

/// `.debug.frozen-waiter`: a thread that waits for its turn to suspend another may itself be suspended. It must not take the turn while it
/// is suspended: then no thread could resume it.
#[test]
fn threads_that_suspend_each_other_can_be_resumed() {
    for by in [By::Signals, By::Safepoints] {
        let world = build(builder().stop_timeout(Duration::from_secs(2)), by);
        in_time("suspending each other", move || {
            let tids: Arc<[AtomicI32; 2]> = Arc::default();
            let end = Arc::new(AtomicU32::new(0));
            let rivals: Vec<_> = (0..2)
                .map(|i| {
                    let (tids, end) = (Arc::clone(&tids), Arc::clone(&end));
                    spawn(&world, &format!("rival-{i}"), move |m| {
                        tids[i].store(m.tid().0, Ordering::Release);
                        m.blocking(|| wait_for("the other", || tids[1 - i].load(Ordering::Acquire) != 0));
                        let other = stopworld::Tid(tids[1 - i].load(Ordering::Acquire));
                        for _ in 0..50 {
                            if m.world().suspend(other).is_ok() {
                                // Time for the other thread to get the turn that it waited for.
                                m.blocking(|| std::thread::sleep(Duration::from_millis(1)));
                                m.world().resume(other);
                            }
                            m.safepoint();
                        }
                        end.fetch_add(1, Ordering::Release);
                        // The other thread may still want to suspend this one.
                        m.blocking(|| wait_for("both to be done", || end.load(Ordering::Acquire) == 2));
                    })
                })
                .collect();
            rivals.into_iter().for_each(|rival| rival.join().unwrap());
        });
    }
}

// ---- settings

/// Pacing without a minimum, with an infinite minimum, or with infinite growth must neither hang nor overflow.
#[test]
fn absurd_pacing_neither_hangs_nor_overflows() {
    let settings: [(Option<usize>, Option<f64>); 5] = [
        (Some(0), None),
        (Some(usize::MAX), None),
        (None, Some(f64::INFINITY)),
        (None, Some(f64::NAN)),
        (None, Some(1e300)),
    ];
    for (initial, growth) in settings {
        in_time(&format!("initial heap {initial:?}, growth {growth:?}"), move || {
            let mut builder = builder();
            if let Some(bytes) = initial {
                builder = builder.initial_heap(bytes);
            }
            if let Some(rate) = growth {
                builder = builder.growth(rate);
            }
            let world = builder.build().unwrap();
            // SAFETY: every Gc is a local variable.
            let m = unsafe { world.attach("main") }.unwrap();
            let kept = m.alloc(Leaf([7_u64; 3])).unwrap();
            for _ in 0..20_000 {
                m.alloc(Leaf([1_u64; 3])).unwrap();
            }
            m.collect().unwrap();
            assert_eq!(kept.0, [7; 3]);
        });
    }
}

/// A world that cannot be built leaks nothing, and returns an error instead of panicking.
#[test]
fn a_mark_stack_larger_than_the_address_space_is_an_error_and_leaves_no_marker() {
    crate::alone!("a_mark_stack_larger_than_the_address_space_is_an_error_and_leaves_no_marker");
    for bytes in [usize::MAX, usize::MAX - 5000, 1 << 46] {
        assert!(World::builder().markers(4).mark_stack_limit(bytes).build().is_err(), "{bytes:#x} bytes");
    }
    let markers = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
        names.filter(|name| name.starts_with("marker-")).count()
    };
    wait_for("the markers of worlds that were never built to end", || markers() == 0);
}

// ---- the heap

static DROPPED: AtomicU32 = AtomicU32::new(0);

struct Counted(#[allow(dead_code, reason = "something to drop")] Box<u64>);

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// `.final.thread`: without memory for the finalizer thread's stack, allocating a value that needs a drop is an error. The value is dropped
/// then, once: the table must not contain an entry that would drop it again.
#[test]
fn a_value_whose_finalizer_thread_can_not_start_is_dropped_once() {
    crate::alone!("a_value_whose_finalizer_thread_can_not_start_is_dropped_once");
    let world = builder().build().unwrap();
    let mut unlimited = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads a limit into a valid place.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut unlimited) }, 0);
    spawn(&world, "main", move |m| {
        // Room in the cache for a few small objects, so that only the thread's stack is refused.
        for _ in 0..10 {
            m.alloc(Leaf([0_usize; 1])).unwrap();
        }
        let none = libc::rlimit { rlim_cur: 1 << 20, ..unlimited };
        // SAFETY: lowers and restores a soft limit.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &none) };
        let refused = m.alloc(Leaf(Counted(Box::new(1)))).is_err();
        // SAFETY: as above.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &unlimited) };
        assert!(refused, "the thread must not find memory");
        assert_eq!(DROPPED.load(Ordering::Relaxed), 1, "a value that could not be allocated is dropped");
        // At this point the thread can be started.
        m.alloc(Leaf(Counted(Box::new(2)))).unwrap();
    })
    .join()
    .unwrap();
    for _ in 0..3 {
        collect(&world);
        std::thread::sleep(Duration::from_millis(50));
    }
    world.close(Duration::from_secs(120)).unwrap();
    assert_eq!(DROPPED.load(Ordering::Relaxed), 2, "each value is dropped once");
}

/// A word that may hold anything except an object's address.
#[derive(Clone, Copy)]
struct Anything(usize);

// SAFETY: lossless; the test stores no object's address in it.
unsafe impl Word for Anything {
    const MAY_REFER: bool = true;
    fn to_bits(self) -> usize {
        self.0
    }
    unsafe fn from_bits(bits: usize) -> Self {
        Self(bits)
    }
}

traced! {
    struct Holder { word: GcCell<Anything>, more: [u64; 3] }
}

/// The rest after the last cell of a block is too short for a cell. Bytes left there from an earlier division of the block must not be
/// taken for a header.
#[test]
fn a_word_that_points_past_the_last_cell_of_a_block_is_no_object() {
    crate::alone!("a_word_that_points_past_the_last_cell_of_a_block_is_no_object");
    const BLOCK: usize = 16 << 10;
    // A cell of 40 bytes: a block has 409 of them, and the first word after the last is where header 410 would be.
    const BEHIND: usize = 8 + 8 + 409 * 40;
    let world = World::builder().heap_limit(8 << 20).build().unwrap();
    spawn(&world, "litter", |m| {
        for _ in 0..100_000 {
            m.alloc(Leaf(0x4141_4141_4141_4141_u64)).unwrap();
        }
    })
    .join()
    .unwrap();
    collect(&world);
    spawn(&world, "holder", |m| {
        let holder = |_| m.alloc(Holder { word: GcCell::new(Anything(1)), more: [0; 3] }).unwrap();
        let all = m.alloc_array(3000, holder).unwrap();
        for holder in all.iter() {
            holder.word.set(Anything(Gc::addr(*holder) / BLOCK * BLOCK + BEHIND));
        }
        m.collect().unwrap();
        assert!(all.iter().all(|holder| holder.more == [0; 3]));
    })
    .join()
    .unwrap();
}

/// Disguises references, or undoes the disguise.
fn disguise(words: &[AtomicUsize]) {
    for word in words {
        word.fetch_xor(usize::MAX, Ordering::Relaxed);
    }
}

/// `.debug.dies`: the marks of a lost stop may be wrong in either way, also if they are those of the collection in which the epoch wraps.
#[test]
fn a_stop_that_is_lost_when_the_epoch_wraps_frees_nothing() {
    let words: Arc<OnceLock<Box<[AtomicUsize]>>> = Arc::default();
    let world = {
        let words = Arc::clone(&words);
        // When the collection is repeated, it finds the references that the lost stop missed.
        World::builder().heap_limit(64 << 20).on_failure(move |_| disguise(words.get().unwrap())).build().unwrap()
    };
    let lost = Losing::install(&world);
    // Blocks that no thread owns, half of their cells live: they wait to be swept.
    let roots = spawn(&world, "builder", |m| {
        let mut roots = Vec::new();
        for i in 0..4000_u64 {
            let object = m.alloc(Leaf([i; 5])).unwrap();
            if i % 2 == 0 {
                roots.push(m.root(object));
            }
        }
        roots
    })
    .join()
    .unwrap();
    // From now on a range with words that can be disguised keeps the objects. A handle shows its object's address.
    let address = |root: &stopworld::Root<Leaf<[u64; 5]>>| {
        usize::from_str_radix(format!("{root:?}").trim_start_matches("Root(0x").trim_end_matches(')'), 16)
    };
    let addresses = roots.iter().map(|root| AtomicUsize::new(address(root).unwrap()));
    let words = words.get_or_init(|| addresses.collect());
    // SAFETY: the words outlive the guard.
    let guard = unsafe { world.register_range(words.as_ptr().cast(), size_of_val(&**words)) }.unwrap();
    drop(roots);
    // The first collection uses mark 2.
    for _ in 2..=255 {
        assert!(world.collect().unwrap().live_objects >= 2000);
    }
    // The current mark is 255. The references are disguised during the lost stop, so the marking misses all objects.
    lost.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        disguise(words);
        assert!(world.collect().unwrap().live_objects >= 2000, "a lost stop has freed live objects");
    }
    lost.store(false, Ordering::Relaxed);
    assert!(world.collect().unwrap().live_objects >= 2000, "a lost stop has freed live objects");
    drop(guard);
}
