//! Heap snapshots.

use std::io::Cursor;

use heap_snapshot::{Dominators, Error, Graph, Heap, hprof, v8};

use super::memory::limited;
use super::names_a_byte;

const MIB: usize = 1 << 20;

/// Reads a `.heapsnapshot` or an HPROF file. What was read is written in both formats, and must be read back with the same objects.
pub fn heap_snapshot(file: &[u8]) {
    limited(256 * MIB, || {
        let read = if file.starts_with(b"J") { hprof::read(Cursor::new(file)) } else { v8::read(file) };
        let graph = match read {
            Ok(graph) => graph,
            Err(error) => return refused(&error, file.len()),
        };
        let dominators = Dominators::of(&graph);
        let total: u128 = (0..graph.objects()).map(|object| u128::from(graph.size(object))).sum();
        assert!((0..graph.objects()).all(|object| u128::from(dominators.retained(object)) <= total));
        let mut written = Vec::new();
        v8::write(&graph, &mut written).expect("a graph of this size can be written");
        same(&graph, &v8::read(written.as_slice()).expect("what was written can be read"));
    });
}

fn refused(error: &Error, length: usize) {
    names_a_byte(&error.to_string());
    assert!(matches!(error, Error::Damaged { at, .. } if *at <= length as u64), "{error}");
}

/// Asserts that two graphs have the same objects.
pub(crate) fn same(graph: &Graph, other: &Graph) {
    assert_eq!((graph.objects(), graph.references()), (other.objects(), other.references()));
    for object in 0..graph.objects() {
        assert_eq!((graph.address(object), graph.size(object)), (other.address(object), other.size(object)));
        assert_eq!(graph.type_name(object), other.type_name(object));
    }
}
