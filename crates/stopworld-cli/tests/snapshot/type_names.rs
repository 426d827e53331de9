//! One type has one name: in a census, an allocation profile, a trace with its heap dump, both kinds of snapshots, and what is read of a
//! process from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hint::black_box;

use heap_snapshot::{Graph, Heap, hprof, v8};
use stopworld::collections::GcVec;
use stopworld::debugger::contract::stopworld_debugger;
use stopworld::debugger::inspect::{self, ObjectFacts};
use stopworld::profile::allocations::AllocationSampling;
use stopworld::profile::census::{Breakdown, CensusRequest};
use stopworld::untyped::UntypedKind;
use stopworld::{DescribedType, Gc, GcCell, Layout, World, traced};
use stopworld_analysis::allocations::Allocations;
use stopworld_analysis::snapshot::{DumpChoice, OpenedHeap};
use stopworld_postmortem::Process;
use stopworld_trace::nettrace::{Options, Providers};

use crate::command_support::{directory, run, text};
use crate::postmortem_support::Own;

traced! {
    struct Node {
        next: GcCell<Option<Gc<Node>>>,
    }
}

traced! {
    struct Pair<T> {
        left: T,
        right: Gc<Node>,
    }
}

/// The names of the objects in [`every_export_names_a_type_alike`].
const NAMES: [&str; 10] = [
    // The storage of the vector.
    "Gc[]",
    "snapshot::type_names::Node",
    "snapshot::type_names::Pair",
    "described",
    "described[]",
    "str",
    "u64",
    "u64[5]",
    "u64[]",
    "untyped",
];

fn of_graph(graph: &Graph) -> BTreeSet<String> {
    (0..graph.objects()).map(|object| graph.type_name(object).to_owned()).collect()
}

/// The names of the objects of this process's world with the object, read from outside.
fn from_outside(an_object: usize) -> BTreeSet<String> {
    let mut facts = ObjectFacts::default();
    // SAFETY: no other thread uses the world.
    assert_eq!(unsafe { inspect::describe(an_object, &raw mut facts as usize, 0, 0) }, 1);
    let own = Own::open();
    let descriptor = std::ptr::from_ref(&stopworld_debugger) as u64;
    let process = Process::with(&own, Vec::new(), &[descriptor]).unwrap();
    let world = process.worlds().0.into_iter().find(|world| world.address == facts.world as u64).unwrap();
    let heap = process.heap(&world).unwrap();
    heap.histogram().into_iter().map(|(name, ..)| name).collect()
}

#[test]
fn every_export_names_a_type_alike() {
    let directory = directory();
    let file = directory.path().join("heap.nettrace");
    let providers = Providers::parse_keywords("GC+Type+GCHeapDump@Verbose").unwrap();
    let trace = Options::new(&file).providers(providers).start().unwrap();
    let sampling = AllocationSampling::every(1);
    let builder = World::builder().heap_limit(64 << 20).allocation_sampling(sampling).record_to(&trace);
    let world = builder.build().unwrap();
    // SAFETY: this thread keeps its references in roots.
    let m = unsafe { world.attach("main") }.unwrap();
    let node = m.alloc(Node { next: GcCell::new(None) }).unwrap();
    let described = DescribedType::new("described", 16, Layout::LEAF.with(8, Layout::WORD)).unwrap();
    let mut vec = GcVec::new();
    vec.push(&m, node).unwrap();
    let objects = (
        m.root(node),
        m.root(m.alloc(Pair { left: 7_u64, right: node }).unwrap()),
        m.root(m.alloc_slice(&[1_u64, 2, 3]).unwrap()),
        m.root(m.alloc_str("text").unwrap()),
        m.root(m.alloc([7_u64; 5]).unwrap()),
        m.root(m.alloc(7_u64).unwrap()),
        m.root(m.alloc_described(described).unwrap()),
        m.root(m.alloc_described_array(described, 3).unwrap()),
        m.root(m.alloc(vec).unwrap()),
    );
    let untyped = m.alloc_untyped(40, UntypedKind::scanned("untyped")).unwrap();
    m.collect().unwrap();

    let census = world.census(&CensusRequest::by(Breakdown::Description)).unwrap();
    let mut found = BTreeMap::new();
    found.insert("census", census.bands.iter().map(|band| band.label.clone()).collect());
    let allocations = Allocations::of(&world.allocation_profile().unwrap());
    found.insert("allocations", allocations.sites.iter().map(|site| site.type_name.to_owned()).collect());
    found.insert("from outside", from_outside(Gc::addr(node)));
    black_box(untyped);
    drop(objects);
    drop(m);
    drop(world);
    trace.finish().unwrap();

    let opened = OpenedHeap::open(File::open(&file).unwrap(), DumpChoice::default()).unwrap();
    let graph = opened.into_graph().unwrap();
    found.insert("heap dump", of_graph(&graph));
    let mut bytes = Vec::new();
    v8::write(&graph, &mut bytes).unwrap();
    found.insert("heapsnapshot", of_graph(&v8::read(std::io::Cursor::new(&bytes)).unwrap()));
    bytes.clear();
    hprof::write(&graph, &mut bytes).unwrap();
    found.insert("HPROF", of_graph(&hprof::read(std::io::Cursor::new(&bytes)).unwrap()));
    let ticks = text(&run(directory.path(), "dump --event GC/AllocationTick heap.nettrace").stdout);
    let name = |line: &str| Some(line.split_once("TypeName=\"")?.1.split_once('"')?.0.to_owned());
    found.insert("allocation ticks", ticks.lines().filter_map(name).collect::<BTreeSet<String>>());
    for (export, names) in found {
        let missing: Vec<&&str> = NAMES.iter().filter(|name| !names.contains(**name)).collect();
        assert!(missing.is_empty(), "{export} has no {missing:?}: {names:?}");
        let others: Vec<&String> = names.iter().filter(|name| !NAMES.contains(&name.as_str())).collect();
        // The vector itself.
        assert!(others.iter().all(|name| name.ends_with("GcVec")), "{export}: {others:?}");
    }
}
