//! `GcVec` against `Vec`.

use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use rstest::rstest;
use stopworld::{Gc, GcCell, GcVec, Mutator, Trace};

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

    /// Another one, which depends on this.
    pub fn next(self) -> Self {
        Plain(self.0.wrapping_mul(7).wrapping_add(1))
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

/// A range of the indices of `len` elements.
pub fn range_of((one, other): (usize, usize), len: usize) -> Range<usize> {
    let (one, other) = (one % (len + 1), other % (len + 1));
    one.min(other)..one.max(other)
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
    ShrinkTo(usize),
    /// A range, and whether each of some steps of the iterator is at the back.
    Drain((usize, usize), Vec<bool>),
    /// A range, a divisor, and how many are taken.
    ExtractIf((usize, usize), u8, usize),
    Splice((usize, usize), Vec<Plain>),
    DedupBy(u8),
    DedupByKey(u8),
    ResizeWith(usize, Plain),
    Fill(Plain),
    FillWith(Plain),
    RotateRight(usize),
    ExtendFromSlice(Vec<Plain>),
    ExtendFromWithin((usize, usize)),
    RetainMut(u8),
    PopIf(u8),
    ChangeEnds(Plain),
    ChangeTwo(usize, usize),
    ChangeAll,
    Clone,
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = 0..40_usize;
    let range = (0..40_usize, 0..40_usize);
    let changes = prop_oneof![
        at.clone().prop_map(Step::ShrinkTo),
        (range.clone(), vec(any::<bool>(), 0..6)).prop_map(|(range, backs)| Step::Drain(range, backs)),
        (range.clone(), 1..5_u8, 0..9_usize).prop_map(|(range, divisor, most)| Step::ExtractIf(range, divisor, most)),
        (range.clone(), vec(plain(), 0..12)).prop_map(|(range, values)| Step::Splice(range, values)),
        (1..9_u8).prop_map(Step::DedupBy),
        (1..9_u8).prop_map(Step::DedupByKey),
        (at.clone(), plain()).prop_map(|(at, value)| Step::ResizeWith(at, value)),
        plain().prop_map(Step::Fill),
        plain().prop_map(Step::FillWith),
        at.clone().prop_map(Step::RotateRight),
        vec(plain(), 0..12).prop_map(Step::ExtendFromSlice),
        range.prop_map(Step::ExtendFromWithin),
        (2..9_u8).prop_map(Step::RetainMut),
        (1..4_u8).prop_map(Step::PopIf),
        plain().prop_map(Step::ChangeEnds),
        (at.clone(), at.clone()).prop_map(|(one, other)| Step::ChangeTwo(one, other)),
        Just(Step::ChangeAll),
        Just(Step::Clone),
    ];
    let step = prop_oneof![
        16 => changes,
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
        step => apply_to_many(m, ours, model, step),
    }
    assert_eq!(ours.iter().map(Plain::of).collect::<Vec<_>>(), *model);
    assert!(ours.capacity() >= ours.len());
}

/// [`apply`] for the functions that change many elements.
fn apply_to_many(m: &Mutator, ours: &mut GcVec<Element>, model: &mut Vec<Plain>, step: Step) {
    let len = model.len();
    let elements = |plain: Vec<Plain>| plain.into_iter().map(|plain| plain.make(m));
    // Allocates, and so collects, in the middle of an operation.
    let of = |element: &Element| Plain(*m.alloc(Plain::of(element).0).unwrap());
    match step {
        Step::ShrinkTo(capacity) => {
            let before = ours.capacity();
            ours.shrink_to(m, capacity).unwrap();
            assert_eq!(ours.capacity(), before.min(capacity.max(len)));
        }
        Step::Drain(range, backs) => {
            let range = range_of(range, len);
            let (capacity, mut drained, mut expected) =
                (ours.capacity(), ours.drain(range.clone()), model.drain(range));
            for back in backs {
                let one = if back { drained.next_back() } else { drained.next() };
                m.collect().unwrap();
                assert_eq!(one.as_ref().map(Plain::of), if back { expected.next_back() } else { expected.next() });
                assert_eq!(drained.len(), expected.len());
                assert!(drained.as_slice().iter().map(Plain::of).eq(expected.as_slice().iter().copied()));
            }
            drop((drained, expected));
            assert_eq!(ours.capacity(), capacity);
        }
        Step::ExtractIf(range, divisor, most) => {
            let range = range_of(range, len);
            let mut taken = GcVec::new();
            for element in ours.extract_if(range.clone(), |element| of(element).0.is_multiple_of(divisor)).take(most) {
                taken.push(m, element).unwrap();
            }
            let expected = model.extract_if(range, |plain| plain.0.is_multiple_of(divisor)).take(most);
            assert!(expected.eq(taken.iter().map(Plain::of)));
        }
        Step::Splice(range, values) => {
            let range = range_of(range, len);
            let removed = ours.splice(m, range.clone(), elements(values.clone())).unwrap();
            m.collect().unwrap();
            assert!(model.splice(range, values).eq(removed.map(|element| of(&element))));
        }
        Step::DedupBy(divisor) => {
            // The arguments are in the order of std's.
            ours.dedup_by(|one, kept| of(one).0 / divisor == of(kept).0 / divisor && of(one).0 >= of(kept).0);
            model.dedup_by(|one, kept| one.0 / divisor == kept.0 / divisor && one.0 >= kept.0);
        }
        Step::DedupByKey(divisor) => {
            ours.dedup_by_key(|element| of(element).0 % divisor);
            model.dedup_by_key(|plain| plain.0 % divisor);
        }
        Step::ResizeWith(at, value) => {
            let (mut one, mut other) = (value, value);
            let next = |value: &mut Plain| std::mem::replace(value, value.next());
            ours.resize_with(m, at, || next(&mut one).make(m)).unwrap();
            model.resize_with(at, || next(&mut other));
        }
        Step::Fill(value) => {
            ours.fill(value.make(m));
            model.fill(value);
        }
        Step::FillWith(value) => {
            let (mut one, mut other) = (value, value);
            let next = |value: &mut Plain| std::mem::replace(value, value.next());
            ours.fill_with(|| next(&mut one).make(m));
            model.fill_with(|| next(&mut other));
        }
        Step::RotateRight(count) => {
            ours.rotate_right(count % (len + 1));
            model.rotate_right(count % (len + 1));
        }
        Step::ExtendFromSlice(values) => {
            let slice = GcVec::from_iter(m, elements(values.clone())).unwrap();
            ours.extend_from_slice(m, &slice).unwrap();
            model.extend_from_slice(&values);
        }
        Step::ExtendFromWithin(range) => {
            let range = range_of(range, len);
            ours.extend_from_within(m, range.clone()).unwrap();
            model.extend_from_within(range);
        }
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
            let popped = ours.pop_if(|element| of(element).0.is_multiple_of(divisor));
            assert_eq!(popped.as_ref().map(Plain::of), model.pop_if(|plain| plain.0.is_multiple_of(divisor)));
        }
        Step::ChangeEnds(value) => {
            if let Some(first) = ours.first_mut() {
                *first = value.make(m);
            }
            if let Some(last) = ours.last_mut() {
                *last = value.next().make(m);
            }
            model.first_mut().into_iter().for_each(|first| *first = value);
            model.last_mut().into_iter().for_each(|last| *last = value.next());
        }
        Step::ChangeTwo(one, other) => {
            let (two, model) = (ours.get_disjoint_mut([one, other]), model.get_disjoint_mut([one, other]));
            assert_eq!(two.is_ok(), model.is_ok());
            if let (Ok([one, other]), Ok([plain, other_plain])) = (two, model) {
                std::mem::swap(one, other);
                std::mem::swap(plain, other_plain);
            }
        }
        Step::ChangeAll => {
            for element in &mut *ours {
                *element = of(element).next().make(m);
            }
            for plain in &mut *model {
                *plain = plain.next();
            }
            assert!(ours.iter_mut().rev().map(|element| of(element)).eq(model.iter().rev().copied()));
        }
        Step::Clone => {
            let copy = ours.try_clone(m).unwrap();
            assert_eq!((copy.capacity(), &copy), (len, &*ours));
            *ours = copy;
        }
        Step::Clear => {
            ours.clear();
            model.clear();
        }
        step => unreachable!("{step:?} is applied by the other function"),
    }
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

/// An element with a cell that a comparison sets, so large that std's sort moves long runs through memory of malloc.
#[derive(Trace)]
struct Changing {
    key: u64,
    seen: GcCell<Option<Gc<u64>>>,
    _rest: [u64; 6],
}

/// What a comparison stores in an element lives, wherever the sort has the element at that moment.
#[rstest]
fn a_comparison_may_change_what_the_elements_refer_to(#[values(By::Signals, By::Safepoints)] by: By) {
    for_each_case(by, 4, (vec(0..50_u64, 300..500), 70..160_usize), |m, (keys, run)| {
        let mut keys = keys;
        keys.chunks_mut(run).for_each(|run| run.sort_unstable());
        let element =
            |(index, key): (usize, &u64)| Changing { key: *key, seen: GcCell::new(None), _rest: [index as u64; 6] };
        let mut ours = GcVec::from_iter(m, keys.iter().enumerate().map(element)).unwrap();
        let see = |element: &Changing| element.seen.set(Some(m.alloc(element.key + 1000).unwrap()));
        ours.sort_by(m, |one, other| {
            see(one);
            see(other);
            one.key.cmp(&other.key)
        })
        .unwrap();
        let mut expected: Vec<(u64, u64)> = keys.iter().copied().zip(0..).collect();
        expected.sort();
        assert!(ours.iter().map(|element| (element.key, element._rest[0])).eq(expected));
        assert!(ours.iter().all(|element| element.seen.get().is_some_and(|seen| *seen == element.key + 1000)));
    });
}

/// `GcVec::sort` keeps what its elements refer to.
#[rstest]
fn the_elements_of_a_long_sort_survive_collections_in_its_comparisons(#[values(By::Signals, By::Safepoints)] by: By) {
    let world = super::hazard::build(super::hazard::builder(), by);
    // SAFETY: this thread keeps every `Gc` and every collection in local variables.
    let m = &unsafe { world.attach("main") }.unwrap();
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

/// `==` of these very types, also of references.
pub fn eq<T: PartialEq<U> + ?Sized, U: ?Sized>(one: &T, other: &U) -> bool {
    one == other
}

#[rstest]
fn vectors_are_compared_as_those_of_std(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    for_each_case(by, 60, (vec(0..3_u64, 0..4), vec(0..3_u64, 0..4)), |m, (one, other)| {
        let make =
            |numbers: &[u64]| GcVec::from_iter(m, numbers.iter().map(|number| m.alloc(*number).unwrap())).unwrap();
        let (ours, others) = (make(&one), make(&other));
        let equal = one == other;
        assert_eq!(ours == others, equal);
        assert_eq!(ours.cmp(&others), one.cmp(&other));
        assert_eq!(ours.partial_cmp(&others), one.partial_cmp(&other));
        // With what need not be collected.
        let plain = GcVec::from_iter(m, one.iter().copied()).unwrap();
        let mut others = other.clone();
        let (slice, all) = (&other[..], &mut others[..]);
        assert_eq!([eq(&plain, &other), eq(&plain, slice), eq(&plain, &slice), eq(&plain, &all)], [equal; 4]);
        assert_eq!([eq(&other, &plain), eq(slice, &plain), eq(&slice, &plain), eq(&all, &plain)], [equal; 4]);
        if let Ok(other) = <[u64; 3]>::try_from(other) {
            assert_eq!([eq(&plain, &other), eq(&plain, &&other)], [equal; 2]);
        }
        for number in 0..4 {
            assert_eq!(plain.contains(&number), one.contains(&number));
        }
        let (mut sorted, mut model) = (plain, one);
        sorted.sort_unstable_by_key(|number| 3 - number);
        model.sort_unstable_by_key(|number| 3 - number);
        assert_eq!(sorted, model);
        sorted.reverse();
        model.reverse();
        for number in 0..4 {
            assert_eq!(sorted.binary_search(&number).is_ok(), model.binary_search(&number).is_ok());
            assert_eq!(sorted.partition_point(|other| *other < number), model.partition_point(|other| *other < number));
        }
    });
}
