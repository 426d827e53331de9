//! What each object keeps alive: dominators and retained sizes.
//!
//! An object dominates another if every path from a root to the other passes through it: without it, the other would be garbage. The
//! *retained size* of an object is the size of all objects that it dominates, with its own.
//!
//! The algorithm is Semi-NCA: the depth-first search and the semidominators of Lengauer and Tarjan, then each immediate dominator as the
//! nearest common ancestor. Its worst case is quadratic, but heaps stay near linear; the iterative algorithm that visits a graph until
//! nothing changes is quadratic for long lists, which heaps have. All loops use vectors instead of recursion: a list of 30 million
//! objects is a search of that depth. The memory is 28 bytes for each object, and 4 for each reference.

use std::cmp::Reverse;

use super::graph::Graph;
use super::heap::Heap;

/// No object.
const NONE: u32 = u32::MAX;

/// The dominator tree of a graph.
#[derive(Debug)]
pub struct Dominators {
    /// For each object its immediate dominator: an object, or `NONE`.
    immediate: Vec<u32>,
    /// The objects that can be reached, each after its dominator.
    order: Vec<u32>,
    retained: Vec<u64>,
    is_reached: Vec<bool>,
}

impl Dominators {
    /// Computes the dominators of all objects that can be reached from the roots.
    pub fn of(graph: &Graph) -> Dominators {
        let search = Search::new(graph);
        let by_number = search.immediate(graph);
        let objects = graph.objects() as usize;
        let mut immediate = vec![NONE; objects];
        let mut is_reached = vec![false; objects];
        let mut retained: Vec<u64> = (0..objects as u32).map(|object| graph.size(object)).collect();
        for (&object, &dominator) in search.order.iter().zip(&by_number).skip(1) {
            is_reached[object as usize] = true;
            if dominator != 0 {
                immediate[object as usize] = search.order[dominator as usize];
            }
        }
        // The number of a dominator is smaller than those of the objects that it dominates.
        for &object in search.order[1..].iter().rev() {
            let dominator = immediate[object as usize];
            if dominator != NONE {
                retained[dominator as usize] = retained[dominator as usize].saturating_add(retained[object as usize]);
            }
        }
        let order = search.order[1..].to_vec();
        Dominators { immediate, order, retained, is_reached }
    }

    /// Returns the immediate dominator of an object; `None` if only the roots together keep it alive, or nothing does.
    ///
    /// # Panics
    /// If the graph has no such object.
    pub fn immediate(&self, object: u32) -> Option<u32> {
        Some(self.immediate[object as usize]).filter(|dominator| *dominator != NONE)
    }

    /// Returns the retained size of an object in bytes; the size of the object itself if no root reaches it.
    ///
    /// # Panics
    /// If the graph has no such object.
    pub fn retained(&self, object: u32) -> u64 {
        self.retained[object as usize]
    }

    /// Whether an object can be reached from a root.
    ///
    /// # Panics
    /// If the graph has no such object.
    pub fn is_reached(&self, object: u32) -> bool {
        self.is_reached[object as usize]
    }

    /// Returns up to `most` objects that retain most, the largest first.
    pub fn largest(&self, most: usize) -> Vec<u32> {
        let mut largest = self.order.clone();
        let key = |object: &u32| (Reverse(self.retained(*object)), *object);
        if most < largest.len() {
            largest.select_nth_unstable_by_key(most, key);
            largest.truncate(most);
        }
        largest.sort_unstable_by_key(key);
        largest
    }

    /// The objects that can be reached, each after its dominator.
    pub fn top_down(&self) -> &[u32] {
        &self.order
    }
}

/// A depth-first search. The number of an object is its position in `order`; 0 is the root of all roots.
struct Search {
    order: Vec<u32>,
    number: Vec<u32>,
    parent: Vec<u32>,
}

impl Search {
    fn new(graph: &Graph) -> Search {
        let mut search = Search { order: vec![NONE], number: vec![0; graph.objects() as usize], parent: vec![0] };
        // An object, and the number of its references that have been followed.
        let mut stack: Vec<(u32, u32)> = Vec::new();
        for root in graph.roots() {
            if search.enter(root.target, 0) {
                stack.push((root.target, 0));
            }
            while let Some((object, followed)) = stack.last_mut() {
                let Some(reference) = graph.references_of(*object).get(*followed as usize) else {
                    stack.pop();
                    continue;
                };
                *followed += 1;
                let from = search.number[*object as usize];
                if search.enter(reference.target, from) {
                    stack.push((reference.target, 0));
                }
            }
        }
        search
    }

    fn enter(&mut self, object: u32, parent: u32) -> bool {
        let number = &mut self.number[object as usize];
        if *number != 0 {
            return false;
        }
        *number = self.order.len() as u32;
        self.order.push(object);
        self.parent.push(parent);
        true
    }

    /// For each number, the number before which it is reached: predecessors as compressed rows.
    fn predecessors(&self, graph: &Graph) -> (Vec<u64>, Vec<u32>) {
        let reached = self.order.len();
        let mut first = vec![0_u64; reached + 1];
        let edges = || {
            let roots = graph.roots().iter().map(|root| (0, root.target));
            let others = self.order[1..].iter().flat_map(|object| {
                let from = self.number[*object as usize];
                graph.references_of(*object).iter().map(move |reference| (from, reference.target))
            });
            roots.chain(others).map(|(from, target)| (from, self.number[target as usize]))
        };
        edges().for_each(|(_, to)| first[to as usize + 1] += 1);
        for index in 1..first.len() {
            first[index] += first[index - 1];
        }
        let mut next = first.clone();
        let mut all = vec![0; first[reached] as usize];
        for (from, to) in edges() {
            all[next[to as usize] as usize] = from;
            next[to as usize] += 1;
        }
        (first, all)
    }

    /// The number of the immediate dominator of each number.
    fn immediate(&self, graph: &Graph) -> Vec<u32> {
        let reached = self.order.len();
        let (first, predecessors) = self.predecessors(graph);
        let mut forest =
            Forest { ancestor: self.parent.clone(), label: (0..reached as u32).collect(), path: Vec::new() };
        let mut semi: Vec<u32> = (0..reached as u32).collect();
        for number in (1..reached).rev() {
            let mut least = self.parent[number];
            for &from in &predecessors[first[number] as usize..first[number + 1] as usize] {
                // Numbers above this one are linked to their parents.
                let at =
                    if from <= number as u32 { from } else { semi[forest.least(from, number as u32, &semi) as usize] };
                least = least.min(at);
            }
            semi[number] = least;
        }
        let mut immediate = self.parent.clone();
        for number in 1..reached {
            while immediate[number] > semi[number] {
                immediate[number] = immediate[immediate[number] as usize];
            }
        }
        immediate
    }
}

/// The part of the search tree whose semidominators are known, with compressed paths.
struct Forest {
    ancestor: Vec<u32>,
    label: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    /// The number with the least semidominator on the path from `number` up to below the last linked one. Numbers above `last` are linked.
    fn least(&mut self, number: u32, last: u32, semi: &[u32]) -> u32 {
        self.path.clear();
        let mut at = number;
        while self.ancestor[at as usize] > last {
            self.path.push(at);
            at = self.ancestor[at as usize];
        }
        // Top down: each takes over the better label of what is above it, and its ancestor.
        let mut above = at;
        while let Some(below) = self.path.pop() {
            if semi[self.label[above as usize] as usize] < semi[self.label[below as usize] as usize] {
                self.label[below as usize] = self.label[above as usize];
            }
            self.ancestor[below as usize] = self.ancestor[above as usize];
            above = below;
        }
        self.label[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::Builder;
    use crate::heap::{Label, RootGroup, RootKind};

    fn graph(objects: u32, edges: &[(u32, u32)], roots: &[u32]) -> Graph {
        let mut builder = Builder::default();
        for object in 0..objects {
            builder.object(u64::from(object) * 8, "T", 1 << object).unwrap();
            for (_, target) in edges.iter().filter(|(from, _)| *from == object) {
                builder.reference(Label::Offset(0), *target);
            }
        }
        for root in roots {
            builder.root(RootGroup { kind: RootKind::Stack, thread: None }, 0, *root);
        }
        builder.finish().0
    }

    /// What can be reached from the roots without passing through `without`.
    fn reached(graph: &Graph, without: Option<u32>) -> Vec<bool> {
        let mut reached = vec![false; graph.objects() as usize];
        let mut todo: Vec<u32> = graph.roots().iter().map(|root| root.target).collect();
        while let Some(object) = todo.pop() {
            if Some(object) != without && !std::mem::replace(&mut reached[object as usize], true) {
                todo.extend(graph.references_of(object).iter().map(|reference| reference.target));
            }
        }
        reached
    }

    proptest! {
        /// The oracle is the definition: without the dominator, the object can't be reached. Sizes are powers of two, so a retained size
        /// is a set of objects.
        #[test]
        fn an_object_retains_exactly_what_its_removal_makes_unreachable(
            objects in 1_u32..24,
            edges in prop::collection::vec((0_u32..24, 0_u32..24), 0..70),
            roots in prop::collection::vec(0_u32..24, 0..4),
        ) {
            let edges: Vec<_> = edges.into_iter().filter(|(from, to)| from.max(to) < &objects).collect();
            let roots: Vec<_> = roots.into_iter().filter(|root| *root < objects).collect();
            let graph = graph(objects, &edges, &roots);
            let dominators = Dominators::of(&graph);
            let all = reached(&graph, None);
            for object in 0..objects {
                prop_assert_eq!(dominators.is_reached(object), all[object as usize]);
                let rest = reached(&graph, Some(object));
                let lost = (0..objects).filter(|other| all[*other as usize] && !rest[*other as usize]);
                let expected = if all[object as usize] { lost.map(|other| 1 << other).sum() } else { 1_u64 << object };
                prop_assert_eq!(dominators.retained(object), expected, "object {}", object);
                if let Some(dominator) = dominators.immediate(object) {
                    prop_assert!(!reached(&graph, Some(dominator))[object as usize]);
                }
            }
        }
    }

    #[test]
    fn a_long_list_needs_no_stack() {
        let mut builder = Builder::default();
        const LENGTH: u32 = 1_000_000;
        for object in 0..LENGTH {
            builder.object(u64::from(object) * 16, "Node", 16).unwrap();
            builder.reference(Label::Offset(0), (object + 1) % LENGTH);
        }
        builder.root(RootGroup { kind: RootKind::Handle, thread: None }, 0, 0);
        let dominators = Dominators::of(&builder.finish().0);
        assert_eq!(dominators.retained(0), 16 * u64::from(LENGTH));
        assert_eq!(dominators.retained(LENGTH - 1), 16);
    }
}
