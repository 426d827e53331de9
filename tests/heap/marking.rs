//! References that keep an object alive: interior pointers, long lists, small mark stacks, several markers, handles, ranges,
//! cells; and marks that stay right when their epoch wraps.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::heap_support::*;
use rstest::rstest;
use stopworld::{Array, ByAddress, Gc, GcCell, Layout, Leaf, Mutator, Trace, Weak, World, keep_alive, traced};

#[test]
fn a_tree_survives_what_is_dropped_around_it() {
    let world = paranoid().heap_limit(64 << 20).build().unwrap();
    on_a_thread(&world, |m| {
        let kept = tree(m, 14).unwrap();
        for _ in 0..50 {
            assert_eq!(check_tree(tree(m, 12).unwrap()), tree_size(12));
        }
        assert_eq!(check_tree(kept), tree_size(14));
    });
    assert!(world.totals().collections > 3, "{:?}", world.totals());
}

/// A word that may be a reference, and is traced as one.
struct Word(usize);

// SAFETY: the layout names the only word; no drop glue, no plain mutability.
unsafe impl Trace for Word {
    const NAME: &'static str = "Word";
    const LAYOUT: Layout = Layout::WORD;
}

/// The objects died in an earlier collection, and their cells have not been swept: the headers are still there.
#[test]
fn numbers_that_are_addresses_of_dead_objects_do_not_revive_them() {
    const OBJECTS: usize = 500;
    let world = World::builder().markers(1).build().unwrap();
    let (kept, hidden) = on_a_thread(&world, |m| {
        let objects = m.alloc_array(OBJECTS, |i| Word(Gc::addr(m.alloc([i as u64; 8]).unwrap()))).unwrap();
        // One of them keeps its block from being freed as a whole.
        let kept = m.alloc([0_u64; 8]).unwrap();
        (m.root(kept), objects.iter().map(|word| !word.0).collect::<Vec<_>>())
    });
    let before = world.collect().unwrap().live_objects;
    let numbers = on_a_thread(&world, move |m| m.root(m.alloc_array(OBJECTS, |i| Word(!hidden[i])).unwrap()));
    let after = world.collect().unwrap().live_objects;
    assert!(before < 20, "{before} objects are alive before");
    assert!(after <= before + 1, "{after} objects are alive, after {before}");
    drop((kept, numbers));
}

#[test]
fn threads_allocate_while_others_collect() {
    let world = paranoid().markers(2).build().unwrap();
    let threads: Vec<_> = (0..4)
        .map(|i| {
            // SAFETY: every Gc is a local variable.
            unsafe {
                world.spawn(&format!("worker-{i}"), |m| {
                    for _ in 0..60 {
                        assert_eq!(check_tree(tree(m, 11).unwrap()), tree_size(11));
                    }
                })
            }
            .unwrap()
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(world.totals().collections > 3, "{:?}", world.totals());
}

/// Makes an object that only one word of ordinary memory references, at `offset` from its payload, and collects. Returns whether its weak
/// reference is intact, and the number of live objects. Its neighbours in the block are dead.
fn survives_by(world: &World, offset: impl Fn(Gc<Array<u64>>) -> usize + Send + 'static, length: usize) -> (bool, u64) {
    // Each call has a separate word, because tests run in parallel.
    let word = Arc::new(AtomicUsize::new(0));
    // SAFETY: the word is dropped after the guard, and is written atomically.
    let guard = unsafe { world.register_range(Arc::as_ptr(&word).cast(), 8) }.unwrap();
    let written = Arc::clone(&word);
    let weak = on_a_thread(world, move |m| {
        let neighbour_before = m.alloc_array(length, |i| i as u64).unwrap();
        let object = m.alloc_array(length, |i| i as u64).unwrap();
        let neighbour_behind = m.alloc_array(length, |i| i as u64).unwrap();
        written.store(Gc::addr(object).wrapping_add(offset(object)), Ordering::Relaxed);
        keep_alive(neighbour_before);
        keep_alive(neighbour_behind);
        m.root(m.alloc_weak(object).unwrap())
    });
    let report = world.collect().unwrap();
    let alive = on_a_thread(world, move |m| {
        let weak: Weak<Array<u64>> = weak.get(m);
        weak.get().is_some_and(|object| object.iter().enumerate().all(|(i, &value)| value == i as u64))
    });
    drop(guard);
    drop(word);
    (alive, report.live_objects)
}

/// `.stop.interior`. The payload of an array begins with its length, so element 0 is at 8. The lengths give a cell that the payload fills
/// to the last byte, one that it does not fill, a large object, and one of many blocks.
#[rstest]
fn a_pointer_to_any_byte_of_an_object_or_just_past_it_keeps_it(#[values(1, 4, 15, 300, 2045, 200_000)] length: usize) {
    let world = paranoid().build().unwrap();
    let bytes = 8 + 8 * length;
    for offset in [0, 1, 7, 8, bytes / 2, (bytes / 2) | 1, bytes - 8, bytes - 1] {
        // The array and its weak cell are alive, and neither of the neighbours.
        assert_eq!(survives_by(&world, move |_| offset, length), (true, 2), "at {offset} of {bytes}");
    }
    // Past the end of a payload that fills its cell is the next cell's header. Its address may be all that a thread stopped in the middle
    // of an allocation has of the new object: there, and only there, the neighbour is kept too.
    let fills_its_cell = length < 16;
    assert_eq!(survives_by(&world, move |_| bytes, length), (true, 2 + u64::from(fills_its_cell)), "at {bytes}");
    let (alive, _) = survives_by(&world, |_| 0_usize.wrapping_sub(16), length);
    assert!(!alive, "a pointer before the object kept it");
}

/// `.mark.deep`
#[test]
fn a_list_of_a_million_cells_is_marked_without_recursion() {
    let world = World::builder().heap_limit(512 << 20).build().unwrap();
    let root = on_a_thread(&world, |m| m.root(list(m, 1_000_000).unwrap()));
    let report = world.collect().unwrap();
    assert_eq!(report.live_objects, 1_000_000);
    assert!(report.mark_stack_high <= 4096, "a list took {} bytes of mark stack", report.mark_stack_high);
    on_a_thread(&world, move |m| assert_eq!(check_list(root.get(m)), 1_000_000));
}

type Slot = GcCell<Option<Gc<Node>>>;
type WeakSlot = GcCell<Option<Weak<Node>>>;

traced! {
    struct Everything {
        trees: GcCell<Option<Gc<Array<Slot>>>>,
        weak: GcCell<Option<Gc<Array<WeakSlot>>>>,
        list: GcCell<Option<Gc<Node>>>,
    }
}

/// Trees in an array, a list, and weak references to every second tree and to the same number of dead ones.
fn everything(m: &Mutator) -> Gc<Everything> {
    let trees = m.alloc_array(600, |_| Slot::new(Some(tree(m, 4).unwrap()))).unwrap();
    let weak = m
        .alloc_array(600, |i| {
            let target = if i % 2 == 0 { trees[i].get().unwrap() } else { tree(m, 1).unwrap() };
            GcCell::new(Some(m.alloc_weak(target).unwrap()))
        })
        .unwrap();
    let list = GcCell::new(Some(list(m, 5000).unwrap()));
    m.alloc(Everything { trees: GcCell::new(Some(trees)), weak: GcCell::new(Some(weak)), list }).unwrap()
}

const EVERYTHING: u64 = 3 + 600 * 31 + 600 + 5000;

fn check_everything(all: Gc<Everything>) {
    assert_eq!(check_list(all.list.get().unwrap()), 5000);
    let (trees, weak) = (all.trees.get().unwrap(), all.weak.get().unwrap());
    for (index, (slot, weak)) in trees.iter().zip(weak.iter()).enumerate() {
        let tree = slot.get().unwrap();
        assert_eq!(check_tree(tree), 31);
        let target = weak.get().unwrap().get();
        assert_eq!(target.map(ByAddress), (index % 2 == 0).then_some(ByAddress(tree)), "weak reference {index}");
    }
}

/// `.mark.overflow`: tested with a mark stack of a few words instead of a gigabyte.
#[rstest]
fn a_mark_stack_that_overflows_marks_everything(
    #[values(64, 512, 8192, 1 << 30)] limit: usize,
    #[values(1, 2, 3, 4)] markers: usize,
) {
    let world = paranoid().mark_stack_limit(limit).markers(markers).build().unwrap();
    let root = on_a_thread(&world, |m| m.root(everything(m)));
    for _ in 0..3 {
        let report = world.collect().unwrap();
        assert_eq!(report.live_objects, EVERYTHING);
        assert!(report.mark_stack_high <= limit.max(64));
    }
    on_a_thread(&world, move |m| check_everything(root.get(m)));
}

#[rstest]
fn any_number_of_markers_finds_what_one_finds(#[values(1, 2, 3, 4)] markers: usize) {
    let world = paranoid().markers(markers).build().unwrap();
    let roots = on_a_thread(&world, |m| {
        let wide = m.alloc_array(2000, |_| Slot::new(Some(tree(m, 5).unwrap()))).unwrap();
        [m.root(wide)]
    });
    let all = on_a_thread(&world, |m| m.root(everything(m)));
    for round in 0..10 {
        let report = world.collect().unwrap();
        assert_eq!(report.live_objects, EVERYTHING + 1 + 2000 * 63, "collection {round}");
    }
    drop(roots);
    assert_eq!(world.collect().unwrap().live_objects, EVERYTHING);
    on_a_thread(&world, move |m| check_everything(all.get(m)));
}

/// Except in paranoid mode the other markers are woken only when there is much to mark, and a small heap never wakes them: a phase in which
/// they slept must not leave work for the next.
#[rstest]
fn markers_that_are_woken_late_or_not_at_all_miss_nothing(#[values(1, 2, 3)] markers: usize) {
    let world = World::builder().markers(markers).build().unwrap();
    let small = on_a_thread(&world, |m| m.root(tree(m, 6).unwrap()));
    for round in 0..5 {
        assert_eq!(world.collect().unwrap().live_objects, tree_size(6), "small, collection {round}");
    }
    let large = on_a_thread(&world, |m| m.root(tree(m, 16).unwrap()));
    for round in 0..5 {
        let report = world.collect().unwrap();
        assert_eq!(report.live_objects, tree_size(6) + tree_size(16), "large, collection {round}");
    }
    drop(large);
    for round in 0..5 {
        assert_eq!(world.collect().unwrap().live_objects, tree_size(6), "small again, collection {round}");
    }
    drop(small);
    assert_eq!(world.collect().unwrap().live_objects, 0);
}

/// Marks are numbers from 1 to 255: after 255 collections they restart, and no old mark may count as a new one.
#[rstest]
#[case::nothing_allocated_in_between(0)]
#[case::garbage_in_between(3000)]
fn marks_stay_right_when_their_epoch_wraps(#[case] garbage: u64, #[values(1, 2)] markers: usize) {
    let world = paranoid().markers(markers).build().unwrap();
    let root = on_a_thread(&world, |m| m.root(everything(m)));
    let mut extra = Vec::new();
    for round in 0..620_u64 {
        if garbage > 0 {
            // Some of the garbage survives for 40 collections, so that blocks are half full.
            extra.push(on_a_thread(&world, move |m| {
                list(m, garbage).unwrap();
                m.root(list(m, 1 + round % 7).unwrap())
            }));
            if extra.len() > 40 {
                extra.remove((round as usize * 7) % 40);
            }
        }
        let report = world.collect().unwrap();
        let more = if garbage > 0 && round >= 300 && round % 50 != 0 { None } else { Some(()) };
        if more.is_some() && garbage == 0 {
            assert_eq!(report.live_objects, EVERYTHING, "collection {round}");
        }
        assert_eq!(world.verify().unwrap().live_objects, report.live_objects, "collection {round}");
    }
    on_a_thread(&world, move |m| {
        check_everything(root.get(m));
        extra.iter().for_each(|list| {
            check_list(list.get(m));
        });
    });
}

#[test]
fn an_object_is_alive_up_to_keep_alive() {
    let world = paranoid().build().unwrap();
    on_a_thread(&world, |m| {
        let object = m.alloc(Leaf(7_u64)).unwrap();
        let weak = m.alloc_weak(object).unwrap();
        let address = black_box(!Gc::addr(object));
        m.collect().unwrap();
        assert!(weak.get().is_some());
        assert_eq!(!address, Gc::addr(object));
        keep_alive(object);
    });
}

#[test]
fn a_registered_range_keeps_what_its_words_refer_to_until_the_guard_is_dropped() {
    let world = paranoid().build().unwrap();
    let memory: Box<[AtomicUsize]> = (0..600).map(|_| AtomicUsize::new(0)).collect();
    // SAFETY: `memory` outlives the guard, and its words are atomic.
    let guard = unsafe { world.register_range(memory.as_ptr().cast(), 600 * 8) }.unwrap();
    let memory = on_a_thread(&world, move |m| {
        for word in &memory {
            word.store(Gc::addr(tree(m, 3).unwrap()), Ordering::Relaxed);
        }
        memory
    });
    assert_eq!(world.collect().unwrap().live_objects, 600 * 15);
    memory[..100].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    assert_eq!(world.collect().unwrap().live_objects, 500 * 15);
    drop(guard);
    assert_eq!(world.collect().unwrap().live_objects, 0);
}

#[test]
fn many_ranges_may_be_registered_and_each_slot_is_used_again() {
    let world = paranoid().build().unwrap();
    let words: Vec<Box<AtomicUsize>> = (0..1000).map(|_| Box::new(AtomicUsize::new(0))).collect();
    for _ in 0..3 {
        let guards: Vec<_> = words
            .iter()
            // SAFETY: the words outlive the guards.
            .map(|word| unsafe { world.register_range(std::ptr::from_ref(&**word).cast(), 8) }.unwrap())
            .collect();
        let addresses = on_a_thread(&world, |m| {
            let held = m.alloc_array(1000, |i| Slot::new(Some(node(m, i as u64).unwrap()))).unwrap();
            let root = m.root(held);
            (held.iter().map(|slot| Gc::addr(slot.get().unwrap())).collect::<Vec<_>>(), root)
        });
        for (word, &address) in words.iter().zip(&addresses.0) {
            word.store(address, Ordering::Relaxed);
        }
        drop(addresses);
        assert_eq!(world.collect().unwrap().live_objects, 1000);
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        drop(guards);
        assert_eq!(world.collect().unwrap().live_objects, 0);
    }
}

#[test]
fn a_root_made_on_one_thread_is_read_cloned_and_dropped_on_others() {
    let world = paranoid().build().unwrap();
    let root = on_a_thread(&world, |m| m.root(tree(m, 6).unwrap()));
    let copies: Vec<_> = (0..50).map(|_| root.clone()).collect();
    drop(root);
    assert_eq!(world.collect().unwrap().live_objects, tree_size(6));
    let threads: Vec<_> = copies
        .into_iter()
        .map(|copy| {
            // SAFETY: every Gc is a local variable.
            unsafe { world.spawn("reader", move |m| (check_tree(copy.get(m)), copy)) }.unwrap()
        })
        .collect();
    let mut copies: Vec<_> = threads
        .into_iter()
        .map(|thread| {
            let (size, copy) = thread.join().unwrap();
            assert_eq!(size, tree_size(6));
            copy
        })
        .collect();
    copies.truncate(1);
    assert_eq!(world.collect().unwrap().live_objects, tree_size(6));
    copies.clear();
    assert_eq!(world.collect().unwrap().live_objects, 0);
}

/// `.root.race`: handles are `Send`, so a thread that no stop reaches may clone a handle into a slot that the scan has passed, and drop the
/// handle in a slot that the scan has not reached.
#[test]
fn a_handle_that_an_unattached_thread_clones_and_drops_during_a_collection_keeps_its_object() {
    let world = paranoid().build().unwrap();
    // A long table, so that the scan takes a while; the first slot is free, the moving handle is in the last.
    let mut ballast: Vec<_> = on_a_thread(&world, |m| {
        let shared = node(m, 1).unwrap();
        (0..200_000).map(|_| m.root(shared)).collect()
    });
    let mut moving = on_a_thread(&world, |m| m.root(node(m, 77).unwrap()));
    drop(ballast.swap_remove(0));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // The handle moves from one end of the table to the other, and back.
                let copy = moving.clone();
                moving = copy;
            }
            let key = on_a_thread(&world, move |m| moving.get(m).key);
            assert_eq!(key, 77);
        });
        let end = Instant::now() + Duration::from_secs(3);
        let mut both_alive = true;
        while both_alive && Instant::now() < end {
            both_alive = world.collect().unwrap().live_objects == 2;
        }
        done.store(true, Ordering::Relaxed);
        assert!(both_alive, "the moving object was missed");
    });
}

#[test]
fn compare_exchange_on_a_field_lets_one_of_many_threads_win_each_time() {
    const THREADS: u64 = 4;
    const PUSHES: u64 = 5000;
    let world = paranoid().markers(2).build().unwrap();
    let top = on_a_thread(&world, |m| m.root(m.alloc(GcCell::<Option<Gc<Node>>>::new(None)).unwrap()));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let top = top.clone();
            // SAFETY: every Gc is a local variable.
            unsafe {
                world.spawn("pusher", move |m| {
                    let top = top.get(m);
                    for key in 0..PUSHES {
                        let new = node(m, key).unwrap();
                        let mut seen = top.get();
                        loop {
                            new.left.set(seen);
                            match top.compare_exchange(seen, Some(new)) {
                                Ok(_) => break,
                                Err(now) => seen = now,
                            }
                        }
                        if key % 1000 == 0 {
                            m.collect().unwrap();
                        }
                    }
                })
            }
            .unwrap()
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let (count, sum) = on_a_thread(&world, move |m| {
        let (mut at, mut count, mut sum) = (top.get(m).get(), 0, 0);
        while let Some(node) = at {
            (count, sum) = (count + 1, sum + node.key);
            at = node.left.get();
        }
        (count, sum)
    });
    assert_eq!((count, sum), (THREADS * PUSHES, THREADS * PUSHES * (PUSHES - 1) / 2));
}

/// A value of 2 KiB whose references are its last two words.
#[repr(C)]
struct TwoKilobytes {
    before: [u64; 254],
    references: [GcCell<Option<Gc<Node>>>; 2],
}

// SAFETY: the layout names the only two reference words, at their real offset; no drop glue, no plain mutability.
unsafe impl Trace for TwoKilobytes {
    const NAME: &'static str = "TwoKilobytes";
    const LAYOUT: Layout = Layout::LEAF
        .with(std::mem::offset_of!(TwoKilobytes, references), <[GcCell<Option<Gc<Node>>>; 2] as Trace>::LAYOUT);
}

#[test]
fn references_at_the_very_end_of_two_kilobytes_are_followed_and_nothing_before_them_is() {
    let world = paranoid().build().unwrap();
    let root = on_a_thread(&world, |m| {
        let decoy = node(m, 9).unwrap();
        let value = TwoKilobytes {
            before: [Gc::addr(decoy) as u64; 254],
            references: [GcCell::new(Some(tree(m, 3).unwrap())), GcCell::new(Some(list(m, 10).unwrap()))],
        };
        m.root(m.alloc(value).unwrap())
    });
    assert_eq!(world.collect().unwrap().live_objects, 1 + 15 + 10);
    on_a_thread(&world, move |m| {
        let value = root.get(m);
        assert_eq!(check_tree(value.references[0].get().unwrap()), 15);
        assert_eq!(check_list(value.references[1].get().unwrap()), 10);
        assert!(value.before.iter().all(|&word| word == value.before[0]));
    });
}

#[repr(align(16))]
struct Aligned([u8; 16]);

// SAFETY: plain bytes.
unsafe impl Trace for Aligned {
    const NAME: &'static str = "Aligned";
    const LAYOUT: Layout = Layout::LEAF;
}

#[repr(align(16))]
struct AlignedLarge([u8; 40_000]);

// SAFETY: plain bytes.
unsafe impl Trace for AlignedLarge {
    const NAME: &'static str = "AlignedLarge";
    const LAYOUT: Layout = Layout::LEAF;
}

#[test]
fn an_alignment_of_16_is_kept_small_pinned_and_large() {
    let world = paranoid().build().unwrap();
    on_a_thread(&world, |m| {
        for i in 0..500_u32 {
            let small = m.alloc(Aligned([i as u8; 16])).unwrap();
            let wide = m.alloc(u128::from(i)).unwrap();
            let pinned = m.alloc_pinned(Aligned([i as u8; 16])).unwrap();
            let large = m.alloc(AlignedLarge([i as u8; 40_000])).unwrap();
            for address in [Gc::addr(small), Gc::addr(wide), Gc::addr(pinned), Gc::addr(large)] {
                assert_eq!(address % 16, 0);
            }
            assert_eq!((small.0, *wide, pinned.0), ([i as u8; 16], u128::from(i), [i as u8; 16]));
            assert!(large.0.iter().all(|&byte| byte == i as u8));
        }
    });
}

#[test]
fn values_of_no_size_are_objects_of_their_own() {
    let world = paranoid().build().unwrap();
    let roots = on_a_thread(&world, |m| {
        let (first, second) = (m.alloc(()).unwrap(), m.alloc(()).unwrap());
        assert!(!Gc::ptr_eq(first, second));
        let empty = m.alloc_array(0, |_| 0_u64).unwrap();
        let of_nothing = m.alloc_array(1000, |_| ()).unwrap();
        assert_eq!((empty.len(), of_nothing.len()), (0, 1000));
        (m.root(first), m.root(second), m.root(empty), m.root(of_nothing))
    });
    assert_eq!(world.collect().unwrap().live_objects, 4);
    drop(roots);
    assert_eq!(world.collect().unwrap().live_objects, 0);
}

/// An array can be traced at every moment while its elements are created, and creating them may allocate.
#[rstest]
fn an_array_is_safe_while_its_elements_are_created(#[values(3, 200, 1500, 40_000)] length: usize) {
    let world = paranoid().build().unwrap();
    let root = on_a_thread(&world, move |m| {
        let every = (length / 8).max(1);
        let array = m
            .alloc_array(length, |i| {
                if i % every == 0 {
                    m.collect().unwrap();
                }
                Slot::new(Some(node(m, i as u64).unwrap()))
            })
            .unwrap();
        m.root(array)
    });
    assert_eq!(world.collect().unwrap().live_objects, 1 + length as u64);
    on_a_thread(&world, move |m| {
        assert!(root.get(m).iter().enumerate().all(|(i, slot)| slot.get().unwrap().key == i as u64));
    });
}

#[test]
fn a_panic_while_elements_are_created_leaves_only_garbage() {
    let world = paranoid().build().unwrap();
    on_a_thread(&world, |m| {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            m.alloc_array(100, |i| {
                assert!(i < 50, "the fiftieth element");
                Slot::new(Some(node(m, 1).unwrap()))
            })
            .map(Gc::addr)
        }));
        assert!(caught.is_err());
    });
    assert_eq!(world.collect().unwrap().live_objects, 0);
}

traced! {
    struct Liar {
        word: GcCell<usize>,
        real: GcCell<Option<Gc<Node>>>,
    }
}

/// The soundness tests rely on the verifier, so it must report an error when there is one.
#[test]
fn a_reference_to_no_object_is_found_and_reported_by_the_verifier() {
    let world = paranoid().build().unwrap();
    let root = on_a_thread(&world, |m| {
        let liar = m.alloc(Liar { word: GcCell::new(0), real: GcCell::new(None) }).unwrap();
        let target = node(m, 1).unwrap();
        // SAFETY: invalid on purpose: an address inside an object, where no object begins. It is never followed.
        liar.real.set(Some(unsafe { Gc::from_addr(Gc::addr(target) + 8) }));
        liar.word.set(1);
        m.root(liar)
    });
    let error = world.collect().unwrap_err();
    assert!(error.to_string().contains("refers to"), "{error}");
    assert!(world.verify().is_err());
    assert!(world.damage().unwrap().contains("the heap is damaged after collection 1"), "{:?}", world.damage());
    // SAFETY: every Gc is a local variable.
    let repair = unsafe { world.spawn("repair", move |m| root.get(m).real.set(None)) };
    repair.unwrap().join().unwrap();
    world.collect().unwrap();
}
