//! The memory that the heap uses. The tests measure the whole process, so they run one after the other, in a process of their own.

mod heap_support;

use std::sync::{Mutex, MutexGuard, PoisonError};

use heap_support::*;
use stopworld::{Mutator, World};

fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn memory_is_reused_collection_after_collection() {
    let _alone = alone();
    let world = World::builder().heap_limit(1 << 30).initial_heap(4 << 20).build().unwrap();
    let work = |m: &Mutator| {
        for round in 0..40_u64 {
            assert_eq!(check_tree(tree(m, 13).unwrap()), tree_size(13));
            let big = m.alloc_array(300_000 + 1000 * round as usize, |_| 1_u8).unwrap();
            let pinned = m.alloc_pinned(round).unwrap();
            assert_eq!((big[0], *pinned), (1, round));
        }
    };
    let mut seen = Vec::new();
    for _ in 0..12 {
        on_a_thread(&world, work);
        world.collect().unwrap();
        seen.push((world.totals().committed_bytes, resident_bytes()));
    }
    let (first, last) = (seen[3], seen[11]);
    assert!(world.totals().collections > 50, "{:?}", world.totals());
    assert!(last.0 <= first.0 * 11 / 10, "committed grows: {seen:?}");
    assert!(last.1 <= first.1 + (8 << 20), "resident memory grows: {seen:?}");
}

/// A thread reserves free blocks without the lock. Other threads must get the reserved blocks when they need them.
#[test]
fn what_a_thread_has_reserved_is_not_lost_to_the_others() {
    let _alone = alone();
    const LIMIT: usize = 8 << 20;
    let world = World::builder().heap_limit(LIMIT).build().unwrap();
    let filled = on_a_thread(&world, |m| {
        let (done, idle) = (std::sync::Barrier::new(9), std::sync::Barrier::new(9));
        std::thread::scope(|scope| {
            for index in 0..8 {
                let (world, done, idle) = (m.world(), &done, &idle);
                scope.spawn(move || {
                    // SAFETY: every Gc is a local variable.
                    let m = unsafe { world.attach(&format!("idle-{index}")) }.unwrap();
                    m.alloc(index as u64).unwrap();
                    m.blocking(|| (idle.wait(), done.wait()));
                });
            }
            m.blocking(|| idle.wait());
            let mut kept = node(m, 0).unwrap();
            let mut nodes = 1_usize;
            while let Ok(next) = node(m, 0) {
                next.left.set(Some(kept));
                kept = next;
                nodes += 1;
            }
            m.blocking(|| done.wait());
            // Three words and a header.
            nodes * 32
        })
    });
    assert!(filled > LIMIT * 9 / 10, "only {filled} bytes of {LIMIT} could be used");
}

#[test]
fn a_heap_that_was_large_returns_its_memory() {
    let _alone = alone();
    let world = World::builder().heap_limit(1 << 30).initial_heap(1 << 20).build().unwrap();
    let before = resident_bytes();
    let root = on_a_thread(&world, |m| m.root(list(m, 4_000_000).unwrap()));
    let full = resident_bytes();
    assert!(full > before + (100 << 20), "{before} {full}");
    drop(root);
    world.collect().unwrap();
    let after = resident_bytes();
    assert!(after < before + (full - before) / 3, "{before} before, {full} full, {after} after");
    on_a_thread(&world, |m| assert_eq!(check_list(list(m, 1_000_000).unwrap()), 1_000_000));
    world.verify().unwrap();
}

/// Returns the number of mappings of the process, without the stacks of threads that have ended: libc keeps up to 40 MiB of them for other
/// threads, 2 MiB and a guard page each.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let bytes = |line: &str| {
        let (low, high) = line.split(' ').next().unwrap().split_once('-').unwrap();
        usize::from_str_radix(high, 16).unwrap() - usize::from_str_radix(low, 16).unwrap()
    };
    maps.lines().filter(|line| ![2 << 20, 4096].contains(&bytes(line))).count()
}

#[test]
fn dropped_worlds_leave_no_memory_or_threads() {
    let _alone = alone();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let mut seen = Vec::new();
    for _ in 0..6 {
        for markers in [1, 2, 1, 3] {
            for _ in 0..25 {
                let world = paranoid().markers(markers).build().unwrap();
                on_a_thread(&world, |m| {
                    let kept = tree(m, 8).unwrap();
                    m.set_finalizer(kept, |_, _| ()).unwrap();
                    m.collect().unwrap();
                    let root = m.root(kept);
                    assert_eq!(check_tree(root.get(m)), tree_size(8));
                });
            }
        }
        // The last part of a world may be dropped by a thread of its own, which ends a little later.
        wait_until("the threads of the worlds have ended", || threads() <= before + 1);
        seen.push((resident_bytes(), mappings()));
    }
    let (first, last) = (seen[2], seen[5]);
    assert!(last.0 <= first.0 + (4 << 20), "resident memory grows: {seen:?}");
    assert!(last.1 <= first.1 + 8, "mappings remain: {seen:?}");
}
