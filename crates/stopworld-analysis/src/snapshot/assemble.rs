//! Puts the objects of a heap dump together.
//!
//! The dump has objects and references in separate events, each with thousands of rows: an object states how many references it has,
//! and the references of all objects follow each other in the objects' order. Either kind of event may come first. So both wait in
//! queues until an object has all its references; an object without references does not wait. The queues hold what one event has
//! more than the other: at most the references of the objects of one event.

use std::collections::VecDeque;
use std::ops::ControlFlow;

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
        if node.edges == 0 {
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
