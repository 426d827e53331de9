//! `GcString` against `String`.

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::collection::vec;
use proptest::prelude::*;
use rstest::rstest;
use stopworld::{GcString, Mutator};

use super::for_each_case;
use super::hazard::By;

#[derive(Clone, Debug)]
enum Step {
    Push(char),
    PushStr(String),
    Pop,
    Insert(usize, String),
    Remove(usize),
    Truncate(usize),
    Write(i32),
    InsertChar(usize, char),
    Retain(char),
    /// A range, and whether each of some steps of the iterator is at the back.
    Drain((usize, usize), Vec<bool>),
    ReplaceRange((usize, usize), String),
    SplitOff(usize),
    ExtendChars(String),
    ExtendTexts(Vec<String>),
    ExtendFromWithin((usize, usize)),
    Shrink,
    ShrinkTo(usize),
    Clone,
    ThroughBytes,
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = || proptest::string::string_regex("[aλ€😀]{0,6}").unwrap();
    let range = || (0..20_usize, 0..20_usize);
    let step = prop_oneof![
        4 => any::<char>().prop_map(Step::Push),
        4 => text().prop_map(Step::PushStr),
        2 => Just(Step::Pop),
        2 => (0..20_usize, text()).prop_map(|(at, text)| Step::Insert(at, text)),
        2 => (0..20_usize).prop_map(Step::Remove),
        1 => (0..30_usize).prop_map(Step::Truncate),
        1 => any::<i32>().prop_map(Step::Write),
        1 => (0..20_usize, any::<char>()).prop_map(|(at, character)| Step::InsertChar(at, character)),
        1 => "[aλ€😀]".prop_map(|text| Step::Retain(text.chars().next().unwrap())),
        3 => (range(), vec(any::<bool>(), 0..6)).prop_map(|(range, backs)| Step::Drain(range, backs)),
        3 => (range(), text()).prop_map(|(range, text)| Step::ReplaceRange(range, text)),
        1 => (0..20_usize).prop_map(Step::SplitOff),
        1 => text().prop_map(Step::ExtendChars),
        1 => vec(text(), 0..4).prop_map(Step::ExtendTexts),
        1 => range().prop_map(Step::ExtendFromWithin),
        1 => Just(Step::Shrink),
        1 => (0..40_usize).prop_map(Step::ShrinkTo),
        1 => Just(Step::Clone),
        1 => Just(Step::ThroughBytes),
        1 => Just(Step::Clear),
    ];
    vec(step, 1..40)
}

/// The byte position of a character, or of the end.
fn position(text: &str, character: usize) -> usize {
    text.char_indices().nth(character).map_or(text.len(), |(at, _)| at)
}

/// The byte positions of a range of characters.
fn range_of(text: &str, (one, other): (usize, usize)) -> Range<usize> {
    position(text, one.min(other))..position(text, one.max(other))
}

#[rstest]
fn a_text_is_what_std_makes_of_the_same_steps(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    for_each_case(by, 100, steps(), |m, steps| {
        let (mut ours, mut model) = (GcString::new(), String::new());
        for step in steps {
            match step {
                Step::Push(character) => {
                    ours.push(m, character).unwrap();
                    model.push(character);
                }
                Step::PushStr(text) => {
                    ours.push_str(m, &text).unwrap();
                    model.push_str(&text);
                }
                Step::Pop => assert_eq!(ours.pop(), model.pop()),
                Step::Insert(at, text) => {
                    let at = position(&model, at);
                    ours.insert_str(m, at, &text).unwrap();
                    model.insert_str(at, &text);
                }
                Step::Remove(at) => {
                    let at = position(&model, at);
                    if at < model.len() {
                        assert_eq!(ours.remove(at), model.remove(at));
                    }
                }
                Step::Truncate(at) => {
                    let at = position(&model, at);
                    ours.truncate(at);
                    model.truncate(at);
                }
                Step::Write(number) => {
                    write!(ours.writer(m), "{number:+}").unwrap();
                    write!(model, "{number:+}").unwrap();
                }
                Step::InsertChar(at, character) => {
                    let at = position(&model, at);
                    ours.insert(m, at, character).unwrap();
                    model.insert(at, character);
                }
                Step::Retain(removed) => {
                    ours.retain(|character| character != removed);
                    model.retain(|character| character != removed);
                }
                Step::Drain(range, backs) => {
                    let range = range_of(&model, range);
                    let (mut drained, mut expected) = (ours.drain(range.clone()), model.drain(range));
                    for back in backs {
                        let one = if back { drained.next_back() } else { drained.next() };
                        assert_eq!(one, if back { expected.next_back() } else { expected.next() });
                        assert_eq!(drained.as_str(), expected.as_str());
                    }
                }
                Step::ReplaceRange(range, text) => {
                    let range = range_of(&model, range);
                    ours.replace_range(m, range.clone(), &text).unwrap();
                    model.replace_range(range, &text);
                }
                Step::SplitOff(at) => {
                    let at = position(&model, at);
                    assert_eq!(ours.split_off(m, at).unwrap(), model.split_off(at));
                }
                Step::ExtendChars(text) => {
                    ours.extend(m, text.chars()).unwrap();
                    model.push_str(&text);
                    let characters: Vec<char> = text.chars().collect();
                    ours.extend(m, characters.iter()).unwrap();
                    model.extend(characters.iter());
                }
                Step::ExtendTexts(texts) => {
                    ours.extend(m, texts.iter().map(String::as_str)).unwrap();
                    ours.extend(m, texts.iter().map(|text| m.alloc_str(text).unwrap())).unwrap();
                    ours.extend(m, texts.iter().map(|text| GcString::from_str(m, text).unwrap())).unwrap();
                    ours.extend(m, texts.iter().map(|text| Cow::Borrowed(text.as_str()))).unwrap();
                    (0..4).for_each(|_| model.extend(texts.iter().map(String::as_str)));
                    ours.extend(m, texts.iter().map(|text| text.clone().into_boxed_str())).unwrap();
                    ours.extend(m, texts.clone()).unwrap();
                    (0..2).for_each(|_| model.extend(texts.clone()));
                }
                Step::ExtendFromWithin(range) => {
                    let range = range_of(&model, range);
                    ours.extend_from_within(m, range.clone()).unwrap();
                    model.extend_from_within(range);
                }
                Step::Shrink => {
                    ours.shrink_to_fit(m).unwrap();
                    assert_eq!(ours.capacity(), model.len());
                }
                Step::ShrinkTo(capacity) => {
                    let before = ours.capacity();
                    ours.shrink_to(m, capacity).unwrap();
                    assert_eq!(ours.capacity(), before.min(capacity.max(model.len())));
                }
                Step::Clone => {
                    let copy = ours.try_clone(m).unwrap();
                    assert_eq!((copy.capacity(), &copy), (model.len(), &ours));
                    ours = copy;
                }
                Step::ThroughBytes => {
                    let mut bytes = ours.into_bytes();
                    assert_eq!(bytes, model.as_bytes());
                    ours = GcString::from_utf8(bytes.try_clone(m).unwrap()).unwrap();
                    bytes.push(m, b'\xce').unwrap();
                    let expected = String::from_utf8(bytes.to_vec()).unwrap_err().utf8_error();
                    assert_eq!(GcString::from_utf8(bytes).unwrap_err(), expected);
                }
                Step::Clear => {
                    ours.clear();
                    model.clear();
                }
            }
            assert_eq!(ours, *model);
            assert!(str::from_utf8(ours.as_bytes()).is_ok(), "the bytes are UTF-8");
            assert_eq!((format!("{ours:?}"), ours.to_string()), (format!("{model:?}"), model.clone()));
        }
        assert_eq!(*ours.into_str(m).unwrap(), *model);
    });
}

#[rstest]
#[case::inserted(|m: &Mutator, text: &mut GcString, at: usize| text.insert_str(m, at, "a").unwrap())]
#[case::inserted_char(|m: &Mutator, text: &mut GcString, at: usize| text.insert(m, at, 'a').unwrap())]
#[case::drained_from(|_: &Mutator, text: &mut GcString, at: usize| drop(text.drain(at..)))]
#[case::drained_to(|_: &Mutator, text: &mut GcString, at: usize| drop(text.drain(..at)))]
#[case::replaced(|m: &Mutator, text: &mut GcString, at: usize| text.replace_range(m, at.., "a").unwrap())]
#[case::split(|m: &Mutator, text: &mut GcString, at: usize| _ = text.split_off(m, at).unwrap())]
#[case::extended(|m: &Mutator, text: &mut GcString, at: usize| text.extend_from_within(m, ..at).unwrap())]
fn a_text_is_not_cut_inside_a_character(#[case] cut: fn(&Mutator, &mut GcString, usize), #[values(1, 9)] at: usize) {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let mut text = GcString::from_str(m, "λx").unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| cut(m, &mut text, at))).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        let beyond = at == 9 && (message.contains("beyond the length") || message.contains("begins at 9"));
        assert!(beyond || message.contains("between two characters"), "{message}");
        assert_eq!(text, "λx");
    });
}

#[test]
fn a_leaked_drain_leaves_the_text_unchanged() {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let mut text = GcString::from_str(m, "λx.x€").unwrap();
        let mut drain = text.drain(..4);
        assert_eq!((drain.next(), drain.next_back()), (Some('λ'), Some('.')));
        std::mem::forget(drain);
        assert_eq!(text, "λx.x€");
    });
}

#[test]
fn a_text_is_whole_after_a_panic_of_retain() {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let mut text = GcString::from_str(m, "aλb€c😀d").unwrap();
        let keep = |character| if character == 'c' { panic!("c") } else { character != 'λ' && character != 'b' };
        catch_unwind(AssertUnwindSafe(|| text.retain(keep))).unwrap_err();
        assert_eq!(text, "a€c😀d");
    });
}

#[rstest]
fn texts_are_compared_as_those_of_std(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    for_each_case(by, 60, ("[aλ]{0,2}", "[aλ]{0,2}"), |m, (one, other)| {
        let (ours, others) = (GcString::from_str(m, &one).unwrap(), GcString::from_iter(m, other.chars()).unwrap());
        let (equal, object, cow) = (one == other, m.alloc_str(&other).unwrap(), Cow::Borrowed(other.as_str()));
        assert_eq!([ours == others, ours == other, ours == *other, ours == other.as_str()], [equal; 4]);
        assert_eq!([ours == cow, ours == object], [equal; 2]);
        assert_eq!([other == ours, *other == ours, other.as_str() == ours, cow == ours], [equal; 4]);
        assert_eq!(ours.cmp(&others), one.cmp(&other));
        assert_eq!(ours.partial_cmp(&others), one.partial_cmp(&other));
        assert_eq!(ours[..], one[..]);
        assert_eq!((AsRef::<str>::as_ref(&ours), AsRef::<[u8]>::as_ref(&ours)), (one.as_str(), one.as_bytes()));
    });
}
