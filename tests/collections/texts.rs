//! `GcString` against `String`.

use std::fmt::Write;

use proptest::collection::vec;
use proptest::prelude::*;
use rstest::rstest;
use stopworld::GcString;

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
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = || proptest::string::string_regex("[aλ€😀]{0,6}").unwrap();
    let step = prop_oneof![
        4 => any::<char>().prop_map(Step::Push),
        4 => text().prop_map(Step::PushStr),
        2 => Just(Step::Pop),
        2 => (0..20_usize, text()).prop_map(|(at, text)| Step::Insert(at, text)),
        2 => (0..20_usize).prop_map(Step::Remove),
        1 => (0..30_usize).prop_map(Step::Truncate),
        1 => any::<i32>().prop_map(Step::Write),
        1 => Just(Step::Clear),
    ];
    vec(step, 1..40)
}

/// The byte position of a character, or of the end.
fn position(text: &str, character: usize) -> usize {
    text.char_indices().nth(character).map_or(text.len(), |(at, _)| at)
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
                Step::Clear => {
                    ours.clear();
                    model.clear();
                }
            }
            assert_eq!(ours, *model);
            assert_eq!((format!("{ours:?}"), ours.to_string()), (format!("{model:?}"), model.clone()));
        }
        assert_eq!(*ours.into_str(m).unwrap(), *model);
    });
}

#[rstest]
#[case::inside_a_character(1)]
#[case::beyond_the_end(9)]
fn a_text_is_not_cut_inside_a_character(#[case] at: usize) {
    for_each_case(By::Signals, 1, Just(()), |m, ()| {
        let mut text = GcString::from_str(m, "λx").unwrap();
        let insert = std::panic::AssertUnwindSafe(|| text.insert_str(m, at, "a"));
        let panic = std::panic::catch_unwind(insert).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("between two characters"));
        assert_eq!(text, "λx");
    });
}
