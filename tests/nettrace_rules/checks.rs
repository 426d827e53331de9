//! The rules for every trace that this project writes: payloads, collections, identities, heap dumps.

use std::collections::HashMap;

use super::*;

/// The payload lengths in .NET's own files, by the event's name, number and version, where the length is fixed.
const LENGTHS: [(&str, u32, u32, usize); 19] = [
    ("GCStart", 1, 2, 26),
    ("GCEnd", 2, 1, 10),
    ("GCRestartEEEnd", 3, 1, 2),
    ("GCHeapStats", 4, 2, 110),
    ("GCCreateSegment", 5, 1, 22),
    ("GCFreeSegment", 6, 1, 10),
    ("GCRestartEEBegin", 7, 1, 2),
    ("GCSuspendEEEnd", 8, 1, 2),
    ("GCSuspendEEBegin", 9, 1, 10),
    ("GCFinalizersEnd", 13, 1, 6),
    ("GCFinalizersBegin", 14, 1, 2),
    ("FinalizeObject", 29, 0, 18),
    ("SetGCHandle", 30, 0, 34),
    ("DestroyGCHandle", 31, 0, 10),
    ("GCTriggered", 35, 0, 6),
    ("GCMarkWithType", 202, 0, 18),
    ("GCJoin", 203, 2, 18),
    ("GCPerHeapHistory", 204, 3, 486),
    ("GCGlobalHeapHistory", 205, 4, 78),
];

/// Events whose fields end before an array.
const OPEN: [&str; 6] =
    ["GCDynamicEvent", "BulkType", "GCBulkNode", "GCBulkEdge", "GCBulkRootEdge", "GCBulkRootStaticVar"];

/// Every event is described up to its last byte, and .NET events have .NET's lengths.
pub fn check_payloads(trace: &Trace) {
    for event in &trace.events {
        let name = event.kind.name.as_str();
        let (_, rest) = event.fields();
        assert!(rest.is_empty() || OPEN.contains(&name), "{name}: {} bytes after its fields", rest.len());
        if event.kind.provider == DEFAULT
            && let Some((_, id, version, length)) = LENGTHS.iter().find(|row| row.0 == name)
        {
            assert_eq!((event.kind.id, event.kind.version), (*id, *version), "{name}");
            assert_eq!(event.payload.len(), *length, "{name}");
        }
    }
}

/// One collection, as a reader sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedCollection {
    pub world: u16,
    pub number: u64,
    pub reason: u64,
    pub thread: u64,
    pub suspend_begin: u64,
    pub suspend_end: u64,
    pub restart_end: u64,
    pub before: u64,
    pub after: u64,
    pub promoted: u64,
    pub allocated: u64,
    /// Bytes after the collection, by generation.
    pub generations: [u64; 5],
    pub handles: u64,
    pub pinned_objects: u64,
    pub queued: u64,
    pub times_us: Vec<u64>,
}

/// The collections of a trace, each with its events in the order that .NET's readers require, on the thread that suspended.
pub fn check_collections(trace: &Trace) -> Vec<TracedCollection> {
    const IDS: [u32; 11] = [9, 8, 35, 1, 202, 205, 204, 2, 4, 7, 3];
    let mut open: HashMap<u16, (Vec<u32>, TracedCollection)> = HashMap::new();
    let mut all = Vec::new();
    for event in trace.events.iter().filter(|event| event.kind.provider == DEFAULT && IDS.contains(&event.kind.id)) {
        let (id, world) = (event.kind.id, event.world());
        let entry = open.entry(world).or_default();
        if id == 9 {
            // An abandoned stop has only a beginning.
            assert!(entry.0.is_empty() || entry.0 == [9], "world {world} is stopped twice: {:?}", entry.0);
            *entry = (
                vec![9],
                TracedCollection {
                    world,
                    thread: event.thread,
                    suspend_begin: event.time,
                    ..TracedCollection::default()
                },
            );
            assert_eq!(event.number("Reason"), 1);
            entry.1.number = event.number("Count") + 1;
            continue;
        }
        let (ids, seen) = entry;
        assert!(!ids.is_empty(), "{} of world {world} without a suspension", event.kind.name);
        assert_eq!(event.thread, seen.thread, "{} is not of the thread that suspended", event.kind.name);
        ids.push(id);
        match id {
            8 => seen.suspend_end = event.time,
            1 => {
                assert_eq!((event.number("Count"), event.number("Depth"), event.number("Type")), (seen.number, 2, 0));
                seen.reason = event.number("Reason");
                // This is not a .NET field; it is used for the comparison with the end.
                seen.restart_end = event.time;
            }
            2 => {
                assert_eq!((event.number("Count"), event.number("Depth")), (seen.number, 2));
                assert!(event.time > seen.restart_end, "a collection without length");
            }
            204 => {
                assert_eq!(event.number("Count"), 5);
                let sum = |field: &str| (0..5).map(|gen_| event.number(&format!("Gen{gen_}{field}"))).sum::<u64>();
                seen.before = sum("SizeBefore");
                seen.allocated = event.number("Gen0SizeBefore");
                assert_eq!(sum("SizeAfter"), sum("PinnedSurv") + sum("NonePinnedSurv"));
                seen.after = sum("SizeAfter");
            }
            205 => {
                assert_eq!(
                    (event.number("NumHeaps"), event.number("CondemnedGeneration"), event.number("Count")),
                    (1, 2, 7)
                );
                let names =
                    ["Init", "MarkRoots", "MarkShortWeak", "MarkScanFinalization", "MarkLongWeak", "Plan", "Sweep"];
                seen.times_us = names.iter().map(|name| event.number(&format!("Time{name}"))).collect();
            }
            4 => {
                seen.generations = std::array::from_fn(|gen_| event.number(&format!("GenerationSize{gen_}")));
                assert_eq!(seen.generations.iter().sum::<u64>(), seen.after);
                seen.promoted = (0..5).map(|gen_| event.number(&format!("TotalPromotedSize{gen_}"))).sum();
                seen.handles = event.number("GCHandleCount");
                seen.pinned_objects = event.number("PinnedObjectCount");
                seen.queued = event.number("FinalizationPromotedCount");
            }
            3 => {
                seen.restart_end = event.time;
                let marks = ids.iter().filter(|id| **id == 202).count();
                assert!((3..=4).contains(&marks), "{ids:?}");
                ids.dedup();
                let (ids, seen) = open.remove(&world).unwrap_or_default();
                if ids != [9, 8, 35, 1, 202, 2, 7, 3] {
                    assert_eq!(ids, [9, 8, 35, 1, 202, 205, 204, 2, 4, 7, 3]);
                    all.push(seen);
                }
            }
            _ => {}
        }
    }
    for pair in all.windows(2).filter(|pair| pair[0].world == pair[1].world) {
        assert!(pair[0].number < pair[1].number, "{pair:?}");
    }
    all
}

/// Checks that the events that describe the process come first.
pub fn check_identity(trace: &Trace) {
    let first: Vec<_> =
        trace.events.iter().take(2).map(|event| (event.kind.provider.as_str(), event.kind.id)).collect();
    assert_eq!(first, [(EVENT_PIPE, 1), (RUNDOWN, 187)]);
    assert!(trace.events[0].text("CommandLine").len() > 3);
    let version = ["VMMajorVersion", "VMMinorVersion"].map(|field| trace.events[1].number(field).to_string()).join(".");
    assert!(env!("CARGO_PKG_VERSION").starts_with(&version));
}

/// Checks everything about a trace of collections.
pub fn check(trace: &Trace) -> Vec<TracedCollection> {
    check_payloads(trace);
    check_identity(trace);
    assert!(trace.points >= 1, "a sequence point near the end");
    check_collections(trace)
}

/// A heap dump, from its bulk events.
#[derive(Debug, Default)]
pub struct Dumped {
    /// Address, size, type, number of edges.
    pub nodes: Vec<[u64; 4]>,
    /// For each reference, the address of its target, and the offset of the reference in the object that contains it.
    pub edges: Vec<(u64, u32)>,
    /// Object, kind, flags, the root's address.
    pub roots: Vec<(u64, u8, u32, u64)>,
    /// The slot's address, object, type.
    pub statics: Vec<[u64; 3]>,
    pub types: HashMap<u64, String>,
    /// Live bytes according to GCHeapStats.
    pub live: u64,
    next: HashMap<u32, u64>,
}

/// The dumps of a trace, one for each collection.
pub fn dumps(trace: &Trace) -> Vec<Dumped> {
    let mut all = Vec::new();
    let mut dump = Dumped::default();
    for event in trace.events.iter().filter(|event| event.kind.provider == DEFAULT) {
        if event.kind.id == 4 {
            dump.live = (0..5).map(|gen_| event.number(&format!("GenerationSize{gen_}"))).sum();
            all.push(std::mem::take(&mut dump));
        }
        if !["BulkType", "GCBulkNode", "GCBulkEdge", "GCBulkRootEdge", "GCBulkRootStaticVar"]
            .contains(&event.kind.name.as_str())
        {
            continue;
        }
        assert!(event.payload.len() < 64 << 10);
        if let Some((_, Value::Number(index))) = event.fields().0.iter().find(|(name, _)| name == "Index") {
            let next = dump.next.entry(event.kind.id).or_default();
            assert_eq!(index, next, "{}", event.kind.name);
            *next += 1;
        }
        let count = event.number("Count");
        let rest = event.fields().1;
        let mut rows = Bytes { all: rest, at: 0, base: event.offset };
        for _ in 0..count {
            match event.kind.id {
                15 => {
                    let id = rows.u64();
                    rows.take(8 + 4 + 4 + 1);
                    let name = rows.utf16();
                    assert_eq!(rows.u32(), 0, "type parameters");
                    dump.types.insert(id, name);
                }
                16 => dump.roots.push((rows.u64(), rows.u8(), rows.u32(), rows.u64())),
                18 => dump.nodes.push(std::array::from_fn(|_| rows.u64())),
                19 => dump.edges.push((rows.u64(), rows.u32())),
                _ => {
                    dump.statics.push(std::array::from_fn(|_| rows.u64()));
                    assert_eq!(rows.u32(), 0, "a static of the process, not of a thread");
                    rows.utf16();
                }
            }
        }
        assert!(rows.is_over(), "{}: {} rows", event.kind.name, count);
    }
    all
}

/// Checks a dump: the sizes of the nodes sum to the live bytes; each edge references a node; each type has a name; the edges are those of
/// the nodes, in order.
pub fn check_dump(dump: &Dumped) {
    assert_eq!(dump.nodes.iter().map(|node| node[1]).sum::<u64>(), dump.live);
    let nodes: HashMap<u64, [u64; 4]> = dump.nodes.iter().map(|node| (node[0], *node)).collect();
    assert_eq!(nodes.len(), dump.nodes.len(), "a node twice");
    let mut edges = dump.edges.iter();
    for [address, bytes, kind, count] in &dump.nodes {
        assert!(dump.types.get(kind).is_some_and(|name| !name.is_empty()), "{address:#x} has the type {kind:#x}");
        for _ in 0..*count {
            let (target, offset) = edges.next().expect("fewer edges than the nodes have");
            assert!(nodes.contains_key(target), "{target:#x} is no node");
            assert!(u64::from(*offset) < *bytes, "an edge of {address:#x} is at {offset}");
        }
    }
    assert_eq!(edges.next(), None, "edges without a node");
    for (object, kind, _, _) in &dump.roots {
        assert!(nodes.contains_key(object) && *kind <= 2, "a root references {object:#x}");
    }
    for [_, object, kind] in &dump.statics {
        assert_eq!(nodes[object][2], *kind);
    }
    // Every node is reachable from a root.
    let mut reached: std::collections::HashSet<u64> = dump.roots.iter().map(|root| root.0).collect();
    reached.extend(dump.statics.iter().map(|row| row[1]));
    let mut edges = dump.edges.as_slice();
    let mut of: HashMap<u64, Vec<u64>> = HashMap::new();
    for [address, _, _, count] in &dump.nodes {
        let (mine, rest) = edges.split_at(*count as usize);
        of.insert(*address, mine.iter().map(|edge| edge.0).collect());
        edges = rest;
    }
    let mut todo: Vec<u64> = reached.iter().copied().collect();
    while let Some(object) = todo.pop() {
        for target in &of[&object] {
            if reached.insert(*target) {
                todo.push(*target);
            }
        }
    }
    assert_eq!(reached.len(), dump.nodes.len(), "unreachable nodes");
}
