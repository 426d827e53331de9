//! The steps after marking, which several threads share if there is much to do: what they find, against the objects that were kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::heap_support::*;
use rstest::rstest;
use stopworld::{Array, Gc, GcCell, Mutator, Paranoid, Weak, WeakMap, World, keep_alive};

/// Enough that one thread alone would take several hundred microseconds for each step.
const OBJECTS: usize = 300_000;
/// A few stale references in registers and on the stack may keep objects alive.
const STALE: usize = 8;

type Kept = Gc<Array<GcCell<Option<Gc<Node>>>>>;

/// Whether the object with this number is kept: without a pattern that fits the size of a range.
fn is_kept(number: usize) -> bool {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 == 0
}

/// Makes objects, calls `each` with each of them, and keeps those that [`is_kept`] selects.
fn objects(m: &Mutator, mut each: impl FnMut(usize, Gc<Node>)) -> Kept {
    let kept = m.alloc_array(OBJECTS, |_| GcCell::new(None)).unwrap();
    for (number, cell) in kept.iter().enumerate() {
        let object = node(m, number as u64).unwrap();
        each(number, object);
        if is_kept(number) {
            cell.set(Some(object));
        }
    }
    kept
}

fn assert_about(found: usize, expected: usize, what: &str) {
    assert!((expected - STALE..=expected).contains(&found), "{found} {what}, expected {expected}");
}

fn dead() -> usize {
    (0..OBJECTS).filter(|&number| !is_kept(number)).count()
}

/// In a paranoid world the threads share the steps in any case; of weak references only those that different threads have marked.
fn world(markers: usize, paranoid: Paranoid) -> World {
    World::builder().markers(markers).paranoid(paranoid).initial_heap(512 << 20).build().unwrap()
}

#[rstest]
fn the_live_objects_are_counted(
    #[values(1, 2, 4)] markers: usize,
    #[values(Paranoid::Off, Paranoid::On)] paranoid: Paranoid,
) {
    let world = world(markers, paranoid);
    // 16 times as many, because a thread counts a whole block at once.
    let roots = on_a_thread(&world, |m| (0..16).map(|_| m.root(objects(m, |_, _| {}))).collect::<Vec<_>>());
    let kept = 16 * (OBJECTS - dead());
    let report = world.collect().unwrap();
    assert!((kept..kept + 100).contains(&(report.live_objects as usize)), "{} live, {kept} kept", report.live_objects);
    // The threads allocate in what was found free, and destroy nothing.
    on_a_thread(&world, |m| _ = objects(m, |_, _| {}));
    world.collect().unwrap();
    for kept in roots {
        on_a_thread(&world, move |m| {
            for (number, cell) in kept.get(m).iter().enumerate() {
                assert_eq!(cell.get().map(|node| node.key as usize), is_kept(number).then_some(number));
            }
        });
    }
}

#[rstest]
fn weak_references_to_dead_objects_are_cleared(
    #[values(1, 2, 4)] markers: usize,
    #[values(Paranoid::Off, Paranoid::On)] paranoid: Paranoid,
) {
    let world = world(markers, paranoid);
    let (weak, kept) = on_a_thread(&world, |m| {
        let weak = m.alloc_array(OBJECTS, |_| GcCell::new(None::<Weak<Node>>)).unwrap();
        let kept = objects(m, |number, object| weak[number].set(Some(m.alloc_weak(object).unwrap())));
        (m.root(weak), m.root(kept))
    });
    assert_about(world.collect().unwrap().weak_cleared as usize, dead(), "weak references were cleared");
    on_a_thread(&world, move |m| {
        let mut alive = 0;
        for (number, cell) in weak.get(m).iter().enumerate() {
            let object = cell.get().unwrap().get();
            assert!(object.is_some() || !is_kept(number), "the weak reference to a live object was cleared");
            alive += usize::from(object.is_some());
        }
        assert_about(OBJECTS - alive, dead(), "weak references are empty");
    });
    drop(kept);
    world.collect().unwrap();
}

#[rstest]
fn the_finalizers_of_dead_objects_run(
    #[values(1, 2, 4)] markers: usize,
    #[values(Paranoid::Off, Paranoid::On)] paranoid: Paranoid,
) {
    let (world, run) = (world(markers, paranoid), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&run);
    let kept = on_a_thread(&world, move |m| {
        let kept = objects(m, |number, object| {
            let run = Arc::clone(&counted);
            let finalizer = move |_: &Mutator, object: Gc<Node>| {
                assert_eq!(object.key as usize, number, "another object was finalized");
                assert!(!is_kept(number), "a live object was finalized");
                run.fetch_add(1, Ordering::Relaxed);
            };
            m.set_finalizer(object, finalizer).unwrap();
        });
        m.root(kept)
    });
    let queued = world.collect().unwrap().finalizers_queued as usize;
    assert_about(queued, dead(), "finalizers were queued");
    wait_until("all finalizers have run", || run.load(Ordering::Relaxed) == queued);
    assert_eq!(world.totals().finalizers_panicked, 0);
    assert!(world.collect().unwrap().finalizers_queued as usize <= STALE, "a finalizer was queued again");
    drop(kept);
}

#[rstest]
fn the_entries_of_dead_keys_are_removed(
    #[values(1, 2, 4)] markers: usize,
    #[values(Paranoid::Off, Paranoid::On)] paranoid: Paranoid,
) {
    let world = world(markers, paranoid);
    let (map, kept) = on_a_thread(&world, |m| {
        let mut map = WeakMap::with_capacity(m, OBJECTS).unwrap();
        let kept = objects(m, |number, key| {
            map.insert(m, key, node(m, number as u64).unwrap()).unwrap();
        });
        (m.root(m.alloc(map).unwrap()), m.root(kept))
    });
    assert_about(world.collect().unwrap().weak_cleared as usize, dead(), "entries were removed");
    on_a_thread(&world, move |m| {
        let (map, kept) = (map.get(m), kept.get(m));
        assert_about(OBJECTS - map.len(), dead(), "entries are missing");
        for key in kept.iter().filter_map(GcCell::get) {
            assert_eq!(map.get(key).map(|value| value.key), Some(key.key));
        }
        keep_alive(kept);
    });
}
