//! `stopworld snapshot` and `stopworld heap`, and the programs of others that read the snapshots.

mod command;
#[path = "../command_support/mod.rs"]
mod command_support;
mod consumers;
mod devtools;
mod gaps;
mod memory;
#[path = "../../../../tests/nettrace_rules/mod.rs"]
mod nettrace_rules;
#[path = "../../../../tests/nettrace_support/mod.rs"]
mod nettrace_support;
#[path = "../page_support/mod.rs"]
mod page_support;
#[path = "../../../stopworld-postmortem/tests/support/mod.rs"]
mod postmortem_support;
#[path = "../random_heap/mod.rs"]
mod random_heap;
#[path = "../../../../tests/skipped/mod.rs"]
mod skipped;
mod threads;
mod type_names;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use heap_snapshot::{Dominators, Heap, v8};
use nettrace_rules::{Trace, dumps};

/// The number of objects of each type, and their bytes.
type Census = BTreeMap<String, (u64, u64)>;

/// Records a run with heap dumps in `heap.nettrace`, and counts the objects of its last dump from the bytes of the events.
fn recorded(directory: &Path) -> Census {
    let line = "run graph --threads 2 --trace heap.nettrace --events GC+Type+GCHeapDump";
    let output = command_support::run(directory, line);
    assert_eq!(output.status.code(), Some(0), "{}", command_support::text(&output.stderr));
    census(&directory.join("heap.nettrace"))
}

/// Compares the retained sizes that another program found in a `.heapsnapshot`, in the order of its objects, with those of `stopworld heap`.
fn assert_retained(file: &Path, found: impl ExactSizeIterator<Item = u64>) {
    let graph = v8::read(File::open(file).unwrap()).unwrap();
    let dominators = Dominators::of(&graph);
    assert_eq!(found.len(), graph.objects() as usize);
    let (mut reached, mut retain_others) = (0, 0);
    for (object, retained) in (0..graph.objects()).zip(found).filter(|(object, _)| dominators.is_reached(*object)) {
        assert_eq!(retained, dominators.retained(object), "object {object}, a {}", graph.type_name(object));
        reached += 1;
        retain_others += usize::from(retained > graph.size(object));
    }
    assert!(reached > 10_000 && retain_others > 100, "{reached} objects, {retain_others} retain others");
}

/// Counts the objects of the last dump of a trace.
fn census(file: &Path) -> Census {
    let dumps = dumps(&Trace::read(file));
    let dump = dumps.iter().rfind(|dump| !dump.nodes.is_empty()).expect("a heap dump");
    let mut census = Census::new();
    for [_, bytes, kind, _] in &dump.nodes {
        let row = census.entry(dump.types[kind].clone()).or_default();
        *row = (row.0 + 1, row.1 + bytes);
    }
    assert!(census.values().map(|row| row.0).sum::<u64>() > 10_000, "{census:?}");
    census
}
