//! Heaps that are written and read back, and files that are damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use heap_snapshot::{
    Builder, Dominators, Error, Graph, Heap, Label, Object, Root, RootGroup, RootKind, hprof, paths, v8,
};
use proptest::prelude::*;
use rstest::rstest;

/// Objects as (address, type, size), references as (from, label, to), roots as (group, address, target).
#[derive(Clone, Debug)]
struct Plan {
    objects: Vec<(String, u64)>,
    references: Vec<(usize, Label, usize)>,
    roots: Vec<(RootGroup, u64, usize)>,
}

fn address(index: usize) -> u64 {
    0x7f00_0000_0000 + 0x40 * index as u64
}

fn built(plan: &Plan) -> Graph {
    let mut builder = Builder::default();
    let names = ["left", "a \"quoted\" name", "µ"];
    for (index, (name, size)) in plan.objects.iter().enumerate() {
        builder.object(address(index), name, *size).unwrap();
        for (_, label, to) in plan.references.iter().filter(|(from, ..)| *from == index) {
            let label = if let Label::Field(name) = label { builder.field(names[*name as usize]) } else { *label };
            builder.reference(label, *to as u32);
        }
    }
    for (group, address, target) in &plan.roots {
        builder.root(group.clone(), *address, *target as u32);
    }
    builder.finish().0
}

fn plans() -> impl Strategy<Value = Plan> {
    let names = prop::sample::select(vec![
        "Node",
        "stopworld/Thread",
        "alloc::vec::Vec<T>",
        "a/b",
        "normal-48",
        "with \"quotes\"\n",
    ]);
    let label = prop_oneof![
        (0_u32..200).prop_map(|word| Label::Offset(8 * word)),
        (0_u32..100).prop_map(Label::Index),
        (0_u32..3).prop_map(Label::Field),
    ];
    let kinds = [RootKind::Stack, RootKind::Handle, RootKind::Static, RootKind::Finalizer, RootKind::Other];
    let thread = prop::option::of(prop::sample::select(vec![
        "main".to_owned(),
        "worker 1 of 2".to_owned(),
        RootGroup::thread_name(2, "x"),
    ]));
    let group = (prop::sample::select(kinds.to_vec()), thread).prop_map(|(kind, thread)| RootGroup { kind, thread });
    let object = (names.prop_map(str::to_owned), (2_u64..40).prop_map(|words| 16 * words));
    prop::collection::vec(object, 1..30).prop_flat_map(move |objects| {
        let index = 0..objects.len();
        let references = prop::collection::vec((index.clone(), label.clone(), index.clone()), 0..60);
        let roots = prop::collection::vec((group.clone(), 0_u64..1 << 40, index), 0..8);
        (Just(objects), references, roots).prop_map(|(objects, references, roots)| Plan { objects, references, roots })
    })
}

type Description = (Vec<(u64, String, u64, Vec<(String, u64)>)>, Vec<(String, u64, u64)>);

/// A heap as text: its objects, and its roots in any order.
fn described(graph: &Graph) -> Description {
    let objects = (0..graph.objects()).map(|index| {
        let references = graph.references_of(index).iter();
        let references =
            references.map(|reference| (reference.label.text(graph.names()), graph.address(reference.target)));
        (graph.address(index), graph.type_name(index).to_owned(), graph.size(index), references.collect())
    });
    let roots = graph.roots().iter();
    let roots =
        roots.map(|root| (graph.groups()[root.group as usize].to_string(), root.address, graph.address(root.target)));
    let mut roots: Vec<_> = roots.collect();
    roots.sort();
    (objects.collect(), roots)
}

fn as_v8(graph: &Graph) -> Vec<u8> {
    let mut file = Vec::new();
    v8::write(graph, &mut file).unwrap();
    file
}

fn as_hprof(graph: &Graph) -> Vec<u8> {
    let mut file = Vec::new();
    hprof::write(graph, &mut file).unwrap();
    file
}

/// The records of an HPROF file, as far as they describe threads. Reads only what this crate writes, and panics at anything else.
#[derive(Debug, Default)]
struct Hprof {
    strings: BTreeMap<u64, String>,
    frames: BTreeSet<u64>,
    /// By serial number: the thread, and the frames.
    traces: BTreeMap<u32, (u32, Vec<u64>)>,
    /// By serial number: the object, the trace, and the name.
    started: BTreeMap<u32, (u64, u32, u64)>,
    /// By serial number: the object, and the trace.
    thread_objects: BTreeMap<u32, (u64, u32)>,
    /// Roots in frames: the object, the thread, and the index of the frame.
    in_frames: Vec<(u64, u32, u32)>,
    instances: BTreeMap<u64, Vec<u8>>,
    /// The ids of all classes and objects.
    ids: Vec<u64>,
}

/// The rest of a file or of a record. All numbers are big-endian.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, count: usize) -> &'b [u8] {
        self.0.split_off(..count).unwrap()
    }

    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    fn id(&mut self) -> u64 {
        u64::from_be_bytes(self.take(8).try_into().unwrap())
    }
}

impl Hprof {
    fn parse(file: &[u8]) -> Hprof {
        let mut rest = Bytes(file.strip_prefix(b"JAVA PROFILE 1.0.2\0\0\0\0\x08").unwrap());
        rest.id();
        let mut records = Hprof::default();
        while !rest.0.is_empty() {
            let (tag, _time, length) = (rest.u8(), rest.u32(), rest.u32());
            records.record(tag, Bytes(rest.take(length as usize)));
        }
        records
    }

    fn record(&mut self, tag: u8, mut of: Bytes<'_>) {
        match tag {
            0x01 => _ = self.strings.insert(of.id(), String::from_utf8(of.0.to_vec()).unwrap()),
            // A class and its name, and the end of the dump.
            0x02 | 0x2c => {}
            0x04 => _ = self.frames.insert(of.id()),
            0x05 => {
                let (trace, thread, count) = (of.u32(), of.u32(), of.u32());
                self.traces.insert(trace, (thread, (0..count).map(|_| of.id()).collect()));
            }
            0x0a => _ = self.started.insert(of.u32(), (of.id(), of.u32(), of.id())),
            0x1c => {
                while !of.0.is_empty() {
                    self.part(&mut of);
                }
            }
            tag => panic!("the record {tag:#x}"),
        }
    }

    fn part(&mut self, of: &mut Bytes<'_>) {
        let (tag, id) = (of.u8(), of.id());
        match tag {
            0x01 => _ = of.id(),
            0x03 => self.in_frames.push((id, of.u32(), of.u32())),
            0x04 | 0x06 => _ = of.u32(),
            0x05 | 0xff => {}
            0x08 => _ = self.thread_objects.insert(of.u32(), (id, of.u32())),
            0x20 => {
                // The trace, the superclass and five other ids, the size, and no constants and static fields.
                of.take(4 + 6 * 8 + 4 + 4);
                let fields = u16::from_be_bytes(of.take(2).try_into().unwrap());
                of.take(9 * usize::from(fields));
            }
            0x21 => {
                let (_trace, _class, length) = (of.u32(), of.id(), of.u32());
                self.instances.insert(id, of.take(length as usize).to_vec());
            }
            0x22 => {
                let (_trace, elements, _class) = (of.u32(), of.u32(), of.id());
                of.take(8 * elements as usize);
            }
            0x23 => {
                let (_trace, elements, kind) = (of.u32(), of.u32(), of.u8());
                assert_eq!(kind, 5, "an array of characters");
                of.take(2 * elements as usize);
            }
            tag => panic!("{tag:#x} in the heap dump"),
        }
        if (0x20..=0x23).contains(&tag) {
            self.ids.push(id);
        }
    }
}

proptest! {
    #[test]
    fn a_heapsnapshot_is_strict_json_and_is_read_back_unchanged(plan in plans()) {
        let graph = built(&plan);
        let file = as_v8(&graph);
        let json: serde_json::Value = serde_json::from_slice(&file).unwrap();
        let fields = json["snapshot"]["meta"]["node_fields"].as_array().unwrap().len();
        prop_assert_eq!(json["nodes"].as_array().unwrap().len() as u64, json["snapshot"]["node_count"].as_u64().unwrap() * fields as u64);
        prop_assert_eq!(json["edges"].as_array().unwrap().len() as u64, json["snapshot"]["edge_count"].as_u64().unwrap() * 3);
        prop_assert_eq!(described(&v8::read(file.as_slice()).unwrap()), described(&graph));
    }

    /// HPROF has no names for what is in arrays, no kind for finalizers, and no addresses of most roots. The threads of stacks, objects, sizes
    /// (an array without a null is a word larger), references and retained sets are those of the heap.
    #[test]
    fn an_hprof_file_is_read_back_with_the_same_objects_and_references(plan in plans()) {
        let graph = built(&plan);
        let read = hprof::read(Cursor::new(as_hprof(&graph))).unwrap();
        prop_assert_eq!(read.objects(), graph.objects());
        let (dominators, expected) = (Dominators::of(&read), Dominators::of(&graph));
        for index in 0..graph.objects() {
            prop_assert_eq!(read.address(index), graph.address(index));
            let name = graph.type_name(index);
            prop_assert!(read.type_name(index).starts_with(&name.replace('/', ".")) || read.type_name(index).starts_with(name));
            let is_full = 24 + 8 * graph.references_of(index).len() as u64 > graph.size(index);
            if !is_full {
                prop_assert_eq!(read.size(index), graph.size(index), "object {}", index);
            }
            let targets = |graph: &Graph| {
                let mut targets: Vec<u32> = graph.references_of(index).iter().map(|reference| reference.target).collect();
                targets.sort_unstable();
                targets
            };
            prop_assert_eq!(targets(&read), targets(&graph));
            prop_assert_eq!(dominators.immediate(index), expected.immediate(index));
        }
        let roots = |graph: &Graph| {
            let kind = |root: &heap_snapshot::Root| match graph.groups()[root.group as usize].kind {
                RootKind::Finalizer => RootKind::Other,
                kind => kind,
            };
            let thread = |root: &heap_snapshot::Root| {
                let group = &graph.groups()[root.group as usize];
                group.thread.clone().filter(|_| matches!(group.kind, RootKind::Stack | RootKind::Other))
            };
            let mut roots: Vec<_> =
                graph.roots().iter().map(|root| (kind(root), thread(root), root.target)).collect();
            roots.sort();
            roots
        };
        prop_assert_eq!(roots(&read), roots(&graph));
    }

    /// The records of a file refer to each other as viewers expect: each root in a frame has a thread with an object and a stack trace, and the
    /// trace has the frame. Ids and the numbers of threads are unique.
    #[test]
    fn the_records_of_a_thread_are_complete(plan in plans()) {
        let graph = built(&plan);
        let records = Hprof::parse(&as_hprof(&graph));
        let has_thread = |group: &&RootGroup| matches!(group.kind, RootKind::Stack | RootKind::Other) && group.thread.is_some();
        let threads = graph.groups().iter().filter(has_thread);
        prop_assert_eq!(records.started.len(), threads.count());
        prop_assert_eq!(records.frames.len(), records.started.len());
        for (_, thread, index) in &records.in_frames {
            let (object, trace, name) = records.started[thread];
            prop_assert_eq!(records.thread_objects.get(thread), Some(&(object, trace)));
            prop_assert!(records.instances.contains_key(&object) && records.strings.contains_key(&name));
            let (of_thread, frames) = &records.traces[&trace];
            prop_assert_eq!(of_thread, thread);
            prop_assert!(records.frames.contains(&frames[*index as usize]));
        }
        let ids: BTreeSet<u64> = records.ids.iter().copied().collect();
        prop_assert_eq!(ids.len(), records.ids.len(), "{:?}", records.ids);
        prop_assert!(records.in_frames.iter().all(|(object, ..)| ids.contains(object)));
        // After the name, a byte and a word.
        let tid = |(object, ..): &(u64, u32, u64)| records.instances[object][13..21].to_vec();
        let tids: BTreeSet<Vec<u8>> = records.started.values().map(tid).collect();
        prop_assert_eq!(tids.len(), records.started.len());
    }

    /// A file that is cut is an error with the offset where it ends; bytes that are changed are an error or another heap.
    #[test]
    fn a_damaged_file_is_an_error_with_its_offset(plan in plans(), cut in 0.0..1.0, at in 0.0..1.0, byte in any::<u8>()) {
        let graph = built(&plan);
        type Read = fn(&[u8]) -> heap_snapshot::Result<Graph>;
        let formats: [(Vec<u8>, Read); 2] =
            [(as_v8(&graph), |file| v8::read(file)), (as_hprof(&graph), |file| hprof::read(Cursor::new(file)))];
        for (mut file, read) in formats {
            let end = (cut * file.len() as f64) as usize;
            match read(&file[..end]) {
                Err(Error::Damaged { at, .. }) => prop_assert!(at <= end as u64),
                Err(error) => prop_assert!(false, "{}", error),
                // An HPROF file without a heap dump has no objects. JSON may end without the newline after it.
                Ok(part) if file[0] == b'J' => prop_assert_eq!(part.objects(), 0),
                Ok(part) => prop_assert_eq!((end, part.objects()), (file.len() - 1, graph.objects())),
            }
            let at = (at * file.len() as f64) as usize;
            file[at] = byte;
            if let Err(error) = read(&file) {
                prop_assert!(matches!(error, Error::Damaged { at, .. } if at <= file.len() as u64), "{}", error);
            }
        }
    }
}

/// A list of three nodes: 0 → 1 → 2.
fn list() -> Graph {
    let stacks = RootGroup { kind: RootKind::Stack, thread: Some("main".to_owned()) };
    built(&Plan {
        objects: vec![("Node".to_owned(), 32); 3],
        references: vec![(0, Label::Offset(8), 1), (1, Label::Offset(8), 2)],
        roots: vec![(stacks, 0x7ffd_0000_1000, 0)],
    })
}

/// A heap in which every type has the same name, as two types of a program can have.
struct OneName {
    graph: Graph,
    types: Vec<String>,
}

impl Heap for OneName {
    fn types(&self) -> &[String] {
        &self.types
    }

    fn names(&self) -> &[String] {
        self.graph.names()
    }

    fn groups(&self) -> &[RootGroup] {
        self.graph.groups()
    }

    fn roots(&self) -> &[Root] {
        self.graph.roots()
    }

    fn objects(&self) -> u32 {
        self.graph.objects()
    }

    fn references(&self) -> u64 {
        self.graph.references()
    }

    fn address(&self, index: u32) -> u64 {
        self.graph.address(index)
    }

    fn visit(&self, visit: &mut dyn FnMut(&Object<'_>) -> Result<(), Error>) -> Result<(), Error> {
        self.graph.visit(visit)
    }
}

/// DevTools classify objects by the index of their name, and show one class for each text.
#[test]
fn types_with_the_same_name_share_a_string_of_a_heapsnapshot() {
    let objects = vec![("Node".to_owned(), 32), ("other".to_owned(), 32)];
    let graph = built(&Plan { objects, references: vec![], roots: vec![] });
    let types = vec!["Node".to_owned(); graph.types().len()];
    let mut file = Vec::new();
    v8::write(&OneName { graph, types }, &mut file).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&file).unwrap();
    let fields: Vec<&str> =
        json["snapshot"]["meta"]["node_fields"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let name = fields.iter().position(|field| *field == "name").unwrap();
    let nodes = json["nodes"].as_array().unwrap();
    let names: Vec<u64> = nodes.chunks(fields.len()).skip(1).map(|node| node[name].as_u64().unwrap()).collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names[0], names[1], "{}", json["strings"]);
    assert_eq!(json["strings"][names[0] as usize], "Node");
}

/// The offset and the tag of each record of an HPROF file.
fn records_of(file: &[u8]) -> Vec<(usize, u8)> {
    let mut at = "JAVA PROFILE 1.0.2".len() + 1 + 4 + 8;
    let mut records = Vec::new();
    while at < file.len() {
        records.push((at, file[at]));
        at += 9 + u32::from_be_bytes(file[at + 5..at + 9].try_into().unwrap()) as usize;
    }
    records
}

/// The heap dump has two segments. A file that is cut after one of them is truncated, also between two records.
#[test]
fn a_heap_dump_in_segments_without_its_end_is_truncated() {
    let objects = vec![("Node".to_owned(), 32); 60_000];
    let file = as_hprof(&built(&Plan { objects, references: vec![], roots: vec![] }));
    let records = records_of(&file);
    let segments: Vec<_> = records.iter().filter(|(_, tag)| *tag == 0x1c).collect();
    assert!(segments.len() >= 2, "{records:?}");
    for (cut, _) in records.iter().filter(|(at, _)| *at > segments[0].0) {
        let error = hprof::read(Cursor::new(&file[..*cut])).unwrap_err().to_string();
        let expected = format!("byte {cut}: the file is truncated: the record that ends the heap dump is missing");
        assert_eq!(error, expected);
    }
    assert_eq!(hprof::read(Cursor::new(&file)).unwrap().objects(), 60_000);
}

/// Older Java machines write the heap as one record, which no other record ends.
#[test]
fn a_heap_dump_in_one_record_needs_no_end() {
    let mut file = as_hprof(&list());
    let records = records_of(&file);
    let [.., (segment, 0x1c), (end, 0x2c)] = records[..] else { panic!("{records:?}") };
    file.truncate(end);
    file[segment] = 0x0c;
    assert_eq!(hprof::read(Cursor::new(&file)).unwrap().objects(), 3);
}

/// Each root of a thread is grouped by the thread's name, so the name is cut, between two characters.
#[test]
fn a_long_name_of_a_thread_in_an_hprof_file_is_cut() {
    let thread = format!("x{}", "ä".repeat(10_000));
    let stack = RootGroup { kind: RootKind::Stack, thread: Some(thread) };
    let objects = vec![("Node".to_owned(), 32)];
    let graph = built(&Plan { objects, references: vec![], roots: vec![(stack, 0, 0)] });
    let read = hprof::read(Cursor::new(as_hprof(&graph))).unwrap();
    let group = RootGroup { kind: RootKind::Stack, thread: Some(format!("x{}", "ä".repeat(1_023))) };
    assert_eq!(read.groups(), [group]);
}

/// In each format: a thread with roots on its stack, and in an object that it has not finished.
#[test]
fn the_roots_in_an_unfinished_object_keep_their_thread() {
    let groups = [RootGroup::stack_of(12, "main"), RootGroup::unfinished_of(12, "main")];
    let objects = vec![("Node".to_owned(), 32)];
    let roots = groups.iter().map(|group| (group.clone(), 0, 0)).collect();
    let graph = built(&Plan { objects, references: vec![], roots });
    let of = |read: &Graph| read.groups().iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let expected = of(&graph);
    assert!(expected.iter().any(|group| group.contains("which was building an object")), "{expected:?}");
    assert_eq!(of(&hprof::read(Cursor::new(as_hprof(&graph))).unwrap()), expected);
    assert_eq!(of(&v8::read(&as_v8(&graph)[..]).unwrap()), expected);
}

#[test]
fn a_path_leads_from_the_root_through_labels() {
    let path = paths::shortest(&list(), 2).unwrap();
    assert_eq!(path.root.address, 0x7ffd_0000_1000);
    assert_eq!(path.steps, [(0, Some(Label::Offset(8))), (1, Some(Label::Offset(8))), (2, None)]);
    let unreachable = Plan { objects: vec![("A".to_owned(), 32)], references: vec![], roots: vec![] };
    assert_eq!(paths::shortest(&built(&unreachable), 0), None);
}

#[rstest]
#[case(b"", "byte 0: the file ends here")]
#[case(b"[]", "byte 0: expected `{`: this is not a .heapsnapshot")]
#[case(b"{}", "byte 2: the file has no `snapshot.meta`")]
#[case(br#"{"nodes":[1]}"#, "byte 9: `snapshot.meta` has no field `type` before this part")]
#[case(
    br#"{"snapshot":{"meta":{"edge_fields":["type","name_or_index","to_node"]}},"edges":[0,0,0]}"#,
    "byte 86: the edge refers to node 0, which does not begin a node"
)]
#[case(br#"{"snapshot":{"meta":{"node_fields":["type","#, "byte 43: the file ends here")]
#[case(br#"{"snapshot":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["#, "byte 12: expected `{`")]
fn a_file_that_is_no_heapsnapshot_is_refused_with_the_place(#[case] file: &[u8], #[case] expected: &str) {
    let error = v8::read(file).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[rstest]
#[case("\"edges\":[1,", "\"edges\":[1,1,7,", "does not begin a node")]
#[case("\"edges\":[1,", "\"edges\":[1.5,", "expected a whole number")]
#[case("\"nodes\":[9,", "\"nodes\":[99999999999999999999,", "the number exceeds 64 bits")]
#[case("\"nodes\":[9,0,1,0,1", "\"nodes\":[9,0,1,0,2", "the nodes have 5 edges, and the file has 4")]
#[case("\"strings\":[", "\"strings\":[\"\\q\",", "unknown escape")]
#[case("\"node_count\":", "\"node_count\":1", "`node_count` is 1")]
#[case("\"edge_count\":", "\"edge_count\":1", "`edge_count` is 1")]
fn a_damaged_heapsnapshot_names_the_place(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
    let file = String::from_utf8(as_v8(&list())).unwrap();
    assert!(file.contains(from), "{file}");
    let error = v8::read(file.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("byte ") && error.contains(expected), "{error}");
}

/// Types whose objects have many sizes, or many references, are arrays; with few sizes each has a class. They have their own names again when
/// the file is read.
#[test]
fn types_become_classes_by_size_or_arrays() {
    let mut objects: Vec<_> = (2..4).map(|words| ("two sizes".to_owned(), 16 * words)).collect();
    objects.extend((0..100).map(|words| ("many sizes".to_owned(), 32 + 16 * words)));
    objects.extend((2..4).map(|words| ("short[]".to_owned(), 16 * words)));
    objects.push(("wide[]".to_owned(), 2048));
    let wide = objects.len() - 1;
    let references = (0..100).map(|word| (wide, Label::Offset(8 * word), word as usize)).collect();
    let file = as_hprof(&built(&Plan { objects, references, roots: vec![] }));
    for class in
        ["[Lmany sizes (array);", "two sizes (32 bytes)", "two sizes (48 bytes)", "[Lwide;", "short[] (32 bytes)"]
    {
        assert!(file.windows(class.len()).any(|bytes| bytes == class.as_bytes()), "{class}");
    }
    let read = hprof::read(Cursor::new(file)).unwrap();
    let mut counts = BTreeMap::new();
    for index in 0..read.objects() {
        *counts.entry(read.type_name(index)).or_insert(0) += 1;
    }
    let expected = [("many sizes", 100), ("short[]", 2), ("two sizes", 2), ("wide[]", 1)];
    assert_eq!(counts, BTreeMap::from(expected));
    assert_eq!(read.size(wide as u32), 2048);
}
