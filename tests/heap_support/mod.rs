//! Helpers of the heap tests.
//!
//! Stacks are scanned conservatively, so a test asserts that something is *freed* only after the thread that built it has detached:
//! [`on_a_thread`] does that, and the test checks from a thread that was never attached.

#![allow(dead_code, reason = "each test file uses its own part")]

#[path = "../patience/mod.rs"]
mod patience;
#[path = "../stack_support/mod.rs"]
mod stack_support;

use std::time::{Duration, Instant};

use patience::patience;
pub use stack_support::scrub_stack;
use stopworld::{Gc, GcCell, Mutator, OutOfMemory, Paranoid, World, WorldBuilder, traced};

/// A world that checks itself after each collection.
pub fn paranoid() -> WorldBuilder {
    World::builder().paranoid(Paranoid::On).initial_heap(1 << 20).heap_limit(256 << 20)
}

/// Runs `body` on a mutator that has detached when this returns. It leaves no address on its stack, which the next thread may get.
pub fn on_a_thread<R: Send + 'static>(world: &World, body: impl FnOnce(&Mutator) -> R + Send + 'static) -> R {
    /// Runs `body` in a separate frame, which is overwritten afterwards.
    #[inline(never)]
    fn apart<R>(m: &Mutator, body: impl FnOnce(&Mutator) -> R) -> R {
        body(m)
    }
    let work = move |m: &Mutator| {
        let result = apart(m, body);
        scrub_stack();
        result
    };
    // SAFETY: the tests keep every `Gc` in local variables, in collected objects and in roots.
    let result = unsafe { world.spawn("builder", work) }.unwrap().join().unwrap();
    assert_eq!(world.damage(), None, "found after a collection that the test did not request");
    result
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let patience = patience(120, 30);
    let deadline = Instant::now() + patience;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {patience:?} in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// With no mutator attached: collects until no finalizer is queued any more, waiting for each to run; returns the number of live objects.
pub fn settle(world: &World) -> u64 {
    // A number that no collection returns.
    let mut seen = u64::MAX;
    loop {
        // The finalizer thread also counts as blocking while it waits for a lock, in a finalizer or between two of them, when its stack still
        // refers to their objects. It is idle if it blocks at each of several looks, and nothing has changed after a longer time.
        let is_idle = || world.totals().finalizers_due == 0 && world.threads().iter().all(|thread| thread.blocking);
        wait_until("the finalizer thread has nothing to do", || {
            (0..5).all(|_| {
                std::thread::sleep(Duration::from_millis(1));
                is_idle()
            })
        });
        let report = world.collect().unwrap();
        if report.finalizers_queued == 0 && [0, seen].contains(&report.live_objects) {
            return report.live_objects;
        }
        seen = report.live_objects;
        std::thread::sleep(Duration::from_millis(20));
    }
}

traced! {
    /// A cell of a list, or a node of a tree.
    pub struct Node {
        pub key: u64,
        pub left: GcCell<Option<Gc<Node>>>,
        pub right: GcCell<Option<Gc<Node>>>,
    }
}

/// A node without children.
pub fn node(m: &Mutator, key: u64) -> Result<Gc<Node>, OutOfMemory> {
    m.alloc(Node { key, left: GcCell::new(None), right: GcCell::new(None) })
}

/// A list of `length` nodes, linked by `left`, whose keys count down to 0.
pub fn list(m: &Mutator, length: u64) -> Result<Gc<Node>, OutOfMemory> {
    let mut head = node(m, 0)?;
    for key in 1..length {
        let next = node(m, key)?;
        next.left.set(Some(head));
        head = next;
    }
    Ok(head)
}

/// The number of nodes of a list, after checking its keys.
pub fn check_list(head: Gc<Node>) -> u64 {
    let (mut at, mut count) = (Some(head), 0);
    let first = head.key;
    while let Some(node) = at {
        assert_eq!(node.key, first - count, "a node of the list has a wrong key");
        count += 1;
        at = node.left.get();
    }
    count
}

/// A complete binary tree whose keys are the heights.
pub fn tree(m: &Mutator, height: u64) -> Result<Gc<Node>, OutOfMemory> {
    m.safepoint();
    let top = node(m, height)?;
    if height > 0 {
        top.left.set(Some(tree(m, height - 1)?));
        top.right.set(Some(tree(m, height - 1)?));
    }
    Ok(top)
}

/// The number of nodes of a tree, after checking its keys.
pub fn check_tree(top: Gc<Node>) -> u64 {
    let below = |child: Option<Gc<Node>>| {
        child.map_or(0, |child| {
            assert_eq!(child.key + 1, top.key, "a node of the tree has a wrong key");
            check_tree(child)
        })
    };
    1 + below(top.left.get()) + below(top.right.get())
}

/// The number of nodes of a complete tree of this height.
pub fn tree_size(height: u64) -> u64 {
    (2 << height) - 1
}
