//! `WeakMap`: as a map, against `HashMap`; its effect on what is alive, against a search that repeats itself until nothing changes
//! (`.weak.ephemeron`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rstest::rstest;
use stopworld::collections::WeakEntry;
use stopworld::{
    ByAddress, Gc, GcCell, GcMutex, GcVec, Leaf, Mutator, Root, Trace, Weak, WeakMap, World, WorldBuilder,
};

use super::for_each_case;
use super::hazard::{By, Losing, build, builder, while_collecting};
use super::heap_support::{on_a_thread, paranoid, settle};
use super::sequences::{Element, Plain, plain};

#[derive(Clone, Debug)]
enum Step {
    Insert(usize, Plain),
    GetOrInsert(usize, Plain),
    Change(usize, Plain),
    Remove(usize),
    Retain(u8),
    Reserve(usize),
    Shrink,
    ShrinkTo(usize),
    RemoveEntry(usize),
    OrInsertWithKey(usize, Plain),
    AndModify(usize, Plain),
    InsertEntry(usize, Plain),
    RemoveOccupied(usize),
    ChangeAll,
    /// How many entries are taken before the iterator is dropped.
    Drain(usize),
    ByValue,
    Clone,
    Clear,
}

const KEYS: usize = 30;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..KEYS;
    let step = prop_oneof![
        8 => (key(), plain()).prop_map(|(key, value)| Step::Insert(key, value)),
        2 => (key(), plain()).prop_map(|(key, value)| Step::GetOrInsert(key, value)),
        2 => (key(), plain()).prop_map(|(key, value)| Step::Change(key, value)),
        6 => key().prop_map(Step::Remove),
        1 => (2..9_u8).prop_map(Step::Retain),
        1 => (0..50_usize).prop_map(Step::Reserve),
        1 => Just(Step::Shrink),
        1 => (0..60_usize).prop_map(Step::ShrinkTo),
        2 => key().prop_map(Step::RemoveEntry),
        2 => (key(), plain()).prop_map(|(key, value)| Step::OrInsertWithKey(key, value)),
        2 => (key(), plain()).prop_map(|(key, value)| Step::AndModify(key, value)),
        2 => (key(), plain()).prop_map(|(key, value)| Step::InsertEntry(key, value)),
        2 => key().prop_map(Step::RemoveOccupied),
        1 => Just(Step::ChangeAll),
        1 => (0..40_usize).prop_map(Step::Drain),
        1 => Just(Step::ByValue),
        1 => Just(Step::Clone),
        1 => Just(Step::Clear),
    ];
    vec(step, 1..80)
}

fn apply(
    m: &Mutator,
    keys: &[Gc<u64>],
    ours: &mut WeakMap<u64, Element>,
    model: &mut HashMap<usize, Plain>,
    step: Step,
) {
    match step {
        Step::Insert(key, value) => {
            let before = ours.insert(m, keys[key], value.make(m)).unwrap();
            assert_eq!(before.as_ref().map(Plain::of), model.insert(key, value));
        }
        Step::GetOrInsert(key, value) => {
            let found = ours.get_or_insert_with(m, keys[key], || value.make(m)).unwrap();
            assert_eq!(Plain::of(found), *model.entry(key).or_insert(value));
        }
        Step::Change(key, value) => {
            if let Some(place) = ours.get_mut(keys[key]) {
                *place = value.make(m);
            }
            model.entry(key).and_modify(|place| *place = value);
        }
        Step::Remove(key) => assert_eq!(ours.remove(keys[key]).as_ref().map(Plain::of), model.remove(&key)),
        Step::Retain(divisor) => {
            ours.retain(|_, value| !Plain::of(value).0.is_multiple_of(divisor));
            model.retain(|_, value| !value.0.is_multiple_of(divisor));
        }
        Step::Reserve(additional) => {
            ours.reserve(m, additional).unwrap();
            assert!(ours.capacity() >= model.len() + additional);
        }
        Step::Shrink => {
            ours.shrink_to_fit(m).unwrap();
            assert!(ours.capacity() <= (model.len() * 3).max(6), "{} for {}", ours.capacity(), model.len());
        }
        Step::Clear => {
            ours.clear();
            model.clear();
        }
        step => apply_to_entries(m, keys, ours, model, step),
    }
    let seen: HashMap<_, _> = ours.iter().map(|(key, value)| (*key as usize, Plain::of(value))).collect();
    assert_eq!((&seen, ours.len()), (&*model, model.len()));
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(ours.get(*key).map(Plain::of), model.get(&index).copied());
    }
}

/// [`apply`] for the other functions.
fn apply_to_entries(
    m: &Mutator,
    keys: &[Gc<u64>],
    ours: &mut WeakMap<u64, Element>,
    model: &mut HashMap<usize, Plain>,
    step: Step,
) {
    // Allocates, and so collects, in the middle of an operation.
    let of = |value: &Element| Plain(*m.alloc(Plain::of(value).0).unwrap());
    match step {
        Step::ShrinkTo(capacity) => {
            let before = ours.capacity();
            ours.shrink_to(m, capacity).unwrap();
            assert!(ours.capacity() >= before.min(capacity.max(model.len())) && ours.capacity() <= before);
            assert!(ours.capacity() <= (model.len().max(capacity) * 3).max(6), "{} for {capacity}", ours.capacity());
        }
        Step::RemoveEntry(key) => {
            let removed = ours.remove_entry(keys[key]).map(|(key, value)| (*key as usize, of(&value)));
            assert_eq!(removed, model.remove_entry(&key));
        }
        Step::OrInsertWithKey(key, value) => {
            let entry = ours.entry(keys[key]);
            let found = entry.or_insert_with_key(m, |same| Plain(value.0.wrapping_add(*same as u8)).make(m)).unwrap();
            let expected = model.entry(key).or_insert_with_key(|same| Plain(value.0.wrapping_add(*same as u8)));
            assert_eq!(of(found), *expected);
        }
        Step::AndModify(key, value) => {
            let entry = ours.entry(keys[key]).and_modify(|place| *place = of(place).next().make(m));
            assert!(Gc::ptr_eq(entry.key(), keys[key]));
            let found = of(entry.or_insert(m, value.make(m)).unwrap());
            assert_eq!(found, *model.entry(key).and_modify(|place| *place = place.next()).or_insert(value));
        }
        Step::InsertEntry(key, value) => {
            let mut entry = ours.entry(keys[key]).insert_entry(m, value.make(m)).unwrap();
            m.collect().unwrap();
            assert_eq!((*entry.key() as usize, Plain::of(entry.get())), (key, value));
            assert_eq!(of(&entry.insert(value.next().make(m))), value);
            model.insert(key, value.next());
        }
        Step::RemoveOccupied(key) => {
            let removed = match ours.entry(keys[key]) {
                WeakEntry::Occupied(entry) if key % 2 == 0 => Some(of(&entry.remove())),
                WeakEntry::Occupied(entry) => {
                    let (same, value) = entry.remove_entry();
                    assert!(Gc::ptr_eq(same, keys[key]));
                    Some(of(&value))
                }
                WeakEntry::Vacant(entry) => {
                    assert!(Gc::ptr_eq(entry.key(), keys[key]));
                    None
                }
            };
            assert_eq!(removed, model.remove(&key));
        }
        Step::ChangeAll => {
            for (_, value) in &mut *ours {
                *value = of(value).next().make(m);
            }
            ours.values_mut().for_each(|value| *value = of(value).next().make(m));
            model.values_mut().for_each(|value| *value = value.next().next());
        }
        Step::Drain(most) => {
            let mut drained = ours.drain();
            let mut taken = HashMap::new();
            for (key, value) in drained.by_ref().take(most) {
                assert!(taken.insert(*key as usize, of(&value)).is_none());
            }
            drop(drained);
            assert_eq!(taken.len(), most.min(model.len()));
            assert!(taken.iter().all(|(key, value)| model.get(key) == Some(value)));
            model.clear();
        }
        Step::ByValue => {
            let copy = ours.try_clone(m).unwrap();
            let entries: HashMap<_, _> = copy.into_iter().map(|(key, value)| (*key as usize, of(&value))).collect();
            assert_eq!(entries, *model);
        }
        Step::Clone => *ours = ours.try_clone(m).unwrap(),
        step => unreachable!("{step:?} is applied by the other function"),
    }
    let mut seen = HashMap::new();
    for (key, value) in &*ours {
        seen.insert(*key as usize, of(value));
    }
    assert_eq!(seen, *model);
}

#[rstest]
fn a_map_whose_keys_live_is_what_std_makes_of_the_same_steps(
    #[values(By::Signals, By::Safepoints, By::Debugger)] by: By,
) {
    for_each_case(by, 60, steps(), |m, steps| {
        // The keys are equal by value only to themselves, but the map must not compare them.
        let keys = m.alloc_array(KEYS, |index| m.alloc(index as u64).unwrap()).unwrap();
        let (mut ours, mut model) = (WeakMap::new(), HashMap::new());
        steps.into_iter().for_each(|step| apply(m, &keys, &mut ours, &mut model, step));
    });
}

#[derive(Trace)]
struct Node {
    next: GcCell<Option<Gc<Node>>>,
    map: GcMutex<WeakMap<Node, Held>>,
}

/// A value: a node, perhaps deep in other objects.
#[derive(Trace)]
struct Held {
    node: Gc<[Gc<Node>]>,
}

fn node(m: &Mutator) -> Gc<Node> {
    m.alloc(Node { next: GcCell::new(None), map: GcMutex::new(WeakMap::new()) }).unwrap()
}

fn held(m: &Mutator, node: Gc<Node>) -> Held {
    Held { node: m.alloc_slice(&[node]).unwrap() }
}

/// A graph of objects. Each number is an object.
#[derive(Clone, Debug)]
struct Graph {
    objects: usize,
    /// The reference of each object.
    next: Vec<Option<usize>>,
    /// Owner of the map, key, value.
    entries: Vec<(usize, usize, usize)>,
    roots: Vec<usize>,
    /// Objects with a finalizer.
    finalized: BTreeSet<usize>,
}

fn graphs() -> impl Strategy<Value = Graph> {
    (2..14_usize).prop_flat_map(|objects| {
        let one = move || 0..objects;
        (
            vec(proptest::option::weighted(0.3, one()), objects),
            vec((one(), one(), one()), 0..objects * 2),
            vec(one(), 1..4),
            proptest::collection::btree_set(one(), 0..3),
        )
            .prop_map(move |(next, entries, roots, finalized)| Graph {
                objects,
                next,
                entries,
                roots,
                finalized,
            })
    })
}

impl Graph {
    /// The entries, the last one of each key in each map.
    fn entries(&self) -> BTreeMap<(usize, usize), usize> {
        self.entries.iter().map(|&(owner, key, value)| ((owner, key), value)).collect()
    }

    /// What is reached from `from`, with entries whose maps and keys are reached: all is searched again until nothing changes.
    fn reached(&self, from: impl IntoIterator<Item = usize>, gone: &BTreeSet<(usize, usize)>) -> BTreeSet<usize> {
        let mut reached: BTreeSet<usize> = from.into_iter().collect();
        loop {
            let next = reached.iter().filter_map(|&object| self.next[object]);
            let entries = self.entries();
            let values = entries.iter().filter(|((owner, key), _)| {
                reached.contains(owner) && reached.contains(key) && !gone.contains(&(*owner, *key))
            });
            let more: BTreeSet<usize> = next.chain(values.map(|(_, value)| *value)).collect();
            if more.is_subset(&reached) {
                return reached;
            }
            reached.extend(more);
        }
    }

    /// The objects that a collection leaves, and the entries that it removes from the maps of these.
    fn after_collection(&self) -> (BTreeSet<usize>, BTreeSet<(usize, usize)>) {
        let alive = self.reached(self.roots.iter().copied(), &BTreeSet::new());
        let dead_keys = |alive: &BTreeSet<usize>, owners: &BTreeSet<usize>| -> BTreeSet<(usize, usize)> {
            let entries = self.entries();
            entries.into_keys().filter(|(owner, key)| owners.contains(owner) && !alive.contains(key)).collect()
        };
        let mut gone = dead_keys(&alive, &alive);
        let waiting = self.finalized.iter().copied().filter(|object| !alive.contains(object));
        let all = self.reached(alive.iter().copied().chain(waiting), &gone);
        gone.extend(dead_keys(&all, &all));
        (all, gone)
    }

    /// Builds the graph on a mutator. Returns its roots, and a weak reference to each object.
    fn build(&self, m: &Mutator) -> (Vec<Root<Node>>, Root<[Weak<Node>]>) {
        let nodes = m.alloc_array(self.objects, |_| node(m)).unwrap();
        for (from, to) in self.next.iter().enumerate() {
            nodes[from].next.set(to.map(|to| nodes[to]));
        }
        for &(owner, key, value) in &self.entries {
            let value = held(m, nodes[value]);
            nodes[owner].map.lock(m).insert(m, nodes[key], value).unwrap();
        }
        for &object in &self.finalized {
            m.set_finalizer(nodes[object], |_, _| {}).unwrap();
        }
        let weak = m.alloc_array(self.objects, |index| m.alloc_weak(nodes[index]).unwrap()).unwrap();
        (self.roots.iter().map(|&root| m.root(nodes[root])).collect(), m.root(weak))
    }
}

/// Builds each graph, collects, and compares what is alive and what is in the maps.
fn compare_with_a_search(world: &World, cases: u32) {
    let mut runner = TestRunner::new(ProptestConfig::with_cases(cases));
    let result = runner.run(&graphs(), |graph| {
        let building = graph.clone();
        let (roots, weak) = on_a_thread(world, move |m| building.build(m));
        world.collect().unwrap();
        // What waits for a finalizer is not reached through weak references, but it is in the maps that are alive.
        let alive = graph.reached(graph.roots.iter().copied(), &BTreeSet::new());
        let (_, gone) = graph.after_collection();
        let (roots, found, maps) = on_a_thread(world, move |m| {
            let weak = weak.get(m);
            let found: BTreeSet<usize> = (0..weak.len()).filter(|&index| weak[index].get().is_some()).collect();
            let number = |node: Gc<Node>| {
                weak.iter().position(|weak| weak.get().is_some_and(|other| Gc::ptr_eq(other, node))).unwrap()
            };
            let mut maps = BTreeMap::new();
            for &owner in &found {
                let Some(object) = weak[owner].get() else { continue };
                let map = object.map.lock(m);
                let entries: Vec<_> = map.iter().map(|(key, value)| (number(key), number(value.node[0]))).collect();
                assert_eq!(map.len(), entries.len());
                maps.extend(entries.into_iter().map(|(key, value)| ((owner, key), value)));
            }
            (roots, found, maps)
        });
        prop_assert_eq!(&found, &alive);
        let expected: BTreeMap<_, _> = graph
            .entries()
            .into_iter()
            .filter(|((owner, key), _)| alive.contains(owner) && !gone.contains(&(*owner, *key)))
            .collect();
        prop_assert_eq!(maps, expected);
        drop(roots);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(world.damage(), None);
    assert_eq!(settle(world), 0, "without roots nothing is left");
}

#[rstest]
fn entries_keep_what_a_search_reaches(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    compare_with_a_search(&build(builder().collect_every(0), by), 60);
}

/// `.mark.overflow`: a few words of mark stack, and several markers, which are woken for each collection in the paranoid mode.
#[rstest]
fn entries_keep_what_a_search_reaches_with_any_mark_stack_and_markers(
    #[values(64, 512, 1 << 20)] limit: usize,
    #[values(1, 3)] markers: usize,
) {
    compare_with_a_search(&paranoid().mark_stack_limit(limit).markers(markers).build().unwrap(), 60);
}

/// A chain in which the value of each entry is the key of the next one. Only the first key is reachable otherwise. `in_one_map`, or each
/// entry in a map of its own. Returns the maps and the first key.
fn chain(m: &Mutator, length: usize, in_one_map: bool, reverse: bool) -> Root<[Gc<Link>]> {
    let links =
        m.alloc_array(length + 1, |_| m.alloc(Link { number: 7, map: GcMutex::new(WeakMap::new()) }).unwrap()).unwrap();
    let owners = m
        .alloc_array(if in_one_map { 1 } else { length }, |_| {
            m.alloc(Link { number: 0, map: GcMutex::new(WeakMap::new()) }).unwrap()
        })
        .unwrap();
    for step in 0..length {
        let index = if reverse { length - 1 - step } else { step };
        let owner = if in_one_map { owners[0] } else { owners[step] };
        owner.map.lock(m).insert(m, links[index], links[index + 1]).unwrap();
    }
    m.root(m.alloc_array(owners.len() + 1, |index| if index == 0 { links[0] } else { owners[index - 1] }).unwrap())
}

#[derive(Trace)]
struct Link {
    number: u64,
    map: GcMutex<WeakMap<Link, Gc<Link>>>,
}

fn length_of_chain(m: &Mutator, kept: &[Gc<Link>]) -> usize {
    let next: HashMap<ByAddress<Link>, Gc<Link>> = kept[1..]
        .iter()
        .flat_map(|owner| {
            let map = owner.map.lock(m);
            map.iter().map(|(key, value)| (ByAddress(key), *value)).collect::<Vec<_>>()
        })
        .collect();
    let mut at = kept[0];
    let mut length = 0;
    while let Some(&value) = next.get(&ByAddress(at)) {
        assert_eq!(value.number, 7);
        at = value;
        length += 1;
    }
    length
}

/// With passes over all entries, a chain takes thousands of times as long as the same entries with keys that are reached otherwise, which need one
/// pass.
#[rstest]
fn a_long_chain_takes_time_in_proportion_to_its_length(
    #[values(true, false)] in_one_map: bool,
    #[values(true, false)] reverse: bool,
) {
    const LENGTH: usize = 100_000;
    let world = World::builder().heap_limit(256 << 20).build().unwrap();
    let kept = on_a_thread(&world, move |m| chain(m, LENGTH, in_one_map, reverse));
    let mark_ns = || (0..5).map(|_| world.collect().unwrap().mark_ns).min().unwrap();
    let chained = mark_ns();
    let keys = on_a_thread(&world, {
        let kept = kept.clone();
        move |m| {
            let kept = kept.get(m);
            assert_eq!(length_of_chain(m, &kept), LENGTH, "the chain has lost links");
            let keys = kept[1..].iter().flat_map(|owner| owner.map.lock(m).keys().collect::<Vec<_>>());
            m.root(GcVec::from_iter(m, keys).and_then(|keys| m.alloc(keys)).unwrap())
        }
    });
    let reached = mark_ns();
    assert!(chained < 100 * reached, "{chained} ns for a chain, and {reached} ns for keys that are reached otherwise");
    drop(keys);
}

/// A world, and what a collection leaves of what was built in it, by the number of objects.
fn left_of(
    builder: WorldBuilder,
    make: impl FnOnce(&Mutator) -> Root<Node> + Send + 'static,
) -> (World, Root<Node>, u64) {
    let world = builder.build().unwrap();
    let root = on_a_thread(&world, make);
    let live = world.collect().unwrap().live_objects;
    assert_eq!(world.damage(), None);
    (world, root, live)
}

/// The objects of a map with one entry besides its owner: the table, the value, the array in it.
const MAP_OF_ONE: u64 = 3;

#[test]
fn a_value_that_refers_to_its_key_keeps_neither() {
    let (world, root, live) = left_of(paranoid(), |m| {
        let (owner, key) = (node(m), node(m));
        let value = held(m, key);
        owner.map.lock(m).insert(m, key, value).unwrap();
        m.root(owner)
    });
    assert_eq!(live, 2, "the owner and its table");
    on_a_thread(&world, move |m| {
        let owner = root.get(m);
        let mut map = owner.map.lock(m);
        assert_eq!((map.len(), map.iter().count()), (0, 0));
        map.shrink_to_fit(m).unwrap();
        assert_eq!(map.capacity(), 0);
    });
    assert_eq!(world.collect().unwrap().live_objects, 0);
}

#[test]
fn values_that_refer_to_each_others_keys_keep_neither() {
    let (_world, _root, live) = left_of(paranoid(), |m| {
        let (owner, other, first, second) = (node(m), node(m), node(m), node(m));
        owner.next.set(Some(other));
        let value = held(m, second);
        owner.map.lock(m).insert(m, first, value).unwrap();
        let value = held(m, first);
        other.map.lock(m).insert(m, second, value).unwrap();
        m.root(owner)
    });
    assert_eq!(live, 4, "two owners and their tables");
}

#[test]
fn a_map_that_dies_keeps_no_values() {
    let (_world, _root, live) = left_of(paranoid(), |m| {
        let (owner, key) = (node(m), node(m));
        let value = held(m, node(m));
        owner.map.lock(m).insert(m, key, value).unwrap();
        m.root(key)
    });
    assert_eq!(live, 1);
}

#[test]
fn a_map_that_is_the_value_of_its_own_key_dies_with_it() {
    let (world, root, live) = left_of(paranoid(), |m| {
        let (owner, key, inner, deep) = (node(m), node(m), node(m), node(m));
        let value = held(m, inner);
        owner.map.lock(m).insert(m, key, value).unwrap();
        let value = held(m, deep);
        inner.map.lock(m).insert(m, key, value).unwrap();
        owner.next.set(Some(key));
        m.root(owner)
    });
    assert_eq!(live, 4 + 2 * MAP_OF_ONE, "a map in a map");
    on_a_thread(&world, {
        let root = root.clone();
        move |m| root.get(m).next.set(None)
    });
    let report = world.collect().unwrap();
    assert_eq!((report.live_objects, report.weak_cleared), (2, 1));
}

#[test]
fn an_entry_ends_with_its_key_although_the_value_lives() {
    let (world, root, live) = left_of(paranoid(), |m| {
        let (owner, key, value) = (node(m), node(m), node(m));
        owner.next.set(Some(value));
        let held = held(m, value);
        owner.map.lock(m).insert(m, key, held).unwrap();
        m.root(owner)
    });
    assert_eq!(live, 3, "the owner, its table, and the value");
    on_a_thread(&world, move |m| assert!(root.get(m).map.lock(m).is_empty()));
}

/// The log of finalizers, which run on a thread of their own: how many entries each found for its object, in a map that lives, and in
/// a map that only it could reach.
static FOUND: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
static LIVING: Mutex<Option<Root<Node>>> = Mutex::new(None);

/// `.final.order`
#[test]
fn an_entry_is_removed_before_its_key_is_finalized_but_the_finalizer_sees_its_own_maps() {
    let world = paranoid().build().unwrap();
    let living = on_a_thread(&world, |m| {
        let (living, key, own, far) = (node(m), node(m), node(m), node(m));
        key.next.set(Some(own));
        // In the map that only the finalizer reaches: a chain of two entries, which begins with the key, and an entry that dies.
        for (key, value) in [(key, far), (far, own), (node(m), own)] {
            let value = held(m, value);
            own.map.lock(m).insert(m, key, value).unwrap();
        }
        let value = held(m, own);
        living.map.lock(m).insert(m, key, value).unwrap();
        m.set_finalizer(key, |m, key: Gc<Node>| {
            let living = LIVING.lock().unwrap().as_ref().unwrap().get(m);
            let in_living = living.map.lock(m).iter().count();
            let own = key.next.get().unwrap();
            FOUND.lock().unwrap().push((in_living, own.map.lock(m).iter().count()));
            living.next.set(Some(key));
        })
        .unwrap();
        m.root(living)
    });
    *LIVING.lock().unwrap() = Some(living.clone());
    world.collect().unwrap();
    settle(&world);
    assert_eq!(*FOUND.lock().unwrap(), [(0, 2)]);
    // The finalizer has stored the key, which has no entry any more.
    let alive = on_a_thread(&world, move |m| {
        let living = living.get(m);
        (living.map.lock(m).len(), living.next.get().unwrap().next.get().unwrap().map.lock(m).len())
    });
    assert_eq!(alive, (0, 2));
    *LIVING.lock().unwrap() = None;
    assert_eq!(settle(&world), 0);
}

/// Entries whose keys are without references, and so are not left to the walk over the heap when the mark stack is full.
#[rstest]
fn keys_that_are_marked_while_the_mark_stack_is_full_are_not_missed(#[values(64, 256, 4096)] limit: usize) {
    type Key = Leaf<u64>;
    #[derive(Trace)]
    struct Fan {
        map: GcMutex<WeakMap<Key, Gc<[Gc<Key>]>>>,
        first: Gc<Key>,
    }
    const WIDTH: usize = 100;
    const DEPTH: usize = 20;
    let world = paranoid().mark_stack_limit(limit).build().unwrap();
    let root = on_a_thread(&world, |m| {
        let first = m.alloc(Leaf(0)).unwrap();
        let fan = m.alloc(Fan { map: GcMutex::new(WeakMap::new()), first }).unwrap();
        let mut key = first;
        for depth in 0..DEPTH {
            let next = m.alloc_array(WIDTH, |index| m.alloc(Leaf((depth * WIDTH + index) as u64)).unwrap()).unwrap();
            fan.map.lock(m).insert(m, key, next).unwrap();
            key = next[depth * 7 % WIDTH];
        }
        m.root(fan)
    });
    for _ in 0..3 {
        let live = 3 + DEPTH * (WIDTH + 2);
        assert_eq!(world.collect().unwrap().live_objects, live as u64);
    }
    on_a_thread(&world, move |m| assert_eq!(root.get(m).map.lock(m).len(), DEPTH));
}

#[test]
fn a_map_whose_keys_die_does_not_grow() {
    let world = World::builder().heap_limit(16 << 20).build().unwrap();
    on_a_thread(&world, |m| {
        let (mut map, kept) = (WeakMap::new(), m.alloc(u64::MAX).unwrap());
        map.insert(m, kept, m.alloc_str("kept").unwrap()).unwrap();
        let mut most = 0;
        for number in 0..400_000_u64 {
            map.insert(m, m.alloc(number).unwrap(), m.alloc_str("lost").unwrap()).unwrap();
            if number % 1000 == 0 {
                m.collect().unwrap();
            }
            most = most.max(map.capacity());
        }
        assert!(most < 16_000, "room for {most} entries, of which about 1000 live at a time");
        assert_eq!(map.get(kept).map(|text| &**text), Some("kept"));
        m.collect().unwrap();
        // A thread's next free cell is scanned, whatever was in it before: it can have a thousand stale words.
        assert!(map.len() < 3000, "{} entries", map.len());
        map.retain(|key, _| Gc::ptr_eq(key, kept));
        for number in 0..10 {
            map.insert(m, kept, m.alloc_str("again").unwrap()).unwrap();
            map.insert(m, m.alloc(number).unwrap(), m.alloc_str("again").unwrap()).unwrap();
        }
        assert!(map.capacity() < 200, "a map without entries keeps room for {}", map.capacity());
    });
}

#[test]
fn a_reference_to_a_value_outlives_its_entry() {
    for_each_case(By::Signals, 20, 1..40_usize, |m, length| {
        let mut map = WeakMap::new();
        for _ in 0..length {
            let value = GcVec::from_iter(m, (0..5).map(|number| m.alloc(number).unwrap())).unwrap();
            map.insert(m, m.alloc(1_u64).unwrap(), value).unwrap();
        }
        // Nothing else has the keys. Each step allocates, and so collects.
        for value in map.values() {
            let copy = m.alloc_array(5, |index| *value[index]).unwrap();
            assert_eq!(*copy, [0, 1, 2, 3, 4]);
        }
        let keys = map.keys().count();
        assert!(keys <= length);
    });
}

#[rstest]
fn threads_use_maps_of_their_own_and_shared_ones(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    const THREADS: usize = 3;
    const ROUNDS: usize = 100;
    let world = build(builder().markers(2), by);
    let shared = on_a_thread(&world, |m| m.root(node(m)));
    while_collecting(&world, || {
        let work = |_: usize| {
            let shared = shared.clone();
            move |m: &Mutator| {
                let keys = m.alloc_array(ROUNDS, |_| node(m)).unwrap();
                let mut own = WeakMap::new();
                for (round, &key) in keys.iter().enumerate() {
                    let value = held(m, node(m));
                    own.insert(m, key, round).unwrap();
                    let shared = shared.get(m);
                    shared.map.lock(m).insert(m, key, value).unwrap();
                    // Lost at once.
                    let value = held(m, key);
                    shared.map.lock(m).insert(m, node(m), value).unwrap();
                }
                let shared = shared.get(m);
                for (round, &key) in keys.iter().enumerate() {
                    assert_eq!(own.get(key), Some(&round));
                    assert!(shared.map.lock(m).get(key).is_some_and(|value| value.node.len() == 1));
                }
                assert_eq!(own.len(), ROUNDS);
            }
        };
        // SAFETY: the threads keep every `Gc` in local variables, in collected objects and in roots.
        let threads: Vec<_> = (0..THREADS).map(|n| unsafe { world.spawn("worker", work(n)) }.unwrap()).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    on_a_thread(&world, |_| {});
    world.collect().unwrap();
    let left = on_a_thread(&world, move |m| shared.get(m).map.lock(m).len());
    assert_eq!(left, 0, "the keys are on no stack any more");
}

/// `.debug.dies`: a collection whose stop was lost has removed no entry.
#[test]
fn a_discarded_collection_leaves_the_maps_as_they_were() {
    let world = build(builder(), By::Signals);
    let lost = Losing::install(&world);
    let kept = on_a_thread(&world, |m| chain(m, 500, true, true));
    for _ in 0..5 {
        lost.store(true, Ordering::Relaxed);
        assert_eq!(world.collect().unwrap().live_objects, 2 * 500 + 4, "repeated by the built-in stopper");
        lost.store(false, Ordering::Relaxed);
        assert_eq!(world.collect().unwrap().live_objects, 2 * 500 + 4);
    }
    on_a_thread(&world, move |m| assert_eq!(length_of_chain(m, &kept.get(m)), 500));
    assert_eq!(world.damage(), None);
}

/// The verifier of each collection finds no value without its key.
#[test]
fn entries_are_removed_while_a_paranoid_world_collects() {
    let world = build(builder().heap_limit(256 << 20), By::Signals);
    while_collecting(&world, || {
        on_a_thread(&world, |m| {
            let keys = m.alloc_array(20_000, |number| m.alloc(number as u64).unwrap()).unwrap();
            let mut map = WeakMap::new();
            for round in 0.. {
                if m.world().totals().collections > 2000 {
                    break;
                }
                for (number, &key) in keys.iter().enumerate() {
                    map.insert(m, key, number).unwrap();
                }
                if round % 2 == 0 { map.clear() } else { map.retain(|key, _| *key % 7 == 0) }
            }
        });
    });
    assert_eq!(world.damage(), None);
}

/// A thread is stopped at any instruction of an operation, over and over.
#[test]
fn a_key_that_is_in_use_keeps_its_entry_at_any_instruction() {
    let world = build(builder(), By::Signals);
    while_collecting(&world, || {
        on_a_thread(&world, |m| {
            let mut map = WeakMap::new();
            for number in 0..3000_u64 {
                let key = m.alloc(number).unwrap();
                assert_eq!(map.insert(m, key, number).unwrap(), None);
                assert_eq!(map.get(key), Some(&number));
                *map.get_mut(key).unwrap() += 1;
                if number % 3 == 0 {
                    assert_eq!(map.remove(key), Some(number + 1));
                    assert!(!map.contains_key(key));
                }
                let (entries, len) = (map.iter().count(), map.len());
                assert!(entries <= number as usize + 1 && len <= number as usize + 1, "{entries} {len}");
            }
        });
    });
}

/// What nothing else has: the entry, the iterator and the values that were taken out of a map keep it.
#[test]
fn an_entry_and_a_drain_keep_what_they_have() {
    for_each_case(By::Signals, 20, 1..40_usize, |m, length| {
        let texts = |m: &Mutator| {
            let mut map = WeakMap::new();
            for number in 0..length {
                map.insert(m, m.alloc(number as u64).unwrap(), m.alloc_str(&format!("{number}")).unwrap()).unwrap();
            }
            map
        };
        let mut map = texts(m);
        let entry = map.entry(m.alloc(7_u64).unwrap()).or_insert(m, m.alloc_str("7").unwrap()).unwrap();
        m.collect().unwrap();
        assert_eq!(&**entry, "7");
        let check = |(key, value): (Gc<u64>, Gc<str>)| {
            m.collect().unwrap();
            assert_eq!(key.to_string(), *value);
        };
        map.drain().for_each(check);
        assert_eq!((map.len(), map.iter().count()), (0, 0));
        texts(m).into_iter().for_each(check);
    });
}
