//! Random graphs of untyped objects against a naive reachability search (`.mark.untyped`).

use std::cell::RefCell;
use std::ptr::NonNull;

use proptest::prelude::*;
use rstest::rstest;
use stopworld::untyped::{ObjectPointers, UntypedKind};
use stopworld::{Mutator, Paranoid, RangeGuard, World};

/// Hides an address from the collector: the result is no address of user memory.
fn hide(address: usize) -> usize {
    !address
}

/// One object of a plan.
#[derive(Clone, Debug)]
struct Planned {
    bytes: usize,
    /// Word, target, and distance of the pointer from the target's first byte, which is taken modulo what the world allows.
    edges: Vec<(usize, usize, usize)>,
}

fn planned(objects: usize) -> impl Strategy<Value = Planned> {
    let bytes = prop_oneof![6 => 16_usize..200, 2 => 200_usize..9000, 1 => 9000_usize..60_000];
    let edge = (any::<usize>(), 0..objects, any::<usize>());
    (bytes, proptest::collection::vec(edge, 0..4)).prop_map(|(bytes, edges)| Planned { bytes, edges })
}

fn plan() -> impl Strategy<Value = (Vec<Planned>, Vec<usize>)> {
    (2_usize..60).prop_flat_map(|objects| {
        let all = proptest::collection::vec(planned(objects), objects);
        (all, proptest::collection::vec(0..objects, 0..4))
    })
}

thread_local! {
    static KIND: RefCell<Option<(UntypedKind, UntypedKind)>> = const { RefCell::new(None) };
}

/// The kinds of the test, made once for each thread.
fn kinds() -> (UntypedKind, UntypedKind) {
    KIND.with_borrow_mut(|kinds| {
        *kinds.get_or_insert_with(|| (UntypedKind::scanned("node"), UntypedKind::leaf("bytes")))
    })
}

/// The content of the first word of object `index`: odd, so no address of an object.
fn tag(index: usize) -> usize {
    index << 8 | 0x55
}

/// The distances from an object's first byte at which a pointer keeps it alive.
fn distance(pointers: ObjectPointers, wanted: usize, bytes: usize) -> usize {
    match pointers {
        ObjectPointers::Interior => wanted % (bytes + 1),
        ObjectPointers::Bases => [0, 1, 8][wanted % 3].min(bytes - 1),
    }
}

/// # Safety
/// The memory stays readable until the guard is dropped.
unsafe fn register(world: &World, table: &[usize]) -> RangeGuard {
    // SAFETY: the caller's promise.
    unsafe { world.register_range(table.as_ptr().cast(), size_of_val(table)) }.unwrap()
}

/// Makes the planned objects. Returns their hidden addresses. In its own frame, so that few addresses stay on the stack.
#[inline(never)]
fn make(mutator: &Mutator, plan: &[Planned], pointers: ObjectPointers) -> Vec<usize> {
    // Every object is reachable from a chain of registered memory while the graph is built.
    let mut addresses = vec![0_usize; plan.len()];
    // SAFETY: the vector does not move until the guard is dropped.
    let building = unsafe { register(mutator.world(), &addresses) };
    for (index, planned) in plan.iter().enumerate() {
        let object: NonNull<usize> = mutator.alloc_untyped(planned.bytes, kinds().0).unwrap().cast();
        // SAFETY: at least two words. Volatile: the collector reads the vector.
        unsafe {
            assert_eq!((object.read(), object.add(planned.bytes / 8 - 1).read()), (0, 0), "it must be zeroed");
            object.write(tag(index));
            addresses.as_mut_ptr().add(index).write_volatile(object.as_ptr() as usize);
        }
    }
    for (index, planned) in plan.iter().enumerate() {
        for &(word, target, wanted) in &planned.edges {
            let words = planned.bytes / 8;
            let at = 1 + word % (words - 1);
            let value = addresses[target] + distance(pointers, wanted, plan[target].bytes);
            // SAFETY: a word of the object.
            unsafe { (addresses[index] as *mut usize).add(at).write(value) };
        }
    }
    drop(building);
    addresses.iter_mut().for_each(|address| *address = hide(*address));
    addresses
}

/// The objects that are reachable in the memory as it was built: later edges overwrite earlier ones in the same word.
fn reachable(plan: &[Planned], roots: &[usize]) -> Vec<bool> {
    let mut seen = vec![false; plan.len()];
    let mut work = roots.to_vec();
    while let Some(index) = work.pop() {
        if !std::mem::replace(&mut seen[index], true) {
            let words = plan[index].bytes / 8;
            let mut last = std::collections::HashMap::new();
            for &(word, target, _) in &plan[index].edges {
                last.insert(1 + word % (words - 1), target);
            }
            work.extend(last.values());
        }
    }
    seen
}

fn play(plan: &[Planned], roots: &[usize], pointers: ObjectPointers, markers: usize, mark_stack: usize) {
    let world = World::builder()
        .untyped(pointers)
        .heap_limit(256 << 20)
        .paranoid(Paranoid::On)
        .markers(markers)
        .mark_stack_limit(mark_stack)
        .build()
        .unwrap();
    [1, 8].into_iter().for_each(|displacement| world.register_displacement(displacement));
    // SAFETY: pointers are in local variables, in registered ranges, or hidden.
    let mutator = unsafe { world.attach("test") }.unwrap();
    let hidden = make(&mutator, plan, pointers);
    let table: Vec<usize> = roots.iter().map(|&root| hide(hidden[root])).collect();
    // SAFETY: the vector does not move until the guard is dropped.
    let _roots = unsafe { register(&world, &table) };
    let report = world.collect().unwrap();
    let expected = reachable(plan, roots);
    assert!(report.live_objects >= expected.iter().filter(|lives| **lives).count() as u64);
    for (index, _) in expected.iter().enumerate().filter(|(_, lives)| **lives) {
        // SAFETY: the object is reachable.
        let first = unsafe { *(hide(hidden[index]) as *const usize) };
        assert_eq!(first, tag(index), "object {index} is reachable");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn what_is_reachable_stays(
        (plan, roots) in plan(),
        interior: bool,
        markers in 1_usize..4,
        small_stack: bool,
    ) {
        let pointers = if interior { ObjectPointers::Interior } else { ObjectPointers::Bases };
        play(&plan, &roots, pointers, markers, if small_stack { 64 } else { 1 << 20 });
    }
}

/// Allocates objects and drops them, in a frame of its own.
#[inline(never)]
fn garbage(mutator: &Mutator, count: usize) {
    for index in 0..count {
        let object = mutator.alloc_untyped(64 + index % 100, kinds().0).unwrap();
        // SAFETY: the object has a word. It refers to itself, which keeps nothing alive.
        unsafe { object.cast::<usize>().write(object.as_ptr() as usize) };
    }
}

#[rstest]
fn what_is_not_reachable_goes(#[values(ObjectPointers::Interior, ObjectPointers::Bases)] pointers: ObjectPointers) {
    let world = World::builder().untyped(pointers).heap_limit(64 << 20).build().unwrap();
    // SAFETY: no pointer is kept.
    let mutator = unsafe { world.attach("test") }.unwrap();
    garbage(&mutator, 10_000);
    let report = world.collect().unwrap();
    assert!(report.live_objects < 100, "{} of 10,000 objects are left", report.live_objects);
}

/// A leaf kind is not scanned, a scanned kind is, and only pointers that the world counts keep an object alive.
#[rstest]
#[case::base(true, ObjectPointers::Bases, 0, true)]
#[case::middle(true, ObjectPointers::Interior, 40, true)]
#[case::end(true, ObjectPointers::Interior, 104, true)]
#[case::displaced(true, ObjectPointers::Bases, 8, true)]
#[case::not_displaced(true, ObjectPointers::Bases, 16, false)]
#[case::leaf(false, ObjectPointers::Interior, 0, false)]
fn pointers_that_count(
    #[case] scanned: bool,
    #[case] pointers: ObjectPointers,
    #[case] distance: usize,
    #[case] lives: bool,
) {
    const PAIRS: usize = 1000;
    let world = World::builder().untyped(pointers).heap_limit(64 << 20).build().unwrap();
    world.register_displacement(8);
    // SAFETY: the pointers are in the registered table.
    let mutator = unsafe { world.attach("test") }.unwrap();
    let mut table = vec![0_usize; PAIRS];
    // SAFETY: the vector does not move until the guard is dropped.
    let _roots = unsafe { register(&world, &table) };
    fill(&mutator, &mut table, if scanned { kinds().0 } else { kinds().1 }, distance);
    let live = world.collect().unwrap().live_objects as usize;
    let expected = if lives { 2 * PAIRS } else { PAIRS };
    // Words that are left on the stack may keep a few more.
    assert!((expected..expected + 50).contains(&live), "{live} objects, expected {expected}");
}

#[inline(never)]
fn fill(mutator: &Mutator, table: &mut [usize], holder: UntypedKind, distance: usize) {
    for slot in table {
        let target = mutator.alloc_untyped(104, kinds().0).unwrap().as_ptr() as usize;
        let object = mutator.alloc_untyped(16, holder).unwrap().cast::<usize>();
        // SAFETY: the object has two words. Volatile: the collector reads the table.
        unsafe {
            object.write(0);
            object.add(1).write(target + distance);
            std::ptr::from_mut(slot).write_volatile(object.as_ptr() as usize);
        }
    }
}

/// `.mark.overflow`: an object of many slices, with a small stack and with several markers.
#[rstest]
fn a_large_object_is_scanned_whole(#[values(1, 3)] markers: usize, #[values(64, 1 << 20)] mark_stack: usize) {
    const WORDS: usize = 50_000;
    let world = World::builder()
        .untyped(ObjectPointers::Interior)
        .heap_limit(256 << 20)
        .markers(markers)
        .mark_stack_limit(mark_stack)
        .paranoid(Paranoid::On)
        .build()
        .unwrap();
    // SAFETY: the pointers are in a local variable and in the large object.
    let mutator = unsafe { world.attach("test") }.unwrap();
    let large: NonNull<usize> = mutator.alloc_untyped(WORDS * 8, kinds().0).unwrap().cast();
    for index in 0..WORDS {
        let leaf = mutator.alloc_untyped(24, kinds().1).unwrap().cast::<usize>();
        // SAFETY: both objects have the words.
        unsafe {
            leaf.write(tag(index));
            large.add(index).write(leaf.as_ptr() as usize + index % 24);
        }
    }
    let report = world.collect().unwrap();
    assert!(report.live_objects > WORDS as u64, "{}", report.live_objects);
    for index in 0..WORDS {
        // SAFETY: the large object and everything in it is alive.
        let first = unsafe { *((large.add(index).read() - index % 24) as *const usize) };
        assert_eq!(first, tag(index));
    }
}
