//! Cost centre stacks: a tree that only grows.
//!
//! A stack consists of its parent (the stack on which a centre was pushed) and the pushed centre. So all stacks together form a tree
//! whose root is the empty stack, MAIN. A stack's number, its [`StackId`], is one word: a thread stores the number of its current
//! stack where any thread may read it, and each object can have the number of the stack under which it was allocated.
//!
//! ```text
//!   nodes | (parent, centre) | (parent, centre) | …          indexed by the stack's number
//!   edges | parent, centre → stack | …                       a hash table of the results of pushes, one word each
//! ```
//!
//! **Recursion** is compressed as in GHC: pushing a centre that is on the stack already goes back to that occurrence. So no stack
//! contains a centre twice, no stack is deeper than the number of centres, and a program that recurses makes no more stacks than a
//! program that loops.
//!
//! ```text
//!   push(a·b·c, b) = a·b        push(a·b, b) = a·b        push(anything, MAIN) = MAIN
//! ```
//!
//! The result of such a push is an edge of the tree as well, so the common push, recursive or not, is one load that hits. An edge
//! and its result are one word of three times 21 bits, written by one compare-exchange. No thread waits for another. A thread
//! that finds no edge checks whether the centre is on the stack, makes a node if it is not, and tries to add the edge. Two threads
//! that make the same node at the same time waste one number.
//!
//! **A thread that has a number can read the stack** (`.profile.tree`). A node is written before its number is published, first in
//! an edge and then in a thread's [`CurrentId`](crate::sync::CurrentId). A reader of either of them acquires the writes before its
//! publication. So the nodes themselves need no ordering.
//!
//! This file is a protocol that is model-checked. The capacities are parameters, so that the models can use a small tree.

use super::numbers::{CENTRE_BITS, CentreId, StackId};
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, AtomicU64, Mapped, Ordering, const_new, zeroed};

/// Bits of each part of an edge.
const PART_BITS: u32 = 21;
const PART: u64 = (1 << PART_BITS) - 1;
/// Maximum number of slots to probe in each table of edges.
const NEAR_PROBES: usize = 8;
const FAR_PROBES: usize = 64;

zeroed! {
    /// The nodes, and two tables of edges: the one that is searched first, and the one for the rest.
    struct Words<const STACKS: usize, const NEAR: usize, const FAR: usize> {
        nodes: [AtomicU64; STACKS],
        near: [AtomicU64; NEAR],
        far: [AtomicU64; FAR],
    }
}

/// A tree with room for this many stacks and edges; the table sizes are powers of two, at least 2. See the module documentation.
#[derive(Debug)]
pub(super) struct Tree<const STACKS: usize, const NEAR: usize, const FAR: usize> {
    words: Mapped<Words<STACKS, NEAR, FAR>>,
    /// How many numbers are claimed or reserved.
    claimed: AtomicU32,
}

impl<const STACKS: usize, const NEAR: usize, const FAR: usize> Tree<STACKS, NEAR, FAR> {
    const_new! {
        /// Creates a tree that is not mapped yet.
        pub(super) fn new() -> Self {
            const {
                assert!(CENTRE_BITS <= PART_BITS && STACKS <= 1 << PART_BITS && STACKS > CentreId::BUILT_IN.len());
                assert!(NEAR.is_power_of_two() && NEAR >= 2 && FAR.is_power_of_two() && FAR >= 2);
            }
            Self { words: Mapped::new(), claimed: AtomicU32::new(CentreId::BUILT_IN.len() as u32 + 1) }
        }
    }

    /// Returns the stack with `centre` on top. If `centre` is on the stack already, returns the part of the stack that ends with
    /// it. If there is no room for another stack, returns the stack itself.
    #[inline(always)]
    pub(super) fn push(&self, stack: StackId, centre: CentreId) -> StackId {
        let key = key(stack, centre);
        if let Some(words) = self.words.get()
            // Acquire: pairs with the Release in `push_slowly`: the node that the edge refers to is complete.
            && let edge = words.near(hash(key), 0).load(Ordering::Acquire)
            && edge & !PART == key
        {
            return StackId((edge & PART) as u32);
        }
        self.push_slowly(stack, centre)
    }

    #[cold]
    #[inline(never)]
    fn push_slowly(&self, stack: StackId, centre: CentreId) -> StackId {
        let Ok(words) = self.words.map(prepare) else { return stack };
        // A number that is no stack yet may become a descendant of the stack that is made here: the nodes would form a cycle.
        let stack = if self.node(stack).is_some() { stack } else { StackId::MAIN };
        let key = key(stack, centre);
        let mut child = None;
        for slot in words.probe(key) {
            // Acquire: pairs with the Release below: the node that the edge refers to is complete.
            let mut edge = slot.load(Ordering::Acquire);
            if edge == 0 {
                let Some(to) = child.or_else(|| self.child(words, stack, centre)) else { return stack };
                child = Some(to);
                // Release: pairs with the Acquires of the lookups of edges.
                match slot.compare_exchange(0, key | u64::from(to.0), release(), Ordering::Acquire) {
                    Ok(_) => return to,
                    Err(now) => edge = now,
                }
            }
            if edge & !PART == key {
                return StackId((edge & PART) as u32);
            }
        }
        // There is no room for an edge. Whether the centre is on the stack can be found out without an edge.
        self.occurrence(stack, centre).unwrap_or(stack)
    }

    /// Returns the target of a new edge. `None` if there is no room for another node.
    fn child(&self, words: &Words<STACKS, NEAR, FAR>, stack: StackId, centre: CentreId) -> Option<StackId> {
        if let Some(occurrence) = self.occurrence(stack, centre) {
            return Some(occurrence);
        }
        if stack == StackId::MAIN && centre.is_built_in() {
            return Some(StackId(centre.0));
        }
        let next = |claimed: u32| ((claimed as usize) < STACKS).then_some(claimed + 1);
        // Release: pairs with the Acquire in `iter`: a thread that sees this number also sees the parent's node.
        let number = self.claimed.fetch_update(release(), Ordering::Relaxed, next).ok()?;
        words.nodes[number as usize].store(u64::from(stack.0) << 32 | u64::from(centre.0), Ordering::Relaxed);
        Some(StackId(number))
    }

    /// Returns the part of the stack that ends with this centre, if the centre is on the stack.
    fn occurrence(&self, stack: StackId, centre: CentreId) -> Option<StackId> {
        if centre == CentreId::MAIN {
            return Some(StackId::MAIN);
        }
        let mut at = stack;
        while let Some((parent, top)) = self.node(at) {
            if top == centre {
                return Some(at);
            }
            at = parent;
        }
        None
    }

    /// Returns the parent of the stack and the pushed centre. `None` for the empty stack.
    #[inline]
    pub(super) fn node(&self, stack: StackId) -> Option<(StackId, CentreId)> {
        // Relaxed: a thread that has the number has acquired everything written before the number was published: this node and its
        // ancestors. An iteration over all nodes takes those that it finds.
        let word = self.words.get()?.nodes.get(stack.0 as usize)?.load(Ordering::Relaxed);
        (word != 0).then_some((StackId((word >> 32) as u32), CentreId(word as u32)))
    }

    /// All stacks except the empty one, each after its parent.
    pub(super) fn iter(&self) -> impl Iterator<Item = StackId> {
        // Acquire: pairs with the Release in `child`. A node that is not 0 is complete, and then so are its ancestors.
        let claimed = if self.words.get().is_some() { self.claimed.load(Ordering::Acquire) } else { 0 };
        (1..claimed).map(StackId).filter(|stack| self.node(*stack).is_some())
    }

    /// Makes the stacks of the built-in centres readable.
    pub(super) fn prepare(&self) {
        // If there is no memory, there are no stacks.
        let _ = self.words.map(prepare);
    }
}

impl<const STACKS: usize, const NEAR: usize, const FAR: usize> Words<STACKS, NEAR, FAR> {
    #[inline(always)]
    fn near(&self, hash: u64, step: usize) -> &AtomicU64 {
        &self.near[((hash >> (64 - NEAR.trailing_zeros())) as usize + step) % NEAR]
    }

    /// The slots in which an edge may be, in probing order.
    fn probe(&self, key: u64) -> impl Iterator<Item = &AtomicU64> {
        let hash = hash(key);
        let far = move |step| &self.far[((hash >> (64 - FAR.trailing_zeros())) as usize + step) % FAR];
        let near = (0..NEAR_PROBES.min(NEAR)).map(move |step| self.near(hash, step));
        near.chain((0..FAR_PROBES.min(FAR)).map(far))
    }
}

/// The ordering with which a number is published.
fn release() -> Ordering {
    if removed(Guard::ProfileTree) { Ordering::Relaxed } else { Ordering::Release }
}

/// Writes the stacks of the built-in centres, each directly above MAIN; MAIN itself is the empty stack.
fn prepare<const STACKS: usize, const NEAR: usize, const FAR: usize>(words: &Words<STACKS, NEAR, FAR>) {
    for centre in CentreId::BUILT_IN.into_iter().filter(|centre| *centre != CentreId::MAIN) {
        words.nodes[centre.0 as usize].store(centre.0.into(), Ordering::Relaxed);
    }
}

/// The key of an edge. Never 0, because no centre is 0.
#[inline(always)]
const fn key(stack: StackId, centre: CentreId) -> u64 {
    (stack.0 as u64) << (2 * PART_BITS) | (centre.0 as u64) << PART_BITS
}

#[inline(always)]
const fn hash(key: u64) -> u64 {
    // Fibonacci hashing: the lower bits of the key are 0, and the numbers are small.
    (key >> PART_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
