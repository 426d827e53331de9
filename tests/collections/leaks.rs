//! Iterators that are leaked, closures that panic, and heaps that are full, in the middle of an operation: the collection can still be used, and
//! no element is in it twice.

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use rstest::rstest;
use stopworld::{Gc, GcDeque, GcHashMap, GcString, GcVec, Mutator, Trace, WeakMap, World};

use super::for_each_case;
use super::hazard::By;
use super::heap_support::{on_a_thread, paranoid};

/// Calls a function that panics.
fn panics<R>(f: impl FnOnce() -> R) {
    assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
}

/// References to the numbers below `len`.
fn numbers(m: &Mutator, len: u64) -> impl Iterator<Item = Gc<u64>> {
    (0..len).map(|number| m.alloc(number).unwrap())
}

/// Panics at 10.
fn ten(number: u64) -> u64 {
    if number == 10 { panic!("ten") } else { number }
}

/// A clone of 10 panics.
#[derive(Debug, PartialEq, Trace)]
struct Fragile(Gc<u64>);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        ten(*self.0);
        Self(self.0)
    }
}

type Numbers = GcVec<Gc<u64>>;

/// The numbers below 20 that are left after a leak or a panic.
type Left = fn(u64) -> bool;

#[rstest]
#[case::leaked_drain(|_: &Mutator, vec: &mut Numbers| std::mem::forget(vec.drain(5..9)), |number: u64| number < 5)]
#[case::leaked_drain_in_the_middle(|_: &Mutator, vec: &mut Numbers| {
    let mut drain = vec.drain(5..);
    assert_eq!((drain.next().as_deref(), drain.next_back().as_deref()), (Some(&5), Some(&19)));
    std::mem::forget(drain);
}, |number: u64| number < 5)]
#[case::leaked_extract_if(|_: &Mutator, vec: &mut Numbers| {
    let mut odd = vec.extract_if(.., |number| **number % 2 == 1);
    assert_eq!(odd.next().as_deref(), Some(&1));
    std::mem::forget(odd);
}, |_: u64| false)]
#[case::extract_if(
    |_: &Mutator, vec: &mut Numbers| panics(|| vec.extract_if(2.., |number| ten(**number) % 2 == 1).count()),
    |number: u64| number < 2 || number.is_multiple_of(2) || number >= 10
)]
#[case::retain(|_: &Mutator, vec: &mut Numbers| panics(|| vec.retain(|number| ten(**number) % 2 == 1)), all)]
#[case::retain_mut(|_: &Mutator, vec: &mut Numbers| panics(|| vec.retain_mut(|number| ten(**number) % 2 == 1)), all)]
#[case::dedup_by(|_: &Mutator, vec: &mut Numbers| panics(|| vec.dedup_by(|one, _| ten(**one) % 2 == 1)), all)]
#[case::dedup_by_key(|_: &Mutator, vec: &mut Numbers| panics(|| vec.dedup_by_key(|number| ten(**number) / 2)), all)]
#[case::sort_by(|m: &Mutator, vec: &mut Numbers| panics(|| vec.sort_by(m, |one, other| ten(**other).cmp(&**one))), all)]
#[case::sort_unstable_by(
    |_: &Mutator, vec: &mut Numbers| panics(|| vec.sort_unstable_by_key(|number| 20 - ten(**number))),
    all
)]
#[case::pop_if(|_: &Mutator, vec: &mut Numbers| panics(|| vec.pop_if(|_| panic!("pop"))), all)]
#[case::splice(
    |m: &Mutator, vec: &mut Numbers| panics(|| vec.splice(m, 3..5, (0..20).map(|number| m.alloc(ten(number)).unwrap()))),
    all
)]
fn a_vector_can_be_used_after(#[case] change: fn(&Mutator, &mut Numbers), #[case] left: Left) {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let mut vec = GcVec::from_iter(m, numbers(m, 20)).unwrap();
        change(m, &mut vec);
        m.collect().unwrap();
        let expected: Vec<u64> = (0..20).filter(|&number| left(number)).collect();
        let mut found: Vec<u64> = vec.iter().map(|number| **number).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
        vec.extend(m, numbers(m, 30)).unwrap();
        m.collect().unwrap();
        assert!(vec[expected.len()..].iter().map(|number| **number).eq(0..30));
    });
}

fn all(_: u64) -> bool {
    true
}

type Queue = GcDeque<Gc<u64>>;

#[rstest]
#[case::leaked_drain_of_the_front(|queue: &mut Queue| std::mem::forget(queue.drain(..9)), |_: u64| false)]
#[case::leaked_drain_of_the_back(|queue: &mut Queue| std::mem::forget(queue.drain(15..)), |number: u64| number < 15)]
#[case::leaked_drain_in_the_middle(|queue: &mut Queue| {
    let mut drain = queue.drain(5..15);
    assert_eq!((drain.next().as_deref(), drain.next_back().as_deref()), (Some(&5), Some(&14)));
    std::mem::forget(drain);
}, |number: u64| number < 5)]
#[case::retain(|queue: &mut Queue| panics(|| queue.retain(|number| ten(**number) % 2 == 1)), all)]
#[case::retain_mut(|queue: &mut Queue| panics(|| queue.retain_mut(|number| ten(**number) % 2 == 1)), all)]
#[case::pop_front_if(|queue: &mut Queue| panics(|| queue.pop_front_if(|_| panic!("pop"))), all)]
#[case::pop_back_if(|queue: &mut Queue| panics(|| queue.pop_back_if(|_| panic!("pop"))), all)]
fn a_queue_can_be_used_after(#[case] change: fn(&mut Queue), #[case] left: Left) {
    for_each_case(By::Signals, 1, 0..32_usize, |m, head| {
        let mut queue = GcDeque::with_capacity(m, 32).unwrap();
        for _ in 0..head {
            queue.push_back(m, m.alloc(7).unwrap()).unwrap();
            queue.pop_front().unwrap();
        }
        queue.extend(m, numbers(m, 20)).unwrap();
        change(&mut queue);
        m.collect().unwrap();
        let expected: Vec<u64> = (0..20).filter(|&number| left(number)).collect();
        let mut found: Vec<u64> = queue.iter().map(|number| **number).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
        for number in 0..30 {
            queue.push_front(m, m.alloc(number).unwrap()).unwrap();
            queue.push_back(m, m.alloc(number).unwrap()).unwrap();
        }
        m.collect().unwrap();
        assert!(queue.range(..30).rev().map(|number| **number).eq(0..30));
        assert!(queue.range(30 + expected.len()..).map(|number| **number).eq(0..30));
    });
}

type Map = GcHashMap<u64, Gc<u64>>;

#[rstest]
#[case::leaked_drain(|map: &mut Map| std::mem::forget(map.drain()), |_: u64| false)]
#[case::leaked_drain_in_the_middle(|map: &mut Map| {
    let mut drain = map.drain();
    assert!(drain.by_ref().take(5).all(|(key, value)| key == *value));
    std::mem::forget(drain);
}, |_: u64| false)]
#[case::leaked_extract_if(|map: &mut Map| {
    let mut odd = map.extract_if(|key, _| key % 2 == 1);
    assert_eq!([odd.next().unwrap().0, odd.next().unwrap().0], [1, 19], "the last one took the place of the first");
    std::mem::forget(odd);
}, |number: u64| number != 1 && number != 19)]
#[case::extract_if(
    |map: &mut Map| panics(|| map.extract_if(|key, _| ten(*key).is_multiple_of(2)).count()),
    |number: u64| number % 2 == 1 || number == 10
)]
#[case::retain(|map: &mut Map| panics(|| map.retain(|key, _| ten(*key) % 2 == 1)), all)]
#[case::values_that_are_changed(|map: &mut Map| panics(|| map.values_mut().for_each(|value| _ = ten(**value))), all)]
#[case::entry(|map: &mut Map| panics(|| map.entry(10).and_modify(|value| _ = ten(**value))), all)]
fn a_map_can_be_used_after(#[case] change: fn(&mut Map), #[case] left: Left) {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let mut map = GcHashMap::from_iter(m, numbers(m, 20).map(|number| (*number, number))).unwrap();
        change(&mut map);
        m.collect().unwrap();
        let mut found: Vec<u64> = map
            .iter()
            .map(|(key, value)| {
                assert_eq!(*key, **value);
                *key
            })
            .collect();
        found.sort_unstable();
        assert_eq!(found, (0..20).filter(|&number| left(number)).collect::<Vec<_>>());
        for number in 0..30 {
            let value = m.alloc(number).unwrap();
            assert_eq!(map.insert(m, number, value).unwrap().as_deref(), found.contains(&number).then_some(&number));
        }
        assert!((0..30).all(|number| map.remove(&number).is_some_and(|value| *value == number)));
        assert!(map.is_empty(), "each key was in the map once: {map:?}");
    });
}

type Weak = WeakMap<u64, Gc<u64>>;

#[rstest]
#[case::leaked_drain(|map: &mut Weak| std::mem::forget(map.drain()), 20)]
#[case::leaked_drain_in_the_middle(|map: &mut Weak| {
    let mut drain = map.drain();
    assert!(drain.by_ref().take(5).all(|(key, value)| key == value));
    std::mem::forget(drain);
}, 15)]
#[case::retain(|map: &mut Weak| panics(|| {
    let mut seen = 0;
    map.retain(|_, _| { seen += 1; ten(seen) == 0 });
}), 11)]
#[case::values_that_are_changed(|map: &mut Weak| panics(|| map.values_mut().for_each(|value| _ = ten(**value))), 20)]
fn a_weak_map_can_be_used_after(#[case] change: fn(&mut Weak), #[case] left: usize) {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let keys = GcVec::from_iter(m, numbers(m, 20)).unwrap();
        let mut map = WeakMap::from_iter(m, keys.iter().map(|key| (*key, m.alloc(**key).unwrap()))).unwrap();
        change(&mut map);
        m.collect().unwrap();
        assert_eq!((map.len(), map.iter().filter(|(key, value)| key == *value).count()), (left, left));
        for key in &keys {
            map.insert(m, *key, m.alloc(**key).unwrap()).unwrap();
        }
        assert!(keys.iter().all(|key| map.remove(*key).is_some_and(|value| value == *key)));
        assert_eq!((map.len(), map.iter().count()), (0, 0), "each key was in the map once");
    });
}

#[test]
fn the_values_of_a_new_entry_are_not_inserted_if_their_closure_panics() {
    for_each_case(By::Signals, 1, 0..12_u64, |m, len| {
        let mut map = Map::from_iter(m, numbers(m, len).map(|number| (*number, number))).unwrap();
        panics(|| map.entry(len).or_insert_with_key(m, |_| panic!("no value")).map(|_| ()));
        panics(|| map.entry(len).or_insert_with(m, || panic!("no value")).map(|_| ()));
        assert_eq!((map.len(), map.get(&len)), (len as usize, None));
        assert!((0..len).all(|number| map.get(&number).is_some_and(|value| **value == number)));
    });
}

#[test]
fn a_vector_has_the_elements_before_the_clone_that_panicked() {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let mut vec = GcVec::from_iter(m, numbers(m, 20).map(Fragile)).unwrap();
        panics(|| vec.try_clone(m));
        panics(|| vec.extend_from_within(m, 5..15));
        assert!(vec.iter().map(|number| *number.0).eq((0..20).chain(5..10)));
        vec.truncate(20);
        let other = GcVec::from_iter(m, numbers(m, 20).map(Fragile)).unwrap();
        panics(|| vec.extend_from_slice(m, &other));
        assert!(vec.iter().map(|number| *number.0).eq((0..20).chain(0..10)));
    });
}

#[rstest]
#[case::ends_beyond(|vec: &mut GcVec<u64>| drop(vec.drain(..21)), "beyond the length 20")]
#[case::begins_beyond(|vec: &mut GcVec<u64>| drop(vec.drain(21..)), "begins at 21")]
#[case::ends_before_it_begins(|vec: &mut GcVec<u64>| drop(vec.drain((Bound::Excluded(4), Bound::Excluded(4)))), "begins at 5, but ends at 4")]
#[case::ends_at_the_last_index(|vec: &mut GcVec<u64>| drop(vec.drain(..=usize::MAX)), "beyond all indices")]
#[case::rotated_too_far(|vec: &mut GcVec<u64>| vec.rotate_right(21), "larger than the length 20")]
fn a_range_outside_a_vector_is_refused(#[case] change: fn(&mut GcVec<u64>), #[case] message: &str) {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let mut vec = GcVec::from_iter(m, 0..20).unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| change(&mut vec))).unwrap_err();
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        assert!(text.unwrap().contains(message), "{text:?}");
        assert!(vec.iter().copied().eq(0..20));
    });
}

/// Builds an object with a collection of references in a thread that ends, and returns the number of its objects that a collection leaves.
fn objects_of<T: Trace>(make: impl FnOnce(&Mutator) -> T + Send + 'static) -> u64 {
    let world = paranoid().build().unwrap();
    let root = on_a_thread(&world, |m| {
        let collection = make(m);
        m.root(m.alloc(collection).unwrap())
    });
    let live = world.collect().unwrap().live_objects;
    drop(root);
    live
}

/// The object with the collection, and its storage.
const OVERHEAD: u64 = 2;

/// A place that kept what was in it would keep the object.
#[rstest]
#[case::drain(|_: &Mutator, vec: &mut Numbers| drop(vec.drain(5..9)), 16)]
#[case::drain_to_the_end(|_: &Mutator, vec: &mut Numbers| _ = vec.drain(5..).next_back(), 5)]
#[case::extract_if(|_: &Mutator, vec: &mut Numbers| _ = vec.extract_if(3..9, |number| **number % 2 == 1).count(), 17)]
#[case::extract_if_dropped(|_: &Mutator, vec: &mut Numbers| _ = vec.extract_if(.., |number| **number > 4).next(), 19)]
#[case::splice(|m: &Mutator, vec: &mut Numbers| _ = vec.splice(m, 3..9, numbers(m, 2)).unwrap(), 16)]
#[case::splice_at_the_end(|m: &Mutator, vec: &mut Numbers| _ = vec.splice(m, 3.., numbers(m, 1)).unwrap(), 4)]
#[case::dedup_by_key(|_: &Mutator, vec: &mut Numbers| vec.dedup_by_key(|number| **number / 2), 10)]
#[case::retain_mut(|_: &Mutator, vec: &mut Numbers| vec.retain_mut(|number| **number < 3), 3)]
#[case::pop_if(|_: &Mutator, vec: &mut Numbers| _ = vec.pop_if(|_| true), 19)]
#[case::split_off(|m: &Mutator, vec: &mut Numbers| _ = vec.split_off(m, 7).unwrap(), 7)]
#[case::appended(|m: &Mutator, vec: &mut Numbers| GcVec::new().append(m, vec).unwrap(), 0)]
#[case::resize_with(|m: &Mutator, vec: &mut Numbers| vec.resize_with(m, 7, || unreachable!()).unwrap(), 7)]
fn a_vector_keeps_nothing_that_was_removed(#[case] change: fn(&Mutator, &mut Numbers), #[case] left: u64) {
    let live = objects_of(move |m| {
        let mut vec = GcVec::from_iter(m, numbers(m, 20)).unwrap();
        change(m, &mut vec);
        assert_eq!(vec.len() as u64, left);
        vec
    });
    assert_eq!(live, left + OVERHEAD);
}

#[rstest]
#[case::drain_near_the_front(|_: &Mutator, queue: &mut Queue| drop(queue.drain(2..9)), 13)]
#[case::drain_near_the_back(|_: &Mutator, queue: &mut Queue| drop(queue.drain(12..18)), 14)]
#[case::rotated_left(|_: &Mutator, queue: &mut Queue| { queue.rotate_left(7); queue.truncate(3); }, 3)]
#[case::rotated_right(|_: &Mutator, queue: &mut Queue| { queue.rotate_right(7); queue.truncate(3); }, 3)]
#[case::contiguous(|_: &Mutator, queue: &mut Queue| { queue.make_contiguous(); queue.truncate(3); }, 3)]
#[case::swap_removed(|_: &Mutator, queue: &mut Queue| _ = (queue.swap_remove_front(7), queue.swap_remove_back(7)), 18)]
#[case::retain_mut(|_: &Mutator, queue: &mut Queue| queue.retain_mut(|number| **number < 3), 3)]
#[case::split_off(|m: &Mutator, queue: &mut Queue| _ = queue.split_off(m, 7).unwrap(), 7)]
#[case::appended(|m: &Mutator, queue: &mut Queue| GcDeque::new().append(m, queue).unwrap(), 0)]
#[case::vector_and_back(|_: &Mutator, queue: &mut Queue| {
    let mut vec = GcVec::from(std::mem::take(queue));
    vec.truncate(3);
    *queue = GcDeque::from(vec);
}, 3)]
fn a_queue_keeps_nothing_that_was_removed(
    #[case] change: fn(&Mutator, &mut Queue),
    #[case] left: u64,
    #[values(0, 5, 20, 31)] head: usize,
) {
    let live = objects_of(move |m| {
        let mut queue = GcDeque::with_capacity(m, 32).unwrap();
        for _ in 0..head {
            queue.push_back(m, m.alloc(7).unwrap()).unwrap();
            queue.pop_front().unwrap();
        }
        queue.extend(m, numbers(m, 20)).unwrap();
        change(m, &mut queue);
        assert_eq!(queue.len() as u64, left);
        queue
    });
    assert_eq!(live, left + OVERHEAD);
}

#[rstest]
#[case::drain(|map: &mut Map| _ = map.drain().next(), 0)]
#[case::extract_if(|map: &mut Map| _ = map.extract_if(|key, _| key % 2 == 1).count(), 10)]
#[case::retain(|map: &mut Map| map.retain(|key, _| *key < 3), 3)]
fn a_map_keeps_nothing_that_was_removed(#[case] change: fn(&mut Map), #[case] left: u64) {
    let live = objects_of(move |m| {
        let mut map = Map::from_iter(m, numbers(m, 20).map(|number| (*number, number))).unwrap();
        change(&mut map);
        assert_eq!(map.len() as u64, left);
        map
    });
    // Its index, too.
    assert_eq!(live, left + OVERHEAD + 1);
}

#[test]
fn a_collection_is_unchanged_if_there_is_no_room_for_more() {
    // There is room for the elements, but not for as many again.
    let world = World::builder().heap_limit(2 << 20).build().unwrap();
    // SAFETY: this thread keeps every `Gc` and every collection in local variables.
    let m = &unsafe { world.attach("main") }.unwrap();
    const LEN: u64 = 150_000;
    const MORE: u64 = 1 << 20;
    let is = |elements: &[u64]| elements.iter().copied().eq(0..LEN);
    let mut vec = GcVec::from_iter(m, 0..LEN).unwrap();
    assert!(vec.splice(m, 5..9, 0..MORE).is_err() && is(&vec));
    assert!(vec.resize_with(m, usize::MAX, || 7).is_err() && vec.extend_from_within(m, ..).is_err() && is(&vec));
    let mut other = GcVec::from_iter(m, 0..9).unwrap();
    assert!(other.append(m, &mut vec).is_err() && is(&vec) && other.len() == 9);
    assert!(vec.try_clone(m).is_err() && vec.split_off(m, 0).is_err() && is(&vec));
    let (mut queue, mut other) = (GcDeque::from(vec), GcDeque::from(other));
    assert!(other.append(m, &mut queue).is_err() && is(queue.as_slices().0) && other.len() == 9);
    assert!(queue.try_clone(m).is_err() && queue.split_off(m, 0).is_err() && is(queue.as_slices().0));
    assert!(queue.resize_with(m, usize::MAX, || 7).is_err() && is(queue.as_slices().0));
}

#[test]
fn a_text_is_unchanged_if_there_is_no_room_for_more() {
    let world = World::builder().heap_limit(2 << 20).build().unwrap();
    // SAFETY: this thread keeps every `Gc` and every collection in local variables.
    let m = &unsafe { world.attach("main") }.unwrap();
    let text = "a".repeat(1_200_000);
    let mut string = GcString::from_str(m, &text).unwrap();
    assert!(string.replace_range(m, 5..9, &text).is_err() && string == text);
    assert!(string.try_clone(m).is_err() && string.split_off(m, 0).is_err() && string == text);
    assert!(string.extend(m, [&*text, "b"]).is_err() && string == text);
}
