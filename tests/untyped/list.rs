//! Lists of new objects (`.stop.mid-alloc`).

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rstest::rstest;
use stopworld::untyped::{ObjectPointers, UntypedKind};
use stopworld::{Mutator, Paranoid, Stopper, World};

/// The number of lists that a thread keeps.
const KEPT: usize = 8;
/// The largest number of objects that a list gets.
const MOST: usize = 300;

/// Makes a list of at least one object.
fn make(mutator: &Mutator, bytes: usize, kind: UntypedKind) -> (NonNull<u8>, usize) {
    mutator.list_untyped(bytes, kind, MOST, None).unwrap_or_else(|| {
        let object = mutator.alloc_untyped(bytes, kind).unwrap();
        mutator.list_untyped(bytes, kind, MOST - 1, Some(object)).map_or((object, 1), |(list, count)| (list, count + 1))
    })
}

/// Calls `visit` with the second word of each object.
fn for_each_word(list: NonNull<u8>, mut visit: impl FnMut(&mut usize)) -> usize {
    let (mut next, mut count) = (Some(list), 0);
    while let Some(object) = next {
        // SAFETY: an object of the list has two words, the first of which is the address of the next object, or 0.
        unsafe {
            visit(object.cast::<usize>().add(1).as_mut());
            next = object.cast::<Option<NonNull<u8>>>().read();
        }
        count += 1;
    }
    count
}

/// Makes lists until `over`, and at least a few. Examines each before it is dropped: all its objects must be there, and must be its own.
/// Returns the number of lists with more than one object.
fn make_lists(mutator: &Mutator, bytes: usize, kind: UntypedKind, over: &AtomicBool) -> usize {
    let mut kept = [None; KEPT];
    let (mut round, mut long) = (0, 0);
    while round < 100 || !over.load(Ordering::Relaxed) {
        let (list, count) = make(mutator, bytes, kind);
        assert_eq!(for_each_word(list, |word| assert_eq!(std::mem::replace(word, round * 2 + 1), 0)), count);
        long += usize::from(count > 1);
        if let Some((round, list, count)) = kept[round % KEPT].replace((round, list, count)) {
            assert_eq!(for_each_word(list, |word| assert_eq!(*word, round * 2 + 1)), count);
        }
        round += 1;
        mutator.safepoint();
    }
    long
}

#[rstest]
fn a_list_lives_by_its_head_wherever_the_thread_is_stopped(
    #[values(ObjectPointers::Interior, ObjectPointers::Bases)] pointers: ObjectPointers,
    #[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper,
    #[values(Paranoid::Off, Paranoid::On)] paranoid: Paranoid,
    #[values(16, 100)] bytes: usize,
) {
    let builder = World::builder().untyped(pointers).heap_limit(64 << 20);
    let world = builder.stopper(stopper).paranoid(paranoid).build().unwrap();
    let kind = UntypedKind::scanned("listed");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: pointers are in the local variables of `make_lists`.
            let mutator = unsafe { world.attach("lists") }.unwrap();
            make_lists(&mutator, bytes, kind, &over)
        });
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(300) && !thread.is_finished() {
            world.collect().unwrap();
        }
        over.store(true, Ordering::Relaxed);
        assert!(thread.join().unwrap() > 0);
    });
    assert_eq!(world.damage(), None);
}

#[test]
fn a_list_takes_the_cells_at_hand_and_no_others() {
    let world = World::builder().untyped(ObjectPointers::Bases).heap_limit(64 << 20).build().unwrap();
    // SAFETY: pointers are in local variables.
    let mutator = unsafe { world.attach("test") }.unwrap();
    for kind in [UntypedKind::scanned("scanned"), UntypedKind::leaf("leaf")] {
        for bytes in [0, 16, 48, 64, 100, 2000] {
            let mut list = None;
            while list.is_none() {
                mutator.alloc_untyped(bytes, kind).unwrap();
                list = mutator.list_untyped(bytes, kind, 3, None);
            }
            let (first, count) = list.unwrap();
            let collections = world.totals().collections;
            let (all, more) = mutator.list_untyped(bytes, kind, usize::MAX, Some(first)).unwrap_or((first, 0));
            assert_eq!(mutator.list_untyped(bytes, kind, 1, None), None, "no cell is at hand");
            assert_eq!(world.totals().collections, collections);
            let (mut next, mut found) = (Some(all), 0);
            while let Some(object) = next {
                let object_found = world.untyped_object(object.as_ptr() as usize).unwrap();
                assert_eq!((object_found.address, object_found.type_info.name()), (object, kind.name()));
                assert!(object_found.bytes >= bytes);
                // SAFETY: the first word of an object of a list.
                next = unsafe { object.cast::<Option<NonNull<u8>>>().read() };
                found += 1;
            }
            assert_eq!((found, count <= 3), (count + more, true));
        }
        assert!(mutator.list_untyped(100_000, kind, 1, None).is_none(), "a large object has no cell");
        assert!(mutator.list_untyped(16, kind, 0, None).is_none());
    }
}
