//! A world is read as from outside, and the result is compared with what the collector's own functions for debuggers say (`.debug.outside`).

mod support;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ptr::NonNull;

use heap_snapshot::{Dominators, Graph, Heap as _};
use proptest::prelude::*;
use stopworld::debugger::contract::stopworld_debugger;
use stopworld::debugger::inspect::{self, CensusRow, FieldFacts, ObjectFacts};
use stopworld::untyped::{ObjectPointers, UntypedKind};
use stopworld::{Array, Gc, GcCell, Leaf, Mutator, World, traced};
use stopworld_postmortem::{Process, Space};
use support::Own;

traced! {
    struct Node {
        next: GcCell<Option<Gc<Node>>>,
        value: u64,
        other: GcCell<Option<Gc<Node>>>,
    }
}

traced! {
    struct Wide {
        padding: [u64; 70],
        last: GcCell<Option<Gc<Node>>>,
    }
}

fn descriptor() -> u64 {
    std::ptr::from_ref(&stopworld_debugger) as u64
}

fn process(own: &Own) -> Process<'_> {
    Process::with(own, Vec::new(), &[descriptor()]).unwrap()
}

/// Returns the world that has this object, as the collector says.
fn facts(address: u64) -> ObjectFacts {
    let mut facts = ObjectFacts::default();
    // SAFETY: the other threads of this process do not use this world.
    let found = unsafe { inspect::describe(address as usize, &raw mut facts as usize, 0, 0) };
    assert_eq!(found, 1, "{address:#x}");
    facts
}

fn text(address: usize, bytes: usize) -> String {
    // SAFETY: the name of a type, which lives for ever.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, bytes) };
    String::from_utf8(bytes.to_vec()).unwrap()
}

type Census = BTreeMap<String, (u64, u64)>;

/// The number of objects and their bytes by type, as the collector counts them.
fn counted_inside(world: usize) -> Census {
    let mut rows = vec![CensusRow::default(); 64];
    // SAFETY: as in `facts`.
    let count = unsafe { inspect::census(world, rows.as_mut_ptr() as usize, rows.len(), 0) };
    let mut census = Census::new();
    for row in &rows[..usize::try_from(count).unwrap()] {
        let entry = census.entry(text(row.type_name, row.type_name_bytes)).or_default();
        *entry = (entry.0 + row.objects, entry.1 + row.bytes);
    }
    census
}

fn counted_outside(graph: &Graph) -> Census {
    let mut census = Census::new();
    for object in 0..graph.objects() {
        let entry = census.entry(graph.type_name(object).to_owned()).or_default();
        *entry = (entry.0 + 1, entry.1 + graph.size(object));
    }
    census
}

/// Compares everything that is read of a world from outside with what the collector says.
fn compare(inside: &World, an_object: u64) {
    let own = Own::open();
    let process = process(&own);
    let published = facts(an_object).world;
    let world = process.worlds().0.into_iter().find(|world| world.address == published as u64).unwrap();
    let heap = process.heap(&world).unwrap();
    let (graph, gaps) = process.graph(&world, &heap).unwrap();
    assert!(heap.gaps().is_empty(), "{:?}", heap.gaps());
    // The threads of this process, which run: this one, and perhaps the one for finalizers, which waits.
    assert!(
        (1..=2).contains(&gaps.len()) && gaps.iter().all(|gap| gap.contains("its stack and its registers")),
        "{gaps:?}"
    );
    assert_eq!(counted_outside(&graph), counted_inside(published));
    let histogram = heap.histogram().into_iter().map(|(name, objects, bytes)| (name, (objects, bytes)));
    assert_eq!(histogram.collect::<Census>(), counted_inside(published));
    assert_eq!(heap.verify(&process.mutators(&world).0).places, []);
    let mut buffer = vec![FieldFacts::default(); 4096];
    let mut referrers = BTreeMap::<u64, u64>::new();
    for object in 0..graph.objects() {
        let address = graph.address(object);
        let facts = facts(address);
        assert_eq!((facts.base as u64, facts.cell_bytes as u64), (address, graph.size(object)));
        // SAFETY: as in `facts`.
        let count = unsafe { inspect::fields(address as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0) };
        let count = usize::try_from(count).unwrap().min(buffer.len());
        let expected: Vec<_> = buffer[..count].iter().map(|field| (field.offset as u64, field.target as u64)).collect();
        let found = heap.facts(object, buffer.len()).unwrap();
        let fields: Vec<_> = found
            .fields
            .iter()
            .map(|field| (field.offset, field.target.as_ref().map_or(0, |target| target.0)))
            .collect();
        assert_eq!(fields, expected, "{} at {address:#x}", graph.type_name(object));
        compare_facts(&found, &facts);
        let near: Vec<u64> = found.fields.iter().map(|field| field.value).chain([address]).collect();
        let near = process.heap_near(&world, &near).unwrap();
        assert_eq!(near.facts(near.find(address).unwrap(), buffer.len()), Some(found.clone()));
        // The target of a weak reference is none of an object that refers to it.
        let mut targets: Vec<u64> = expected.iter().map(|(_, target)| *target).collect();
        targets.retain(|target| *target != 0 && !found.is_weak);
        targets.sort_unstable();
        targets.dedup();
        targets.into_iter().for_each(|target| *referrers.entry(target).or_default() += 1);
        for inside in [address + 1, address + graph.size(object) / 2] {
            let mut facts = ObjectFacts::default();
            // SAFETY: as in `facts`.
            let is_object = unsafe { inspect::describe(inside as usize, &raw mut facts as usize, 0, 0) } == 1;
            let found = heap.find(inside).map(|found| graph.address(found));
            assert_eq!(found, is_object.then_some(facts.base as u64), "{inside:#x}");
        }
    }
    for object in (0..graph.objects()).step_by(17) {
        let (_, count) = heap.referrers(object, 4);
        assert_eq!(count, referrers.get(&graph.address(object)).copied().unwrap_or(0));
    }
    black_box(inside);
}

fn compare_facts(outside: &stopworld_postmortem::ObjectFacts, inside: &ObjectFacts) {
    let flag = |flag| inside.flags & flag != 0;
    let name = &outside.type_name;
    assert_eq!(*name, text(inside.type_name, inside.type_name_bytes));
    assert_eq!((outside.footprint, outside.bytes), (inside.cell_bytes as u64, inside.bytes as u64), "{name}");
    assert_eq!(outside.length.unwrap_or(0), inside.length as u64, "{name}");
    assert_eq!(outside.field_count, inside.fields as u64, "{name}");
    let space = [Space::Small, Space::Pinned, Space::Large][inside.space as usize];
    assert_eq!((outside.space, outside.is_marked), (space, inside.marked == 1), "{name}");
    assert_eq!((outside.is_weak, outside.is_dropped), (flag(inspect::WEAK), flag(inspect::DROPS)), "{name}");
    assert_eq!(outside.is_leaf, flag(inspect::LEAF), "{name}");
}

fn node(m: &Mutator, next: Option<Gc<Node>>, other: Option<Gc<Node>>) -> Gc<Node> {
    m.alloc(Node { next: GcCell::new(next), value: 7, other: GcCell::new(other) }).unwrap()
}

/// Objects of all shapes, of which some are garbage.
fn filled(m: &Mutator) -> Gc<Array<Option<Gc<Node>>>> {
    let mut list = None;
    for round in 0..500 {
        list = Some(node(m, list, list.filter(|_| round % 3 == 0)));
        if round % 2 == 0 {
            node(m, list, None);
        }
    }
    m.alloc(Wide { padding: [1; 70], last: GcCell::new(list) }).unwrap();
    m.alloc_pinned(42_u64).unwrap();
    m.alloc_weak(list.unwrap()).unwrap();
    m.alloc_str("some text").unwrap();
    m.alloc_array::<u64>(20_000, |index| index as u64).unwrap();
    m.alloc_array(3_000, |index| (index % 5 == 0).then_some(list).flatten()).unwrap()
}

#[test]
fn a_world_of_typed_objects_is_read_as_the_collector_reads_it() {
    let world = World::builder().heap_limit(64 << 20).markers(1).build().unwrap();
    // SAFETY: this thread keeps its references on its stack.
    let m = unsafe { world.attach("reader") }.unwrap();
    let array = filled(&m);
    let kept = m.root(array);
    // An object that would be dropped, and is not, because no other thread may use the world.
    let undropped = m.root(m.alloc(Leaf(String::from("text"))).unwrap());
    compare(&world, Gc::addr(array) as u64);
    m.collect().unwrap();
    compare(&world, Gc::addr(array) as u64);
    // Blocks with dead cells are swept, and cells are used again.
    for _ in 0..300 {
        node(&m, None, None);
    }
    compare(&world, Gc::addr(array) as u64);
    drop((kept, undropped));
}

#[test]
fn roots_and_retained_sizes_are_those_of_the_program() {
    let world = World::builder().heap_limit(64 << 20).markers(1).build().unwrap();
    // SAFETY: this thread keeps its references on its stack.
    let m = unsafe { world.attach("reader") }.unwrap();
    let list = (0..100).fold(None, |list, _| Some(node(&m, list, None))).unwrap();
    let alone = node(&m, None, None);
    let kept = m.root(list);
    let words = Box::new([Gc::addr(alone)]);
    // SAFETY: the words live longer than the guard.
    let range = unsafe { world.register_range(words.as_ptr().cast(), 8) }.unwrap();
    let own = Own::open();
    let process = process(&own);
    let published = facts(Gc::addr(list) as u64).world as u64;
    let found = process.worlds().0.into_iter().find(|world| world.address == published).unwrap();
    let heap = process.heap(&found).unwrap();
    let (graph, _) = process.graph(&found, &heap).unwrap();
    let dominators = Dominators::of(&graph);
    let first = heap.find(Gc::addr(list) as u64).unwrap();
    assert_eq!(dominators.retained(first), 100 * graph.size(first));
    let kinds: Vec<String> = graph.roots().iter().map(|root| graph.groups()[root.group as usize].to_string()).collect();
    for (object, kind) in [(first, "handles"), (heap.find(Gc::addr(alone) as u64).unwrap(), "statics")] {
        let path = heap_snapshot::paths::shortest(&graph, object).unwrap();
        assert_eq!(kinds[graph.roots().iter().position(|root| *root == path.root).unwrap()], kind);
    }
    assert_eq!(graph.roots().iter().find(|root| root.target != first).unwrap().address, words.as_ptr() as u64);
    drop((kept, range));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Objects without types, of all sizes, with words that are anything; with and without compact cells.
    #[test]
    fn a_world_of_untyped_objects_is_read_as_the_collector_reads_it(
        bases in any::<bool>(),
        displacement in 0_usize..80,
        sizes in proptest::collection::vec(1_usize..200, 1..200),
        large in proptest::collection::vec(8_000_usize..40_000, 0..3),
        links in proptest::collection::vec((any::<u16>(), any::<u16>(), 0_usize..90), 0..200),
    ) {
        let pointers = if bases { ObjectPointers::Bases } else { ObjectPointers::Interior };
        let world = World::builder().heap_limit(64 << 20).markers(1).untyped(pointers).build().unwrap();
        if bases && displacement < 70 {
            world.register_displacement(displacement);
        }
        // SAFETY: this thread keeps its references on its stack.
        let m = unsafe { world.attach("reader") }.unwrap();
        let kinds = [UntypedKind::scanned("scanned"), UntypedKind::leaf("leaf"), UntypedKind::with_words("words", 0b101)];
        let mut objects: Vec<(NonNull<u8>, usize)> = Vec::new();
        for (index, &size) in sizes.iter().chain(&large).enumerate() {
            // The words of the last kind must be in the object.
            let size = if index % 3 == 2 { size.max(24) } else { size };
            objects.push((m.alloc_untyped(size, kinds[index % 3]).unwrap(), size));
        }
        for (from, to, offset) in links {
            let (holder, size) = objects[usize::from(from) % objects.len()];
            let (target, _) = objects[usize::from(to) % objects.len()];
            if size >= 8 {
                // SAFETY: the first word of an object of at least 8 bytes.
                unsafe { holder.cast::<usize>().write(target.as_ptr() as usize + offset) };
            }
        }
        let kept: Vec<usize> = objects.iter().step_by(3).map(|(object, _)| object.as_ptr() as usize).collect();
        // SAFETY: the words live longer than the guard.
        let range = unsafe { world.register_range(kept.as_ptr().cast(), kept.len() * 8) };
        compare(&world, objects[0].0.as_ptr() as u64);
        m.collect().unwrap();
        compare(&world, objects[0].0.as_ptr() as u64);
        drop(range);
    }
}
