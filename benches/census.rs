//! The time of a census relative to marking, at most 1.5 times: `cargo bench --bench census`.
//!
//! The heaps have a million objects or more, in different shapes: a tree whose objects lie in traversal order; a random graph, whose
//! objects do not; four types of the same size that alternate, so that neighbours never belong to the same band; small arrays
//! without references, which marking hardly visits; a tree and a graph of immutable objects with several retainers.
//! Each census is taken in a collection with one marker, and compared with the mark phase of the same collection;
//! the numbers are medians. Only the time while the world is stopped counts; names are resolved afterwards.
//!
//! Retainer profiling visits every reference, as marking does; in heaps of immutable objects (`frozen`) it visits each object twice. A census
//! walks the whole heap, but marking follows references only. So one heap is mostly dead, as after a large structure became garbage.
//!
//! `-- --quick` runs fewer collections; `-- hr hd tree` selects breakdowns and heaps. Exits with a failure if a limit is exceeded.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stopworld::profile::census::{Breakdown, Every, HeapProfile};
use stopworld::{Array, Charging, Gc, GcCell, Mutator, Root, World, cost_centre, traced};

/// The maximum time of a census, relative to marking.
const LIMIT: f64 = 1.5;

const OBJECTS: usize = 1 << 20;

traced! {
    struct Node { left: GcCell<Option<Gc<Node>>>, right: GcCell<Option<Gc<Node>>>, key: u64 }
    struct North { next: Option<Gc<North>>, key: u64 }
    struct East { next: Option<Gc<North>>, key: u64 }
    struct South { next: Option<Gc<North>>, key: u64 }
    struct West { next: Option<Gc<North>>, key: u64 }
    struct Frozen { left: Option<Gc<Frozen>>, right: Option<Gc<Frozen>>, key: u64 }
    struct KeepsOne { kept: GcCell<Option<Gc<Frozen>>> }
    struct KeepsTwo { kept: GcCell<Option<Gc<Frozen>>> }
    struct KeepsThree { kept: GcCell<Option<Gc<Frozen>>> }
}

type Table = Array<GcCell<Option<Gc<Node>>>>;

fn node(m: &Mutator, key: usize) -> Gc<Node> {
    let _cost = if key.is_multiple_of(1000) { cost_centre!("thousandth") } else { cost_centre!("other") };
    let (left, right) = (GcCell::new(None), GcCell::new(None));
    m.alloc(Node { left, right, key: key as u64 }).expect("room")
}

fn tree(m: &Mutator, height: usize) -> Gc<Node> {
    let top = node(m, height);
    if height > 0 {
        top.left.set(Some(tree(m, height - 1)));
        top.right.set(Some(tree(m, height - 1)));
    }
    top
}

fn graph(m: &Mutator) -> Gc<Table> {
    let all = m.alloc_array(OBJECTS, |key| GcCell::new(Some(node(m, key)))).expect("room");
    let mut random = random();
    for cell in all.iter() {
        if let Some(node) = cell.get() {
            node.left.set(all[random() % OBJECTS].get());
            node.right.set(all[random() % OBJECTS].get());
        }
    }
    all
}

fn random() -> impl FnMut() -> usize {
    let mut state = 1_u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    }
}

fn frozen(m: &Mutator, [left, right]: [Option<Gc<Frozen>>; 2], key: usize) -> Gc<Frozen> {
    m.alloc(Frozen { left, right, key: key as u64 }).expect("room")
}

fn frozen_tree(m: &Mutator, height: usize) -> Gc<Frozen> {
    let below = if height > 0 { [0; 2].map(|_| Some(frozen_tree(m, height - 1))) } else { [None; 2] };
    frozen(m, below, height)
}

/// Makes objects that each reference two older ones. Some are retained, each by an object of one of three types.
fn frozen_graph(m: &Mutator, kept: usize) -> Vec<Root<u64>> {
    let all = m.alloc_array(OBJECTS, |_| GcCell::new(None::<Gc<Frozen>>)).expect("room");
    let mut random = random();
    for key in 0..OBJECTS {
        let older = [0; 2].map(|_| if key > 0 { all[random() % key].get() } else { None });
        all[key].set(Some(frozen(m, older, key)));
    }
    let mut keeper = |kind: usize| {
        let kept = GcCell::new(all[random() % OBJECTS].get());
        let keeper = match kind % 3 {
            0 => Gc::addr(m.alloc(KeepsOne { kept }).expect("room")),
            1 => Gc::addr(m.alloc(KeepsTwo { kept }).expect("room")),
            _ => Gc::addr(m.alloc(KeepsThree { kept }).expect("room")),
        };
        // SAFETY: an object of this world, which is never read as a number.
        GcCell::new(Some(unsafe { Gc::<u64>::from_addr(keeper) }))
    };
    vec![keep(m, m.alloc_array(kept, &mut keeper).expect("room"))]
}

/// Returns a root that keeps an object of any type alive.
fn keep<T: ?Sized>(m: &Mutator, gc: Gc<T>) -> Root<u64> {
    // SAFETY: an object of this world, which is never read as a number.
    m.root(unsafe { Gc::from_addr(Gc::addr(gc)) })
}

fn by_turns(m: &Mutator) -> Vec<Root<u64>> {
    let four = |key| {
        let north = m.alloc(North { next: None, key }).expect("room");
        let next = Some(north);
        let east = Gc::addr(m.alloc(East { next, key }).expect("room"));
        let south = Gc::addr(m.alloc(South { next, key }).expect("room"));
        let west = Gc::addr(m.alloc(West { next, key }).expect("room"));
        [Gc::addr(north), east, south, west]
    };
    // 64 objects per array, so that there are fewer roots than objects.
    let some = |_| {
        let array = m.alloc_array(64, |_| GcCell::new(None::<Gc<u64>>)).expect("room");
        for (chunk, key) in array.chunks(4).zip(0..) {
            for (cell, object) in chunk.iter().zip(four(key)) {
                // SAFETY: as in `keep`.
                cell.set(Some(unsafe { Gc::from_addr(object) }));
            }
        }
        keep(m, array)
    };
    (0..OBJECTS / 64).map(some).collect()
}

fn arrays(m: &Mutator) -> Root<u64> {
    let text = |length: usize| GcCell::new(Some(m.alloc_array(4 + length % 12, |i| i as u8).expect("room")));
    keep(m, m.alloc_array(OBJECTS, text).expect("room"))
}

/// A heap, and the mark time of its last collection.
struct Subject {
    world: World,
    mark_ns: Arc<AtomicU64>,
    _roots: Vec<Root<u64>>,
}

impl Subject {
    fn new(build: impl Fn(&Mutator) -> Vec<Root<u64>> + Send + 'static) -> Subject {
        let mark_ns = Arc::new(AtomicU64::new(0));
        let marked = Arc::clone(&mark_ns);
        let world = World::builder()
            .heap_limit(1 << 30)
            .markers(1)
            .charge_allocations(Charging::On)
            .on_collection(move |report| marked.store(report.mark_ns, Ordering::Relaxed))
            .build()
            .expect("a world");
        // SAFETY: every reference is a local variable, in a collected object or in a handle.
        let builder = unsafe { world.spawn("builder", build) }.expect("a thread");
        let _roots = builder.join().expect("it builds");
        Subject { world, mark_ns, _roots }
    }

    /// Returns medians: mark time and census time in milliseconds, and the ratio of the two within one collection.
    fn measure(&self, breakdown: Breakdown, rounds: usize) -> [f64; 3] {
        self.world.profile(HeapProfile::by(breakdown).every(Every::Demand)).expect("a profile");
        let round = |_| {
            let census = self.world.sample().expect("a census").expect("known at once");
            let mark = self.mark_ns.load(Ordering::Relaxed) as f64;
            let census = census.took_ns as f64;
            [mark / 1e6, census / 1e6, census / mark]
        };
        // The first round is not counted: it maps and touches memory.
        let rounds: Vec<[f64; 3]> = (0..=rounds).map(round).skip(1).collect();
        std::array::from_fn(|column| {
            let mut values: Vec<f64> = rounds.iter().map(|round| round[column]).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        })
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let is_named = |name: &str| arguments.iter().any(|argument| argument == name);
    let rounds = if is_named("--quick") { 5 } else { 25 };
    println!("census time relative to the mark phase of the same collection, one marker, medians of {rounds}");
    println!("  heap            by      mark ms     census ms     ratio     limit");
    type Heap = (&'static str, fn() -> Subject);
    let subjects: [Heap; 7] = [
        ("tree", || Subject::new(|m| vec![keep(m, tree(m, 19))])),
        ("graph", || Subject::new(|m| vec![keep(m, graph(m))])),
        ("types by turns", || Subject::new(by_turns)),
        ("small arrays", || Subject::new(|m| vec![arrays(m)])),
        ("frozen tree", || Subject::new(|m| vec![keep(m, frozen_tree(m, 19))])),
        ("frozen graph", || Subject::new(|m| frozen_graph(m, OBJECTS / 4))),
        ("mostly dead", || Subject::new(|m| frozen_graph(m, OBJECTS / 1000))),
    ];
    let heaps = subjects.map(|(name, _)| name);
    let breakdowns = Breakdown::ALL.into_iter().filter(|breakdown| *breakdown != Breakdown::Biography);
    let options: Vec<&str> = breakdowns.clone().map(Breakdown::option).collect();
    let is_known =
        |name: &&String| *name == "--quick" || heaps.contains(&name.as_str()) || options.contains(&name.as_str());
    if let Some(unknown) = arguments.iter().find(|name| !is_known(name)) {
        eprintln!(
            "census: unknown argument '{unknown}': use --quick, a heap of {heaps:?} or a breakdown of {options:?}"
        );
        return ExitCode::from(2);
    }
    // If the arguments name none of `all`, all are selected.
    let is_wanted = |name: &str, all: &[&str]| is_named(name) || !all.iter().any(|name| is_named(name));
    let mut holds = true;
    for (name, subject) in subjects.into_iter().filter(|(name, _)| is_wanted(name, &heaps)) {
        let subject = subject();
        for breakdown in breakdowns.clone().filter(|breakdown| is_wanted(breakdown.option(), &options)) {
            let option = breakdown.option();
            let [mark, census, ratio] = subject.measure(breakdown, rounds);
            println!("  {name:14}  {option}     {mark:8.2}     {census:9.2}     {ratio:5.2}     {LIMIT:5.2}");
            holds &= ratio <= LIMIT;
        }
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
