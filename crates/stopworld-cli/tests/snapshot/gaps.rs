//! Heap dumps made by hand. Dumps from which something is missing are refused: a snapshot without some objects would show wrong retained
//! sizes. Roots are on the stack that was reported last.

use std::io::{Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use heap_snapshot::{Heap, Label};
use rstest::rstest;
use stopworld_analysis::snapshot::{DumpChoice, TraceHeap};

use crate::nettrace_support::{Block, Event, Form, Type, file};

const START: u32 = 1;
const END: u32 = 2;
const NODES: u32 = 18;
const EDGES: u32 = 19;
const ROOTS: u32 = 16;
/// The number of the event in the file, which the reader does not depend on.
const STACK: u32 = 77;
const THREAD: u64 = 7;
const OTHER_THREAD: u64 = 9;

/// A number, and its size in bytes.
type Number = (u64, usize);

fn payload(numbers: &[Number]) -> Vec<u8> {
    numbers.iter().flat_map(|(number, size)| number.to_le_bytes().into_iter().take(*size)).collect()
}

fn event(kind: u32, numbers: &[Number]) -> Event {
    Event { kind, thread: THREAD, capture: THREAD, sorted: true, payload: payload(numbers), ..Event::default() }
}

/// A collection with a dump of two objects in two events: the first refers to the second, and to itself.
fn dump(collection: u64) -> Vec<Event> {
    let start = [(collection, 4), (2, 4), (1, 4), (0, 4), (5, 2), (0, 8)];
    let node = |index, address, edges| [(index, 4), (1, 4), (5, 2), (address, 8), (32, 8), (0x77, 8), (edges, 8)];
    let edges = [(0, 4), (2, 4), (5, 2), (0x2000, 8), (0, 4), (0x1000, 8), (0, 4)];
    vec![
        event(START, &start),
        event(NODES, &node(0, 0x1000, 2)),
        event(NODES, &node(1, 0x2000, 0)),
        event(EDGES, &edges),
        event(END, &[(collection, 4), (2, 4), (5, 2)]),
    ]
}

/// Numbers the events of each thread, and writes them. Before the event with this index, `lost` events of its thread are missing.
fn written(events: Vec<Event>, lost: Option<(usize, u32)>) -> std::fs::File {
    let kind = |id| Type { id, event: id, provider: "Microsoft-Windows-DotNETRuntime".into(), ..Type::default() };
    let versioned = |id, version| Type { version, ..kind(id) };
    let fields = [("tid", 10), ("kind", 10), ("label", 18)].map(|(name, code)| (name.to_owned(), code));
    let stack = Type { provider: "stopworld".into(), name: "DumpStack".into(), fields: fields.into(), ..kind(STACK) };
    let types = vec![versioned(START, 2), versioned(END, 1), kind(NODES), kind(EDGES), kind(ROOTS), stack];
    let mut numbers = std::collections::HashMap::new();
    let number = |(index, event): (usize, Event)| {
        let last: &mut u32 = numbers.entry(event.capture).or_default();
        *last += 1 + lost.filter(|(at, _)| *at == index).map_or(0, |(_, lost)| lost);
        Event { sequence: *last, time: index as i64, ..event }
    };
    let events = events.into_iter().enumerate().map(number).collect();
    let mut written = tempfile::tempfile().unwrap();
    written.write_all(&file(Form::V4, 8, &[Block::Types(types), Block::Events(events)])).unwrap();
    written.rewind().unwrap();
    written
}

#[rstest]
#[case::complete(dump(1), None, None)]
#[case::a_loss_before_it(dump(1), Some((0, 3)), None)]
#[case::a_loss_in_it(dump(1), Some((2, 3)), Some("collection 1 is incomplete: 3 references"))]
#[case::a_loss_before_its_end(dump(1), Some((4, 1)), Some("collection 1 is incomplete: 1 references"))]
#[case::an_event_of_objects(without(dump(1), 1), None, Some("collection 1 is incomplete: 3 references"))]
#[case::an_event_of_references(without(dump(1), 3), None, Some("collection 1 is incomplete: 2 references"))]
#[case::its_end(without(dump(1), 4), None, Some("the trace ends inside the heap dump of collection 1"))]
#[case::an_earlier_one_is_complete([dump(1), without(dump(2), 1)].concat(), None, None)]
#[case::a_loss_of_another_thread(with_another_thread(dump(1)), Some((3, 5)), None)]
fn a_dump_with_a_gap_is_refused(
    #[case] events: Vec<Event>,
    #[case] lost: Option<(usize, u32)>,
    #[case] refused: Option<&str>,
) {
    match (TraceHeap::open(written(events, lost), DumpChoice::default()), refused) {
        (Ok(heap), None) => assert_eq!((heap.collection(), heap.objects(), heap.references()), (1, 2, 2)),
        (Err(error), Some(expected)) => assert!(error.to_string().contains(expected), "{error}"),
        (result, expected) => panic!("{result:?} instead of {expected:?}"),
    }
}

fn without(mut events: Vec<Event>, index: usize) -> Vec<Event> {
    events.remove(index);
    events
}

/// Inserts two events of another thread: the second is the event with index 3.
fn with_another_thread(mut events: Vec<Event>) -> Vec<Event> {
    let other = Event {
        thread: OTHER_THREAD,
        capture: OTHER_THREAD,
        payload: payload(&[(0, 6)]),
        kind: EDGES,
        ..events[1].clone()
    };
    events.insert(1, other.clone());
    events.insert(3, other);
    events
}

/// The .NET runtime writes 0 as the field of each reference: references are then numbered.
#[test]
fn references_without_fields_are_numbered() {
    let heap = TraceHeap::open(written(dump(1), None), DumpChoice::default()).unwrap();
    let mut labels = Vec::new();
    let visited = heap.visit(&mut |object| {
        labels.extend(object.references.iter().map(|reference| (heap.address(object.index), reference.label)));
        Ok(())
    });
    visited.unwrap();
    // The object without references waits for the one before it.
    assert_eq!(labels, [(0x1000, Label::Index(0)), (0x1000, Label::Index(1))]);
    assert_eq!((heap.address(0), heap.address(1)), (0x1000, 0x2000));
    assert_eq!(heap.types(), ["(type 0x77)"]);
}

/// A root: the number of its event, its kind, its address. It refers to the first object.
fn root(index: u64, kind: u64, address: u64) -> Event {
    event(ROOTS, &[(index, 4), (1, 4), (5, 2), (0x1000, 8), (kind, 1), (0, 4), (address, 8)])
}

fn stack(tid: u64, kind: u64, name: &str) -> Event {
    let mut event = event(STACK, &[(tid, 4), (kind, 4)]);
    event.payload.extend(name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    event
}

/// The roots of a heap, as their groups and addresses.
fn roots_of(heap: &TraceHeap) -> Vec<String> {
    let root = |root: &heap_snapshot::Root| format!("{} {}", heap.groups()[root.group as usize], root.address);
    heap.roots().iter().map(root).collect()
}

/// Inserts events into a dump before its objects.
fn with_roots(mut dump: Vec<Event>, roots: Vec<Event>) -> Vec<Event> {
    dump.splice(1..1, roots);
    dump
}

#[rstest]
#[case::a_trace_without_stacks(vec![root(0, 0, 1), root(1, 2, 2), root(2, 1, 3)], &["stacks 1", "handles 2", "finalizers 3"])]
#[case::two_threads(
    vec![stack(12, 0, "one"), root(0, 0, 1), stack(13, 0, ""), root(1, 0, 2)],
    &["stacks of thread 12 \"one\" 1", "stacks of thread 13 2"]
)]
#[case::a_thread_twice(
    vec![stack(12, 0, "one"), root(0, 0, 1), stack(13, 0, ""), root(1, 0, 2), stack(12, 0, "one"), root(2, 0, 3)],
    &["stacks of thread 12 \"one\" 1", "stacks of thread 13 2", "stacks of thread 12 \"one\" 3"]
)]
#[case::handles_are_on_no_stack(vec![stack(12, 0, "one"), root(0, 2, 1)], &["handles 1"])]
#[case::an_object_that_a_thread_was_building(
    vec![stack(12, 1, "one"), root(0, 0, 1)],
    &["other roots of thread 12 \"one\", which was building an object 1"]
)]
#[case::a_registered_stack(vec![stack(0, 2, ""), root(0, 0, 1)], &["stacks of registered stacks 1"])]
#[case::the_dump_of_another_thread(vec![of_another_thread(stack(12, 0, "one")), root(0, 0, 1)], &["stacks 1"])]
fn a_root_is_on_the_stack_that_was_reported_last(#[case] roots: Vec<Event>, #[case] expected: &[&str]) {
    let heap = TraceHeap::open(written(with_roots(dump(1), roots), None), DumpChoice::default()).unwrap();
    assert_eq!(roots_of(&heap), expected);
    assert!(heap.groups().iter().collect::<std::collections::HashSet<_>>().len() == heap.groups().len());
}

/// Changes the number of the runtime in a dump.
fn of_runtime(runtime: u16, mut events: Vec<Event>) -> Vec<Event> {
    for event in events.iter_mut().filter(|event| event.kind != STACK) {
        let at = if event.kind == START { 16 } else { 8 };
        event.payload[at..at + 2].copy_from_slice(&runtime.to_le_bytes());
    }
    events
}

/// The ends of nine collections of a thread are lost. The stack belongs to the tenth.
#[test]
fn a_stack_belongs_to_the_last_collection_of_its_thread() {
    let unfinished = (1..10).map(|number| of_runtime(number, dump(number.into())).swap_remove(0));
    let last = with_roots(dump(10), vec![stack(12, 0, "one"), root(0, 0, 1)]);
    let events = unfinished.chain(of_runtime(10, last)).collect();
    let heap = TraceHeap::open(written(events, None), DumpChoice::default()).unwrap();
    assert_eq!((heap.collection(), roots_of(&heap)), (10, vec!["stacks of thread 12 \"one\" 1".to_owned()]));
}

fn of_another_thread(event: Event) -> Event {
    Event { thread: OTHER_THREAD, capture: OTHER_THREAD, ..event }
}

/// The name of a thread is cut to 512 bytes, between two characters.
#[test]
fn a_long_name_is_cut() {
    let name = format!("x{}", "ä".repeat(10_000));
    let roots = vec![stack(12, 0, &name), root(0, 0, 1), root(1, 0, 2)];
    let heap = TraceHeap::open(written(with_roots(dump(1), roots), None), DumpChoice::default()).unwrap();
    let group = format!("stacks of thread 12 \"x{}\"", "ä".repeat(255));
    assert_eq!(roots_of(&heap), [format!("{group} 1"), format!("{group} 2")]);
}

/// Without the event, the second root would be on the stack of the first thread.
#[test]
fn a_dump_with_a_lost_stack_is_refused() {
    let roots = |second: Option<Event>| {
        let first = [stack(12, 0, "one"), root(0, 0, 1)];
        with_roots(dump(1), first.into_iter().chain(second).chain([root(1, 0, 2)]).collect())
    };
    let complete = TraceHeap::open(written(roots(Some(stack(13, 0, "two"))), None), DumpChoice::default()).unwrap();
    assert_eq!(roots_of(&complete), ["stacks of thread 12 \"one\" 1", "stacks of thread 13 \"two\" 2"]);
    let error = TraceHeap::open(written(roots(None), Some((3, 1))), DumpChoice::default()).unwrap_err().to_string();
    assert!(error.contains("collection 1 is incomplete: 1 references or events are missing"), "{error}");
}

/// Two runtimes dump at the same time, each by its own thread, and one of them dumps again. A stack belongs to the dump of its thread.
#[rstest]
#[case(1, &["stacks of thread 12 \"one\" 1", "stacks of thread 13 \"two\" 2"])]
#[case(2, &["stacks 3", "stacks of thread 22 \"other\" 4"])]
#[case(3, &["stacks 5", "stacks of thread 13 \"two\" 6"])]
fn each_dump_has_its_own_stacks(#[case] collection: i32, #[case] expected: &[&str]) {
    let first = vec![stack(12, 0, "one"), root(0, 0, 1), stack(13, 0, "two"), root(1, 0, 2)];
    let first = of_runtime(5, with_roots(dump(1), first));
    let other = of_runtime(6, with_roots(dump(2), vec![root(0, 0, 3), stack(22, 0, "other"), root(1, 0, 4)]));
    let (mut first, mut other) = (first.into_iter(), other.into_iter().map(of_another_thread));
    let mut events = Vec::new();
    while first.len() + other.len() > 0 {
        events.extend(first.next().into_iter().chain(other.next()));
    }
    events.extend(with_roots(dump(3), vec![root(0, 0, 5), stack(13, 0, "two"), root(1, 0, 6)]));
    let choice = DumpChoice { collection: Some(collection), world: None };
    let heap = TraceHeap::open(written(events, None), choice).unwrap();
    assert_eq!(
        (heap.collection(), roots_of(&heap)),
        (collection, expected.iter().map(|&root| root.to_owned()).collect())
    );
}

/// The worlds of a trace have collections with the same numbers, so a dump is not taken from any of them.
#[rstest]
#[case::the_only_world(&[(5, 1), (5, 2)], None, None, Ok(2))]
#[case::two_worlds(&[(5, 1), (6, 3)], None, None, Err("the trace has heap dumps of several worlds: --world selects one of 5, 6"))]
#[case::the_first(&[(5, 1), (6, 3)], None, Some(5), Ok(1))]
#[case::the_second(&[(6, 3), (5, 1)], None, Some(6), Ok(3))]
#[case::a_number_of_both(&[(5, 1), (6, 1)], Some(1), None, Err("the collections with number 1 have heap dumps of several worlds: --world"))]
#[case::a_number_of_one(&[(5, 1), (6, 3)], Some(1), None, Ok(1))]
#[case::a_number_and_a_world(&[(5, 1), (6, 1), (6, 2)], Some(1), Some(6), Ok(1))]
#[case::a_number_of_another_world(&[(5, 1), (6, 2)], Some(1), Some(6), Err("collection 1 has no complete heap dump; those that have one: 2"))]
#[case::no_such_world(&[(5, 1), (6, 3)], None, Some(0), Err("world 0 has no complete heap dump in the trace; those that have one: 5, 6"))]
#[case::a_large_number(&[(5, 1)], None, Some(65_536 + 5), Err("world 65541 has no complete heap dump"))]
fn a_dump_of_several_worlds_is_selected_by_its_world(
    #[case] dumps: &[(u16, u64)],
    #[case] collection: Option<i32>,
    #[case] world: Option<u64>,
    #[case] expected: Result<i32, &str>,
) {
    let events = dumps.iter().flat_map(|(runtime, number)| of_runtime(*runtime, dump(*number))).collect();
    match (TraceHeap::open(written(events, None), DumpChoice { collection, world }), expected) {
        (Ok(heap), Ok(number)) => assert_eq!((heap.collection(), heap.objects()), (number, 2)),
        (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
        (result, expected) => panic!("{result:?} instead of {expected:?}"),
    }
}

/// The world of the dump that is missing may be the one that the user means.
#[test]
fn a_world_with_an_incomplete_dump_counts() {
    for lost in [1, 4] {
        let events = [of_runtime(5, dump(1)), of_runtime(6, without(dump(1), lost))].concat();
        let error = TraceHeap::open(written(events, None), DumpChoice::default()).unwrap_err().to_string();
        assert!(error.contains("--world selects one of 5, 6"), "{error}");
    }
}

/// A progress bar counts the bytes of a trace: opening it reads all of them twice, a visit once more. What follows the end of the trace is
/// counted, too.
#[test]
fn reading_reports_the_whole_file_each_time() {
    let file = written(dump(1), None);
    let length = 16 << 20;
    file.set_len(length).unwrap();
    let read = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&read);
    let on_read = move |count| _ = counter.fetch_add(count, Ordering::Relaxed);
    let heap = TraceHeap::open_watched(file, DumpChoice::default(), Box::new(on_read)).unwrap();
    assert_eq!(read.load(Ordering::Relaxed), 2 * length);
    heap.visit(&mut |_| Ok(())).unwrap();
    assert_eq!(read.load(Ordering::Relaxed), 3 * length);
}
