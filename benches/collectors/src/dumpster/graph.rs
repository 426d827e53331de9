//! The graph: nodes and edges refer to each other. There are no weak references, so a node is removed from the index by hand.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};

use dumpster::Trace;
use dumpster::unsync::Gc;

use crate::work::{Graph, Meter, Size, drive_graph};

#[derive(Trace)]
struct Node {
    id: u64,
    property: u64,
    edges: RefCell<Vec<Gc<Edge>>>,
}

#[derive(Trace)]
struct Edge {
    from: Gc<Node>,
    to: Gc<Node>,
}

struct Database {
    nodes: HashMap<u64, Gc<Node>>,
    by_property: HashMap<u64, Vec<Gc<Node>>>,
}

impl Graph for Database {
    fn add(&mut self, id: u64, property: u64, neighbours: &[u64]) {
        let node = Gc::new(Node { id, property, edges: RefCell::new(Vec::new()) });
        for neighbour in neighbours {
            let other = &self.nodes[neighbour];
            for (from, to) in [(&node, other), (other, &node)] {
                let edge = Edge { from: Gc::clone(from), to: Gc::clone(to) };
                from.edges.borrow_mut().push(Gc::new(edge));
            }
        }
        self.by_property.entry(property).or_default().push(Gc::clone(&node));
        self.nodes.insert(id, node);
    }

    fn delete(&mut self, id: u64) {
        let node = self.nodes.remove(&id).unwrap();
        for edge in node.edges.borrow().iter() {
            if !Gc::ptr_eq(&edge.to, &node) {
                edge.to.edges.borrow_mut().retain(|back| !Gc::ptr_eq(&back.to, &node));
            }
        }
        let index = self.by_property.get_mut(&node.property).unwrap();
        index.retain(|indexed| !Gc::ptr_eq(indexed, &node));
    }

    fn find(&self, property: u64) -> (u64, u64) {
        let Some(index) = self.by_property.get(&property) else { return (0, 0) };
        index.iter().fold((0, 0), |(count, ids), node| (count + 1, ids + node.id))
    }

    fn reach(&mut self, id: u64, limit: usize) -> u64 {
        let start = Gc::clone(&self.nodes[&id]);
        let mut seen = HashSet::from([Gc::as_ptr(&start)]);
        let mut queue = VecDeque::from([start]);
        let (mut ids, mut visited) = (0, 0);
        while let Some(node) = queue.pop_front()
            && visited < limit
        {
            ids += node.id;
            visited += 1;
            for edge in node.edges.borrow().iter() {
                assert!(Gc::ptr_eq(&edge.from, &node));
                if seen.insert(Gc::as_ptr(&edge.to)) {
                    queue.push_back(Gc::clone(&edge.to));
                }
            }
        }
        ids
    }
}

pub fn run(size: Size) -> Meter {
    drive_graph(size, &mut Database { nodes: HashMap::new(), by_property: HashMap::new() })
}
