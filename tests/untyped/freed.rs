//! Explicit free (`.heap.freed`).

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rstest::rstest;
use stopworld::untyped::{ObjectPointers, UntypedKind};
use stopworld::{Mutator, Paranoid, Stopper, World};

fn world() -> World {
    World::builder().untyped(ObjectPointers::Interior).heap_limit(64 << 20).build().unwrap()
}

#[rstest]
#[case::with_a_header(ObjectPointers::Interior, 100)]
#[case::in_a_world_without_headers(ObjectPointers::Bases, 100)]
#[case::without_a_header(ObjectPointers::Bases, 64)]
fn a_freed_cell_is_the_next_of_its_class(#[case] pointers: ObjectPointers, #[case] bytes: usize) {
    let world = World::builder().untyped(pointers).heap_limit(64 << 20).build().unwrap();
    let kind = UntypedKind::scanned("cell");
    // SAFETY: pointers are in local variables.
    let mutator = unsafe { world.attach("test") }.unwrap();
    let [first, second] = [bytes, bytes].map(|bytes| mutator.alloc_untyped(bytes, kind).unwrap());
    // SAFETY: the objects have this size, and are not used after the call that frees them.
    unsafe {
        second.as_ptr().write_bytes(0xff, bytes);
        mutator.free_untyped(first).unwrap();
        mutator.free_untyped(second).unwrap();
    }
    let again = mutator.alloc_untyped(bytes - 3, kind).unwrap();
    assert_eq!(again, second);
    // SAFETY: it has this size.
    assert!((0..bytes - 3).all(|at| unsafe { again.as_ptr().add(at).read() } == 0), "it must be zeroed");
    assert_eq!(mutator.alloc_untyped(bytes, UntypedKind::leaf("bytes")).unwrap(), first);
    assert_ne!(mutator.alloc_untyped(bytes, kind).unwrap(), first);
}

#[test]
fn what_is_no_object_cannot_be_freed() {
    let (world, kind) = (world(), UntypedKind::scanned("cell"));
    // SAFETY: pointers are in local variables.
    let mutator = unsafe { world.attach("test") }.unwrap();
    let (small, large) = (mutator.alloc_untyped(100, kind).unwrap(), mutator.alloc_untyped(100_000, kind).unwrap());
    let local = 0_u8;
    // SAFETY: nothing uses the objects after they are freed; the other addresses are of no object.
    unsafe {
        for wrong in [small.add(8), large.add(16), large.add(50_000), NonNull::from(&local)] {
            let error = mutator.free_untyped(wrong).unwrap_err();
            assert_eq!(error.address, wrong.as_ptr() as usize);
            assert!(error.to_string().contains(&format!("{wrong:p}")), "{error}");
        }
        for object in [small, large] {
            mutator.free_untyped(object).unwrap();
            assert!(mutator.free_untyped(object).is_err(), "freed twice");
            assert!(world.untyped_object(object.as_ptr() as usize).is_none());
        }
    }
}

#[rstest]
fn an_object_is_found_by_every_address_in_it(
    #[values(ObjectPointers::Interior, ObjectPointers::Bases)] pointers: ObjectPointers,
) {
    let world = World::builder().untyped(pointers).heap_limit(64 << 20).build().unwrap();
    let kind = UntypedKind::leaf("found");
    // SAFETY: pointers are in local variables.
    let mutator = unsafe { world.attach("test") }.unwrap();
    for bytes in [0, 1, 9, 16, 16, 24, 25, 32, 48, 64, 64, 100, 5000, 8168, 8169, 100_000] {
        let object = mutator.alloc_untyped(bytes, kind).unwrap();
        let address = object.as_ptr() as usize;
        assert!(address.is_multiple_of(16));
        let found = world.untyped_object(address).unwrap();
        assert!(found.bytes >= bytes && found.bytes >= 8, "{} of {bytes} bytes", found.bytes);
        for inside in [address, address + found.bytes / 2, address + found.bytes - 1] {
            let found = world.untyped_object(inside).unwrap();
            assert_eq!((found.address, found.type_info.name()), (object, "found"));
        }
        assert!(world.untyped_object(address - 1).is_none_or(|before| before.address != object));
    }
    assert!(world.untyped_object(16).is_none());
}

/// The memory of a large object is free at once, and the budget has its bytes again: no collection is needed.
#[test]
fn large_objects_that_are_freed_cause_no_collection() {
    let (world, kind) = (world(), UntypedKind::scanned("large"));
    // SAFETY: pointers are in local variables.
    let mutator = unsafe { world.attach("test") }.unwrap();
    for _ in 0..1000 {
        let object = mutator.alloc_untyped(1 << 20, kind).unwrap();
        // SAFETY: it is not used again.
        unsafe { mutator.free_untyped(object).unwrap() };
    }
    assert_eq!(world.totals().collections, 0);
}

/// Takes and frees cells until `over`, and at least a few. Each has its owner's number while it is allocated.
fn hammer(mutator: &Mutator, kind: UntypedKind, owner: usize, over: &AtomicBool) -> usize {
    let mut held: [Option<(NonNull<usize>, usize)>; 64] = [None; 64];
    let (mut state, mut rounds) = (owner * 2 + 1, 0_usize);
    while rounds < 100 || !over.load(Ordering::Relaxed) {
        rounds += 1;
        // An odd number is no address of an object.
        let mark = (owner << 32 | rounds) << 1 | 1;
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (slot, bytes) = (state >> 40 & 63, 16 + (state >> 50 & 63));
        if let Some((object, mark)) = held[slot].take() {
            // SAFETY: this thread's object, which is not used after it was freed.
            unsafe {
                let (first, second) = (object.read(), object.add(1).read());
                assert!(
                    (first, second) == (mark, mark),
                    "a cell has two owners: {first:#x}, {second:#x}, not {mark:#x}"
                );
                if state >> 60 & 3 != 0 {
                    mutator.free_untyped(object.cast()).expect("a cell has two owners");
                }
            }
        }
        let object: NonNull<usize> = mutator.alloc_untyped(bytes, kind).unwrap().cast();
        // SAFETY: at least two words.
        unsafe {
            assert_eq!((object.read(), object.add(1).read()), (0, 0), "a cell has two owners");
            object.write(mark);
            object.add(1).write(mark);
        }
        held[slot] = Some((object, mark));
        mutator.safepoint();
    }
    rounds
}

/// Threads free and allocate while collections end their lists at any instruction.
#[rstest]
fn no_cell_has_two_owners(
    #[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper,
    #[values(Paranoid::Off, Paranoid::On)] paranoid: Paranoid,
) {
    let builder = World::builder().untyped(ObjectPointers::Interior).heap_limit(64 << 20);
    let world = builder.stopper(stopper).paranoid(paranoid).build().unwrap();
    let kind = UntypedKind::scanned("hammered");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads = [1, 2, 3].map(|owner| {
            let (world, over) = (&world, &over);
            scope.spawn(move || {
                // SAFETY: pointers are in the local variables of `hammer`.
                let mutator = unsafe { world.attach("hammer") }.unwrap();
                hammer(&mutator, kind, owner, over)
            })
        });
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(700) && threads.iter().all(|thread| !thread.is_finished()) {
            world.collect().unwrap();
        }
        over.store(true, Ordering::Relaxed);
        for thread in threads {
            assert!(thread.join().unwrap() > 0);
        }
    });
    assert_eq!(world.damage(), None);
}
