//! A census is an account: its bands sum to the live bytes exactly, and each names its owner.
//!
//! Shapes are built on a thread that has detached before the census: stacks are scanned conservatively.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use crate::heap_support::*;
use proptest::prelude::*;
use rstest::rstest;
use stopworld::events::{Event, EventId, Labels, MemorySink, Selection};
use stopworld::profile::StackId;
use stopworld::profile::census::{Breakdown, Census, CensusRequest, Every, Filters, HeapProfile, ProfileError};
use stopworld::{
    Array, Charging, DescribedType, Description, Gc, GcCell, Layout, Leaf, Mutator, Root, World, cost_centre, traced,
};

traced! {
    /// 8 bytes of payload, in a cell of 16 bytes.
    struct One { number: u64 }
    /// A type that is not a retainer, because its reference is constant. Its cell has 24 bytes.
    struct Fixed { to: Option<Gc<One>>, number: u64 }
    /// A type that is a retainer, because its references are mutable. Its cell has 32 bytes.
    struct Left { to: GcCell<Option<Gc<Fixed>>>, other: GcCell<Option<Gc<Fixed>>>, number: u64 }
    /// Another mutable type.
    struct Right { to: GcCell<Option<Gc<Fixed>>>, number: u64 }
    /// A type that supplies its own description. Its cell has 24 bytes.
    struct Called { called: Description, number: u64 }
}

fn one(m: &Mutator) -> Gc<One> {
    m.alloc(One { number: 1 }).unwrap()
}

fn fixed(m: &Mutator, to: Option<Gc<One>>) -> Gc<Fixed> {
    m.alloc(Fixed { to, number: 2 }).unwrap()
}

fn sum(census: &Census) -> (u64, u64) {
    let (bytes, objects) = census.bands.iter().fold((0, 0), |(b, o), band| (b + band.bytes, o + band.objects));
    (bytes + census.filtered_bytes, objects + census.filtered_objects)
}

/// `.census.exact`: asserts that the bands, the collection's report and the verifier agree.
fn check(world: &World, request: &CensusRequest) -> Census {
    let census = world.census(request).unwrap();
    let verified = world.verify().unwrap();
    assert_eq!(
        sum(&census),
        (census.live_bytes, census.live_objects),
        "the bands do not sum to the live bytes: {census:#?}"
    );
    assert_eq!((census.live_bytes, census.live_objects), (verified.live.total(), verified.live_objects));
    assert_eq!(census.live_bytes, world.totals().live_bytes);
    let mut names: Vec<_> = census.bands.iter().map(|band| &band.label).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), census.bands.len(), "a name occurs twice: {census:#?}");
    census
}

fn bands(census: &Census) -> BTreeMap<&str, (u64, u64)> {
    census.bands.iter().map(|band| (band.label.as_str(), (band.bytes, band.objects))).collect()
}

/// Objects of every kind are counted under their name in each breakdown, and with their size.
#[test]
fn a_census_counts_what_lives_by_description_by_type_and_by_kind() {
    let world = paranoid().build().unwrap();
    let label = world.telemetry_intern("fibonacci").unwrap();
    let pair = DescribedType::new("pair", 16, Layout::WORD).unwrap();
    let roots = on_a_thread(&world, move |m| {
        let target = one(m);
        let many: Vec<Root<One>> = (0..100).map(|_| m.root(one(m))).collect();
        let array = m.alloc_array(10, |i| i as u64).unwrap();
        let references = m.alloc_array(3, |_| GcCell::new(Some(target))).unwrap();
        let large = m.alloc_array(5000, |i| i as u64).unwrap();
        let pinned = m.alloc_pinned(One { number: 7 }).unwrap();
        let weak = m.alloc_weak(target).unwrap();
        let called = m.alloc(Called { called: Description::new(label), number: 0 }).unwrap();
        let nameless = m.alloc(Called { called: Description::none(), number: 0 }).unwrap();
        let text = m.alloc(Leaf(String::from("text"))).unwrap();
        let described = m.alloc_described(pair).unwrap();
        let bytes = m.alloc_bytes(100).unwrap();
        let roots = (m.root(array), m.root(references), m.root(large), m.root(pinned), m.root(weak));
        (many, roots, m.root(called), m.root(nameless), m.root(text), m.root(described), m.root(bytes))
    });
    let of = "census::counts::";
    let by_description = check(&world, &CensusRequest::by(Breakdown::Description));
    let expected: BTreeMap<String, (u64, u64)> = [
        (format!("{of}One"), (16 * 102, 102)),
        ("u64[]".into(), (96 + 49152, 2)),
        ("GcCell[]".into(), (40, 1)),
        ("Weak".into(), (24, 1)),
        ("fibonacci".into(), (24, 1)),
        (format!("{of}Called"), (24, 1)),
        ("Leaf".into(), (32, 1)),
        ("pair".into(), (24, 1)),
        ("bytes".into(), (112, 1)),
    ]
    .into();
    let expected_by_description: BTreeMap<&str, _> = expected.iter().map(|(name, sum)| (name.as_str(), *sum)).collect();
    assert_eq!(bands(&by_description), expected_by_description);
    let by_type = check(&world, &CensusRequest::by(Breakdown::Type));
    let expected = [
        ("One", (16 * 102, 102)),
        ("Array<u64>", (96 + 49152, 2)),
        ("Array<GcCell<Option<Gc<One>>>>", (40, 1)),
        ("WeakCell<One>", (24, 1)),
        ("Called", (48, 2)),
        ("Leaf<String>", (32, 1)),
        ("pair", (24, 1)),
        ("bytes", (112, 1)),
    ];
    assert_eq!(bands(&by_type), expected.into());
    let by_kind = check(&world, &CensusRequest::by(Breakdown::Kind));
    let expected = [
        ("SMALL_LEAF", (16 * 101 + 48 + 32 + 112, 105)),
        ("PINNED_LEAF", (16, 1)),
        ("SMALL_LEAF_ARRAY", (96, 1)),
        ("LARGE_LEAF_ARRAY", (49152, 1)),
        ("SMALL_MUTABLE_ARRAY", (40, 1)),
        ("SMALL_WEAK", (24, 1)),
        ("SMALL_MUTABLE", (24, 1)),
    ];
    assert_eq!(bands(&by_kind), expected.into());
    assert_eq!(by_kind.bands[0].label, "LARGE_LEAF_ARRAY", "the largest first");
    drop(roots);
}

/// Objects that the filter rejects are in the totals, too.
#[rstest]
#[case::by_description(Filters { descriptions: vec!["census::counts::One".into(), "u64[]".into()], ..Filters::none() }, 160 + 96)]
#[case::by_type(Filters { types: vec!["Array<u64>".into()], ..Filters::none() }, 96)]
#[case::by_both(Filters { types: vec!["Array<u64>".into()], descriptions: vec!["census::counts::One".into()], ..Filters::none() }, 0)]
#[case::by_a_retainer(Filters { retainers: vec!["handle:census::counts::Fixed".into()], ..Filters::none() }, 24 + 16)]
#[case::by_nothing_that_is_there(Filters { types: vec!["Arra".into(), "".into()], ..Filters::none() }, 0)]
fn a_filter_accepts_what_it_names(#[case] filters: Filters, #[case] passes: u64, #[values(false, true)] by_kind: bool) {
    let world = paranoid().build().unwrap();
    let roots = on_a_thread(&world, |m| {
        let nine: Vec<Root<One>> = (0..9).map(|_| m.root(one(m))).collect();
        let kept = m.root(fixed(m, Some(one(m))));
        (nine, kept, m.root(m.alloc_array(10, |i| i as u64).unwrap()))
    });
    let breakdown = if by_kind { Breakdown::Kind } else { Breakdown::Description };
    let census = check(&world, &CensusRequest { filters, ..CensusRequest::by(breakdown) });
    assert_eq!(census.live_bytes - census.filtered_bytes, passes, "{census:#?}");
    drop(roots);
}

/// An object kept by exactly two retainers, one kept by a third as well, and objects kept only by kept objects.
#[test]
fn the_retainers_of_an_object_are_exact_to_the_byte() {
    let world = paranoid().build().unwrap();
    let roots = on_a_thread(&world, |m| {
        let by_two = fixed(m, Some(one(m)));
        let by_left = fixed(m, None);
        let left =
            m.alloc(Left { to: GcCell::new(Some(by_two)), other: GcCell::new(Some(by_left)), number: 0 }).unwrap();
        let right = m.alloc(Right { to: GcCell::new(Some(by_two)), number: 0 }).unwrap();
        (m.root(left), m.root(right), m.root(one(m)))
    });
    static WORDS: [std::sync::atomic::AtomicUsize; 1] = [const { std::sync::atomic::AtomicUsize::new(0) }; 1];
    // SAFETY: a static.
    let range = unsafe { world.register_range((&raw const WORDS).cast(), 8) }.unwrap();
    on_a_thread(&world, |m| WORDS[0].store(Gc::addr(one(m)), std::sync::atomic::Ordering::Relaxed));
    let census = check(&world, &CensusRequest::by(Breakdown::Retainer));
    let found: BTreeMap<&str, (u64, u64)> = census
        .bands
        .iter()
        .map(|band| {
            (band.label.split_once(')').map_or(band.label.as_str(), |(_, members)| members), (band.bytes, band.objects))
        })
        .collect();
    let expected = [
        ("census::counts::Left,census::counts::Right", (24 + 16, 2)),
        ("census::counts::Left", (24, 1)),
        ("handle:census::counts::Left", (32, 1)),
        ("handle:census::counts::Right", (24, 1)),
        ("handle:census::counts::One", (16, 1)),
        ("range", (16, 1)),
    ];
    assert_eq!(found, expected.into());
    drop((roots, range));
}

/// A thread retains the objects that its stack references.
#[test]
fn a_thread_is_a_retainer_by_its_name() {
    let world = paranoid().build().unwrap();
    let meeting = Arc::new(Barrier::new(2));
    let its_own = Arc::clone(&meeting);
    // SAFETY: the Gc is a local variable.
    let keeper = unsafe {
        world.spawn("keeper", move |m| {
            let mine = m.alloc_array(200, |i| i as u64).unwrap();
            m.blocking(|| {
                its_own.wait();
                its_own.wait();
            });
            assert_eq!(mine[199], 199);
        })
    }
    .unwrap();
    meeting.wait();
    let census = check(&world, &CensusRequest::by(Breakdown::Retainer));
    assert_eq!(census.bands.len(), 1, "{census:#?}");
    assert_eq!((census.bands[0].label.as_str(), census.bands[0].bytes), ("(2)thread:keeper", census.live_bytes));
    meeting.wait();
    keeper.join().unwrap();
}

/// A dead object whose finalizer is pending keeps its targets alive. A weak reference does not keep its target alive.
#[test]
fn what_waits_for_its_finalizer_lives_and_is_kept_by_that() {
    static RAN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    let world = paranoid().build().unwrap();
    let kept = on_a_thread(&world, |m| {
        let object = fixed(m, Some(one(m)));
        m.set_finalizer(object, |_, object| {
            assert_eq!(object.number, 2);
            RAN.store(true, std::sync::atomic::Ordering::Relaxed);
        })
        .unwrap();
        m.root(m.alloc_weak(one(m)).unwrap())
    });
    let census = world.census(&CensusRequest::by(Breakdown::Retainer)).unwrap();
    assert_eq!(sum(&census), (census.live_bytes, census.live_objects));
    let found: BTreeMap<&str, (u64, u64)> =
        census.bands.iter().map(|band| (members(&band.label), (band.bytes, band.objects))).collect();
    let expected = [("finalizers", (24 + 16, 2)), ("handle:Weak", (24, 1))].into();
    assert_eq!(found, expected, "objects that wait for a finalizer are not in the census");
    wait_until("the finalizer has run", || RAN.load(std::sync::atomic::Ordering::Relaxed));
    drop(kept);
}

/// The next collection waits until the listener returns, so a request that the listener makes of the world must not wait for that collection.
#[test]
fn a_listener_may_ask_the_world_while_another_thread_collects() {
    let (begun, seen) = std::sync::mpsc::sync_channel::<()>(16);
    let threads: Arc<Mutex<Option<World>>> = Arc::default();
    let shared = Arc::clone(&threads);
    let profile = HeapProfile::by(Breakdown::Type).on_census(move |_| {
        let Some(world) = shared.lock().unwrap().take() else { return };
        begun.send(()).unwrap();
        // The pause lets the other thread reach the lock that the listener holds, if it holds one.
        std::thread::sleep(Duration::from_millis(300));
        let _ = world.threads();
    });
    let world = paranoid().stop_timeout(Duration::from_secs(60)).profile(profile).build().unwrap();
    *threads.lock().unwrap() = Some(world.clone());
    let collecting = world.clone();
    let other = std::thread::spawn(move || {
        seen.recv().unwrap();
        collecting.collect().map(|report| report.number).map_err(|error| error.to_string())
    });
    world.collect().unwrap();
    assert_eq!(other.join().unwrap(), Ok(2));
}

/// `.retainer.bound`: sets larger than the bound are counted as MANY, which is a band like any other.
#[rstest]
#[case(2, "(2)census::counts::Left,census::counts::Right")]
#[case(1, "MANY")]
fn beyond_the_bound_a_set_is_many(#[case] most: usize, #[case] name: &str) {
    let world = paranoid().build().unwrap();
    let roots = on_a_thread(&world, |m| {
        let shared = fixed(m, None);
        let left = m.alloc(Left { to: GcCell::new(Some(shared)), other: GcCell::new(None), number: 0 }).unwrap();
        (m.root(left), m.root(m.alloc(Right { to: GcCell::new(Some(shared)), number: 0 }).unwrap()))
    });
    let census = check(&world, &CensusRequest { most_retainers: most, ..CensusRequest::by(Breakdown::Retainer) });
    assert!(
        census.bands.iter().any(|band| band.bytes == 24 && band.objects == 1 && members(&band.label) == members(name))
    );
    drop(roots);
}

fn members(label: &str) -> &str {
    label.split_once(')').map_or(label, |(_, members)| members)
}

traced! {
    /// An object of a random graph: two mutable references, or two constant ones.
    struct Mutable { called: Description, one: GcCell<Option<Gc<Array<GcCell<Any>>>>>, two: GcCell<Any> }
    struct Constant { called: Description, one: GcCell<u64>, to: [Any; 2] }
}

/// A reference to an object of a random graph.
#[derive(Clone, Copy)]
struct Any(usize);

// SAFETY: one word; null or the address of an object.
unsafe impl stopworld::Word for Any {
    const MAY_REFER: bool = true;
    fn to_bits(self) -> usize {
        self.0
    }
    unsafe fn from_bits(bits: usize) -> Self {
        Any(bits)
    }
}

// SAFETY: as above.
unsafe impl stopworld::Trace for Any {
    const NAME: &'static str = "Any";
    const LAYOUT: Layout = Layout::WORD;
}

/// One object of a graph: its name, whether it is a mutable cell, which earlier objects it references, and, if it is mutable, which object gets a
/// reference back to it.
#[derive(Clone, Debug)]
struct ObjectPlan {
    name: usize,
    mutable: bool,
    to: [usize; 2],
    rooted: bool,
}

fn plans() -> impl Strategy<Value = Vec<ObjectPlan>> {
    let plan = (0_usize..6, any::<bool>(), any::<[usize; 2]>(), 0_u8..6);
    let plan = plan.prop_map(|(name, mutable, to, root)| ObjectPlan { name, mutable, to, rooted: root == 0 });
    proptest::collection::vec(plan, 1..60)
}

impl ObjectPlan {
    /// The objects that the object of this index references: a constant object only earlier ones, a mutable object any.
    fn targets(&self, index: usize, of: usize) -> [Option<usize>; 2] {
        self.to.map(|to| {
            let choices = if self.mutable { of } else { index };
            (choices > 0 && to % 3 != 0).then(|| to / 3 % choices)
        })
    }
}

const NAMES: [&str; 6] = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"];

/// An object of the model.
struct Node {
    name: &'static str,
    mutable: bool,
    to: Vec<usize>,
    rooted: bool,
}

/// The plans' graph: one object per plan, followed by the arrays that hold the mutable objects' first references.
fn graph(plans: &[ObjectPlan]) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut arrays = Vec::new();
    for (index, plan) in plans.iter().enumerate() {
        let [one, two] = plan.targets(index, plans.len());
        let array = one.filter(|_| plan.mutable).map(|one| {
            arrays.push(Node { name: "GcCell[]", mutable: true, to: vec![one], rooted: false });
            plans.len() + arrays.len() - 1
        });
        let to = array.or(one).into_iter().chain(two).collect();
        nodes.push(Node { name: NAMES[plan.name], mutable: plan.mutable, to, rooted: plan.rooted });
    }
    nodes.extend(arrays);
    nodes
}

/// The simplest algorithm: from each root and each live mutable cell, a walk that stops at mutable cells.
fn naive_retainers(nodes: &[Node]) -> Vec<BTreeSet<String>> {
    let mut sets = vec![BTreeSet::new(); nodes.len()];
    let mut walk = |from: &[usize], name: String| {
        let (mut seen, mut to_do) = (BTreeSet::new(), from.to_vec());
        while let Some(at) = to_do.pop() {
            if seen.insert(at) {
                sets[at].insert(name.clone());
                to_do.extend(nodes[at].to.iter().filter(|_| !nodes[at].mutable));
            }
        }
        seen
    };
    let (mut alive, mut new) = (BTreeSet::new(), Vec::new());
    for (index, node) in nodes.iter().enumerate().filter(|(_, node)| node.rooted) {
        new.extend(walk(&[index], format!("handle:{}", node.name)));
    }
    while let Some(at) = new.pop() {
        if alive.insert(at) && nodes[at].mutable {
            new.extend(walk(&nodes[at].to, nodes[at].name.to_owned()));
        }
    }
    sets
}

/// Objects from `turned` on have lower addresses than those before, because they reuse the cells of dead objects.
fn build(world: &World, plans: &[ObjectPlan], turned: usize) -> Vec<Root<Leaf<u64>>> {
    let labels: Vec<_> = NAMES.iter().map(|name| world.telemetry_intern(name).unwrap()).collect();
    let make = move |m: &Mutator, all: Gc<Array<GcCell<Any>>>, plans: &[ObjectPlan], which: std::ops::Range<usize>| {
        let at = |index: Option<usize>| index.map_or(Any(0), |index| all[index].get());
        for index in which {
            let called = Description::new(labels[plans[index].name]);
            let to = plans[index].targets(index, plans.len());
            let object = if plans[index].mutable {
                Gc::addr(m.alloc(Mutable { called, one: GcCell::new(None), two: GcCell::new(Any(0)) }).unwrap())
            } else {
                Gc::addr(m.alloc(Constant { called, one: GcCell::new(7), to: to.map(at) }).unwrap())
            };
            all[index].set(Any(object));
        }
    };
    let [first, second] = [0; 2].map(|_| plans.to_vec());
    let some = make.clone();
    let kept = on_a_thread(world, move |m| {
        // The whole graph is in collected memory while it is built.
        let all = m.alloc_array(first.len(), |_| GcCell::new(Any(0))).unwrap();
        for _ in &first[turned..] {
            let nothing = [Any(0); 2];
            m.alloc(Constant { called: Description::none(), one: GcCell::new(7), to: nothing }).unwrap();
        }
        some(m, all, &first, 0..turned);
        m.root(all)
    });
    // Objects allocated from now on reuse the cells of the first objects.
    world.collect().unwrap();
    let plans = second;
    on_a_thread(world, move |m| {
        let all = kept.get(m);
        drop(kept);
        make(m, all, &plans, turned..plans.len());
        let at = |index: Option<usize>| index.map_or(Any(0), |index| all[index].get());
        for (index, plan) in plans.iter().enumerate().filter(|(_, plan)| plan.mutable) {
            // SAFETY: made above.
            let object = unsafe { Gc::<Mutable>::from_addr(all[index].get().0) };
            let [one, two] = plan.targets(index, plans.len());
            // The first reference is in an array, which is itself mutable but is named by its type.
            if let Some(one) = one {
                object.one.set(Some(m.alloc_array(1, |_| GcCell::new(all[one].get())).unwrap()));
            }
            object.two.set(at(two));
        }
        let rooted = plans.iter().enumerate().filter(|(_, plan)| plan.rooted);
        // SAFETY: whatever its type is, the handle only keeps it alive; it is never read as a leaf.
        rooted.map(|(index, _)| m.root(unsafe { Gc::<Leaf<u64>>::from_addr(all[index].get().0) })).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// The model searches from each retainer separately. Also tested with almost no room for the work list.
    #[test]
    fn the_retainers_of_random_graphs_are_those_that_a_plain_search_finds(
        plans in plans(),
        most in 1_usize..6,
        stack in prop_oneof![Just(16), Just(64), Just(1 << 20)],
        turned in 0_usize..60,
    ) {
        let world = World::builder().heap_limit(64 << 20).mark_stack_limit(stack).build().unwrap();
        let roots = build(&world, &plans, turned.min(plans.len()));
        let naive = naive_retainers(&graph(&plans));
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for set in naive.iter().filter(|set| !set.is_empty()) {
            let name = if set.len() > most { "MANY".into() } else { set.iter().cloned().collect::<Vec<_>>().join(",") };
            *expected.entry(name).or_default() += 1;
        }
        let census = world.census(&CensusRequest { most_retainers: most, ..CensusRequest::by(Breakdown::Retainer) }).unwrap();
        prop_assert_eq!(sum(&census), (census.live_bytes, census.live_objects));
        let found: BTreeMap<String, u64> =
            census.bands.iter().map(|band| (members(&band.label).to_owned(), band.objects)).collect();
        prop_assert_eq!(found, expected);
        drop(roots);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// The expected numbers are those of the allocations.
    #[test]
    fn a_census_counts_what_was_made(kinds in proptest::collection::vec((0_usize..5, 1_usize..2000), 1..80)) {
        let world = World::builder().heap_limit(64 << 20).paranoid(stopworld::Paranoid::On).build().unwrap();
        let mut expected: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let mut add = |name, bytes: u64| {
            let sum = expected.entry(name).or_default();
            *sum = (sum.0 + bytes, sum.1 + 1);
        };
        for &(kind, _) in &kinds {
            match kind {
                0 => add("One", 16),
                1 => add("Fixed", 24),
                2 => add("Right", 24),
                3 => { add("Left", 32); add("Fixed", 24); }
                _ => add("Array<u64>", 0),
            }
        }
        let roots = on_a_thread(&world, move |m| {
            let keep = |object: usize| {
                // SAFETY: whatever its type is, the handle only keeps it alive; it is never read as a leaf.
                m.root(unsafe { Gc::<Leaf<u64>>::from_addr(object) })
            };
            let make = |&(kind, size): &(usize, usize)| match kind {
                0 => keep(Gc::addr(one(m))),
                1 => keep(Gc::addr(fixed(m, None))),
                2 => keep(Gc::addr(m.alloc(Right { to: GcCell::new(None), number: 0 }).unwrap())),
                3 => keep(Gc::addr(m.alloc(Left { to: GcCell::new(Some(fixed(m, None))), other: GcCell::new(None), number: 0 }).unwrap())),
                _ => keep(Gc::addr(m.alloc_array(size, |i| i as u64).unwrap())),
            };
            kinds.iter().map(make).collect::<Vec<_>>()
        });
        let census = world.census(&CensusRequest::by(Breakdown::Type)).unwrap();
        let verified = world.verify().unwrap();
        prop_assert_eq!(census.live_bytes, verified.live.total());
        prop_assert_eq!(sum(&census), (verified.live.total(), verified.live_objects));
        let found = bands(&census);
        // The heap chooses the cell sizes of arrays, so their bytes are not compared.
        for (name, (bytes, objects)) in &expected {
            prop_assert_eq!(found[name].1, *objects);
            if *name != "Array<u64>" {
                prop_assert_eq!(found[name].0, *bytes);
            }
        }
        prop_assert_eq!(found.len(), expected.len());
        drop(roots);
    }
}

/// Two parts of a program allocate in the same way; one of them leaks.
fn request(m: &Mutator, keep: bool) -> Option<Root<Fixed>> {
    let _cost = cost_centre!("request");
    let parsed = {
        let _cost = cost_centre!("parse");
        one(m)
    };
    let _cost = if keep { cost_centre!("cache") } else { cost_centre!("answer") };
    let made = fixed(m, Some(parsed));
    keep.then(|| m.root(made))
}

/// A leak in one cost centre, exact to the byte, with the centres on whose behalf it allocated.
#[test]
fn a_leak_is_found_by_cost_centre_stack_and_by_module() {
    let world = paranoid().charge_allocations(Charging::On).build().unwrap();
    let roots = on_a_thread(&world, |m| {
        let outside = m.root(one(m));
        let kept: Vec<_> = (0..3000).filter_map(|number| request(m, number % 3 == 0)).collect();
        (outside, kept)
    });
    let by_stack = check(&world, &CensusRequest::by(Breakdown::CostCentre));
    let expected = [("cache/request", (24 * 1000, 1000)), ("parse/request", (16 * 1000, 1000)), ("MAIN", (16, 1))];
    assert_eq!(bands(&by_stack), expected.into());
    for band in &by_stack.bands {
        let stack = StackId::from_raw(band.stack.unwrap());
        let labels: Vec<_> = stack.centres().map(|centre| centre.label()).collect();
        assert!(band.label == labels.join("/") || (band.label == "MAIN" && labels.is_empty()));
    }
    let by_module = check(&world, &CensusRequest::by(Breakdown::Module));
    assert_eq!(bands(&by_module), [("census::counts", (40 * 1000, 2000)), ("MAIN", (16, 1))].into());
    let some = |name: &str| vec![name.to_owned()];
    for (filters, passes) in [
        (Filters { centres: some("cache"), ..Filters::none() }, 24_000),
        (Filters { centres: some("request"), ..Filters::none() }, 0),
        (Filters { stacks: some("request"), ..Filters::none() }, 40_000),
        (Filters { stacks: some("MAIN"), ..Filters::none() }, 16),
        (Filters { modules: some("census::counts"), ..Filters::none() }, 40_000),
        (Filters { modules: some("census::counts"), centres: some("parse"), ..Filters::none() }, 16_000),
    ] {
        let census = check(&world, &CensusRequest { filters: filters.clone(), ..CensusRequest::by(Breakdown::Type) });
        assert_eq!(census.live_bytes - census.filtered_bytes, passes, "{filters:?}");
    }
    drop(roots);
}

/// The events of a profile report its censuses.
#[test]
fn a_profile_emits_events_for_each_census() {
    let taken: Arc<Mutex<Vec<Census>>> = Arc::default();
    let listener = Arc::clone(&taken);
    let sink = Arc::new(MemorySink::with_capacity(1 << 12).unwrap());
    let events = [
        EventId::CensusFilter,
        EventId::CensusProfileBegin,
        EventId::CensusBegin,
        EventId::CensusBand,
        EventId::CensusEnd,
    ];
    let profile = HeapProfile::by(Breakdown::Type)
        .every(Every::Collections(2))
        .filters(Filters { types: vec!["One".into(), "Fixed".into()], ..Filters::none() })
        .on_census(move |census| listener.lock().unwrap().push(census.clone()));
    let world =
        paranoid().listen(sink.clone(), Selection::of(events.into_iter().collect())).profile(profile).build().unwrap();
    let root = on_a_thread(&world, |m| (m.root(one(m)), m.root(fixed(m, None))));
    for _ in 0..7 {
        world.collect().unwrap();
    }
    let finished = world.end_profile().unwrap().unwrap();
    world.collect().unwrap();
    world.collect().unwrap();
    assert_eq!(finished.censuses, 3);
    let taken = taken.lock().unwrap();
    let labels = Labels::of_the_process();
    let text = |label| labels.text(stopworld::events::Label::from_raw(label).unwrap()).unwrap();
    let mut events = sink.drain().map(|record| record.event());
    assert!(
        matches!(events.next(), Some(Event::CensusFilter(filter)) if filter.kind == 2 && text(filter.text) == "One,Fixed")
    );
    assert!(
        matches!(events.next(), Some(Event::CensusProfileBegin(begin)) if begin.breakdown == 4 && begin.period_ns == 0)
    );
    for (index, census) in taken.iter().enumerate() {
        assert_eq!((census.era, census.collection, census.bands.len()), (index as u64 + 1, 2 * (index as u32 + 1), 2));
        assert!(
            matches!(events.next(), Some(Event::CensusBegin(begin)) if begin.era == census.era && begin.taken_ns == census.taken_ns)
        );
        for band in &census.bands {
            let Some(Event::CensusBand(told)) = events.next() else { panic!("a band is missing") };
            assert_eq!(
                (text(told.label), told.bytes, told.objects, told.stack),
                (band.label.as_str(), band.bytes, band.objects, 0)
            );
        }
        assert!(matches!(events.next(), Some(Event::CensusEnd(end)) if end.era == census.era));
    }
    assert!(events.next().is_none());
    drop(root);
}

#[test]
fn a_profile_by_time_triggers_its_collections() {
    let world = paranoid()
        .profile(HeapProfile::by(Breakdown::Kind).every(Every::Time(Duration::from_millis(5))))
        .build()
        .unwrap();
    wait_until("three censuses were taken", || world.totals().collections >= 3);
    assert!(world.end_profile().unwrap().unwrap().censuses >= 3);
    assert!(world.end_profile().unwrap().is_none());
}

#[test]
fn a_profile_on_demand_is_sampled_and_switched_while_the_world_runs() {
    let world = paranoid().build().unwrap();
    assert!(matches!(world.sample(), Err(ProfileError::NoProfile)));
    let root = on_a_thread(&world, |m| m.root(one(m)));
    for (breakdown, name) in [
        (Breakdown::Type, "One"),
        (Breakdown::Kind, "SMALL_LEAF"),
        (Breakdown::Retainer, "(2)handle:census::counts::One"),
    ] {
        world.profile(HeapProfile::by(breakdown).every(Every::Demand)).unwrap();
        for era in 1..4 {
            world.collect().unwrap();
            let census = world.sample().unwrap().unwrap();
            assert_eq!(
                (census.era, census.breakdown, census.bytes_of(name), census.bands.len()),
                (era, breakdown, 16, 1)
            );
        }
    }
    drop(root);
}

#[test]
fn impossible_requests_are_refused() {
    let world = World::builder().build().unwrap();
    let refused = |request: CensusRequest| world.census(&request).unwrap_err();
    for breakdown in [Breakdown::CostCentre, Breakdown::Module] {
        assert!(matches!(refused(CensusRequest::by(breakdown)), ProfileError::NotCharged));
    }
    assert!(matches!(refused(CensusRequest::by(Breakdown::Biography)), ProfileError::OnlyAtTheEnd));
    if !cfg!(feature = "biography") {
        let biography = world.profile(HeapProfile::by(Breakdown::Biography));
        assert!(matches!(biography, Err(ProfileError::NotTracked)));
    }
}

/// Mutators that allocate all the time, censuses of all kinds, several markers: the account is exact every time.
#[rstest]
fn a_census_of_a_busy_world_adds_up(
    #[values(
        Breakdown::CostCentre,
        Breakdown::Module,
        Breakdown::Description,
        Breakdown::Type,
        Breakdown::Kind,
        Breakdown::Retainer
    )]
    breakdown: Breakdown,
) {
    let reports: Arc<Mutex<BTreeMap<u32, (u64, u64)>>> = Arc::default();
    let listener = Arc::clone(&reports);
    let world = paranoid().markers(2).charge_allocations(Charging::On).on_collection(move |report| {
        listener.lock().unwrap().insert(report.number, (report.live.total(), report.live_objects));
    });
    let world = world.build().unwrap();
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let threads: Vec<_> = (0..2)
        .map(|i| {
            let done = Arc::clone(&done);
            // SAFETY: every Gc is a local variable.
            unsafe {
                world.spawn(&format!("worker-{i}"), move |m| {
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        let _cost = cost_centre!("busy");
                        assert_eq!(check_tree(tree(m, 9).unwrap()), tree_size(9));
                        let weak = m.alloc_weak(list(m, 50).unwrap()).unwrap();
                        let large = m.alloc_array(3000, |_| GcCell::new(Some(weak))).unwrap();
                        assert_eq!(large.len(), 3000);
                    }
                })
            }
            .unwrap()
        })
        .collect();
    for _ in 0..20 {
        let census = world.census(&CensusRequest::by(breakdown)).unwrap();
        assert_eq!(sum(&census), (census.live_bytes, census.live_objects));
        // The counts of the sweep must equal the verifier's counts after it.
        assert_eq!(reports.lock().unwrap()[&census.collection], sum(&census));
        assert_eq!(world.damage(), None);
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
