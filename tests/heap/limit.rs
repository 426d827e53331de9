//! Memory: which allocations fit the limit, which memory is reused, and whether the figures are consistent.

use std::sync::{Arc, Mutex};

use crate::heap_support::*;
use rstest::rstest;
use stopworld::{Array, CollectionReport, Gc, GcCell, Leaf, Mutator, OutOfMemory, Paranoid, World, traced};

const LIMIT: usize = 8 << 20;

/// Allocates and keeps objects until an allocation fails.
fn fill(
    m: &Mutator,
    mut allocate: impl FnMut(&Mutator, Option<Gc<Node>>) -> Result<Gc<Node>, OutOfMemory>,
) -> (Gc<Node>, OutOfMemory) {
    let mut kept = None;
    loop {
        match allocate(m, kept) {
            Ok(next) => kept = Some(next),
            Err(error) => return (kept.unwrap(), error),
        }
    }
}

traced! {
    struct Chain {
        next: GcCell<Option<Gc<Chain>>>,
        bytes: GcCell<Option<Gc<Array<u8>>>>,
    }
}

/// `.heap.limit`
#[test]
fn a_heap_full_of_small_objects_gives_an_error_and_is_usable_when_they_are_dropped() {
    let world = paranoid().heap_limit(LIMIT).build().unwrap();
    for _ in 0..3 {
        on_a_thread(&world, |m| {
            let (kept, error) = fill(m, |m, kept| {
                let next = node(m, kept.map_or(0, |kept| kept.key + 1))?;
                next.left.set(kept);
                Ok(next)
            });
            assert_eq!((error.requested, error.limit), (24, LIMIT as u64));
            assert!(error.live > LIMIT as u64 * 9 / 10, "{error}");
            assert!(error.to_string().starts_with("out of memory: 24 bytes were asked for"), "{error}");
            // At 32 bytes per cell, nearly all of the heap was used.
            assert_eq!(check_list(kept), kept.key + 1);
            assert!(kept.key > LIMIT as u64 / 32 * 9 / 10, "only {} fit", kept.key);
        });
        assert_eq!(world.collect().unwrap().live_objects, 0);
        on_a_thread(&world, |m| assert_eq!(check_tree(tree(m, 15).unwrap()), tree_size(15)));
    }
}

/// `.heap.limit`
#[rstest]
fn a_heap_full_of_arrays_gives_an_error_and_is_usable_when_they_are_dropped(
    #[values(100, 5000, 9000, 100_000, 1_500_000)] bytes: usize,
) {
    let world = paranoid().heap_limit(LIMIT).build().unwrap();
    for _ in 0..3 {
        let kept = on_a_thread(&world, move |m| {
            let (mut kept, mut count) = (None, 0_usize);
            let error = loop {
                let array = match m.alloc_array(bytes, |i| (i % 251) as u8) {
                    Ok(array) => array,
                    Err(error) => break error,
                };
                count += 1;
                match m.alloc(Chain { next: GcCell::new(kept), bytes: GcCell::new(Some(array)) }) {
                    Ok(next) => kept = Some(next),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.limit, LIMIT as u64);
            assert!(count * bytes > LIMIT / 2, "only {count} arrays of {bytes} bytes fit");
            let mut at = kept;
            while let Some(link) = at {
                let array = link.bytes.get().unwrap();
                assert!(array.iter().enumerate().all(|(i, &byte)| byte == (i % 251) as u8));
                at = link.next.get();
            }
            m.root(kept.unwrap())
        });
        assert!(world.verify().unwrap().live.total() <= LIMIT as u64);
        assert!(world.totals().committed_bytes <= LIMIT as u64);
        drop(kept);
        assert_eq!(world.collect().unwrap().live_objects, 0);
    }
}

/// `.heap.limit`
#[rstest]
#[case::one_byte_more_than_the_limit(LIMIT + 1)]
#[case::a_terabyte(1 << 40)]
#[case::half_of_the_address_space(usize::MAX / 2)]
#[case::everything(usize::MAX)]
#[case::all_but_the_head(usize::MAX - 8)]
fn an_absurd_array_is_an_error_at_once_and_costs_nothing(#[case] length: usize) {
    let world = paranoid().heap_limit(LIMIT).build().unwrap();
    on_a_thread(&world, move |m| {
        let kept = tree(m, 5).unwrap();
        let committed = m.world().totals().committed_bytes;
        let error = m.alloc_array(length, |_| 0_u8).unwrap_err();
        assert!(error.requested >= length.min(usize::MAX - 8), "{error:?}");
        assert!(m.alloc_array(length, |_| 0_u64).is_err());
        assert!(m.alloc_array(length, |_| GcCell::new(Some(kept))).is_err());
        assert_eq!(m.world().totals().committed_bytes, committed, "memory was committed for it");
        assert_eq!(check_tree(kept), tree_size(5));
    });
}

#[test]
fn an_array_as_large_as_the_heap_allows_fits_exactly_once() {
    let world = paranoid().heap_limit(LIMIT).build().unwrap();
    // Subtracted are a block for the thread's other objects, 17 bytes around the payload, and 8 for the length.
    let most = LIMIT - (16 << 10) - 25;
    for _ in 0..3 {
        on_a_thread(&world, move |m| {
            let holder = node(m, 1).unwrap();
            let array = m.alloc_array(most, |_| 7_u8).unwrap();
            assert!(m.alloc_array(9000, |_| 0_u8).is_err());
            assert!(array.iter().all(|&byte| byte == 7));
            assert_eq!(holder.key, 1);
        });
        let report = world.collect().unwrap();
        assert_eq!((report.live_objects, report.live.total()), (0, 0));
    }
}

#[test]
fn a_value_without_room_is_dropped() {
    let world = paranoid().heap_limit(1 << 20).build().unwrap();
    let count = Arc::new(());
    let copy = Arc::clone(&count);
    on_a_thread(&world, move |m| {
        let filler = m.alloc_array((1 << 20) - (64 << 10), |_| 1_u8).unwrap();
        let mut kept = None;
        // Leaves of 9000 bytes, referenced only by the count.
        for _ in 0..1000 {
            match m.alloc(Leaf((Arc::clone(&copy), [0_u8; 9000]))) {
                Ok(leaf) => kept = Some(leaf),
                Err(_) => break,
            }
        }
        assert!(kept.is_some() && filler.len() > 1);
    });
    settle(&world);
    assert_eq!(Arc::strong_count(&count), 1, "each value was dropped, by the caller or by a finalizer");
}

#[test]
fn a_limit_below_the_smallest_heap_is_an_error_that_says_so() {
    let error = World::builder().heap_limit(1000).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a heap limit of 1000 bytes is too small: it must be at least 262144 bytes (256 KiB)"
    );
    let world = paranoid().heap_limit(256 << 10).build().unwrap();
    on_a_thread(&world, |m| (0..1000).for_each(|_| assert_eq!(check_tree(tree(m, 6).unwrap()), tree_size(6))));
}

#[test]
fn several_threads_at_the_limit_get_errors_or_room_and_none_hangs() {
    let world = paranoid().heap_limit(2 << 20).build().unwrap();
    let threads: Vec<_> = (0..4)
        .map(|i| {
            // SAFETY: every Gc is a local variable.
            unsafe {
                world.spawn(&format!("greedy-{i}"), |m| {
                    let mut refused = 0_u32;
                    for round in 0..40_u64 {
                        match list(m, 2000 + round * 700) {
                            Ok(kept) => assert_eq!(check_list(kept), 2000 + round * 700),
                            Err(_) => refused += 1,
                        }
                    }
                    refused
                })
            }
            .unwrap()
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(world.collect().unwrap().live_objects, 0);
}

#[test]
fn each_space_is_accounted_as_itself() {
    let world = paranoid().build().unwrap();
    let roots = on_a_thread(&world, |m| {
        let small: Vec<_> = (0..100).map(|key| m.root(node(m, key).unwrap())).collect();
        let pinned: Vec<_> = (0..70_u64)
            .map(|key| {
                let left = GcCell::new(None);
                m.root(m.alloc_pinned(Node { key, left, right: GcCell::new(None) }).unwrap())
            })
            .collect();
        let large: Vec<_> = (0..5).map(|_| m.root(m.alloc_array(20_000, |_| 3_u8).unwrap())).collect();
        (small, pinned, large)
    });
    let live = world.collect().unwrap().live;
    // A node of 24 bytes and its header are a cell of 32; 20,000 bytes take two blocks of 16 KiB.
    assert_eq!((live.small, live.pinned, live.large), (100 * 32, 70 * 32, 5 * 2 * (16 << 10)));
    assert_eq!(world.verify().unwrap().live, live);
    let (small, pinned, large) = roots;
    drop((small, large));
    let live = world.collect().unwrap().live;
    assert_eq!((live.small, live.pinned, live.large), (0, 70 * 32, 0));
    on_a_thread(&world, move |m| assert!(pinned.iter().enumerate().all(|(i, node)| node.get(m).key == i as u64)));
}

/// The bytes promoted and freed add up to the bytes before the collection, and the reported live bytes are those that the verifier counts.
#[rstest]
fn the_figures_are_consistent(#[values(1, 4)] threads: usize, #[values(false, true)] check: bool) {
    let reports = Arc::new(Mutex::new(Vec::<CollectionReport>::new()));
    let sink = Arc::clone(&reports);
    let world = World::builder()
        .paranoid(if check { Paranoid::On } else { Paranoid::Off })
        .initial_heap(1 << 20)
        .heap_limit(256 << 20)
        .on_collection(move |report| sink.lock().unwrap().push(*report))
        .build()
        .unwrap();
    const LISTS: u64 = 60;
    for _ in 0..3 {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                // SAFETY: every Gc is a local variable.
                unsafe { world.spawn("allocator", |m| (0..LISTS).all(|_| list(m, 5000).is_ok())) }.unwrap()
            })
            .collect();
        running.into_iter().for_each(|thread| assert!(thread.join().unwrap()));
        world.collect().unwrap();
    }
    // Listeners are called after the world has resumed, so the reports of two threads may arrive in either order.
    let mut reports = reports.lock().unwrap();
    reports.sort_by_key(|report| report.number);
    let (mut live_before, mut allocated) = (0, 0);
    for (index, report) in reports.iter().enumerate() {
        assert_eq!(report.number as usize, index + 1);
        assert_eq!(live_before + report.allocated_bytes, report.live.total() + report.freed_bytes, "{report:#?}");
        live_before = report.live.total();
        allocated += report.allocated_bytes;
    }
    assert_eq!(reports.last().unwrap().live_objects, 0);
    // Nodes are cells of 32 bytes, and nothing else was allocated.
    assert_eq!(allocated, 3 * threads as u64 * LISTS * 5000 * 32, "{} collections", reports.len());
    assert_eq!(world.totals().allocated_bytes, allocated);
}
