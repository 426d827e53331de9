//! The objects of a heap by type: how many, how large, and what they keep alive.

use std::collections::BTreeMap;

use heap_snapshot::{Dominators, Graph, Heap};

/// The objects of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeRow {
    /// The name of the type.
    pub name: String,
    /// The number of objects.
    pub count: u64,
    /// Their sizes, together, in bytes.
    pub bytes: u64,
    /// What would be freed without them, with themselves, in bytes: the retained sizes of those that no object of the same type dominates.
    pub retained: u64,
}

/// The difference between two heaps in one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The name of the type.
    pub name: String,
    /// The number of objects before and after.
    pub count: (u64, u64),
    /// Their bytes before and after.
    pub bytes: (u64, u64),
    /// What they retain before and after.
    pub retained: (u64, u64),
}

impl Growth {
    /// The number of bytes by which the type has grown; negative if it has shrunk.
    pub fn grown(&self) -> i128 {
        i128::from(self.bytes.1) - i128::from(self.bytes.0)
    }
}

/// Counts the objects of a heap by type. The row with most bytes comes first.
pub fn census(graph: &Graph, dominators: &Dominators) -> Vec<TypeRow> {
    let mut rows: Vec<TypeRow> =
        graph.types().iter().map(|name| TypeRow { name: name.clone(), count: 0, bytes: 0, retained: 0 }).collect();
    for object in 0..graph.objects() {
        let row = &mut rows[graph.type_of(object) as usize];
        row.count += 1;
        row.bytes = row.bytes.saturating_add(graph.size(object));
    }
    add_retained(graph, dominators, &mut rows);
    // Types of the same name are one to a reader.
    let mut by_name: BTreeMap<String, TypeRow> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.count > 0) {
        let sum = by_name.entry(row.name.clone()).or_insert(TypeRow { count: 0, bytes: 0, retained: 0, ..row.clone() });
        sum.count += row.count;
        sum.bytes = sum.bytes.saturating_add(row.bytes);
        sum.retained = sum.retained.saturating_add(row.retained);
    }
    let mut rows: Vec<TypeRow> = by_name.into_values().collect();
    rows.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// Walks over the dominator tree, and adds the retained size of each object of whose type no object is above it.
fn add_retained(graph: &Graph, dominators: &Dominators, rows: &mut [TypeRow]) {
    const NONE: u32 = u32::MAX;
    let objects = graph.objects() as usize;
    // The children of an object are a list: the first child, and the next sibling of each.
    let (mut first_child, mut next_sibling, mut roots) = (vec![NONE; objects], vec![NONE; objects], NONE);
    for &object in dominators.top_down().iter().rev() {
        let list = match dominators.immediate(object) {
            Some(dominator) => &mut first_child[dominator as usize],
            None => &mut roots,
        };
        next_sibling[object as usize] = std::mem::replace(list, object);
    }
    let mut above = vec![0_u32; rows.len()];
    // Objects whose children are visited.
    let mut path = Vec::new();
    let mut next = roots;
    loop {
        if next == NONE {
            let Some(done) = path.pop() else { break };
            above[graph.type_of(done) as usize] -= 1;
            next = next_sibling[done as usize];
            continue;
        }
        let type_index = graph.type_of(next) as usize;
        if above[type_index] == 0 {
            rows[type_index].retained = rows[type_index].retained.saturating_add(dominators.retained(next));
        }
        above[type_index] += 1;
        path.push(next);
        next = first_child[next as usize];
    }
}

/// Compares two heaps by type. The type that has grown most comes first; types that have not changed are left out.
pub fn growth(before: &[TypeRow], after: &[TypeRow]) -> Vec<Growth> {
    let mut types: BTreeMap<&str, Growth> = BTreeMap::new();
    let new = |name: &str| Growth { name: name.to_owned(), count: (0, 0), bytes: (0, 0), retained: (0, 0) };
    for row in before {
        let growth = types.entry(&row.name).or_insert_with(|| new(&row.name));
        (growth.count.0, growth.bytes.0, growth.retained.0) = (row.count, row.bytes, row.retained);
    }
    for row in after {
        let growth = types.entry(&row.name).or_insert_with(|| new(&row.name));
        (growth.count.1, growth.bytes.1, growth.retained.1) = (row.count, row.bytes, row.retained);
    }
    let mut all: Vec<Growth> = types
        .into_values()
        .filter(|growth| growth.bytes.0 != growth.bytes.1 || growth.count.0 != growth.count.1)
        .collect();
    all.sort_by(|a, b| b.grown().cmp(&a.grown()).then_with(|| a.name.cmp(&b.name)));
    all
}

#[cfg(test)]
mod tests {
    use heap_snapshot::{Builder, Label, RootGroup, RootKind};

    use super::*;

    /// Lists of nodes, each with a payload: `list` → `node` → `node` …, and a payload that two lists share.
    fn lists(lengths: &[u32]) -> Graph {
        let mut builder = Builder::default();
        let handles = RootGroup { kind: RootKind::Handle, thread: None };
        let shared = builder.object(8, "shared", 1000).unwrap();
        for &length in lengths {
            let list = builder.object(0, "list", 16).unwrap();
            builder.root(handles.clone(), 0, list);
            builder.reference(Label::Offset(8), shared);
            if length > 0 {
                builder.reference(Label::Offset(0), list + 1);
            }
            for node in 1..=length {
                let index = builder.object(0, "node", 32).unwrap();
                if node < length {
                    builder.reference(Label::Offset(0), index + 1);
                }
            }
        }
        builder.finish().0
    }

    fn rows(lengths: &[u32]) -> Vec<TypeRow> {
        let graph = lists(lengths);
        census(&graph, &Dominators::of(&graph))
    }

    #[test]
    fn a_type_retains_what_its_topmost_objects_do() {
        let row = |name: &str, count, bytes, retained| TypeRow { name: name.to_owned(), count, bytes, retained };
        let expected = [row("shared", 1, 1000, 1000), row("node", 5, 160, 160), row("list", 2, 32, 32 + 160)];
        assert_eq!(rows(&[2, 3]), expected);
        let alone = [row("shared", 1, 1000, 1000), row("node", 2, 64, 64), row("list", 1, 16, 16 + 64 + 1000)];
        assert_eq!(rows(&[2]), alone);
    }

    #[test]
    fn growth_lists_what_has_changed() {
        let growth = growth(&rows(&[2, 3]), &rows(&[7]));
        let names: Vec<_> = growth.iter().map(|row| (row.name.as_str(), row.count, row.grown())).collect();
        assert_eq!(names, [("node", (5, 7), 64), ("list", (2, 1), -16)]);
    }
}
