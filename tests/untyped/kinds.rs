//! Kinds with a description of their pointers, and kinds whose pointers the binding finds (`.stop.binding`).

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rstest::rstest;
use stopworld::untyped::{Binding, MarkedHeap, ObjectPointers, UntypedKind};
use stopworld::{Mutator, Paranoid, World};

const OBJECTS: usize = 2000;

/// Keeps the objects that the first words of bound objects hide.
#[derive(Default)]
struct Reveals {
    seen: AtomicUsize,
    is_forbidden: AtomicUsize,
}

// SAFETY: nothing here allocates, prints or takes a lock.
unsafe impl Binding for Reveals {
    fn may_collect(&self) -> bool {
        self.is_forbidden.load(Ordering::Relaxed) == 0
    }

    fn after_marking(&self, heap: &mut MarkedHeap<'_, '_>) {
        loop {
            let before = self.seen.load(Ordering::Relaxed);
            while let Some(object) = heap.take_bound() {
                assert_eq!(heap.type_of(object).map(|info| info.name() == "bound"), Some(true));
                assert!(heap.is_marked(object) && !heap.lies_in_dead_object(object + 8));
                assert!(!heap.lies_in_dead_object(&raw const *self as usize), "outside of the heap");
                // SAFETY: an object with a word.
                heap.keep_word(!unsafe { *(object as *const usize) });
                self.seen.fetch_add(1, Ordering::Relaxed);
            }
            if self.seen.load(Ordering::Relaxed) == before {
                return;
            }
            heap.mark();
        }
    }
}

/// A list in which each object hides the next one. Returns the first, and the hidden address of the last.
#[inline(never)]
fn hidden_list(mutator: &Mutator, kind: UntypedKind) -> (usize, usize) {
    let mut next = mutator.alloc_untyped(16, kind).unwrap().as_ptr() as usize;
    let last = !next;
    for length in 1..OBJECTS {
        // Some are large.
        let bytes = if length % 100 == 0 { 20_000 } else { 24 + length % 60 };
        let object = mutator.alloc_untyped(bytes, kind).unwrap().cast::<usize>();
        // SAFETY: an object with a word, and more than 8 bytes beyond.
        unsafe { object.write(!next) };
        next = object.as_ptr() as usize;
    }
    (next, last)
}

#[rstest]
fn the_binding_finds_the_references_of_bound_objects(
    #[values(1, 3)] markers: usize,
    #[values(64, 1 << 20)] mark_stack: usize,
) {
    let binding = Arc::new(Reveals::default());
    let builder = World::builder().untyped(ObjectPointers::Bases).paranoid(Paranoid::On).markers(markers);
    let builder = builder.mark_stack_limit(mark_stack).heap_limit(64 << 20).binding(binding.clone());
    let world = builder.build().unwrap();
    // SAFETY: the first object is in a local variable.
    let mutator = unsafe { world.attach("test") }.unwrap();
    let kind = UntypedKind::bound("bound");
    let (first, last) = hidden_list(&mutator, kind);
    for round in 1..=2 {
        mutator.collect().unwrap();
        assert!(world.untyped_object(!last).is_some());
        assert!(binding.seen.load(Ordering::Relaxed) >= round * OBJECTS);
    }
    std::hint::black_box(first);
    // A binding that does not take them leaves nothing behind.
    let other = World::builder().untyped(ObjectPointers::Bases).paranoid(Paranoid::On).build().unwrap();
    drop(mutator);
    // SAFETY: as above.
    let mutator = unsafe { other.attach("test") }.unwrap();
    let (first, _) = hidden_list(&mutator, kind);
    (0..3).for_each(|_| assert!(mutator.collect().is_ok()));
    assert!(other.untyped_object(first).is_some());
}

#[derive(stopworld::Trace)]
struct Holder {
    weak: stopworld::Weak<u64>,
}

/// Returns a bound object that hides a `Holder`, whose weak reference is the only one to its target.
#[inline(never)]
fn hidden_holder(mutator: &Mutator, kind: UntypedKind) -> NonNull<usize> {
    let bound = mutator.alloc_untyped(16, kind).unwrap().cast::<usize>();
    let target = mutator.alloc(7_u64).unwrap();
    let holder = mutator.alloc(Holder { weak: mutator.alloc_weak(target).unwrap() }).unwrap();
    assert_eq!(holder.weak.upgrade().as_deref(), Some(&7));
    // SAFETY: an object with a word.
    unsafe { bound.write(!((&raw const *holder) as usize)) };
    bound
}

/// A weak cell that only the binding's marking reaches is cleared like any other.
#[test]
fn weak_references_that_only_the_binding_finds_are_cleared() {
    let builder = World::builder().untyped(ObjectPointers::Bases).paranoid(Paranoid::On).heap_limit(64 << 20);
    let world = builder.binding(Arc::new(Reveals::default())).build().unwrap();
    // SAFETY: the bound object is in a local variable, and keeps the others.
    let mutator = unsafe { world.attach("test") }.unwrap();
    let kind = UntypedKind::bound("bound");
    let holders: Vec<usize> = (0..100).map(|_| !(hidden_holder(&mutator, kind).as_ptr() as usize)).collect();
    // The vector hides the bound objects from the collector: this object keeps them.
    let kept = mutator.alloc_untyped(8 * holders.len(), UntypedKind::scanned("kept")).unwrap().cast::<usize>();
    for (index, holder) in holders.iter().enumerate() {
        // SAFETY: within the object.
        unsafe { kept.add(index).write(!holder) };
    }
    mutator.collect().unwrap();
    let is_cleared = |&holder: &usize| {
        // SAFETY: the bound object is alive, and its first word hides a `Holder`, which is alive, too.
        let holder = unsafe { &*(!*(!holder as *const usize) as *const Holder) };
        holder.weak.upgrade().is_none()
    };
    // The stack may still have the address of a target or two.
    let cleared = holders.iter().filter(|holder| is_cleared(holder)).count();
    assert!(cleared >= 98, "{cleared}");
    std::hint::black_box(kept);
}

/// Where only pointers to the beginning count, an object of up to 64 bytes takes no more than its size, rounded up to 16 bytes.
#[rstest]
#[case(ObjectPointers::Bases, 16, 16)]
#[case(ObjectPointers::Bases, 24, 32)]
#[case(ObjectPointers::Bases, 25, 32)]
#[case(ObjectPointers::Bases, 48, 48)]
#[case(ObjectPointers::Bases, 64, 64)]
#[case(ObjectPointers::Bases, 80, 96)]
#[case(ObjectPointers::Interior, 16, 32)]
fn a_small_object_takes_little_more_than_its_size(
    #[case] pointers: ObjectPointers,
    #[case] bytes: usize,
    #[case] cell_bytes: u64,
) {
    let builder = World::builder().untyped(pointers).paranoid(Paranoid::On).heap_limit(64 << 20);
    let world = builder.build().unwrap();
    // SAFETY: the objects are in a registered table.
    let mutator = unsafe { world.attach("test") }.unwrap();
    let mut table = vec![0_usize; OBJECTS];
    // SAFETY: the vector does not move until the guard is dropped.
    let _roots = unsafe { world.register_range(table.as_ptr().cast(), size_of_val(&*table)) }.unwrap();
    let kinds = [UntypedKind::scanned("scanned"), UntypedKind::leaf("leaf"), UntypedKind::with_words("words", 0b11)];
    let before = mutator.collect().unwrap();
    for (index, slot) in table.iter_mut().enumerate() {
        let object = mutator.alloc_untyped(bytes, kinds[index % kinds.len()]).unwrap();
        // SAFETY: the collector reads the table.
        unsafe { std::ptr::from_mut(slot).write_volatile(object.as_ptr() as usize) };
    }
    let after = mutator.collect().unwrap();
    let live = after.live.total() - before.live.total();
    let wanted = OBJECTS as u64 * cell_bytes;
    assert!((wanted..wanted + 64 * cell_bytes).contains(&live), "{live} bytes of {OBJECTS} objects");
    for (index, &address) in table.iter().enumerate() {
        let found = world.untyped_object(address + bytes - 1).unwrap();
        assert_eq!((found.address.as_ptr() as usize, found.type_info.name()), (address, kinds[index % 3].name()));
        assert!(found.bytes >= bytes);
    }
}

/// A word that the description does not name keeps nothing alive, and any word may hold anything.
#[rstest]
fn described_words_keep_objects_alive(
    #[values(ObjectPointers::Interior, ObjectPointers::Bases)] pointers: ObjectPointers,
) {
    let builder = World::builder().untyped(pointers).paranoid(Paranoid::On).heap_limit(64 << 20);
    let world = builder.build().unwrap();
    // SAFETY: the objects are in a registered table, or hidden.
    let mutator = unsafe { world.attach("test") }.unwrap();
    let mut table = vec![0_usize; OBJECTS];
    // SAFETY: the vector does not move until the guard is dropped.
    let _roots = unsafe { world.register_range(table.as_ptr().cast(), size_of_val(&*table)) }.unwrap();
    let (kind, leaf) = (UntypedKind::with_words("pair", 0b10), UntypedKind::leaf("target"));
    assert!(!UntypedKind::with_words("none", 0).is_scanned() && kind.is_scanned());
    let hidden = fill(&mutator, &mut table, kind, leaf);
    world.collect().unwrap();
    let alive = |word: usize| hidden.iter().filter(|targets| world.untyped_object(!targets[word]).is_some()).count();
    assert!(alive(0) < 50, "{}", alive(0));
    assert_eq!(alive(1), OBJECTS);
}

#[inline(never)]
fn fill(mutator: &Mutator, table: &mut [usize], kind: UntypedKind, leaf: UntypedKind) -> Vec<[usize; 2]> {
    let pair = |slot: &mut usize| {
        let object = mutator.alloc_untyped(16, kind).unwrap().cast::<usize>();
        // SAFETY: an object of two words. Volatile: the collector reads the table.
        unsafe { std::ptr::from_mut(slot).write_volatile(object.as_ptr() as usize) };
        [0, 1].map(|word| {
            let target = mutator.alloc_untyped(40, leaf).unwrap().as_ptr() as usize;
            // SAFETY: as above.
            unsafe {
                assert_eq!(object.add(word).read(), 0, "it must be zeroed");
                object.add(word).write(target);
            }
            !target
        })
    };
    table.iter_mut().map(pair).collect()
}

/// Allocates garbage of this many megabytes.
fn garbage(mutator: &Mutator, megabytes: usize) {
    let kind = UntypedKind::leaf("garbage");
    (0..megabytes * 1024).for_each(|_| _ = mutator.alloc_untyped(1000, kind).unwrap());
}

#[test]
fn a_binding_can_postpone_collections_but_not_exceed_the_limit() {
    let binding = Arc::new(Reveals::default());
    let builder = World::builder().untyped(ObjectPointers::Interior).initial_heap(1 << 20).heap_limit(64 << 20);
    let world = builder.binding(binding.clone()).build().unwrap();
    // SAFETY: no object is kept.
    let mutator = unsafe { world.attach("test") }.unwrap();
    binding.is_forbidden.store(1, Ordering::Relaxed);
    garbage(&mutator, 40);
    assert_eq!(world.totals().collections, 0);
    garbage(&mutator, 40);
    assert!(world.totals().collections > 0, "there was no room");
    binding.is_forbidden.store(0, Ordering::Relaxed);
}

#[test]
fn a_fixed_budget_makes_collections_frequent() {
    let world = World::builder().untyped(ObjectPointers::Interior).collect_every(256 << 10).build().unwrap();
    // SAFETY: no object is kept.
    let mutator = unsafe { world.attach("test") }.unwrap();
    garbage(&mutator, 20);
    let collections = world.totals().collections;
    assert!((50..=90).contains(&collections), "{collections}");
}

#[test]
fn a_heap_limit_can_be_lowered_and_raised_again() {
    let world = World::builder().untyped(ObjectPointers::Interior).heap_limit(64 << 20).build().unwrap();
    // SAFETY: pointers are in local variables.
    let mutator = unsafe { world.attach("test") }.unwrap();
    let kind = UntypedKind::leaf("large");
    assert!(mutator.alloc_untyped(32 << 20, kind).is_ok());
    world.set_heap_limit(4 << 20);
    assert_eq!(world.heap_limit(), 4 << 20);
    let error = mutator.alloc_untyped(8 << 20, kind).unwrap_err();
    assert!(error.to_string().contains("4"), "{error}");
    world.set_heap_limit(usize::MAX);
    assert_eq!(world.heap_limit(), 64 << 20, "at most what was reserved");
    assert!(mutator.alloc_untyped(8 << 20, kind).is_ok());
}

#[test]
fn a_heap_is_filled_to_its_minimum_before_it_is_collected() {
    let world = World::builder().untyped(ObjectPointers::Interior).heap_limit(512 << 20).build().unwrap();
    // SAFETY: no object is kept.
    let mutator = unsafe { world.attach("test") }.unwrap();
    assert_eq!(world.minimum_heap(), 0);
    world.set_minimum_heap(256 << 20);
    assert_eq!(world.minimum_heap(), 256 << 20);
    garbage(&mutator, 200);
    assert_eq!(world.totals().collections, 0);
    garbage(&mutator, 200);
    assert_eq!(world.totals().collections, 1, "seven eighths of the minimum are full");
    garbage(&mutator, 150);
    assert_eq!(world.totals().collections, 2, "the next budget is as large");
    assert!(world.totals().committed_bytes >= 224 << 20, "the memory stays");
    world.set_minimum_heap(0);
    // The first one returns the memory, and the second one finds it gone.
    world.collect().unwrap();
    world.collect().unwrap();
    garbage(&mutator, 200);
    assert!(world.totals().collections > 10, "{}", world.totals().collections);
}

/// A thread that leaves its blocking region for a function can be stopped in it, and uses the heap there; the region goes on after it.
#[test]
fn a_thread_leaves_its_region_for_a_function() {
    struct Here(*const Mutator);
    // SAFETY: used on its own thread.
    unsafe impl Send for Here {}

    let world = World::builder().untyped(ObjectPointers::Interior).heap_limit(64 << 20).build().unwrap();
    // SAFETY: pointers are in local variables.
    let mutator = unsafe { world.attach("test") }.unwrap();
    let kept = mutator.alloc_untyped(40, UntypedKind::scanned("kept")).unwrap();
    let collect_elsewhere =
        || std::thread::scope(|scope| scope.spawn(|| world.collect().unwrap().number).join().unwrap());
    let here = Here(&raw const mutator);
    let collect = &collect_elsewhere;
    mutator.blocking(move || {
        let here = { here };
        collect();
        // SAFETY: the mutator of this thread, which outlives the region.
        let mutator = unsafe { &*here.0 };
        mutator.unblocked(|| {
            garbage(mutator, 30);
            mutator.blocking(collect);
            mutator.collect().unwrap();
        });
        collect();
    });
    assert_eq!(mutator.unblocked(|| 7), 7, "outside a region it is a call");
    assert!(world.untyped_object(kept.as_ptr() as usize).is_some());
    let mut visited = 0;
    world.for_each_untyped(|object| visited += usize::from(object.address == kept));
    assert_eq!(visited, 1);
    // SAFETY: it is not used any more.
    let freed = unsafe { mutator.free_untyped(kept) }.unwrap();
    assert_eq!((freed.address, freed.type_info.name()), (kept, "kept"));
}
