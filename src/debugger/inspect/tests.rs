//! Tests of the queries, made in the process itself, on heaps whose answers are known (`.debug.inspect`).

use std::ops::ControlFlow;

use proptest::prelude::*;
use rstest::rstest;

use super::answers::{describe_in, fields_in, referrers_in, request_in};
use super::objects::View;
use super::*;
use crate::collector::Collector;
use crate::debugger::contract::stopworld_debugger;
use crate::heap::layout::{BLOCK_BYTES, CHUNK_BYTES, HEADER_BYTES};
use crate::heap::trace::{Shape, TypeInfo};
use crate::sync::{AtomicUsize, Ordering};
use crate::{Array, DescribedType, Gc, GcCell, Layout, Leaf, Mutator, Root, World, traced};

traced! {
    struct Pair {
        head: GcCell<Option<Gc<Pair>>>,
        tail: GcCell<Option<Gc<Pair>>>,
        key: u64,
    }
}

/// A word that may be a reference or a number.
#[derive(Clone, Copy, Debug)]
struct Tagged(usize);

// SAFETY: the word as it is; its value is either an object's address or no object's address.
unsafe impl crate::Word for Tagged {
    const MAY_REFER: bool = true;
    fn to_bits(self) -> usize {
        self.0
    }
    unsafe fn from_bits(bits: usize) -> Self {
        Self(bits)
    }
}

type Words = Array<GcCell<Tagged>>;

pub(super) fn world() -> World {
    World::builder().heap_limit(64 << 20).markers(1).build().unwrap()
}

/// Runs `build` on a mutator that has detached when this returns, so that no stack holds a reference.
pub(super) fn built<R: Send + 'static>(world: &World, build: impl FnOnce(&Mutator) -> R + Send + 'static) -> R {
    // SAFETY: every `Gc` is a local variable or in a collected object.
    unsafe { world.spawn("builder", build) }.unwrap().join().unwrap()
}

fn pair(m: &Mutator, head: Option<Gc<Pair>>, tail: Option<Gc<Pair>>) -> Gc<Pair> {
    m.alloc(Pair { head: GcCell::new(head), tail: GcCell::new(tail), key: 7 }).unwrap()
}

pub(super) fn view(collector: &Collector) -> View<'_> {
    View::of(collector)
}

fn text(address: usize, bytes: usize) -> String {
    // SAFETY: the address and the length of a name, as returned.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, bytes) };
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn path_to(collector: &Collector, address: usize) -> Vec<Step> {
    let view = view(collector);
    let target = view.object_around(address).expect("an object");
    let mut steps = vec![Step::default(); 10_000];
    let count = search::path_to(target, &view, |index, step| steps[index] = step).unwrap();
    steps.truncate(count);
    steps
}

/// A thread was stopped while it registered a stack, and that stack may reference the object.
#[test]
fn a_search_that_needs_the_stack_list_while_a_thread_changes_it_is_busy() {
    let world = world();
    let address = built(&world, |m| Gc::addr(m.alloc(7_u64).unwrap()));
    let collector = world.collector();
    let answer = || {
        let view = view(collector);
        search::path_to(view.object_around(address).expect("an object"), &view, |_, _| {})
    };
    assert_eq!(answer(), Ok(0));
    let held = collector.threads.locks().list.lock();
    assert_eq!(answer(), Err(Refusal::Busy));
    drop(held);
    assert_eq!(answer(), Ok(0));
}

/// The kind of object to allocate, and the expected facts.
#[rstest]
#[case::small(|m: &Mutator| Gc::addr(pair(m, None, None)), "Pair", 24, 32, 2, 0, 0)]
#[case::pinned(|m: &Mutator| Gc::addr(m.alloc_pinned(5_u64).unwrap()), "u64", 8, 16, 0, 1, LEAF | PINNED)]
#[case::array(|m: &Mutator| Gc::addr(m.alloc_array(9, |_| GcCell::new(None::<Gc<Pair>>)).unwrap()), "GcCell[]", 80, 88, 9, 0, ARRAY)]
#[case::numbers(|m: &Mutator| Gc::addr(m.alloc_array(9, |i| i as u64).unwrap()), "u64[]", 80, 88, 0, 0, ARRAY | LEAF)]
#[case::large(|m: &Mutator| Gc::addr(m.alloc_array(5000, |i| i as u64).unwrap()), "u64[]", 40_008, 49_152, 0, 2, ARRAY | LEAF | LARGE)]
#[case::large_array(|m: &Mutator| Gc::addr(m.alloc_array(5000, |_| GcCell::new(None::<Gc<Pair>>)).unwrap()), "GcCell[]", 40_008, 49_152, 5000, 2, ARRAY | LARGE)]
#[case::weak(|m: &Mutator| Gc::addr(m.alloc_weak(pair(m, None, None)).unwrap()), "Weak", 16, 24, 1, 0, WEAK)]
#[case::dropped(|m: &Mutator| Gc::addr(m.alloc(Leaf(String::from("x"))).unwrap()), "Leaf", 24, 32, 0, 0, LEAF | DROPS)]
#[case::bytes(|m: &Mutator| Gc::addr(m.alloc_bytes(100).unwrap()), "bytes", 104, 112, 0, 0, LEAF)]
#[case::described(
    |m: &Mutator| Gc::addr(m.alloc_described(DescribedType::new("pair of words", 16, Layout::WORD).unwrap()).unwrap()),
    "pair of words", 16, 24, 1, 0, 0
)]
fn an_object_is_described_from_its_first_byte_to_just_past_its_end(
    #[case] allocate: fn(&Mutator) -> usize,
    #[case] name: &str,
    #[case] bytes: usize,
    #[case] cell_bytes: usize,
    #[case] fields: usize,
    #[case] space: u32,
    #[case] flags: u32,
) {
    let world = world();
    let base = built(&world, allocate);
    let collector = world.collector();
    for offset in [0, 1, bytes / 2, bytes - 1, bytes] {
        let (found, facts) = describe_in(&view(collector), base + offset);
        assert!(found && facts.base == base, "{offset} bytes after {base:#x}: {facts:x?}");
        assert_eq!((facts.bytes, facts.cell_bytes, facts.fields), (bytes, cell_bytes, fields));
        assert_eq!((facts.space, facts.flags, facts.marked), (space, flags, 0));
        let (type_name, rust_name) =
            (text(facts.type_name, facts.type_name_bytes), text(facts.rust_name, facts.rust_name_bytes));
        assert!(type_name.ends_with(name), "{type_name}");
        assert!(rust_name.contains("::") || rust_name == name || rust_name.starts_with("described"), "{rust_name}");
    }
    assert!(
        describe_in(&view(collector), base - 8).1.base == base || base % BLOCK_BYTES == 16,
        "its header is its own"
    );
}

#[test]
fn addresses_without_an_object_are_distinguished_from_objects() {
    let world = world();
    let (kept, dead) = built(&world, |m| {
        let dead = Gc::addr(pair(m, None, None));
        let kept = pair(m, None, None);
        (m.root(kept), dead)
    });
    let collector = world.collector();
    let base = collector.heap.blocks.base();
    assert!(describe_in(&view(collector), dead).0, "no collection has found yet that it is dead");
    world.collect().unwrap();
    let (found, facts) = describe_in(&view(collector), dead);
    assert_eq!((found, facts.base, facts.flags), (false, dead, FREE_CELL));
    let marked = describe_in(&view(collector), collector.roots.get(0)).1;
    assert_eq!((marked.marked, marked.flags), (1, 0));
    for nowhere in [base + CHUNK_BYTES - 1, base + (32 << 20)] {
        assert_eq!(
            describe_in(&view(collector), nowhere),
            (false, ObjectFacts { flags: FREE_BLOCK, ..Default::default() })
        );
    }
    for elsewhere in [0, 8, base - 1, usize::MAX, std::ptr::from_ref(&world) as usize] {
        assert!(view(collector).object_around(elsewhere).is_none());
    }
    drop(kept);
}

/// The queries give results although memory is damaged, because then a debugger is used.
#[rstest]
#[case::odd(0x1001)]
#[case::nowhere(0xdead_0000)]
#[case::no_address(0xffff_8000_0000_0000)]
#[case::no_type(0)]
fn a_header_that_is_no_type_makes_no_object_and_no_fault(#[case] header: usize) {
    let world = world();
    let header = if header == 0 { Box::leak(Box::new([0_u64; 64])).as_ptr() as usize } else { header };
    let (root, other) = built(&world, |m| {
        let other = pair(m, None, None);
        (m.root(pair(m, Some(other), None)), Gc::addr(other))
    });
    let collector = world.collector();
    // SAFETY: the header of a live object, restored below; no other code reads it.
    let word = unsafe { &*((other - HEADER_BYTES) as *const AtomicUsize) };
    let sound = word.swap(header, Ordering::Relaxed);
    assert!(!describe_in(&view(collector), other).0);
    let mut fields = Vec::new();
    let v = view(collector);
    fields_in(&v, v.object_at(collector.roots.get(0)).unwrap(), |_, field| fields.push(field));
    assert_eq!((fields[0].value, fields[0].target), (other, 0));
    assert_eq!(counting::take(&view(collector), |_, _| {}).unwrap(), 1);
    word.store(sound, Ordering::Relaxed);
    assert!(describe_in(&view(collector), other).0);
    drop(root);
}

/// A type descriptor with an alignment that no collected type has is damaged: its size class is not looked up.
#[test]
fn a_type_with_an_impossible_alignment_is_described_too() {
    let world = world();
    let number = built(&world, |m| Gc::addr(m.alloc(5_u64).unwrap()));
    let info = Box::leak(Box::new(TypeInfo::of_described("damaged", 8, 1 << 40, Shape::Leaf)));
    // SAFETY: the header of a live object, restored below; no other code reads it.
    let word = unsafe { &*((number - HEADER_BYTES) as *const AtomicUsize) };
    let sound = word.swap(std::ptr::from_ref(info) as usize, Ordering::Relaxed);
    let (found, facts) = describe_in(&view(world.collector()), number);
    word.store(sound, Ordering::Relaxed);
    assert!(found);
    assert_eq!((facts.base, facts.bytes, facts.flags), (number, 8, LEAF));
}

/// The array has a damaged length.
#[test]
fn an_array_is_no_longer_than_its_cell() {
    let world = world();
    let array = built(&world, |m| {
        let array = m.alloc_array(3, |_| GcCell::new(None::<Gc<Pair>>)).unwrap();
        std::mem::forget(m.root(array));
        Gc::addr(array)
    });
    // SAFETY: the length of a live array, restored below.
    let length = unsafe { &*(array as *const AtomicUsize) };
    length.store(usize::MAX / 3, Ordering::Relaxed);
    let facts = describe_in(&view(world.collector()), array).1;
    assert_eq!((facts.length, facts.fields, facts.bytes), (3, 3, 32));
    length.store(3, Ordering::Relaxed);
}

/// A word in the block table is damaged: it has a cell size that no block has.
#[rstest]
#[case::across_words(12)]
#[case::smaller_than_any(8)]
#[case::bytes(1)]
#[case::larger_than_a_block(40_000)]
fn cells_that_no_block_has_make_no_object_and_no_fault(#[case] cell_bytes: u16) {
    let world = world();
    let pairs = built(&world, |m| (0..400).map(|_| Gc::addr(pair(m, None, None))).collect::<Vec<_>>());
    let collector = world.collector();
    let blocks = &collector.heap.blocks;
    let block = ((pairs[0] - blocks.base()) / BLOCK_BYTES) as u32;
    assert_eq!(pairs.last().unwrap() / BLOCK_BYTES, pairs[0] / BLOCK_BYTES, "more than half of the block");
    blocks.set_cell_bytes(block, cell_bytes);
    let start = blocks.start(block);
    let v = view(collector);
    for address in start..start + BLOCK_BYTES {
        assert!(!describe_in(&v, address).0, "{address:#x}");
    }
    let counted = v.for_each_object(|object| ControlFlow::Break(object.cell));
    blocks.set_cell_bytes(block, 32);
    assert_eq!(counted, ControlFlow::Continue(()));
    assert!(describe_in(&v, pairs[0]).0);
}

/// The size of a large object is damaged, and so is the length of its array.
#[test]
fn a_large_object_is_no_larger_than_the_heap() {
    let world = world();
    let array = built(&world, |m| Gc::addr(m.alloc_array(5000, |_| GcCell::new(None::<Gc<Pair>>)).unwrap()));
    let collector = world.collector();
    let v = view(collector);
    let object = v.object_at(array).unwrap();
    let size = &collector.heap.blocks.info(object.cell.block).tail.large_bytes;
    // SAFETY: the length of a live array; only these queries read it.
    let length = unsafe { &*(array as *const AtomicUsize) };
    for damaged in [1 << 30, usize::MAX] {
        let sound = (size.swap(damaged, Ordering::Relaxed), length.swap(usize::MAX, Ordering::Relaxed));
        let (found, facts) = describe_in(&v, array + 5);
        let last = fields_in(&v, v.object_at(array).unwrap(), |_, _| {});
        size.store(sound.0, Ordering::Relaxed);
        length.store(sound.1, Ordering::Relaxed);
        assert!(found && facts.bytes <= CHUNK_BYTES && last <= CHUNK_BYTES / 8, "{facts:x?}, {last} fields");
    }
}

/// The objects by number, with the words of each: a reference to another object, by its number, or another value.
type Graph = Vec<Vec<Result<usize, usize>>>;

fn graphs() -> impl Strategy<Value = Graph> {
    (1_usize..40).prop_flat_map(|objects| {
        let word = prop_oneof![
            6 => (0..objects).prop_map(Ok),
            1 => Just(Err(0)),
            1 => any::<usize>().prop_map(|word| Err(word | 1)),
        ];
        // Some of the objects are large objects.
        let words = prop_oneof![9 => 0_usize..12, 1 => 1100_usize..1300];
        let object = words.prop_flat_map(move |count| proptest::collection::vec(word.clone(), count));
        proptest::collection::vec(object, objects)
    })
}

/// Builds the graph and returns the addresses, with a handle for the first object; the others may be reachable from it or not.
fn build(m: &Mutator, graph: &Graph) -> (Vec<usize>, Root<Words>) {
    let index: Gc<Words> = m.alloc_array(graph.len(), |_| GcCell::new(Tagged(0))).unwrap();
    for (place, words) in index.iter().zip(graph) {
        place.set(Tagged(Gc::addr(m.alloc_array(words.len(), |_| GcCell::new(Tagged(0))).unwrap())));
    }
    let addresses: Vec<usize> = index.iter().map(|place| place.get().0).collect();
    for (address, words) in addresses.iter().zip(graph) {
        // SAFETY: allocated above, and the index keeps it.
        let object: Gc<Words> = unsafe { Gc::from_addr(*address) };
        for (place, word) in object.iter().zip(words) {
            place.set(Tagged(word.map_or_else(|other| other, |target| addresses[target])));
        }
    }
    for place in index.iter() {
        place.set(Tagged(0));
    }
    // SAFETY: as above.
    let first: Gc<Words> = unsafe { Gc::from_addr(addresses[0]) };
    (addresses, m.root(first))
}

/// The number of steps from object 0 to each object, by a simple search.
fn distances(graph: &Graph) -> Vec<Option<usize>> {
    let mut steps = vec![None; graph.len()];
    steps[0] = Some(1);
    for _ in 0..graph.len() {
        for (from, words) in graph.iter().enumerate() {
            for to in words.iter().filter_map(|word| word.ok()) {
                if let Some(step) = steps[from] {
                    steps[to] = Some(steps[to].map_or(step + 1, |before: usize| before.min(step + 1)));
                }
            }
        }
    }
    steps
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn fields_referrers_and_paths_are_those_of_the_graph_that_was_built(graph in graphs()) {
        let world = world();
        let given = graph.clone();
        let (addresses, root) = built(&world, move |m| build(m, &given));
        let collector = world.collector();
        let view = view(collector);
        let steps = distances(&graph);
        for (number, words) in graph.iter().enumerate() {
            let object = view.object_at(addresses[number]).unwrap();
            let mut fields = Vec::new();
            prop_assert_eq!(fields_in(&view, object, |_, field| fields.push(field)), words.len());
            for (index, (field, word)) in fields.iter().zip(words).enumerate() {
                let value = word.map_or_else(|other| other, |target| addresses[target]);
                let target = word.map_or(0, |target| addresses[target]);
                prop_assert_eq!(*field, FieldFacts { offset: 8 + 8 * index, value, target });
            }
            let mut found = Vec::new();
            referrers_in(&view, object, |_, holder| found.push(holder));
            let mut expected: Vec<usize> =
                (0..graph.len()).filter(|holder| graph[*holder].contains(&Ok(number))).map(|holder| addresses[holder]).collect();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
            let path = path_to(collector, addresses[number]);
            prop_assert_eq!(path.len(), steps[number].unwrap_or(0));
            let mut holder = 0;
            for (index, step) in path.iter().enumerate() {
                let kind = if index == 0 { StepKind::Handle } else { StepKind::Field };
                prop_assert_eq!(step.kind, kind as u32);
                if index > 0 {
                    prop_assert_eq!(step.slot, holder + step.offset);
                    // SAFETY: a field of a live object.
                    prop_assert_eq!(unsafe { *(step.slot as *const usize) }, step.object);
                }
                holder = step.object;
            }
        }
        drop(root);
    }
}

#[test]
fn a_census_counts_all_objects() {
    let world = world();
    built(&world, |m| {
        for _ in 0..100 {
            pair(m, None, None);
        }
        m.alloc_array(5000, |i| i as u64).unwrap();
    });
    let mut rows = Vec::new();
    counting::take(&view(world.collector()), |_, row| rows.push(row)).unwrap();
    rows.sort_unstable_by_key(|row| row.objects);
    let rows: Vec<(String, u64, u64)> =
        rows.iter().map(|row| (text(row.type_name, row.type_name_bytes), row.objects, row.bytes)).collect();
    let pair = format!("{}::Pair", module_path!());
    assert_eq!(rows, [("u64[]".to_owned(), 1, 49_152), (pair, 100, 3200)]);
}

/// The record of the only thread.
fn record_of(collector: &Collector) -> &'static crate::ThreadStopInfo {
    let mut records = Vec::new();
    view(collector).for_each_record(|record| records.push(record));
    assert_eq!(records.len(), 1);
    records[0]
}

/// The kinds of the steps of a path.
fn kinds(path: &[Step]) -> Vec<u32> {
    path.iter().map(|step| step.kind).collect()
}

#[test]
fn a_path_begins_at_a_word_of_a_stack() {
    let world = world();
    // SAFETY: every `Gc` is a local variable.
    let m = unsafe { world.attach("holder") }.unwrap();
    let object = pair(&m, Some(pair(&m, None, None)), None);
    let (target, collector) = (Gc::addr(object.head.get().unwrap()), world.collector());
    let path = m.blocking(|| path_to(collector, target));
    assert_eq!((path[0].kind, path[0].tid), (StepKind::Stack as u32, m.tid().0));
    assert_eq!(path.last().unwrap().object, target);
    crate::keep_alive(object);
}

#[test]
fn a_path_begins_at_a_word_of_a_save_area() {
    let world = world();
    // SAFETY: every `Gc` is a local variable.
    let m = unsafe { world.attach("holder") }.unwrap();
    let (collector, tid) = (world.collector(), m.tid().0);
    let path = m.blocking(|| {
        let (dead, _) = built(&world, |m| (Gc::addr(pair(m, None, None)), ()));
        let record = record_of(collector);
        let (area, _) = record.save_area();
        // SAFETY: the save area of a thread that is not being stopped.
        unsafe { area.cast::<usize>().add(1).write(dead + 3) };
        record.set_save_area_used(16);
        // This stack references the object too, but the path through the registers is as short.
        let path = path_to(collector, dead);
        record.set_save_area_used(0);
        (path, area as usize)
    });
    let (path, area) = path;
    assert_eq!(path.len(), 1);
    if path[0].kind == StepKind::Registers as u32 {
        assert_eq!((path[0].tid, path[0].slot, path[0].offset), (tid, area + 8, 3));
    } else {
        assert_eq!(path[0].kind, StepKind::Stack as u32);
    }
}

#[test]
fn a_path_begins_in_a_registered_range() {
    let world = world();
    let target = built(&world, |m| Gc::addr(pair(m, None, None)));
    let words = [1, 2, target + 8, 4];
    // SAFETY: readable until the end of this function.
    let range = unsafe { world.register_range(words.as_ptr().cast(), 32) };
    let path = path_to(world.collector(), target);
    let slot = std::ptr::from_ref(&words[2]) as usize;
    let value = target + 8;
    assert_eq!(path, [Step { kind: StepKind::Range as u32, tid: 0, slot, value, object: target, offset: 8 }]);
    drop(range);
    assert_eq!(path_to(world.collector(), target), []);
}

#[test]
fn a_path_begins_at_the_finalizers_queue() {
    let world = world();
    let (_running, held) = (std::sync::Mutex::new(()), std::sync::Arc::new(std::sync::Barrier::new(2)));
    static DOORS: std::sync::Mutex<Vec<std::sync::Arc<std::sync::Barrier>>> = std::sync::Mutex::new(Vec::new());
    DOORS.lock().unwrap().push(std::sync::Arc::clone(&held));
    // The first finalizer blocks the thread while the second object waits.
    let waiting = built(&world, |m| {
        fn wait(m: &Mutator, _: Gc<Pair>) {
            let door = DOORS.lock().unwrap().pop();
            if let Some(door) = door {
                m.blocking(|| {
                    door.wait();
                    door.wait();
                });
            }
        }
        m.set_finalizer(pair(m, None, None), wait).unwrap();
        let second = pair(m, None, None);
        m.set_finalizer(second, wait).unwrap();
        Gc::addr(second)
    });
    world.collect().unwrap();
    held.wait();
    let path = path_to(world.collector(), waiting);
    held.wait();
    assert_eq!(kinds(&path), [StepKind::Finalizer as u32]);
}

/// `.stop.mid-alloc`: an object whose header is not written yet keeps its target alive, so it is the beginning of a path.
#[test]
fn a_path_begins_at_a_partially_initialised_object() {
    let world = world();
    let collector = world.collector();
    let target = built(&world, |m| !Gc::addr(pair(m, None, None)));
    let seen = std::sync::Mutex::new(None);
    // SAFETY: every `Gc` is a local variable.
    let m = unsafe { world.attach("builder") }.unwrap();
    // SAFETY: room for a pair; the address belongs to a live object.
    let build = |place: *mut Pair| unsafe { place.cast::<[usize; 2]>().write([!target, 0]) };
    let meanwhile = || {
        let v = view(collector);
        let cell = half_built_cell(collector);
        // This thread's stack may reference the object, too: only the roots of this kind are checked.
        let mut kept_by = Vec::new();
        let _ = search::for_each_root(&v, |root, object| {
            if object.payload() == !target && root.kind == StepKind::HalfBuilt {
                kept_by.push((root.tid, root.slot, root.word));
            }
            ControlFlow::<()>::Continue(())
        });
        let begins = path_to(collector, !target)[0].kind;
        *seen.lock().unwrap() = Some((cell, kept_by, begins, describe_in(&v, cell).1.flags));
    };
    // SAFETY: the pair is written completely, and nothing is allocated meanwhile.
    unsafe { crate::testing::alloc_with_a_pause(&m, build, meanwhile) }.unwrap();
    let (cell, kept_by, begins, flags) = seen.into_inner().unwrap().expect("the pause");
    assert_eq!(kept_by, [(m.tid().0, cell + HEADER_BYTES, !target)], "its first word");
    assert!(begins == StepKind::HalfBuilt as u32 || begins == StepKind::Stack as u32);
    assert_eq!(flags & HALF_BUILT, HALF_BUILT);
}

/// Returns the cell that the only thread will allocate next.
fn half_built_cell(collector: &Collector) -> usize {
    // SAFETY: the cache belongs to the calling thread.
    let cache = unsafe { crate::collector::cache_of(record_of(collector)) }.expect("a thread that allocates");
    cache.half_built().next().expect("it allocates").0
}

/// Called as a debugger does: through the descriptor, with addresses.
#[test]
fn a_debugger_gets_its_answers_through_the_descriptor() {
    let calls = &stopworld_debugger.calls;
    let call = |function: Option<super::super::contract::Call>, a, b, c| {
        // SAFETY: the buffers below are this test's own, and the world stays.
        unsafe { function.expect("published")(a, b, c, 0) }
    };
    let world = world();
    let (root, head, tail) = built(&world, |m| {
        let head = pair(m, None, None);
        let tail = pair(m, Some(head), Some(head));
        (m.root(tail), Gc::addr(head), Gc::addr(tail))
    });
    let published = std::ptr::from_ref(world.collector().threads.published()) as usize;
    let mut facts = ObjectFacts::default();
    assert_eq!(call(calls.describe, head + 9, &raw mut facts as usize, 0), 1);
    assert_eq!((facts.base, facts.world, facts.fields), (head, published, 2));
    let mut fields = [FieldFacts::default(); 4];
    assert_eq!(call(calls.fields, tail, fields.as_mut_ptr() as usize, 1), 2, "more than the buffer holds");
    assert_eq!((fields[0].target, fields[1]), (head, FieldFacts::default()));
    let mut holders = [0; 4];
    assert_eq!(call(calls.referrers, head, holders.as_mut_ptr() as usize, 4), 1);
    assert_eq!(holders, [tail, 0, 0, 0]);
    let mut steps = [Step::default(); 4];
    assert_eq!(call(calls.path, head, steps.as_mut_ptr() as usize, 4), 2);
    assert_eq!((steps[0].object, steps[1].object), (tail, head));
    let mut rows = [CensusRow::default(); 4];
    assert_eq!(call(calls.census, published, rows.as_mut_ptr() as usize, 4), 1);
    assert_eq!((rows[0].objects, rows[0].bytes), (2, 64));
    assert_eq!(call(calls.request_collection, published, 0, 0), 0);
    assert!(world.collector().heap.is_collection_requested());

    let refused = |refusal: Refusal| refusal as i64;
    assert_eq!(call(calls.describe, 4096, &raw mut facts as usize, 0), refused(Refusal::NoWorld));
    assert_eq!(call(calls.describe, head, 0, 0), refused(Refusal::NoBuffer));
    assert_eq!(call(calls.describe, head, (&raw mut facts as usize) + 1, 0), refused(Refusal::NoBuffer));
    assert_eq!(call(calls.fields, head - 16, fields.as_mut_ptr() as usize, 4), refused(Refusal::NoObject));
    assert_eq!(call(calls.fields, head, 0, 4), refused(Refusal::NoBuffer));
    assert_eq!(call(calls.fields, head, 0, 0), 2, "without a buffer, only the count");
    assert_eq!(call(calls.census, published + 8, rows.as_mut_ptr() as usize, 4), refused(Refusal::NoWorld));
    assert_eq!(call(calls.request_collection, published + 8, 0, 0), refused(Refusal::NoWorld));
    drop(root);
    drop(world);
    assert_eq!(call(calls.describe, head, &raw mut facts as usize, 0), refused(Refusal::NoWorld));
}

/// Calls all queries while threads allocate and collect as fast as they can: a debugger may stop all threads at any of these moments. No
/// thread detaches during a query, just as no thread detaches while a debugger has stopped it. A result is out of date at once; the test
/// requires only that each query returns, and that no thread is disturbed.
#[test]
fn queries_at_any_moment_return() {
    let world = World::builder().heap_limit(64 << 20).initial_heap(1 << 20).build().unwrap();
    let done = std::sync::Arc::new(crate::sync::AtomicBool::new(false));
    let workers: Vec<_> = (0..2)
        .map(|number| {
            let done = std::sync::Arc::clone(&done);
            let work = move |m: &Mutator| {
                let mut list: Option<Gc<Pair>> = None;
                let mut length = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    list = Some(pair(m, list, list));
                    length += 1;
                    if length.is_multiple_of(2000) {
                        list = None;
                        m.alloc_array(2000 + number, |_| GcCell::new(list)).unwrap();
                    }
                }
            };
            // SAFETY: every `Gc` is a local variable.
            unsafe { world.spawn("worker", work) }.unwrap()
        })
        .collect();
    let collector = world.collector();
    let base = collector.heap.blocks.base();
    let begun = std::time::Instant::now();
    let mut seed = 1_usize;
    let mut objects = 0;
    // On a slow machine, until enough objects were found.
    let seconds = |objects| if objects > 100 { 1.5 } else { 120.0 };
    while begun.elapsed().as_secs_f64() < seconds(objects) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let view = view(collector);
        let (found, facts) = describe_in(&view, base + (seed >> 20) % (4 << 20));
        if found && let Some(object) = view.object_at(facts.base) {
            objects += 1;
            fields_in(&view, object, |_, _| {});
            if objects % 50 == 0 {
                referrers_in(&view, object, |_, _| {});
                counting::take(&view, |_, _| {}).unwrap();
                // The heap may have changed between the search and the reconstruction of the path.
                let _ = search::path_to(object, &view, |_, _| {});
            }
        }
    }
    done.store(true, Ordering::Relaxed);
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert!(objects > 100, "{objects} objects were found");
    world.verify().unwrap();
}

#[test]
fn a_requested_collection_happens_at_the_next_allocation() {
    let world = world();
    // SAFETY: no `Gc` is kept.
    let m = unsafe { world.attach("mutator") }.unwrap();
    assert!(!request_in(world.collector()));
    assert_eq!(world.totals().collections, 0);
    let mut allocated = 0;
    while world.totals().collections == 0 {
        pair(&m, None, None);
        allocated += 1;
        assert!(allocated < 1 << 20);
    }
    for _ in 0..10_000 {
        pair(&m, None, None);
    }
    assert_eq!(world.totals().collections, 1, "one request, one collection");
}

#[test]
fn the_finalizer_thread_does_a_requested_collection_if_no_thread_allocates() {
    let world = world();
    built(&world, |m| {
        m.alloc(Leaf(String::from("it has a finalizer, so the thread runs"))).unwrap();
    });
    let collector = world.collector();
    assert!(request_in(collector));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while world.totals().collections == 0 {
        assert!(std::time::Instant::now() < deadline, "no thread collected for 30 s");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The second request arrives when the collection of the first request is over, and the thread that made it has not returned to its loop
/// yet.
#[test]
fn a_collection_requested_during_another_happens_too() {
    let published = std::sync::Arc::new(AtomicUsize::new(0));
    let asked = std::sync::Arc::clone(&published);
    let again = move |report: &crate::CollectionReport| {
        if report.number == 1 {
            // SAFETY: the world exists as long as it collects.
            let woken = unsafe { request_collection(asked.load(Ordering::Relaxed), 0, 0, 0) };
            assert_eq!(woken, 1);
        }
    };
    let world = World::builder().heap_limit(64 << 20).markers(1).on_collection(again).build().unwrap();
    built(&world, |m| {
        m.alloc(Leaf(String::from("it has a finalizer, so the thread runs"))).unwrap();
    });
    let collector = world.collector();
    published.store(std::ptr::from_ref(collector.threads.published()) as usize, Ordering::Relaxed);
    assert!(request_in(collector));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while world.totals().collections < 2 {
        assert!(std::time::Instant::now() < deadline, "the second request was lost");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
