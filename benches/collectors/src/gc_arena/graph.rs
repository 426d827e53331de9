//! The graph: nodes and edges refer to each other, and the index is weak.

use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};

use gc_arena::barrier::unlock;
use gc_arena::lock::RefLock;
use gc_arena::{Arena, Collect, Gc, GcWeak, Rootable};

use super::DEBT_GCS;
use crate::work::{Graph, Meter, Size, drive_graph};

#[derive(Collect)]
#[collect(no_drop)]
struct Node<'gc> {
    id: u64,
    deleted: Cell<bool>,
    edges: RefLock<Vec<Gc<'gc, Edge<'gc>>>>,
}

#[derive(Collect)]
#[collect(no_drop)]
struct Edge<'gc> {
    from: Gc<'gc, Node<'gc>>,
    to: Gc<'gc, Node<'gc>>,
}

#[derive(Collect)]
#[collect(no_drop)]
struct Database<'gc> {
    nodes: Gc<'gc, RefLock<HashMap<u64, Gc<'gc, Node<'gc>>>>>,
    by_property: Gc<'gc, RefLock<HashMap<u64, Vec<GcWeak<'gc, Node<'gc>>>>>>,
}

struct Stored {
    arena: Arena<Rootable![Database<'_>]>,
}

impl Graph for Stored {
    fn add(&mut self, id: u64, property: u64, neighbours: &[u64]) {
        self.arena.mutate(|mc, database| {
            let node = Node { id, deleted: Cell::new(false), edges: RefLock::new(Vec::new()) };
            let node = Gc::new(mc, node);
            for neighbour in neighbours {
                let other = database.nodes.borrow()[neighbour];
                for (from, to) in [(node, other), (other, node)] {
                    let edge = Gc::new(mc, Edge { from, to });
                    unlock!(Gc::write(mc, from), Node, edges).borrow_mut().push(edge);
                }
            }
            let mut indexes = database.by_property.borrow_mut(mc);
            let index = indexes.entry(property).or_default();
            index.retain(|node| !node.is_dropped());
            index.push(Gc::downgrade(node));
            database.nodes.borrow_mut(mc).insert(id, node);
        });
        if self.arena.metrics().allocation_debt() > DEBT_GCS {
            self.arena.collect_debt();
        }
    }

    fn delete(&mut self, id: u64) {
        self.arena.mutate(|mc, database| {
            let node = database.nodes.borrow_mut(mc).remove(&id).unwrap();
            node.deleted.set(true);
            for edge in node.edges.borrow().iter() {
                if !Gc::ptr_eq(edge.to, node) {
                    let mut others = unlock!(Gc::write(mc, edge.to), Node, edges).borrow_mut();
                    others.retain(|back| !Gc::ptr_eq(back.to, node));
                }
            }
        });
    }

    fn find(&self, property: u64) -> (u64, u64) {
        self.arena.mutate(|mc, database| {
            let indexes = database.by_property.borrow();
            let Some(index) = indexes.get(&property) else { return (0, 0) };
            let alive = index.iter().filter_map(|node| node.upgrade(mc)).filter(|node| !node.deleted.get());
            alive.fold((0, 0), |(count, ids), node| (count + 1, ids + node.id))
        })
    }

    fn reach(&mut self, id: u64, limit: usize) -> u64 {
        self.arena.mutate(|_, database| {
            let start = database.nodes.borrow()[&id];
            let mut seen = HashSet::from([Gc::as_ptr(start)]);
            let mut queue = VecDeque::from([start]);
            let (mut ids, mut visited) = (0, 0);
            while let Some(node) = queue.pop_front()
                && visited < limit
            {
                ids += node.id;
                visited += 1;
                for edge in node.edges.borrow().iter() {
                    assert!(Gc::ptr_eq(edge.from, node));
                    if seen.insert(Gc::as_ptr(edge.to)) {
                        queue.push_back(edge.to);
                    }
                }
            }
            ids
        })
    }
}

pub fn run(size: Size) -> Meter {
    let arena = Arena::new(|mc| Database {
        nodes: Gc::new(mc, RefLock::new(HashMap::new())),
        by_property: Gc::new(mc, RefLock::new(HashMap::new())),
    });
    drive_graph(size, &mut Stored { arena })
}
