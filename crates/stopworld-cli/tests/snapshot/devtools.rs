//! DevTools of Chromium load our heap snapshots.
//!
//! DevTools have no interface for this: the test imports the code that their Memory panel runs in its worker. Another version of Chromium may
//! have it elsewhere. Then the test is skipped on a user's machine, but fails in CI, where Chromium is installed (`.ci/run`): the import in
//! `devtools.js` must then follow.

use std::fs;

use heap_snapshot::{Dominators, Heap, v8};

use crate::command_support::{self, run, text};
use crate::page_support;
use crate::random_heap::random_heap;
use crate::skipped::skipped;
use crate::{Census, assert_retained, recorded};

/// A node in DevTools.
struct Node {
    name: String,
    size: u64,
    retained: u64,
}

/// What DevTools find in a snapshot: its nodes. `None`, with a skipped test reported, if they can't be driven.
fn devtools(snapshot: &str) -> Option<Vec<Node>> {
    let mut browser = page_support::browser()?;
    browser.visit("devtools://devtools/bundled/devtools_app.html");
    let text = serde_json::Value::from(snapshot);
    let found = browser.eval(&format!("({})({text})", include_str!("devtools.js").trim_end()));
    if found == "missing" {
        skipped("chromium with the DevTools of version 156");
        return None;
    }
    let node = |node: &serde_json::Value| Node {
        name: node[0].as_str().unwrap().to_owned(),
        size: node[1].as_u64().unwrap(),
        retained: node[2].as_u64().unwrap(),
    };
    Some(found.as_array().unwrap().iter().map(node).collect())
}

#[test]
fn devtools_find_our_objects_sizes_and_retained_sizes() {
    let graph = random_heap();
    let mut file = Vec::new();
    v8::write(&graph, &mut file).unwrap();
    let Some(nodes) = devtools(&String::from_utf8(file).unwrap()) else { return };
    // The first nodes are the root and the groups of roots.
    let before = 1 + graph.groups().len();
    assert_eq!(nodes.len(), before + graph.objects() as usize);
    let dominators = Dominators::of(&graph);
    for (object, node) in (0..graph.objects()).zip(&nodes[before..]) {
        assert_eq!((node.name.as_str(), node.size), (graph.type_name(object), graph.size(object)));
        if dominators.is_reached(object) {
            assert_eq!(node.retained, dominators.retained(object), "object {object}");
        }
    }
}

/// A real heap: the objects and bytes of each type are those of the dump, and each object retains as much as in `stopworld heap`.
#[test]
fn devtools_find_the_objects_and_retained_sizes_of_a_run() {
    let directory = command_support::directory();
    let expected = recorded(directory.path());
    let output = run(directory.path(), "snapshot heap.nettrace -o heap.heapsnapshot");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let path = directory.path().join("heap.heapsnapshot");
    let file = fs::read(&path).unwrap();
    let Some(nodes) = devtools(std::str::from_utf8(&file).unwrap()) else { return };
    let groups = v8::read(&file[..]).unwrap().groups().len();
    let mut census = Census::new();
    for node in &nodes[1 + groups..] {
        let row = census.entry(node.name.clone()).or_default();
        *row = (row.0 + 1, row.1 + node.size);
    }
    assert_eq!(census, expected);
    assert_retained(&path, nodes[1 + groups..].iter().map(|node| node.retained));
    let all: u64 = expected.values().map(|row| row.1).sum();
    assert!(nodes[0].retained > 0 && nodes[0].retained <= all, "{} of {all}", nodes[0].retained);
}
