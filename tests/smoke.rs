//! The first things that must hold.

use stopworld::{Gc, GcCell, Mutator, OutOfMemory, Paranoid, World, traced};

traced! {
    struct Node {
        left: GcCell<Option<Gc<Node>>>,
        right: GcCell<Option<Gc<Node>>>,
    }
}

fn tree(m: &Mutator, depth: u32) -> Result<Gc<Node>, OutOfMemory> {
    m.safepoint();
    let (left, right) = if depth == 0 { (None, None) } else { (Some(tree(m, depth - 1)?), Some(tree(m, depth - 1)?)) };
    m.alloc(Node { left: GcCell::new(left), right: GcCell::new(right) })
}

fn count(node: Gc<Node>) -> usize {
    1 + node.left.get().map_or(0, count) + node.right.get().map_or(0, count)
}

#[test]
fn a_tree_survives_what_is_dropped_around_it() {
    let world = World::builder().paranoid(Paranoid::On).initial_heap(1 << 20).heap_limit(64 << 20).build().unwrap();
    // SAFETY: every Gc is a local variable.
    let m = unsafe { world.attach("main") }.unwrap();
    let kept = tree(&m, 14).unwrap();
    for _ in 0..50 {
        assert_eq!(count(tree(&m, 12).unwrap()), (1 << 13) - 1);
    }
    assert_eq!(count(kept), (1 << 15) - 1);
    assert!(world.totals().collections > 3, "{:?}", world.totals());
}

#[test]
fn threads_allocate_while_others_collect() {
    let world = World::builder().paranoid(Paranoid::On).initial_heap(1 << 20).markers(2).build().unwrap();
    let threads: Vec<_> = (0..4)
        .map(|i| {
            // SAFETY: every Gc is a local variable.
            unsafe {
                world.spawn(&format!("worker-{i}"), |m| {
                    for _ in 0..60 {
                        assert_eq!(count(tree(m, 11).unwrap()), (1 << 12) - 1);
                    }
                })
            }
            .unwrap()
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(world.totals().collections > 3, "{:?}", world.totals());
}
