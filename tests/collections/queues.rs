//! `GcDeque` against `VecDeque`.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use rstest::rstest;
use stopworld::{GcDeque, GcVec, Mutator};

use super::for_each_case;
use super::hazard::{self, By};
use super::sequences::{Element, Plain, eq, plain, range_of};

#[derive(Clone, Debug)]
enum Step {
    PushFront(Plain),
    PushBack(Plain),
    PopFront,
    PopBack,
    Insert(usize, Plain),
    Remove(usize),
    Swap(usize, usize),
    Retain(u8),
    Truncate(usize),
    Extend(Vec<Plain>),
    /// A range, and whether each of some steps of the iterator is at the back.
    Drain((usize, usize), Vec<bool>),
    DrainAll,
    RetainMut(u8),
    PopIf(u8),
    Append(Vec<Plain>),
    SplitOff(usize),
    Resize(usize, Plain),
    ResizeWith(usize, Plain),
    RotateLeft(usize),
    RotateRight(usize),
    SwapRemoveFront(usize),
    SwapRemoveBack(usize),
    ChangeRange((usize, usize)),
    ChangeAll,
    MakeContiguous,
    SortAndSearch,
    ShrinkTo(usize),
    Shrink,
    Clone,
    IntoIter(usize),
    ThroughVec,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = 0..30_usize;
    let range = (at.clone(), at.clone());
    let changes = prop_oneof![
        4 => (range.clone(), vec(any::<bool>(), 0..6)).prop_map(|(range, backs)| Step::Drain(range, backs)),
        1 => Just(Step::DrainAll),
        1 => (2..9_u8).prop_map(Step::RetainMut),
        1 => (1..4_u8).prop_map(Step::PopIf),
        1 => vec(plain(), 0..9).prop_map(Step::Append),
        2 => at.clone().prop_map(Step::SplitOff),
        1 => (at.clone(), plain()).prop_map(|(at, value)| Step::Resize(at, value)),
        1 => (at.clone(), plain()).prop_map(|(at, value)| Step::ResizeWith(at, value)),
        2 => at.clone().prop_map(Step::RotateLeft),
        2 => at.clone().prop_map(Step::RotateRight),
        1 => at.clone().prop_map(Step::SwapRemoveFront),
        1 => at.clone().prop_map(Step::SwapRemoveBack),
        1 => range.prop_map(Step::ChangeRange),
        1 => Just(Step::ChangeAll),
        2 => Just(Step::MakeContiguous),
        1 => Just(Step::SortAndSearch),
        1 => at.clone().prop_map(Step::ShrinkTo),
        1 => Just(Step::Shrink),
        1 => Just(Step::Clone),
        1 => at.clone().prop_map(Step::IntoIter),
        1 => Just(Step::ThroughVec),
    ];
    let step = prop_oneof![
        16 => changes,
        5 => plain().prop_map(Step::PushFront),
        5 => plain().prop_map(Step::PushBack),
        4 => Just(Step::PopFront),
        3 => Just(Step::PopBack),
        1 => (at.clone(), plain()).prop_map(|(at, value)| Step::Insert(at, value)),
        1 => at.clone().prop_map(Step::Remove),
        1 => (at.clone(), at.clone()).prop_map(|(one, other)| Step::Swap(one, other)),
        1 => (2..9_u8).prop_map(Step::Retain),
        1 => at.prop_map(Step::Truncate),
        1 => vec(plain(), 0..9).prop_map(Step::Extend),
    ];
    vec(step, 1..60)
}

fn apply(m: &Mutator, ours: &mut GcDeque<Element>, model: &mut VecDeque<Plain>, step: Step) {
    match step {
        Step::PushFront(value) => {
            ours.push_front(m, value.make(m)).unwrap();
            model.push_front(value);
        }
        Step::PushBack(value) => {
            ours.push_back(m, value.make(m)).unwrap();
            model.push_back(value);
        }
        Step::PopFront => assert_eq!(ours.pop_front().as_ref().map(Plain::of), model.pop_front()),
        Step::PopBack => assert_eq!(ours.pop_back().as_ref().map(Plain::of), model.pop_back()),
        Step::Insert(at, value) => {
            let at = at % (model.len() + 1);
            ours.insert(m, at, value.make(m)).unwrap();
            model.insert(at, value);
        }
        Step::Remove(at) => assert_eq!(ours.remove(at).as_ref().map(Plain::of), model.remove(at)),
        Step::Swap(one, other) => {
            if one < model.len() && other < model.len() {
                ours.swap(one, other);
                model.swap(one, other);
            }
        }
        Step::Retain(divisor) => {
            ours.retain(|element| !Plain::of(element).0.is_multiple_of(divisor));
            model.retain(|plain| !plain.0.is_multiple_of(divisor));
        }
        Step::Truncate(len) => {
            ours.truncate(len);
            model.truncate(len);
        }
        Step::Extend(values) => {
            ours.extend(m, values.iter().map(|plain| plain.make(m))).unwrap();
            model.extend(values);
        }
        step => apply_to_many(m, ours, model, step),
    }
    assert!(ours.iter().map(Plain::of).eq(model.iter().copied()));
    assert_eq!((ours.iter().len(), ours.iter_mut().len()), (model.len(), model.len()));
    for skipped in 0..=model.len() {
        assert_eq!(ours.iter().nth(skipped).map(Plain::of), model.get(skipped).copied());
    }
    assert!(ours.iter_mut().rev().map(|element| Plain::of(element)).eq(model.iter().rev().copied()));
    assert_eq!(ours.front().map(Plain::of), model.front().copied());
    assert_eq!(ours.back().map(Plain::of), model.back().copied());
}

/// [`apply`] for the functions that change many elements.
fn apply_to_many(m: &Mutator, ours: &mut GcDeque<Element>, model: &mut VecDeque<Plain>, step: Step) {
    let len = model.len();
    // Allocates, and so collects, in the middle of an operation.
    let of = |element: &Element| Plain(*m.alloc(Plain::of(element).0).unwrap());
    match step {
        Step::Drain(range, backs) => {
            let range = range_of(range, len);
            let (capacity, mut drained, mut expected) =
                (ours.capacity(), ours.drain(range.clone()), model.drain(range));
            for back in backs {
                let one = if back { drained.next_back() } else { drained.next() };
                m.collect().unwrap();
                assert_eq!(one.as_ref().map(Plain::of), if back { expected.next_back() } else { expected.next() });
                assert_eq!(drained.len(), expected.len());
            }
            drop((drained, expected));
            assert_eq!(ours.capacity(), capacity);
        }
        Step::DrainAll => assert!(ours.drain(..).map(|element| of(&element)).eq(model.drain(..))),
        Step::RetainMut(divisor) => {
            ours.retain_mut(|element| {
                *element = of(element).next().make(m);
                !of(element).0.is_multiple_of(divisor)
            });
            model.retain_mut(|plain| {
                *plain = plain.next();
                !plain.0.is_multiple_of(divisor)
            });
        }
        Step::PopIf(divisor) => {
            let popped = ours.pop_front_if(|element| of(element).0.is_multiple_of(divisor));
            let expected = model.pop_front_if(|plain| plain.0.is_multiple_of(divisor));
            assert_eq!(popped.as_ref().map(Plain::of), expected);
            let popped = ours.pop_back_if(|element| of(element).0.is_multiple_of(divisor));
            let expected = model.pop_back_if(|plain| plain.0.is_multiple_of(divisor));
            assert_eq!(popped.as_ref().map(Plain::of), expected);
        }
        Step::Append(values) => {
            let mut other = GcDeque::from_iter(m, values.iter().map(|plain| plain.make(m))).unwrap();
            other.rotate_left(values.len() / 2);
            ours.append(m, &mut other).unwrap();
            assert!(other.is_empty());
            let mut other = VecDeque::from(values);
            other.rotate_left(other.len() / 2);
            model.append(&mut other);
        }
        Step::SplitOff(at) => {
            let at = at % (len + 1);
            let rest = ours.split_off(m, at).unwrap();
            m.collect().unwrap();
            assert!(rest.iter().map(Plain::of).eq(model.split_off(at)));
        }
        Step::Resize(at, value) => {
            ours.resize(m, at, value.make(m)).unwrap();
            model.resize(at, value);
        }
        Step::ResizeWith(at, value) => {
            let (mut one, mut other) = (value, value);
            let next = |value: &mut Plain| std::mem::replace(value, value.next());
            ours.resize_with(m, at, || next(&mut one).make(m)).unwrap();
            model.resize_with(at, || next(&mut other));
        }
        Step::RotateLeft(count) => {
            ours.rotate_left(count % (len + 1));
            model.rotate_left(count % (len + 1));
        }
        Step::RotateRight(count) => {
            ours.rotate_right(count % (len + 1));
            model.rotate_right(count % (len + 1));
        }
        Step::SwapRemoveFront(at) => {
            assert_eq!(ours.swap_remove_front(at).as_ref().map(Plain::of), model.swap_remove_front(at));
        }
        Step::SwapRemoveBack(at) => {
            assert_eq!(ours.swap_remove_back(at).as_ref().map(Plain::of), model.swap_remove_back(at));
        }
        Step::ChangeRange(range) => {
            let range = range_of(range, len);
            for element in ours.range_mut(range.clone()) {
                *element = of(element).next().make(m);
            }
            model.range_mut(range.clone()).for_each(|plain| *plain = plain.next());
            assert!(ours.range(range.clone()).rev().map(Plain::of).eq(model.range(range).rev().copied()));
        }
        Step::ChangeAll => {
            for element in &mut *ours {
                *element = of(element).next().make(m);
            }
            for plain in &mut *model {
                *plain = plain.next();
            }
        }
        Step::MakeContiguous => {
            let slice = ours.make_contiguous();
            m.collect().unwrap();
            assert!(slice.iter().map(Plain::of).eq(model.iter().copied()));
            assert!(ours.as_slices().1.is_empty());
        }
        Step::SortAndSearch => {
            // Where the ring ends stays what it was.
            model.make_contiguous().sort_unstable();
            for (element, plain) in ours.iter_mut().zip(&*model) {
                *element = plain.make(m);
            }
            for number in (0..=255).step_by(3) {
                let wanted = Plain(number);
                let found = ours.binary_search_by(|element| Plain::of(element).cmp(&wanted));
                assert_eq!(found.is_ok(), model.binary_search(&wanted).is_ok());
                assert_eq!(ours.binary_search_by_key(&wanted, Plain::of), found);
                assert!(found.map_or(true, |at| model[at] == wanted));
                assert_eq!(found.err(), model.binary_search(&wanted).err());
                let before = ours.partition_point(|element| Plain::of(element) < wanted);
                assert_eq!(before, model.partition_point(|plain| *plain < wanted));
            }
        }
        Step::ShrinkTo(capacity) => {
            let before = ours.capacity();
            ours.shrink_to(m, capacity).unwrap();
            assert_eq!(ours.capacity(), before.min(capacity.max(len)));
        }
        Step::Shrink => {
            ours.shrink_to_fit(m).unwrap();
            assert_eq!(ours.capacity(), len);
        }
        Step::Clone => {
            let copy = ours.try_clone(m).unwrap();
            assert_eq!((copy.capacity(), &copy), (len, &*ours));
            *ours = copy;
        }
        Step::IntoIter(from_the_back) => {
            let mut items = std::mem::take(ours).into_iter();
            let mut expected = std::mem::take(model).into_iter();
            for _ in 0..from_the_back {
                assert_eq!(items.next_back().as_ref().map(Plain::of), expected.next_back());
                m.collect().unwrap();
            }
            assert_eq!(items.len(), expected.len());
            assert!(items.map(|element| of(&element)).eq(expected));
        }
        Step::ThroughVec => {
            let vec = GcVec::from(std::mem::take(ours));
            m.collect().unwrap();
            assert!(vec.iter().map(Plain::of).eq(model.iter().copied()));
            *ours = GcDeque::from(vec);
        }
        step => unreachable!("{step:?} is applied by the other function"),
    }
}

#[rstest]
fn a_queue_is_what_std_makes_of_the_same_steps(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    for_each_case(by, 100, steps(), |m, steps| {
        let (mut ours, mut model) = (GcDeque::new(), VecDeque::new());
        steps.into_iter().for_each(|step| apply(m, &mut ours, &mut model, step));
        assert_eq!(ours.len(), model.len());
    });
}

/// The sum of two places of such a queue is more than the largest number.
#[test]
fn a_queue_without_bytes_may_have_the_largest_capacity() {
    let world = hazard::world(By::Safepoints);
    // SAFETY: the queue is in a local variable, and has no references.
    let m = &unsafe { world.attach("main") }.unwrap();
    let mut queue = GcDeque::with_capacity(m, usize::MAX).unwrap();
    queue.push_front(m, ()).unwrap();
    queue.push_back(m, ()).unwrap();
    queue.push_back(m, ()).unwrap();
    assert_eq!((queue.len(), queue.iter().count(), queue.capacity()), (3, 3, usize::MAX));
    assert_eq!(
        [queue.pop_front(), queue.pop_back(), queue.pop_back(), queue.pop_back()],
        [Some(()), Some(()), Some(()), None]
    );
}

#[rstest]
fn queues_are_compared_as_those_of_std(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    for_each_case(by, 60, (vec(0..3_u64, 0..4), vec(0..3_u64, 0..4), 0..4_usize), |m, (one, mut other, head)| {
        let make = |numbers: &[u64]| {
            let mut queue = GcDeque::with_capacity(m, 5).unwrap();
            queue.resize(m, head, 0).unwrap();
            queue.clear();
            queue.extend(m, numbers.iter().copied()).unwrap();
            queue
        };
        let (ours, others, equal) = (make(&one), make(&other), one == other);
        assert_eq!(ours == others, equal);
        assert_eq!(ours.cmp(&others), one.cmp(&other));
        assert_eq!(ours.partial_cmp(&others), one.partial_cmp(&other));
        assert_eq!([eq(&ours, &other), eq(&ours, &other[..]), eq(&ours, &&other[..])], [equal; 3]);
        assert_eq!(eq(&ours, &&mut other[..]), equal);
        assert_eq!(ours == GcVec::from_iter(m, other.iter().copied()).unwrap(), equal);
        if let Ok(other) = <[u64; 3]>::try_from(other) {
            assert_eq!([eq(&ours, &other), eq(&ours, &&other)], [equal; 2]);
        }
        for number in 0..4 {
            assert_eq!(ours.contains(&number), one.contains(&number));
        }
    });
}
