//! The graph: the map owns the nodes, which own their edges. All other references are weak.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::{Rc, Weak};

use crate::work::{Graph, Meter, Size, drive_graph};

struct Node {
    id: u64,
    edges: RefCell<Vec<Rc<Edge>>>,
}

struct Edge {
    from: Weak<Node>,
    to: Weak<Node>,
}

struct Database {
    nodes: HashMap<u64, Rc<Node>>,
    by_property: HashMap<u64, Vec<Weak<Node>>>,
}

impl Graph for Database {
    fn add(&mut self, id: u64, property: u64, neighbours: &[u64]) {
        let node = Rc::new(Node { id, edges: RefCell::new(Vec::new()) });
        for neighbour in neighbours {
            let other = &self.nodes[neighbour];
            for (from, to) in [(&node, other), (other, &node)] {
                let edge = Edge { from: Rc::downgrade(from), to: Rc::downgrade(to) };
                from.edges.borrow_mut().push(Rc::new(edge));
            }
        }
        let index = self.by_property.entry(property).or_default();
        index.retain(|node| node.strong_count() > 0);
        index.push(Rc::downgrade(&node));
        self.nodes.insert(id, node);
    }

    fn delete(&mut self, id: u64) {
        let node = self.nodes.remove(&id).unwrap();
        for edge in node.edges.borrow().iter() {
            let other = edge.to.upgrade().unwrap();
            if !Rc::ptr_eq(&other, &node) {
                other.edges.borrow_mut().retain(|back| !std::ptr::eq(back.to.as_ptr(), &*node));
            }
        }
    }

    fn find(&self, property: u64) -> (u64, u64) {
        let Some(index) = self.by_property.get(&property) else { return (0, 0) };
        let alive = index.iter().filter_map(Weak::upgrade);
        alive.fold((0, 0), |(count, ids), node| (count + 1, ids + node.id))
    }

    fn reach(&mut self, id: u64, limit: usize) -> u64 {
        let start = Rc::clone(&self.nodes[&id]);
        let mut seen = HashSet::from([Rc::as_ptr(&start)]);
        let mut queue = VecDeque::from([start]);
        let (mut ids, mut visited) = (0, 0);
        while let Some(node) = queue.pop_front()
            && visited < limit
        {
            ids += node.id;
            visited += 1;
            for edge in node.edges.borrow().iter() {
                assert!(std::ptr::eq(edge.from.as_ptr(), &*node));
                if seen.insert(edge.to.as_ptr()) {
                    queue.push_back(edge.to.upgrade().unwrap());
                }
            }
        }
        ids
    }
}

pub fn run(size: Size) -> Meter {
    drive_graph(size, &mut Database { nodes: HashMap::new(), by_property: HashMap::new() })
}
