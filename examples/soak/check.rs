//! The data structures that a round's threads allocate, with checks that detect damage.

use stopworld::{Gc, GcCell, Mutator, OutOfMemory, traced};

traced! {
    /// A node of a tree, or a link of a list.
    pub(crate) struct Node {
        left: GcCell<Option<Gc<Node>>>,
        right: GcCell<Option<Gc<Node>>>,
        value: u64,
        check: u64,
    }
}

fn check_of(value: u64) -> u64 {
    value.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5704_5704_5704_5704
}

impl Node {
    fn new(left: Option<Gc<Node>>, right: Option<Gc<Node>>, value: u64) -> Self {
        Self { left: GcCell::new(left), right: GcCell::new(right), value, check: check_of(value) }
    }

    /// Returns the value. Panics if the object has changed since its construction.
    pub(crate) fn assert_whole(&self) -> u64 {
        assert_eq!(self.check, check_of(self.value), "an object that was reachable has been freed or overwritten");
        self.value
    }
}

/// Allocates a complete tree of this depth, in which the value of each node is its height.
pub(crate) fn tree(m: &Mutator, depth: u64) -> Result<Gc<Node>, OutOfMemory> {
    let child = |depth: u64| depth.checked_sub(1).map(|below| tree(m, below)).transpose();
    let left = child(depth)?;
    let right = child(depth)?;
    m.alloc(Node::new(left, right, depth))
}

/// Checks a tree. Returns the number of nodes.
pub(crate) fn assert_tree(root: Gc<Node>) -> u64 {
    let height = root.assert_whole();
    let children = [root.left.get(), root.right.get()];
    let below = children.into_iter().flatten().map(|child| {
        assert_eq!(child.assert_whole() + 1, height, "a tree has a node at the wrong height");
        assert_tree(child)
    });
    let nodes = 1 + below.sum::<u64>();
    assert_eq!(nodes, (2 << height) - 1, "a tree has lost nodes");
    nodes
}

/// Allocates a list of this length, in which the last link has the value 1.
pub(crate) fn list(m: &Mutator, length: u64) -> Result<Gc<Node>, OutOfMemory> {
    let mut head = m.alloc(Node::new(None, None, 1))?;
    for value in 2..=length {
        head = m.alloc(Node::new(Some(head), None, value))?;
    }
    Ok(head)
}

/// Checks a list. Returns the number of links.
pub(crate) fn assert_list(head: Gc<Node>) -> u64 {
    let mut at = Some(head);
    let mut expected = head.value;
    while let Some(link) = at {
        assert_eq!(link.assert_whole(), expected, "a list is broken");
        expected -= 1;
        at = link.left.get();
    }
    assert_eq!(expected, 0, "a list has lost its end");
    head.value
}
