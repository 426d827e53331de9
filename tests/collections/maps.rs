//! `GcHashMap` and `GcHashSet` against `HashMap` and `HashSet`.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;
use rstest::rstest;
use stopworld::collections::Entry;
use stopworld::{ByAddress, Gc, GcHashMap, GcHashSet, Mutator, Trace};

use super::for_each_case;
use super::hazard::By;
use super::sequences::{Element, Plain, plain};

/// A hasher with few results, so that entries collide.
#[derive(Clone, Copy, Debug, Default)]
struct Bad;

struct BadHasher(u64);

impl BuildHasher for Bad {
    type Hasher = BadHasher;

    fn build_hasher(&self) -> BadHasher {
        BadHasher(0)
    }
}

impl Hasher for BadHasher {
    fn finish(&self) -> u64 {
        self.0 % 5
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 += bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, Plain),
    Remove(u8),
    RemoveEntry(u8),
    Change(u8, Plain),
    OrInsert(u8, Plain),
    ChangeAll(Plain),
    RemoveOccupied(u8),
    Retain(u8),
    Reserve(usize),
    Shrink,
    ShrinkTo(usize),
    /// How many entries are taken before the iterator is dropped.
    Drain(usize),
    ExtractIf(u8, usize),
    Disjoint(u8, u8),
    ChangeValues,
    OrInsertWithKey(u8),
    AndModify(u8, Plain),
    InsertEntry(u8, Plain),
    RemoveOccupiedEntry(u8),
    ByValue,
    Clone,
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..30_u8;
    let step = prop_oneof![
        8 => (key(), plain()).prop_map(|(key, value)| Step::Insert(key, value)),
        4 => key().prop_map(Step::Remove),
        2 => key().prop_map(Step::RemoveEntry),
        2 => (key(), plain()).prop_map(|(key, value)| Step::Change(key, value)),
        2 => (key(), plain()).prop_map(|(key, value)| Step::OrInsert(key, value)),
        1 => plain().prop_map(Step::ChangeAll),
        2 => key().prop_map(Step::RemoveOccupied),
        1 => (2..9_u8).prop_map(Step::Retain),
        1 => (0..50_usize).prop_map(Step::Reserve),
        1 => Just(Step::Shrink),
        1 => (0..40_usize).prop_map(Step::ShrinkTo),
        1 => (0..40_usize).prop_map(Step::Drain),
        3 => (1..9_u8, 0..30_usize).prop_map(|(divisor, most)| Step::ExtractIf(divisor, most)),
        1 => (key(), key()).prop_map(|(one, other)| Step::Disjoint(one, other)),
        1 => Just(Step::ChangeValues),
        2 => key().prop_map(Step::OrInsertWithKey),
        2 => (key(), plain()).prop_map(|(key, value)| Step::AndModify(key, value)),
        2 => (key(), plain()).prop_map(|(key, value)| Step::InsertEntry(key, value)),
        1 => key().prop_map(Step::RemoveOccupiedEntry),
        1 => Just(Step::ByValue),
        1 => Just(Step::Clone),
        1 => Just(Step::Clear),
    ];
    vec(step, 1..60)
}

fn name(key: u8) -> String {
    format!("key {key}")
}

type Ours<S> = GcHashMap<Gc<str>, Element, S>;

/// Applies a step to both, and compares what they return and what they are then.
fn apply<S: BuildHasher + Clone + Default + Send + Sync + 'static>(
    m: &Mutator,
    ours: &mut Ours<S>,
    model: &mut HashMap<String, Plain>,
    step: Step,
) {
    let key = |key: u8| m.alloc_str(&name(key)).unwrap();
    match step {
        Step::Insert(number, value) => {
            let before = ours.insert(m, key(number), value.make(m)).unwrap();
            assert_eq!(before.as_ref().map(Plain::of), model.insert(name(number), value));
        }
        Step::Remove(number) => {
            let removed = ours.remove(name(number).as_str());
            assert_eq!(removed.as_ref().map(Plain::of), model.remove(&name(number)));
        }
        Step::RemoveEntry(number) => {
            let removed = ours.remove_entry(&*name(number)).map(|(key, value)| (key.to_string(), Plain::of(&value)));
            assert_eq!(removed, model.remove_entry(&name(number)));
        }
        Step::Change(number, value) => {
            if let Some(place) = ours.get_mut(&*name(number)) {
                *place = value.make(m);
            }
            model.entry(name(number)).and_modify(|place| *place = value);
        }
        Step::OrInsert(number, value) => {
            let place = ours.entry(key(number)).or_insert_with(m, || value.make(m)).unwrap();
            assert_eq!(Plain::of(place), *model.entry(name(number)).or_insert(value));
        }
        Step::ChangeAll(value) => {
            for (_, place) in &mut *ours {
                *place = value.make(m);
            }
            model.values_mut().for_each(|place| *place = value);
        }
        Step::RemoveOccupied(number) => {
            let removed = match ours.entry(key(number)) {
                Entry::Occupied(entry) => Some(Plain::of(&entry.remove())),
                Entry::Vacant(entry) => {
                    assert_eq!(**entry.key(), name(number));
                    None
                }
            };
            assert_eq!(removed, model.remove(&name(number)));
        }
        Step::Retain(divisor) => {
            ours.retain(|_, value| !Plain::of(value).0.is_multiple_of(divisor));
            model.retain(|_, value| !value.0.is_multiple_of(divisor));
        }
        Step::Reserve(additional) => {
            ours.reserve(m, additional).unwrap();
            assert!(ours.capacity() >= model.len() + additional);
        }
        Step::Shrink => ours.shrink_to_fit(m).unwrap(),
        step => apply_to_many(m, ours, model, step),
    }
    let mut seen = HashMap::new();
    for (key, value) in &*ours {
        seen.insert(key.to_string(), Plain::of(value));
    }
    assert_eq!((&seen, ours.len()), (&*model, model.len()));
    for number in 0..30 {
        assert_eq!(ours.get(name(number).as_str()).map(Plain::of), model.get(&name(number)).copied());
    }
}

/// [`apply`] for the other functions.
fn apply_to_many<S: BuildHasher + Clone + Default + Send + Sync + 'static>(
    m: &Mutator,
    ours: &mut Ours<S>,
    model: &mut HashMap<String, Plain>,
    step: Step,
) {
    let key = |key: u8| m.alloc_str(&name(key)).unwrap();
    // Allocates, and so collects, in the middle of an operation.
    let of = |value: &Element| Plain(*m.alloc(Plain::of(value).0).unwrap());
    match step {
        Step::ShrinkTo(capacity) => {
            let before = ours.capacity();
            ours.shrink_to(m, capacity).unwrap();
            assert!(ours.capacity() >= before.min(capacity.max(model.len())) && ours.capacity() <= before);
        }
        Step::Drain(most) => {
            let capacity = ours.capacity();
            let mut drained = ours.drain();
            assert_eq!(drained.len(), model.len());
            let mut taken = HashMap::new();
            for (key, value) in drained.by_ref().take(most) {
                assert!(taken.insert(key.to_string(), of(&value)).is_none());
            }
            drop(drained);
            assert!(taken.iter().all(|(key, value)| model.get(key) == Some(value)));
            assert_eq!((taken.len(), ours.capacity()), (most.min(model.len()), capacity));
            model.clear();
        }
        Step::ExtractIf(divisor, most) => {
            let mut taken = HashMap::new();
            for (key, value) in ours.extract_if(|_, value| of(value).0.is_multiple_of(divisor)).take(most) {
                assert!(taken.insert(key.to_string(), of(&value)).is_none());
            }
            let expected = model.values().filter(|value| value.0.is_multiple_of(divisor)).count();
            assert_eq!(taken.len(), expected.min(most));
            // Which ones the iterator reaches first is not defined.
            assert!(taken.iter().all(|(key, value)| value.0.is_multiple_of(divisor) && model.get(key) == Some(value)));
            model.retain(|key, _| !taken.contains_key(key));
        }
        Step::Disjoint(one, other) if one != other => {
            let (names, mut changed) = ([name(one), name(other)], 0);
            for value in ours.get_disjoint_mut([names[0].as_str(), &names[1]]).into_iter().flatten() {
                *value = of(value).next().make(m);
                changed += 1;
            }
            for value in model.get_disjoint_mut([&names[0], &names[1]]).into_iter().flatten() {
                *value = value.next();
                changed -= 1;
            }
            assert_eq!(changed, 0);
        }
        Step::Disjoint(one, other) => {
            let names = [name(one), name(other)];
            let both = AssertUnwindSafe(|| ours.get_disjoint_mut([names[0].as_str(), &names[1]]).len());
            assert_eq!(catch_unwind(both).is_err(), model.contains_key(&names[0]));
        }
        Step::ChangeValues => {
            ours.values_mut().for_each(|value| *value = of(value).next().make(m));
            model.values_mut().for_each(|value| *value = value.next());
        }
        Step::OrInsertWithKey(number) => {
            let value = |key: &str| Plain(key.len() as u8 + number);
            let place = ours.entry(key(number)).or_insert_with_key(m, |key| value(key).make(m)).unwrap();
            assert_eq!(Plain::of(place), *model.entry(name(number)).or_insert_with_key(|key| value(key)));
        }
        Step::AndModify(number, value) => {
            let entry = ours.entry(key(number)).and_modify(|place| *place = of(place).next().make(m));
            assert_eq!(**entry.key(), name(number));
            let place = entry.or_insert(m, value.make(m)).unwrap();
            let expected = model.entry(name(number)).and_modify(|place| *place = place.next()).or_insert(value);
            assert_eq!(Plain::of(place), *expected);
        }
        Step::InsertEntry(number, value) => {
            let mut entry = ours.entry(key(number)).insert_entry(m, value.make(m)).unwrap();
            assert_eq!((&**entry.key(), Plain::of(entry.get())), (name(number).as_str(), value));
            *entry.get_mut() = value.next().make(m);
            if number % 4 == 0 {
                assert_eq!(Plain::of(&entry.remove()), value.next());
                model.remove(&name(number));
            } else {
                model.insert(name(number), value.next());
            }
        }
        Step::RemoveOccupiedEntry(number) => {
            let removed = match ours.entry(key(number)) {
                Entry::Occupied(entry) => Some(entry.remove_entry()),
                Entry::Vacant(entry) => {
                    assert_eq!(*entry.into_key(), name(number));
                    None
                }
            };
            let removed = removed.map(|(key, value)| (key.to_string(), of(&value)));
            assert_eq!(removed, model.remove_entry(&name(number)));
        }
        Step::ByValue => {
            let copy = || ours.try_clone(m).unwrap();
            let entries: HashMap<_, _> = copy().into_iter().map(|(key, value)| (key.to_string(), of(&value))).collect();
            assert_eq!(entries, *model);
            let keys: HashSet<_> = copy().into_keys().map(|key| m.alloc_str(&key).unwrap().to_string()).collect();
            assert_eq!(keys, model.keys().cloned().collect());
            let (mut values, mut expected): (Vec<_>, Vec<_>) =
                (copy().into_values().map(|value| of(&value)).collect(), model.values().copied().collect());
            values.sort_unstable();
            expected.sort_unstable();
            assert_eq!(values, expected);
        }
        Step::Clone => {
            let copy = ours.try_clone(m).unwrap();
            assert_eq!((&copy, format!("{copy:?}")), (&*ours, format!("{ours:?}")));
            *ours = copy;
        }
        Step::Clear => {
            ours.clear();
            model.clear();
        }
        step => unreachable!("{step:?} is applied by the other function"),
    }
}

fn check<S: BuildHasher + Clone + Default + Send + Sync + 'static>(by: By) {
    for_each_case(by, 100, steps(), |m, steps| {
        let (mut ours, mut model) = (Ours::<S>::default(), HashMap::new());
        steps.into_iter().for_each(|step| apply(m, &mut ours, &mut model, step));
        let copy = Ours::<S>::from_iter(m, ours.iter().map(|(key, value)| (*key, *value))).unwrap();
        assert_eq!(copy, ours);
    });
}

#[rstest]
fn a_map_is_what_std_makes_of_the_same_steps(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    check::<RandomState>(by);
}

#[test]
fn a_map_whose_entries_collide_is_what_std_makes_of_the_same_steps() {
    check::<Bad>(By::Signals);
}

/// The functions of `GcHashSet` beyond those of the map.
#[rstest]
fn sets_are_combined_as_those_of_std(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    for_each_case(by, 100, (vec(0..25_u64, 0..30), vec(0..25_u64, 0..30)), |m, (one, other)| {
        let make = |numbers: &[u64]| -> GcHashSet<Gc<u64>> {
            GcHashSet::from_iter(m, numbers.iter().map(|number| m.alloc(*number).unwrap())).unwrap()
        };
        let (mut ours, others) = (make(&one), make(&other));
        let mut model: HashSet<u64> = one.into_iter().collect();
        let model_other: HashSet<u64> = other.into_iter().collect();
        let numbers = |items: &mut dyn Iterator<Item = &Gc<u64>>| items.map(|item| **item).collect::<HashSet<u64>>();
        assert_eq!(numbers(&mut ours.union(&others)), &model | &model_other);
        assert_eq!(numbers(&mut ours.intersection(&others)), &model & &model_other);
        assert_eq!(numbers(&mut ours.difference(&others)), &model - &model_other);
        assert_eq!(numbers(&mut ours.symmetric_difference(&others)), &model ^ &model_other);
        let same = |set: GcHashSet<Gc<u64>>, expected: HashSet<u64>| assert_eq!(numbers(&mut set.iter()), expected);
        same(ours.try_union(m, &others).unwrap(), &model | &model_other);
        same(ours.try_intersection(m, &others).unwrap(), &model & &model_other);
        same(ours.try_difference(m, &others).unwrap(), &model - &model_other);
        same(ours.try_symmetric_difference(m, &others).unwrap(), &model ^ &model_other);
        assert_eq!(ours.is_subset(&others), model.is_subset(&model_other));
        assert_eq!(ours.is_superset(&others), model.is_superset(&model_other));
        assert_eq!(ours.is_disjoint(&others), model.is_disjoint(&model_other));
        assert_eq!(ours == others, model == model_other);
        let mut seen = HashSet::new();
        for number in &ours {
            assert!(seen.insert(**number));
        }
        assert_eq!(seen, model);
        for number in 0..25_u64 {
            assert_eq!(ours.contains(&number), model.contains(&number));
            assert_eq!(ours.take(&number).map(|taken| *taken), model.take(&number));
        }
        assert!(ours.is_empty());
    });
}

#[derive(Clone, Debug)]
enum SetStep {
    Insert(u8),
    Replace(u8),
    Take(u8),
    Get(u8),
    Retain(u8),
    ExtractIf(u8, usize),
    Drain(usize),
    ByValue,
    Clone,
    Shrink,
    ShrinkTo(usize),
}

fn set_steps() -> impl Strategy<Value = Vec<SetStep>> {
    let value = || 0..30_u8;
    let step = prop_oneof![
        6 => value().prop_map(SetStep::Insert),
        4 => value().prop_map(SetStep::Replace),
        2 => value().prop_map(SetStep::Take),
        2 => value().prop_map(SetStep::Get),
        1 => (2..9_u8).prop_map(SetStep::Retain),
        1 => (2..9_u8, 0..20_usize).prop_map(|(divisor, most)| SetStep::ExtractIf(divisor, most)),
        1 => (0..40_usize).prop_map(SetStep::Drain),
        1 => Just(SetStep::ByValue),
        1 => Just(SetStep::Clone),
        1 => Just(SetStep::Shrink),
        1 => (0..40_usize).prop_map(SetStep::ShrinkTo),
    ];
    vec(step, 1..50)
}

/// Values are equal if their names are; the number tells them apart.
#[derive(Clone, Debug, Trace)]
struct Named(Gc<str>, u64);

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Named {}

impl std::hash::Hash for Named {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl std::borrow::Borrow<str> for Named {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The model is a map from the value's name to its number: which of equal values is in a set can be seen.
fn apply_to_set(
    m: &Mutator,
    ours: &mut GcHashSet<Named>,
    model: &mut HashMap<String, u64>,
    step: SetStep,
    number: u64,
) {
    let named = |value: u8| Named(m.alloc_str(&name(value)).unwrap(), number);
    let pair = |value: &Named| (m.alloc_str(&value.0).unwrap().to_string(), value.1);
    match step {
        SetStep::Insert(value) => {
            assert_eq!(ours.insert(m, named(value)).unwrap(), !model.contains_key(&name(value)));
            model.entry(name(value)).or_insert(number);
        }
        SetStep::Replace(value) => {
            let before = ours.replace(m, named(value)).unwrap();
            assert_eq!(before.map(|value| value.1), model.insert(name(value), number));
        }
        SetStep::Take(value) => {
            assert_eq!(ours.take(name(value).as_str()).map(|value| pair(&value)), model.remove_entry(&name(value)));
        }
        SetStep::Get(value) => {
            assert_eq!(ours.get(name(value).as_str()).map(|value| value.1), model.get(&name(value)).copied());
            assert_eq!(ours.contains(name(value).as_str()), model.contains_key(&name(value)));
        }
        SetStep::Retain(divisor) => {
            ours.retain(|value| !pair(value).1.is_multiple_of(divisor.into()));
            model.retain(|_, number| !number.is_multiple_of(divisor.into()));
        }
        SetStep::ExtractIf(divisor, most) => {
            let wanted = |number: u64| number.is_multiple_of(divisor.into());
            let expected = model.values().filter(|number| wanted(**number)).count().min(most);
            for value in ours.extract_if(|value| wanted(pair(value).1)).take(most) {
                let (name, number) = pair(&value);
                assert!(wanted(number) && model.remove(&name) == Some(number));
            }
            assert!(ours.len() == model.len() && expected <= most);
        }
        SetStep::Drain(most) => {
            let mut drained = ours.drain();
            assert_eq!(drained.len(), model.len());
            for value in drained.by_ref().take(most) {
                let (name, number) = pair(&value);
                assert_eq!(model.remove(&name), Some(number));
            }
            drop(drained);
            model.clear();
        }
        SetStep::ByValue => {
            let values: HashMap<_, _> = ours.try_clone(m).unwrap().into_iter().map(|value| pair(&value)).collect();
            assert_eq!(values, *model);
        }
        SetStep::Clone => *ours = ours.try_clone(m).unwrap(),
        SetStep::Shrink => {
            ours.shrink_to_fit(m).unwrap();
            assert!(ours.len() > 8 || ours.capacity() == ours.len());
        }
        SetStep::ShrinkTo(capacity) => {
            let before = ours.capacity();
            ours.shrink_to(m, capacity).unwrap();
            assert!(ours.capacity() >= before.min(capacity.max(model.len())) && ours.capacity() <= before);
        }
    }
    assert_eq!(ours.iter().map(pair).collect::<HashMap<_, _>>(), *model);
    assert!(model.keys().all(|name| ours.contains(name.as_str())));
}

#[rstest]
fn a_set_is_what_std_makes_of_the_same_steps(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    for_each_case(by, 60, set_steps(), |m, steps| {
        let hasher = RandomState::new();
        let mut ours = GcHashSet::with_capacity_and_hasher(m, 3, hasher.clone()).unwrap();
        assert_eq!((ours.capacity(), ours.hasher().hash_one(1)), (3, hasher.hash_one(1)));
        let mut model = HashMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            apply_to_set(m, &mut ours, &mut model, step, number as u64);
        }
    });
}

/// A hasher that must not be asked: small maps compare their keys.
#[derive(Default)]
struct Unasked;

impl BuildHasher for Unasked {
    type Hasher = BadHasher;

    fn build_hasher(&self) -> BadHasher {
        panic!("hashed")
    }
}

#[test]
fn a_map_hashes_its_keys_only_when_it_has_more_than_eight() {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let mut map = GcHashMap::with_hasher(Unasked);
        for number in 0..8_u64 {
            map.insert(m, number, 10 * number).unwrap();
        }
        map.remove(&2);
        map.insert(m, 9, 90).unwrap();
        map.shrink_to_fit(m).unwrap();
        assert_eq!((map.get(&7), map.get(&2), map[&9], map.len()), (Some(&70), None, 90, 8));
        let one_more = catch_unwind(AssertUnwindSafe(|| map.insert(m, 2, 20)));
        assert!(one_more.is_err());
        assert_eq!((map.get(&7), map.get(&2), map.len()), (Some(&70), None, 8), "the map is as it was");
    });
}

/// A hasher whose results change.
#[derive(Clone, Default)]
struct Changing(Arc<AtomicU64>);

impl BuildHasher for Changing {
    type Hasher = BadHasher;

    fn build_hasher(&self) -> BadHasher {
        BadHasher(self.0.load(Ordering::Relaxed))
    }
}

#[test]
fn an_entry_that_moves_is_found_also_if_its_hash_was_another_for_a_while() {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let hasher = Changing::default();
        let mut map = GcHashMap::with_hasher(hasher.clone());
        for number in 0..20_u64 {
            map.insert(m, number, 10 * number).unwrap();
        }
        // The last entry takes the place of the first one: no key has the hash that it was inserted with.
        let first = map.entry(0);
        hasher.0.store(1, Ordering::Relaxed);
        let Entry::Occupied(first) = first else { panic!("0 is a key") };
        assert_eq!(first.remove(), 0);
        hasher.0.store(0, Ordering::Relaxed);
        assert!((1..20).all(|number| map.get(&number) == Some(&(10 * number))), "{map:?}");
        map.retain(|number, _| number % 3 == 0);
        assert_eq!((1..20).filter(|number| map.contains_key(number)).collect::<Vec<_>>(), [3, 6, 9, 12, 15, 18]);
    });
}

#[test]
fn a_small_map_has_little_room_that_it_does_not_use() {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let mut map: GcHashMap<u64, u64> = GcHashMap::new();
        let mut rooms = Vec::new();
        for number in 0..5 {
            map.insert(m, number, number).unwrap();
            rooms.push(map.capacity());
        }
        assert_eq!(rooms, [2, 2, 4, 4, 8]);
        let of_three = GcHashMap::<u64, u64>::from_iter(m, (0..3).map(|number| (number, number))).unwrap();
        assert_eq!(of_three.capacity(), 3);
    });
}

#[test]
fn keys_by_address_are_different_for_equal_objects() {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let objects = m.alloc_array(20, |index| m.alloc(index as u64 / 2).unwrap()).unwrap();
        let mut numbers = GcHashMap::new();
        for (index, object) in objects.iter().enumerate() {
            assert!(numbers.insert(m, ByAddress(*object), index).unwrap().is_none());
        }
        m.collect().unwrap();
        assert!(objects.iter().enumerate().all(|(index, object)| numbers[&ByAddress(*object)] == index));
        assert_eq!(objects.iter().copied().collect::<HashSet<_>>().len(), 10, "by value");
    });
}

#[test]
fn a_panic_of_a_closure_leaves_a_map_that_can_be_used() {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let mut map: GcHashMap<u64, Gc<u64>, Bad> = GcHashMap::default();
        for number in 0..20 {
            map.insert(m, number, m.alloc(number).unwrap()).unwrap();
        }
        let retain = AssertUnwindSafe(|| {
            map.retain(|key, _| if *key == 10 { panic!("ten") } else { key.is_multiple_of(2) });
        });
        catch_unwind(retain).unwrap_err();
        assert_eq!(map.len(), 20, "nothing was removed yet");
        assert!((0..20).all(|number| map.get(&number).is_some_and(|value| **value == number)), "{map:?}");
        for number in 0..20 {
            map.insert(m, number, m.alloc(number).unwrap()).unwrap();
            assert_eq!(*map[&number], number);
            assert_eq!(map.remove(&number).as_deref(), Some(&number));
        }
        assert!(map.is_empty(), "each key was in the map once: {map:?}");
        map.clear();
        assert!(map.insert(m, 1, m.alloc(1).unwrap()).unwrap().is_none());
        assert_eq!(map.len(), 1);
    });
}
