//! A heap as one HTML page: a treemap of retained sizes, the types, and the objects that retain most.
//!
//! The treemap is the dominator tree: the area of a box is what its object retains, and inside it are the objects that it keeps alive. A heap
//! has millions of objects, so a box stands for an object only if that retains at least 1/500 of the heap; smaller siblings of one type
//! share a box. A click on a box shows it alone. Without JavaScript the tables remain.

use std::collections::{BTreeMap, HashMap};

use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use super::document::{Document, facts, table};
use super::{Bytes, heap_objects};
use crate::snapshot::TypeRow;
use heap_snapshot::{Dominators, Graph, Heap};

/// The layout library, after its licence.
const LIBRARY: &str = concat!(
    "/*\n",
    include_str!("../d3-hierarchy/LICENSE"),
    "\n*/\n",
    include_str!("../d3-hierarchy/d3-hierarchy.min.js")
);
/// An object has a box of its own if it retains at least this part of the heap.
const LEAST_SHARE: u64 = 500;
/// The depth of the tree.
const DEEPEST: usize = 40;
/// The number of rows of a table.
const MOST_ROWS: usize = 200;

/// A box. Its area is its own bytes and those of its children.
#[derive(Debug, Serialize)]
struct Node {
    name: String,
    /// Bytes that no child has.
    own: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Node>,
}

/// Renders the page of a heap; `file` is its title.
pub fn render(graph: &Graph, dominators: &Dominators, census: &[TypeRow], file: &str) -> String {
    let map = html! {
        p.path id="path" {}
        div.map id="map" role="group" aria-label="Retained sizes" {}
        noscript { p { "The treemap needs JavaScript." } }
    };
    let sections = [
        ("retained", "What retains the heap", map),
        ("types", "Types", types(census)),
        ("objects", "Objects that retain most", objects(graph, dominators)),
    ];
    let tree = tree(graph, dominators);
    // The text ends no script element, and starts no comment.
    let json = serde_json::to_string(&tree).unwrap_or_default().replace('<', "\\u003c");
    Document {
        title: format!("Heap of {file}"),
        style: include_str!("style.css"),
        about: about(graph),
        sections: &sections,
        charts: &[],
        scripts: html! {
            script type="application/json" id="tree" { (PreEscaped(json)) }
            script { (PreEscaped(LIBRARY)) }
            script { (PreEscaped(include_str!("treemap.js"))) }
        },
    }
    .render()
}

fn about(graph: &Graph) -> Markup {
    let bytes = (0..graph.objects()).fold(0_u64, |sum, object| sum.saturating_add(graph.size(object)));
    let mut figures = vec![
        ("objects", graph.objects().to_string()),
        ("size", Bytes(bytes).to_string()),
        ("references", graph.references().to_string()),
    ];
    let roots = heap_objects::roots(graph);
    figures.extend(roots.iter().map(|(group, count)| (group.as_str(), count.to_string())));
    html! { (facts("figures", &figures)) }
}

fn titled(about: &str, heads: &[&str], rows: &Markup) -> Markup {
    table(about, &html! { tr { @for head in heads { th scope="col" { (head) } } } }, rows)
}

fn types(census: &[TypeRow]) -> Markup {
    let rows = html! {
        @for row in census.iter().take(MOST_ROWS) {
            tr { th.name scope="row" { (row.name) } td { (row.count) } td { (row.bytes) } td { (row.retained) } }
        }
    };
    titled("Types, largest first", &["type", "objects", "bytes", "retained"], &rows)
}

fn objects(graph: &Graph, dominators: &Dominators) -> Markup {
    let rows = html! {
        @for object in dominators.largest(MOST_ROWS) {
            tr {
                th.name scope="row" { (format!("{:#x}", graph.address(object))) } td.name { (graph.type_name(object)) }
                td { (graph.size(object)) } td { (dominators.retained(object)) }
            }
        }
    };
    titled("Objects, that which retains most first", &["object", "type", "bytes", "retained"], &rows)
}

/// The dominator tree, cut to what can be seen.
fn tree(graph: &Graph, dominators: &Dominators) -> Node {
    let total = dominators.top_down().iter().fold(0_u64, |sum, object| sum.saturating_add(graph.size(*object)));
    let least = (total / LEAST_SHARE).max(1);
    let mut tops: Vec<u32> = Vec::new();
    // The children of each object that has a box.
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for &object in dominators.top_down() {
        match dominators.immediate(object) {
            None => tops.push(object),
            Some(dominator) if dominators.retained(dominator) >= least => {
                children.entry(dominator).or_default().push(object);
            }
            Some(_) => {}
        }
    }
    let children = Children { graph, dominators, children, least };
    Node { name: "heap".to_owned(), own: 0, children: children.boxes(&tops, DEEPEST) }
}

struct Children<'a> {
    graph: &'a Graph,
    dominators: &'a Dominators,
    children: HashMap<u32, Vec<u32>>,
    least: u64,
}

impl Children<'_> {
    /// The boxes of objects that one object dominates, or none.
    fn boxes(&self, objects: &[u32], deepest: usize) -> Vec<Node> {
        let mut boxes = Vec::new();
        // The number and the retained size of the small objects of each type.
        let mut small: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for &object in objects {
            let retained = self.dominators.retained(object);
            if retained < self.least || deepest == 0 {
                let sum = small.entry(self.graph.type_name(object)).or_default();
                *sum = (sum.0 + 1, sum.1.saturating_add(retained));
                continue;
            }
            let inner = self.children.get(&object).map_or(&[][..], Vec::as_slice);
            boxes.push(Node {
                name: format!("{} {:#x}", self.graph.type_name(object), self.graph.address(object)),
                own: self.graph.size(object),
                children: self.boxes(inner, deepest - 1),
            });
        }
        let shared = |(name, (count, bytes)): (&str, (u64, u64))| Node {
            name: format!("{count} × {name}"),
            own: bytes,
            children: Vec::new(),
        };
        boxes.extend(small.into_iter().map(shared));
        boxes
    }
}

#[cfg(test)]
mod tests {
    use heap_snapshot::{Builder, Label, RootGroup, RootKind};

    use super::*;

    fn area(node: &Node) -> u64 {
        node.own + node.children.iter().map(area).sum::<u64>()
    }

    #[test]
    fn the_areas_are_the_retained_sizes() {
        let mut builder = Builder::default();
        let list = builder.object(0x1000, "list", 100_000).unwrap();
        (1..=1000).for_each(|node| builder.reference(Label::Index(node), node));
        for node in 1..=1000 {
            builder.object(0x1000 + node, "node", 16).unwrap();
        }
        builder.object(0x9000, "<script>", 50_000).unwrap();
        for root in [list, 1001] {
            builder.root(RootGroup { kind: RootKind::Handle, thread: None }, 0, root);
        }
        let graph = builder.finish().0;
        let tree = tree(&graph, &Dominators::of(&graph));
        assert_eq!(area(&tree), 166_000);
        let names: Vec<_> = tree.children.iter().map(|node| (node.name.as_str(), area(node))).collect();
        assert_eq!(names, [("list 0x1000", 116_000), ("<script> 0x9000", 50_000)]);
        let inner: Vec<_> = tree.children[0].children.iter().map(|node| (node.name.as_str(), node.own)).collect();
        assert_eq!(inner, [("1000 × node", 16_000)]);
        let page = render(&graph, &Dominators::of(&graph), &[], "a heap");
        assert!(!page.contains("<script> 0x9000") && page.contains("\\u003cscript> 0x9000"));
    }
}
