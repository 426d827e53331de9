//! Why an object is alive: the shortest path from a root.

use std::collections::VecDeque;

use super::graph::Graph;
use super::heap::{Heap, Label, Root};

/// A path from a root to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The root.
    pub root: Root,
    /// The objects on the path, from the root's to the last, each with the label of the reference by which the path leaves it. The label
    /// of the last is `None`.
    pub steps: Vec<(u32, Option<Label>)>,
}

/// Returns a shortest path from a root to an object, if there is one. Of several, the one whose root comes first.
///
/// # Panics
/// If the graph has no such object.
pub fn shortest(graph: &Graph, object: u32) -> Option<Path> {
    const UNSEEN: u32 = u32::MAX;
    const ROOTED: u32 = u32::MAX - 1;
    assert!(object < graph.objects());
    let mut from = vec![UNSEEN; graph.objects() as usize];
    let mut todo = VecDeque::new();
    for root in graph.roots() {
        if std::mem::replace(&mut from[root.target as usize], ROOTED) == UNSEEN {
            todo.push_back(root.target);
        }
    }
    while let Some(next) = todo.pop_front().filter(|_| from[object as usize] == UNSEEN) {
        for reference in graph.references_of(next) {
            let before = &mut from[reference.target as usize];
            if *before == UNSEEN {
                *before = next;
                todo.push_back(reference.target);
            }
        }
    }
    let mut steps = vec![(object, None)];
    let mut at = object;
    while from[at as usize] != ROOTED {
        let before = Some(from[at as usize]).filter(|before| *before != UNSEEN)?;
        let label = graph.references_of(before).iter().find(|reference| reference.target == at)?.label;
        steps.push((before, Some(label)));
        at = before;
    }
    steps.reverse();
    let root = *graph.roots().iter().find(|root| root.target == at)?;
    Some(Path { root, steps })
}
