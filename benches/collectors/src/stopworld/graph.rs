//! The graph: nodes and edges refer to each other, and the index is weak.

use stopworld::{ByAddress, Gc, GcCell, GcDeque, GcHashMap, GcHashSet, GcMutex, GcVec, Mutator, Trace, WeakMap, World};

use crate::work::{Graph, Meter, Size, drive_graph};

#[derive(Trace)]
struct Node {
    id: u64,
    deleted: GcCell<bool>,
    edges: GcMutex<GcVec<Gc<Edge>>>,
}

#[derive(Trace)]
struct Edge {
    from: Gc<Node>,
    to: Gc<Node>,
}

struct Database<'m> {
    m: &'m Mutator,
    nodes: GcHashMap<u64, Gc<Node>>,
    by_property: GcHashMap<u64, WeakMap<Node, ()>>,
}

impl Graph for Database<'_> {
    fn add(&mut self, id: u64, property: u64, neighbours: &[u64]) {
        let m = self.m;
        let node = Node { id, deleted: GcCell::new(false), edges: GcMutex::new(GcVec::new()) };
        let node = m.alloc(node).unwrap();
        for neighbour in neighbours {
            let other = self.nodes[neighbour];
            for (from, to) in [(node, other), (other, node)] {
                from.edges.lock(m).push(m, m.alloc(Edge { from, to }).unwrap()).unwrap();
            }
        }
        self.by_property.entry(property).or_default(m).unwrap().insert(m, node, ()).unwrap();
        self.nodes.insert(m, id, node).unwrap();
    }

    fn delete(&mut self, id: u64) {
        let node = self.nodes.remove(&id).unwrap();
        node.deleted.set(true);
        for edge in &*node.edges.lock(self.m) {
            if !Gc::ptr_eq(edge.to, node) {
                edge.to.edges.lock(self.m).retain(|back| !Gc::ptr_eq(back.to, node));
            }
        }
    }

    fn find(&self, property: u64) -> (u64, u64) {
        let Some(index) = self.by_property.get(&property) else { return (0, 0) };
        let alive = index.keys().filter(|node| !node.deleted.get());
        alive.fold((0, 0), |(count, ids), node| (count + 1, ids + node.id))
    }

    fn reach(&mut self, id: u64, limit: usize) -> u64 {
        let (m, start) = (self.m, self.nodes[&id]);
        let mut seen = GcHashSet::new();
        seen.insert(m, ByAddress(start)).unwrap();
        let mut queue = GcDeque::from_iter(m, [start]).unwrap();
        let (mut ids, mut visited) = (0, 0);
        while let Some(node) = queue.pop_front()
            && visited < limit
        {
            ids += node.id;
            visited += 1;
            for edge in &*node.edges.lock(m) {
                assert!(Gc::ptr_eq(edge.from, node));
                if seen.insert(m, ByAddress(edge.to)).unwrap() {
                    queue.push_back(m, edge.to).unwrap();
                }
            }
        }
        ids
    }
}

pub fn run(world: &World, size: Size) -> Meter {
    // SAFETY: this thread keeps every `Gc` and every collection in local variables and in collected objects.
    let m = &unsafe { world.attach("main") }.unwrap();
    drive_graph(size, &mut Database { m, nodes: GcHashMap::new(), by_property: GcHashMap::new() })
}
