//! DevTools of Chromium load our heap snapshots.

use heap_snapshot::{Dominators, Heap, v8};

use crate::page_support;
use crate::random_heap::random_heap;
use crate::skipped::skipped;

/// The code that DevTools run to load a snapshot is not an interface: a version in which it differs skips the test.
#[test]
fn devtools_find_our_objects_sizes_and_retained_sizes() {
    let Some(mut browser) = page_support::browser() else { return };
    let graph = random_heap();
    let mut file = Vec::new();
    v8::write(&graph, &mut file).unwrap();
    browser.visit("devtools://devtools/bundled/devtools_app.html");
    let text = serde_json::Value::from(String::from_utf8(file).unwrap());
    let found = browser.eval(&format!("({})({text})", include_str!("devtools.js").trim_end()));
    if found == "missing" {
        skipped("a Chromium whose DevTools load snapshots as version 156 does");
        return;
    }
    let nodes = found.as_array().unwrap();
    // The first nodes are the root and the groups of roots.
    let before = 1 + graph.groups().len();
    assert_eq!(nodes.len(), before + graph.objects() as usize);
    let dominators = Dominators::of(&graph);
    for (object, node) in (0..graph.objects()).zip(&nodes[before..]) {
        assert_eq!((&node[0], &node[1]), (&graph.type_name(object).into(), &graph.size(object).into()));
        if dominators.is_reached(object) {
            assert_eq!(node[2], dominators.retained(object), "object {object}");
        }
    }
}
