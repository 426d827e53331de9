//! `GcVec` and `GcDeque` against `Vec` and `VecDeque`.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use rstest::rstest;
use stopworld::{Gc, GcDeque, GcVec, Mutator, Trace};

use super::for_each_case;
use super::hazard::By;

/// An element of several words: a number, a reference, and an enum in which any word may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Trace)]
pub enum Element {
    Number(u64),
    Text(Gc<str>),
    Both(u32, Gc<u64>),
}

/// A collection may be an element.
#[derive(Debug, Trace)]
struct Row {
    name: Gc<str>,
    numbers: GcVec<Gc<u64>>,
}

/// What an [`Element`] is made of, for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plain(pub u8);

impl Plain {
    pub fn make(self, m: &Mutator) -> Element {
        match self.0 % 3 {
            0 => Element::Number(self.0.into()),
            1 => Element::Text(m.alloc_str(&format!("text {}", self.0)).unwrap()),
            _ => Element::Both(self.0.into(), m.alloc(u64::from(self.0)).unwrap()),
        }
    }

    pub fn of(element: &Element) -> Self {
        match element {
            Element::Number(number) => Plain(*number as u8),
            Element::Text(text) => Plain(text.strip_prefix("text ").unwrap().parse().unwrap()),
            Element::Both(number, same) => {
                assert_eq!(u64::from(*number), **same);
                Plain(*number as u8)
            }
        }
    }
}

pub fn plain() -> impl Strategy<Value = Plain> + Clone {
    any::<u8>().prop_map(Plain)
}

#[derive(Clone, Debug)]
enum Step {
    Push(Plain),
    Pop,
    Insert(usize, Plain),
    Remove(usize),
    SwapRemove(usize),
    Truncate(usize),
    Set(usize, Plain),
    Retain(u8),
    Dedup,
    Extend(Vec<Plain>),
    Resize(usize, Plain),
    Append(Vec<Plain>),
    SplitOff(usize),
    Rotate(usize),
    Reverse,
    Sort,
    SortUnstable,
    Shrink,
    Drain,
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = 0..40_usize;
    let step = prop_oneof![
        6 => plain().prop_map(Step::Push),
        2 => Just(Step::Pop),
        3 => (at.clone(), plain()).prop_map(|(at, value)| Step::Insert(at, value)),
        2 => at.clone().prop_map(Step::Remove),
        1 => at.clone().prop_map(Step::SwapRemove),
        1 => at.clone().prop_map(Step::Truncate),
        2 => (at.clone(), plain()).prop_map(|(at, value)| Step::Set(at, value)),
        1 => (2..9_u8).prop_map(Step::Retain),
        1 => Just(Step::Dedup),
        2 => vec(plain(), 0..12).prop_map(Step::Extend),
        1 => (at.clone(), plain()).prop_map(|(at, value)| Step::Resize(at, value)),
        1 => vec(plain(), 0..12).prop_map(Step::Append),
        1 => at.clone().prop_map(Step::SplitOff),
        1 => at.prop_map(Step::Rotate),
        1 => Just(Step::Reverse),
        1 => Just(Step::Sort),
        1 => Just(Step::SortUnstable),
        1 => Just(Step::Shrink),
        1 => Just(Step::Drain),
        1 => Just(Step::Clear),
    ];
    vec(step, 1..40)
}

/// Applies a step to both, and compares what they return and what they are then.
fn apply(m: &Mutator, ours: &mut GcVec<Element>, model: &mut Vec<Plain>, step: Step) {
    let len = model.len();
    let elements = |plain: Vec<Plain>| plain.into_iter().map(|plain| plain.make(m));
    match step {
        Step::Push(value) => {
            ours.push(m, value.make(m)).unwrap();
            model.push(value);
        }
        Step::Pop => assert_eq!(ours.pop().as_ref().map(Plain::of), model.pop()),
        Step::Insert(at, value) => {
            ours.insert(m, at % (len + 1), value.make(m)).unwrap();
            model.insert(at % (len + 1), value);
        }
        Step::Remove(at) if at < len => assert_eq!(Plain::of(&ours.remove(at)), model.remove(at)),
        Step::SwapRemove(at) if at < len => assert_eq!(Plain::of(&ours.swap_remove(at)), model.swap_remove(at)),
        Step::Set(at, value) if at < len => {
            ours[at] = value.make(m);
            model[at] = value;
        }
        Step::Remove(_) | Step::SwapRemove(_) | Step::Set(..) => {}
        Step::Truncate(at) => {
            ours.truncate(at);
            model.truncate(at);
        }
        Step::Retain(divisor) => {
            ours.retain(|element| !Plain::of(element).0.is_multiple_of(divisor));
            model.retain(|plain| !plain.0.is_multiple_of(divisor));
        }
        Step::Dedup => {
            ours.dedup();
            model.dedup();
        }
        Step::Extend(values) => {
            ours.extend(m, elements(values.clone())).unwrap();
            model.extend(values);
        }
        Step::Resize(at, value) => {
            ours.resize(m, at, value.make(m)).unwrap();
            model.resize(at, value);
        }
        Step::Append(values) => {
            let mut other = GcVec::from_iter(m, elements(values.clone())).unwrap();
            ours.append(m, &mut other).unwrap();
            assert!(other.is_empty());
            model.extend(values);
        }
        Step::SplitOff(at) => {
            let (rest, expected) = (ours.split_off(m, at % (len + 1)).unwrap(), model.split_off(at % (len + 1)));
            assert_eq!(rest.iter().map(Plain::of).collect::<Vec<_>>(), expected);
        }
        Step::Rotate(middle) => {
            ours.rotate_left(middle % (len + 1));
            model.rotate_left(middle % (len + 1));
        }
        Step::Reverse => {
            ours.reverse();
            model.reverse();
        }
        Step::Sort => {
            // The comparison allocates, and so collects in the middle of the sort.
            let by = |element: &Element| m.alloc(Plain::of(element).0 / 4).unwrap();
            ours.sort_by(m, |one, other| by(one).cmp(&by(other))).unwrap();
            model.sort_by_key(|plain| plain.0 / 4);
        }
        Step::SortUnstable => {
            ours.sort_unstable_by(|one, other| {
                m.alloc(1_u64).unwrap();
                Plain::of(one).cmp(&Plain::of(other))
            });
            model.sort_unstable();
        }
        Step::Shrink => {
            ours.shrink_to_fit(m).unwrap();
            assert_eq!(ours.capacity(), len);
        }
        Step::Drain => {
            let mut drained = ours.drain();
            let ends = (drained.next(), drained.next_back());
            let mut expected = model.drain(..);
            assert_eq!(ends.0.as_ref().map(Plain::of), expected.next());
            assert_eq!(ends.1.as_ref().map(Plain::of), expected.next_back());
            assert!(drained.map(|element| Plain::of(&element)).eq(expected));
        }
        Step::Clear => {
            ours.clear();
            model.clear();
        }
    }
    assert_eq!(ours.iter().map(Plain::of).collect::<Vec<_>>(), *model);
    assert!(ours.capacity() >= ours.len());
}

#[rstest]
fn a_vector_is_what_std_makes_of_the_same_steps(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    for_each_case(by, 100, steps(), |m, steps| {
        let (mut ours, mut model) = (GcVec::new(), Vec::new());
        steps.into_iter().for_each(|step| apply(m, &mut ours, &mut model, step));
        let moved = ours.into_slice(m).unwrap();
        m.collect().unwrap();
        assert_eq!(moved.iter().map(Plain::of).collect::<Vec<_>>(), model);
    });
}

/// Elements that have no bytes, or are not whole words.
#[test]
fn vectors_of_units_bytes_and_pairs_of_bytes() {
    for_each_case(By::Signals, 30, vec(any::<(u8, u8)>(), 0..50), |m, pairs| {
        let units = GcVec::from_iter(m, pairs.iter().map(|_| ())).unwrap();
        assert_eq!(units.len(), pairs.len());
        let mut ours = GcVec::from_iter(m, pairs.iter().copied()).unwrap();
        ours.sort(m).unwrap();
        let mut model = pairs;
        model.sort_unstable();
        assert_eq!(*ours, model[..]);
        let mut bytes = GcVec::from_iter(m, model.iter().map(|pair| pair.0)).unwrap();
        bytes.insert(m, 0, 7).unwrap();
        assert_eq!((bytes.remove(0), bytes.len()), (7, model.len()));
    });
}

#[test]
fn a_vector_of_vectors_in_an_object_keeps_everything() {
    for_each_case(By::Signals, 30, vec(vec(any::<u64>(), 0..10), 0..10), |m, rows| {
        let mut table = GcVec::new();
        for (index, row) in rows.iter().enumerate() {
            let name = m.alloc_str(&format!("row {index}")).unwrap();
            let numbers = GcVec::from_iter(m, row.iter().map(|number| m.alloc(*number).unwrap())).unwrap();
            table.push(m, Row { name, numbers }).unwrap();
        }
        let table = m.alloc(table).unwrap();
        m.collect().unwrap();
        for (index, (ours, model)) in table.iter().zip(&rows).enumerate() {
            assert_eq!(*ours.name, format!("row {index}"));
            assert!(ours.numbers.iter().map(|number| **number).eq(model.iter().copied()));
        }
    });
}

/// `GcVec::sort` keeps what its elements refer to while std's sort has them in memory of malloc.
#[rstest]
fn the_elements_of_a_long_sort_survive_collections_in_its_comparisons(#[values(By::Signals, By::Safepoints)] by: By) {
    let world = super::hazard::build(super::hazard::builder(), by);
    // SAFETY: this thread keeps every `Gc` and every collection in local variables.
    let m = &unsafe { world.attach("main") }.unwrap();
    // More than std sorts on the stack, which is 4 KiB. Ascending and descending runs make it merge.
    let count = 5000_u64;
    let shuffled = (0..count).map(|index| m.alloc(index * 7919 % count).unwrap());
    let mut numbers = GcVec::from_iter(m, shuffled).unwrap();
    let mut compared = 0;
    let compare = |one: &Gc<u64>, other: &Gc<u64>| {
        compared += 1;
        if compared % 500 == 0 {
            m.collect().unwrap();
        }
        one.cmp(other)
    };
    numbers.sort_by(m, compare).unwrap();
    m.collect().unwrap();
    assert!(numbers.iter().map(|number| **number).eq(0..count));
}

#[derive(Clone, Debug)]
enum QueueStep {
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
    Drain,
}

fn queue_steps() -> impl Strategy<Value = Vec<QueueStep>> {
    let at = 0..30_usize;
    let step = prop_oneof![
        5 => plain().prop_map(QueueStep::PushFront),
        5 => plain().prop_map(QueueStep::PushBack),
        4 => Just(QueueStep::PopFront),
        3 => Just(QueueStep::PopBack),
        1 => (at.clone(), plain()).prop_map(|(at, value)| QueueStep::Insert(at, value)),
        1 => at.clone().prop_map(QueueStep::Remove),
        1 => (at.clone(), at.clone()).prop_map(|(one, other)| QueueStep::Swap(one, other)),
        1 => (2..9_u8).prop_map(QueueStep::Retain),
        1 => at.prop_map(QueueStep::Truncate),
        1 => vec(plain(), 0..9).prop_map(QueueStep::Extend),
        1 => Just(QueueStep::Drain),
    ];
    vec(step, 1..60)
}

fn apply_to_queue(m: &Mutator, ours: &mut GcDeque<Element>, model: &mut VecDeque<Plain>, step: QueueStep) {
    match step {
        QueueStep::PushFront(value) => {
            ours.push_front(m, value.make(m)).unwrap();
            model.push_front(value);
        }
        QueueStep::PushBack(value) => {
            ours.push_back(m, value.make(m)).unwrap();
            model.push_back(value);
        }
        QueueStep::PopFront => assert_eq!(ours.pop_front().as_ref().map(Plain::of), model.pop_front()),
        QueueStep::PopBack => assert_eq!(ours.pop_back().as_ref().map(Plain::of), model.pop_back()),
        QueueStep::Insert(at, value) => {
            let at = at % (model.len() + 1);
            ours.insert(m, at, value.make(m)).unwrap();
            model.insert(at, value);
        }
        QueueStep::Remove(at) => assert_eq!(ours.remove(at).as_ref().map(Plain::of), model.remove(at)),
        QueueStep::Swap(one, other) => {
            if one < model.len() && other < model.len() {
                ours.swap(one, other);
                model.swap(one, other);
            }
        }
        QueueStep::Retain(divisor) => {
            ours.retain(|element| !Plain::of(element).0.is_multiple_of(divisor));
            model.retain(|plain| !plain.0.is_multiple_of(divisor));
        }
        QueueStep::Truncate(len) => {
            ours.truncate(len);
            model.truncate(len);
        }
        QueueStep::Extend(values) => {
            ours.extend(m, values.iter().map(|plain| plain.make(m))).unwrap();
            model.extend(values);
        }
        QueueStep::Drain => {
            assert!(ours.drain().map(|element| Plain::of(&element)).eq(model.drain(..)));
        }
    }
    assert!(ours.iter().map(Plain::of).eq(model.iter().copied()));
    assert!(ours.iter_mut().rev().map(|element| Plain::of(element)).eq(model.iter().rev().copied()));
    assert_eq!(ours.front().map(Plain::of), model.front().copied());
    assert_eq!(ours.back().map(Plain::of), model.back().copied());
}

#[rstest]
fn a_queue_is_what_std_makes_of_the_same_steps(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    for_each_case(by, 100, queue_steps(), |m, steps| {
        let (mut ours, mut model) = (GcDeque::new(), VecDeque::new());
        steps.into_iter().for_each(|step| apply_to_queue(m, &mut ours, &mut model, step));
        assert_eq!(ours.len(), model.len());
    });
}
