//! Weak references and finalizers: in which order, how often, on which thread, and what they may do.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use crate::heap_support;
use crate::heap_support::*;
use rstest::rstest;
use stopworld::{Array, Gc, GcCell, Leaf, Mutator, OutOfMemory, Root, Weak, World, traced};

/// A value that counts its drops.
struct Token(Arc<AtomicU32>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Logs for finalizers, which are plain functions and capture nothing. Each test uses its own slot.
fn log(test: usize) -> &'static Mutex<Vec<u64>> {
    static LOGS: OnceLock<Vec<Mutex<Vec<u64>>>> = OnceLock::new();
    &LOGS.get_or_init(|| (0..16).map(|_| Mutex::default()).collect())[test]
}

fn logged(test: usize) -> Vec<u64> {
    log(test).lock().unwrap().clone()
}

/// `.weak.clear`
#[test]
fn a_weak_reference_is_cleared_when_nothing_else_keeps_its_target() {
    let world = paranoid().build().unwrap();
    let (kept, weak) = on_a_thread(&world, |m| {
        let (kept, lost) = (node(m, 1).unwrap(), node(m, 2).unwrap());
        // The objects are a chain of two: only the first one keeps the second one alive.
        kept.left.set(Some(node(m, 3).unwrap()));
        let targets = [kept, lost, kept.left.get().unwrap()];
        (m.root(kept), targets.map(|target| m.root(m.alloc_weak(target).unwrap())))
    });
    let report = world.collect().unwrap();
    assert_eq!((report.weak_cleared, report.live_objects), (1, 2 + 3));
    let weak = on_a_thread(&world, move |m| {
        let keys = weak.each_ref().map(|weak| weak.get(m).get().map(|node| node.key));
        assert_eq!(keys, [Some(1), None, Some(3)]);
        weak
    });
    drop(kept);
    assert_eq!(world.collect().unwrap().weak_cleared, 2);
    on_a_thread(&world, move |m| assert!(weak.iter().all(|weak| weak.get(m).get().is_none())));
}

#[test]
fn a_weak_reference_that_dies_with_its_target_does_no_harm() {
    let world = paranoid().markers(2).build().unwrap();
    on_a_thread(&world, |m| {
        for key in 0..1000 {
            m.alloc_weak(node(m, key).unwrap()).unwrap();
        }
    });
    let report = world.collect().unwrap();
    assert_eq!((report.live_objects, report.weak_cleared), (0, 0));
}

#[rstest]
fn a_drop_runs_once_for_each_leaf(#[values(1, 2, 3)] markers: usize) {
    let world = paranoid().markers(markers).build().unwrap();
    let drops = Arc::new(AtomicU32::new(0));
    let kept = on_a_thread(&world, {
        let drops = Arc::clone(&drops);
        move |m| {
            let leaves =
                m.alloc_array(500, |_| GcCell::new(Some(m.alloc(Leaf(Token(Arc::clone(&drops)))).unwrap()))).unwrap();
            for leaf in &leaves[..400] {
                leaf.set(None);
            }
            m.root(leaves)
        }
    });
    for _ in 0..5 {
        assert_eq!(settle(&world), 1 + 100);
        assert_eq!(drops.load(Ordering::Relaxed), 400);
    }
    drop(kept);
    assert_eq!(settle(&world), 0);
    assert_eq!(drops.load(Ordering::Relaxed), 500);
    assert_eq!(Arc::strong_count(&drops), 1);
}

#[test]
fn a_string_that_dies_frees_its_memory_once() {
    let world = paranoid().build().unwrap();
    let kept = on_a_thread(&world, |m| {
        for i in 0..10_000 {
            m.alloc(Leaf(format!("the string number {i}, long enough for the malloc heap"))).unwrap();
        }
        m.root(m.alloc(Leaf(String::from("the one that is kept"))).unwrap())
    });
    assert_eq!(settle(&world), 1);
    assert_eq!(world.totals().finalizers_run, 10_000);
    on_a_thread(&world, move |m| assert_eq!(kept.get(m).as_str(), "the one that is kept"));
}

/// `.final.thread`
#[test]
fn finalizers_run_on_the_thread_named_finalizer_which_is_a_mutator_and_may_allocate() {
    static SEEN: Mutex<Vec<(String, u64, u64)>> = Mutex::new(Vec::new());
    fn finalize(m: &Mutator, node: Gc<Node>) {
        let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap().trim_end().to_owned();
        assert_eq!(m.name().to_string(), name);
        let size = check_tree(tree(m, 8).unwrap());
        m.collect().unwrap();
        m.safepoint();
        SEEN.lock().unwrap().push((name, node.key, size));
    }
    let world = paranoid().build().unwrap();
    on_a_thread(&world, |m| {
        for key in 0..20 {
            m.set_finalizer(node(m, key).unwrap(), finalize).unwrap();
        }
    });
    assert_eq!(settle(&world), 0);
    let mut seen = SEEN.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, (0..20).map(|key| ("finalizer".to_owned(), key, tree_size(8))).collect::<Vec<_>>());
}

/// `.final.order`
#[test]
fn finalizers_run_in_the_order_in_which_they_were_registered() {
    fn finalize(_: &Mutator, node: Gc<Node>) {
        log(0).lock().unwrap().push(node.key);
    }
    let world = paranoid().build().unwrap();
    on_a_thread(&world, |m| {
        let nodes = m.alloc_array(100, |i| GcCell::new(Some(node(m, i as u64).unwrap()))).unwrap();
        for i in (0..100).rev() {
            m.set_finalizer(nodes[i].get().unwrap(), finalize).unwrap();
        }
    });
    settle(&world);
    assert_eq!(logged(0), (0..100).rev().collect::<Vec<_>>());
}

#[test]
fn an_object_may_have_several_finalizers_and_each_runs_once() {
    fn first(_: &Mutator, node: Gc<Node>) {
        log(1).lock().unwrap().push(node.key);
    }
    fn second(_: &Mutator, node: Gc<Node>) {
        log(1).lock().unwrap().push(node.key + 100);
    }
    let world = paranoid().build().unwrap();
    on_a_thread(&world, |m| {
        let object = node(m, 1).unwrap();
        m.set_finalizer(object, first).unwrap();
        m.set_finalizer(object, second).unwrap();
        m.set_finalizer(object, first).unwrap();
    });
    assert_eq!(settle(&world), 0);
    assert_eq!(logged(1), [1, 101, 1]);
}

traced! {
    struct Holder {
        text: GcCell<Option<Gc<Leaf<Loud>>>>,
        weak: GcCell<Option<Weak<Leaf<Loud>>>>,
    }
}

/// A value that detects a use after its drop.
struct Loud {
    alive: AtomicBool,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl Loud {
    fn say(&self, what: &'static str) {
        assert!(self.alive.load(Ordering::Relaxed), "used after its drop");
        self.log.lock().unwrap().push(what);
    }
}

impl Drop for Loud {
    fn drop(&mut self) {
        self.say("dropped");
        self.alive.store(false, Ordering::Relaxed);
    }
}

/// `.final.order`: the drop was registered first, but the call still gets an intact object.
#[test]
fn a_finalizer_finds_what_its_object_references_undropped() {
    fn finalize(_: &Mutator, holder: Gc<Holder>) {
        holder.text.get().unwrap().say("finalized");
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    let world = paranoid().build().unwrap();
    let copy = Arc::clone(&log);
    on_a_thread(&world, move |m| {
        let text = m.alloc(Leaf(Loud { alive: AtomicBool::new(true), log: copy })).unwrap();
        let holder = m.alloc(Holder { text: GcCell::new(Some(text)), weak: GcCell::new(None) }).unwrap();
        m.set_finalizer(holder, finalize).unwrap();
    });
    let report = world.collect().unwrap();
    assert_eq!((report.finalizers_queued, report.live_objects), (1, 2), "only the call is due");
    assert_eq!(settle(&world), 0);
    assert_eq!(*log.lock().unwrap(), ["finalized", "dropped"]);
}

/// A weak reference reached only through a resurrected object must not reference a dead object that is about to be dropped: the finalizer
/// could keep it for ever.
#[test]
fn a_resurrected_weak_reference_does_not_lead_to_a_dropped_value() {
    static KEPT: Mutex<Option<Root<Holder>>> = Mutex::new(None);
    fn finalize(m: &Mutator, holder: Gc<Holder>) {
        *KEPT.lock().unwrap() = Some(m.root(holder));
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    let world = paranoid().build().unwrap();
    let copy = Arc::clone(&log);
    on_a_thread(&world, move |m| {
        let text = m.alloc(Leaf(Loud { alive: AtomicBool::new(true), log: copy })).unwrap();
        let weak = m.alloc_weak(text).unwrap();
        let holder = m.alloc(Holder { text: GcCell::new(None), weak: GcCell::new(Some(weak)) }).unwrap();
        m.set_finalizer(holder, finalize).unwrap();
    });
    settle(&world);
    assert_eq!(*log.lock().unwrap(), ["dropped"]);
    let kept = KEPT.lock().unwrap().take().unwrap();
    on_a_thread(&world, move |m| {
        let target = kept.get(m).weak.get().unwrap().get();
        assert!(target.is_none(), "the weak reference references a dropped value");
    });
}

traced! {
    struct Watched {
        key: u64,
        own_weak: GcCell<Option<Weak<Watched>>>,
    }
}

#[test]
fn weak_references_are_cleared_before_finalizers_run_and_stay_so_after_a_resurrection() {
    static RESURRECTED: Mutex<Option<Root<Watched>>> = Mutex::new(None);
    static WEAK_SEEN: AtomicU32 = AtomicU32::new(u32::MAX);
    fn finalize(m: &Mutator, object: Gc<Watched>) {
        let seen = object.own_weak.get().unwrap().get().is_some();
        WEAK_SEEN.store(u32::from(seen), Ordering::Relaxed);
        *RESURRECTED.lock().unwrap() = Some(m.root(object));
    }
    let world = paranoid().build().unwrap();
    let weak = on_a_thread(&world, |m| {
        let object = m.alloc(Watched { key: 5, own_weak: GcCell::new(None) }).unwrap();
        let weak = m.alloc_weak(object).unwrap();
        object.own_weak.set(Some(weak));
        m.set_finalizer(object, finalize).unwrap();
        m.root(weak)
    });
    assert_eq!(settle(&world), 2);
    assert_eq!(WEAK_SEEN.load(Ordering::Relaxed), 0, "the finalizer saw its object through a weak reference");
    let weak = on_a_thread(&world, move |m| {
        assert!(weak.get(m).get().is_none(), "resurrection does not restore weak references");
        let object = RESURRECTED.lock().unwrap().take().unwrap();
        assert_eq!(object.get(m).key, 5);
        // The object may be registered again. If it is not, it is freed at the next collection.
        m.set_finalizer(object.get(m), |_, object| log(2).lock().unwrap().push(object.key)).unwrap();
        weak
    });
    assert_eq!(settle(&world), 1);
    assert_eq!(logged(2), [5]);
    drop(weak);
    assert_eq!(settle(&world), 0);
}

#[test]
fn a_cycle_of_objects_with_finalizers_is_finalized_and_freed() {
    fn finalize(_: &Mutator, node: Gc<Node>) {
        assert!(Gc::ptr_eq(node.left.get().unwrap().left.get().unwrap(), node));
        log(3).lock().unwrap().push(node.key);
    }
    let world = paranoid().build().unwrap();
    on_a_thread(&world, |m| {
        let (a, b) = (node(m, 1).unwrap(), node(m, 2).unwrap());
        a.left.set(Some(b));
        b.left.set(Some(a));
        m.set_finalizer(a, finalize).unwrap();
        m.set_finalizer(b, finalize).unwrap();
    });
    assert_eq!(settle(&world), 0);
    assert_eq!(logged(3), [1, 2]);
}

/// `.final.thread`
#[test]
fn a_finalizer_that_panics_is_counted_and_the_next_one_runs() {
    fn finalize(_: &Mutator, node: Gc<Node>) {
        if node.key.is_multiple_of(3) {
            // `panic!` is not used, because the hook's message would look like a failure in the log of the tests.
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        log(4).lock().unwrap().push(node.key);
    }
    let world = paranoid().build().unwrap();
    on_a_thread(&world, |m| {
        for key in 0..9 {
            m.set_finalizer(node(m, key).unwrap(), finalize).unwrap();
        }
    });
    assert_eq!(settle(&world), 0);
    assert_eq!(logged(4), [1, 2, 4, 5, 7, 8]);
    let totals = world.totals();
    assert_eq!((totals.finalizers_run, totals.finalizers_panicked), (9, 3));
}

/// `.final.thread`, `.heap.limit`: the finalizer gets the error; the thread and the world continue.
#[test]
fn a_finalizer_that_reaches_the_heap_limit_gets_an_error() {
    /// Fills the heap with a list, in a separate frame, which is overwritten afterwards so that the list is garbage.
    #[inline(never)]
    fn fill(m: &Mutator) -> OutOfMemory {
        let mut kept = list(m, 1).unwrap();
        loop {
            match heap_support::node(m, 0) {
                Ok(next) => {
                    next.left.set(Some(kept));
                    kept = next;
                }
                Err(error) => return error,
            }
        }
    }
    fn finalize(m: &Mutator, node: Gc<Node>) {
        assert_eq!(fill(m).limit, 2 << 20);
        heap_support::scrub_stack();
        log(5).lock().unwrap().push(node.key);
    }
    let world = paranoid().heap_limit(2 << 20).build().unwrap();
    on_a_thread(&world, |m| {
        m.set_finalizer(node(m, 1).unwrap(), finalize).unwrap();
        m.set_finalizer(node(m, 2).unwrap(), finalize).unwrap();
    });
    assert_eq!(settle(&world), 0);
    assert_eq!(logged(5), [1, 2]);
    assert_eq!(world.totals().finalizers_panicked, 0);
    on_a_thread(&world, |m| assert_eq!(check_list(list(m, 10_000).unwrap()), 10_000));
}

/// Dead strings take room until their drops have run; that must not cause an error.
#[test]
fn a_thread_that_only_allocates_garbage_with_drops_does_not_run_out_of_memory() {
    let world = paranoid().heap_limit(512 << 10).build().unwrap();
    on_a_thread(&world, |m| {
        for i in 0..200_000_u64 {
            let text = m.alloc(Leaf(i.to_string())).unwrap_or_else(|error| panic!("string {i}: {error}"));
            assert_eq!(text.parse(), Ok(i));
        }
    });
}

#[test]
fn closing_runs_the_finalizers_that_are_due_and_refuses_new_threads() {
    static RUN: AtomicU64 = AtomicU64::new(0);
    let world = paranoid().build().unwrap();
    on_a_thread(&world, |m| {
        for key in 0..100 {
            let finalizer = |_: &Mutator, _: Gc<Node>| {
                std::thread::sleep(Duration::from_millis(1));
                RUN.fetch_add(1, Ordering::Relaxed);
            };
            m.set_finalizer(node(m, key).unwrap(), finalizer).unwrap();
        }
    });
    world.collect().unwrap();
    world.close(Duration::from_secs(120)).unwrap();
    assert_eq!(RUN.load(Ordering::Relaxed), 100);
    // SAFETY: the result is not used.
    assert!(unsafe { world.attach("late") }.is_err());
}

#[test]
fn closing_does_not_wait_for_ever_for_a_finalizer_that_does_not_end() {
    static RELEASE: AtomicBool = AtomicBool::new(false);
    let world = paranoid().build().unwrap();
    on_a_thread(&world, |m| {
        let finalizer = |m: &Mutator, _: Gc<Node>| {
            m.blocking(|| {
                while !RELEASE.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        };
        m.set_finalizer(node(m, 1).unwrap(), finalizer).unwrap();
    });
    world.collect().unwrap();
    let start = Instant::now();
    let error = world.close(Duration::from_millis(200)).unwrap_err();
    assert!(error.to_string().contains("the finalizer thread has not finished"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    RELEASE.store(true, Ordering::Relaxed);
    world.close(Duration::from_secs(120)).unwrap();
}

/// A mutator that closes its world counts as blocking: the finalizer may collect.
#[test]
fn a_mutator_may_close_the_world_while_a_finalizer_collects() {
    let world = paranoid().build().unwrap();
    // SAFETY: every Gc is a local variable.
    let m = unsafe { world.attach("main") }.unwrap();
    on_a_thread(&world, |m| {
        for key in 0..10 {
            m.set_finalizer(node(m, key).unwrap(), |m, _| assert!(m.collect().is_ok())).unwrap();
        }
    });
    let report = m.collect().unwrap();
    let totals = world.totals();
    world.close(Duration::from_secs(120)).unwrap();
    assert!(world.totals().finalizers_run >= 10, "{report:#?} {totals:?} {:?}", world.totals());
}

#[test]
fn finalizers_may_send_receive_and_start_threads() {
    static OUT: Mutex<Option<mpsc::Sender<u64>>> = Mutex::new(None);
    fn finalize(m: &Mutator, node: Gc<Node>) {
        let key = node.key;
        // SAFETY: every Gc is a local variable.
        let thread = unsafe { m.world().spawn("helper", move |m| check_tree(tree(m, key).unwrap())) };
        let size = thread.unwrap().join().unwrap();
        OUT.lock().unwrap().as_ref().unwrap().send(size).unwrap();
    }
    let (sender, receiver) = mpsc::channel();
    *OUT.lock().unwrap() = Some(sender);
    let world = paranoid().build().unwrap();
    on_a_thread(&world, |m| {
        for height in 0..5 {
            m.set_finalizer(node(m, height).unwrap(), finalize).unwrap();
        }
    });
    world.collect().unwrap();
    let sizes: Vec<_> = (0..5).map(|_| receiver.recv_timeout(Duration::from_secs(120)).unwrap()).collect();
    assert_eq!(sizes, (0..5).map(tree_size).collect::<Vec<_>>());
}

/// `.final.thread`: a drop may own the last handle of its own world.
#[test]
fn a_world_whose_last_handle_is_dropped_in_a_finalizer_does_not_wait_for_itself() {
    struct LastHandle {
        world: Option<World>,
        is_last: mpsc::Receiver<()>,
        took: mpsc::Sender<Duration>,
    }
    impl Drop for LastHandle {
        fn drop(&mut self) {
            self.is_last.recv().unwrap();
            let begin = Instant::now();
            drop(self.world.take());
            self.took.send(begin.elapsed()).unwrap();
        }
    }
    let world = paranoid().build().unwrap();
    let (let_go, is_last) = mpsc::channel();
    let (took, result) = mpsc::channel();
    // A receiver is not Sync; only the finalizer thread accesses it.
    struct Alone(#[allow(dead_code, reason = "something to drop")] Mutex<LastHandle>);
    let handle = Alone(Mutex::new(LastHandle { world: Some(world.clone()), is_last, took }));
    on_a_thread(&world, move |m| {
        m.alloc(Leaf(handle)).unwrap();
    });
    assert_eq!(world.collect().unwrap().finalizers_queued, 1);
    drop(world);
    let_go.send(()).unwrap();
    let took = result.recv_timeout(Duration::from_secs(120)).unwrap();
    // A world whose last handle is dropped waits for its finalizer thread, for 5 s at most.
    assert!(took < Duration::from_millis(4500), "it took {took:?}");
}

/// `.mark.overflow` and finalizers together: resurrected objects are marked with a stack that is too small.
#[rstest]
fn resurrection_with_a_mark_stack_that_overflows(#[values(64, 256)] limit: usize, #[values(1, 2)] markers: usize) {
    /// Held by each case, because all cases add to the same list.
    static ONE: Mutex<()> = Mutex::new(());
    static SIZES: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    fn finalize(_: &Mutator, holder: Gc<Array<GcCell<Option<Gc<Node>>>>>) {
        let sum = holder.iter().map(|slot| check_tree(slot.get().unwrap())).sum();
        SIZES.lock().unwrap().push(sum);
    }
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let world: World = paranoid().initial_heap(64 << 20).mark_stack_limit(limit).markers(markers).build().unwrap();
    on_a_thread(&world, |m| {
        for _ in 0..10 {
            let holder = m.alloc_array(300, |_| GcCell::new(Some(tree(m, 3).unwrap()))).unwrap();
            m.set_finalizer(holder, finalize).unwrap();
        }
    });
    let report = world.collect().unwrap();
    // Stacks are scanned conservatively, and a new thread may get the used stack of another: one stale word there keeps one holder.
    assert!(report.finalizers_queued >= 9, "{report:?}");
    assert_eq!(report.live_objects, 10 * (1 + 300 * 15), "queued or kept, all of them live");
    assert!(settle(&world) <= 1 + 300 * 15);
    let sizes = std::mem::take(&mut *SIZES.lock().unwrap());
    assert!(sizes.len() >= 9 && sizes.iter().all(|&size| size == 300 * 15), "{sizes:?}");
}
