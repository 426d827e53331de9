//! Puts the objects of a heap dump together.
//!
//! The dump has objects and references in separate events, each with thousands of rows: an object states how many references it has,
//! and the references of all objects follow each other in the objects' order. Either kind of event may come first. So both wait in
//! queues until an object has all its references. The queues hold what one event has more than the other: at most the references of the
//! objects of one event. An object without references waits for the objects before it, so that objects stay in the order of the file,
//! unless very many objects wait already: in a heap with few references, an event of references comes late.

use std::collections::VecDeque;
use std::ops::ControlFlow;

/// If this many objects wait, one without references is visited before them. They take 32 MiB.
const MOST_WAITING: usize = 1 << 20;

/// An object as the dump has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) type_id: u64,
    pub(super) edges: u64,
}

/// A reference as the dump has it: the address of its target, and the field.
pub(super) type Edge = (u64, u32);

/// The queues.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    nodes: VecDeque<Node>,
    edges: VecDeque<Edge>,
    own: Vec<Edge>,
}

impl Assembler {
    /// Adds an object, and visits the objects that are complete.
    pub(super) fn node<B>(
        &mut self,
        node: Node,
        visit: &mut dyn FnMut(&Node, &[Edge]) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        if node.edges == 0 && self.nodes.len() >= MOST_WAITING {
            return visit(&node, &[]);
        }
        self.nodes.push_back(node);
        self.complete(visit)
    }

    /// Adds a reference, and visits the objects that are complete.
    pub(super) fn edge<B>(
        &mut self,
        edge: Edge,
        visit: &mut dyn FnMut(&Node, &[Edge]) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.edges.push_back(edge);
        self.complete(visit)
    }

    fn complete<B>(&mut self, visit: &mut dyn FnMut(&Node, &[Edge]) -> ControlFlow<B>) -> ControlFlow<B> {
        while let Some(node) = self.nodes.front().filter(|node| node.edges <= self.edges.len() as u64) {
            self.own.clear();
            self.own.extend(self.edges.drain(..node.edges as usize));
            visit(node, &self.own)?;
            self.nodes.pop_front();
        }
        ControlFlow::Continue(())
    }

    /// The number of references that are missing, or that belong to no object.
    pub(super) fn missing(&self) -> u64 {
        let wanted = self.nodes.iter().fold(0_u64, |sum, node| sum.saturating_add(node.edges));
        wanted.abs_diff(self.edges.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Adds an object with one reference, `leaves` objects without one, and at last the reference. Returns the addresses in the order
    /// in which the objects were visited, and the greatest number of objects that waited.
    fn visited(leaves: u64) -> (Vec<u64>, usize) {
        let mut assembler = Assembler::default();
        let (mut order, mut waiting) = (Vec::new(), 0);
        let mut visit = |node: &Node, edges: &[Edge]| {
            assert_eq!(edges.len() as u64, node.edges);
            order.push(node.address);
            ControlFlow::<()>::Continue(())
        };
        for address in 0..=leaves {
            let node = Node { address, size: 16, type_id: 0, edges: u64::from(address == 0) };
            assert!(assembler.node(node, &mut visit).is_continue());
            waiting = waiting.max(assembler.nodes.len());
        }
        assert_eq!(assembler.missing(), 1);
        assert!(assembler.edge((0, 0), &mut visit).is_continue());
        assert_eq!((assembler.missing(), assembler.nodes.len()), (0, 0));
        (order, waiting)
    }

    #[rstest]
    #[case(0)]
    #[case(1)]
    #[case(MOST_WAITING as u64 - 1)]
    fn objects_stay_in_the_order_of_the_file(#[case] leaves: u64) {
        assert!(visited(leaves).0.is_sorted());
    }

    #[test]
    fn no_more_than_a_million_objects_wait() {
        let leaves = MOST_WAITING as u64 + 10;
        let (mut order, waiting) = visited(leaves);
        assert_eq!(waiting, MOST_WAITING);
        order.sort_unstable();
        assert!(order.into_iter().eq(0..=leaves));
    }
}
