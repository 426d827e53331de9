//! Graphs with mistakes, and types whose implementations do not agree.

use std::cell::Cell;

use ::serde::{Deserialize, Serialize, Serializer};
use rstest::rstest;
use stopworld::serde::{Graph, with_mutator};
use stopworld::{Gc, GcCell, GcMutex, GcVec, Trace};

use crate::paranoid;

#[derive(Trace, Serialize, Deserialize)]
struct Person {
    name: Gc<str>,
    mother: Option<Gc<Person>>,
    friend: GcCell<Option<Gc<Person>>>,
    pet: GcCell<Option<Gc<Pet>>>,
}

#[derive(Trace, Serialize, Deserialize)]
struct Pet {
    legs: u8,
}

#[rstest]
#[case::right(
    r#"{"root":{"object":[0,{"name":"a","mother":null,"friend":3416301453,"pet":1766558334}]},"then":[null,{"object":[1,{"legs":4}]}]}"#,
    ""
)]
#[case::too_few_contents(
    r#"{"root":{"object":[0,{"name":"a","mother":null,"friend":3416301453,"pet":1766558334}]},"then":[null]}"#,
    "`then` has 1 elements, but the objects have more cells and locks"
)]
#[case::too_many_contents(
    r#"{"root":{"object":[0,{"name":"a","mother":null,"friend":3416301453,"pet":1766558334}]},"then":[null,null,null]}"#,
    "`then` has more than 2 elements, but the objects have only 2 cells and locks"
)]
#[case::a_number_out_of_order(
    r#"{"root":{"object":[1,{"name":"a","mother":null,"friend":3416301453,"pet":1766558334}]},"then":[null,null]}"#,
    "the object has the number 1: expected 0, the next in order"
)]
#[case::no_such_object(
    r#"{"root":{"object":[0,{"name":"a","mother":null,"friend":3416301453,"pet":1766558334}]},"then":[{"same":7},null]}"#,
    "there is no object 7 before this: 1 objects were read"
)]
#[case::another_type(
    r#"{"root":{"object":[0,{"name":"a","mother":null,"friend":3416301453,"pet":1766558334}]},"then":[null,{"same":0}]}"#,
    "Person`; here a `"
)]
#[case::an_object_in_itself(
    r#"{"root":{"object":[0,{"name":"a","mother":{"same":0},"friend":3416301453,"pet":1766558334}]},"then":[null,null]}"#,
    "the object 0 refers to itself by fields that cannot change"
)]
#[case::a_value_in_a_cell(
    r#"{"root":{"object":[0,{"name":"a","mother":null,"friend":{"same":0},"pet":null}]},"then":[null,null]}"#,
    "expected u32"
)]
#[case::the_wrong_contents(
    r#"{"root":{"object":[0,{"name":"a","mother":null,"friend":3416301453,"pet":1766558334}]},"then":[5,null]}"#,
    "expected value at line 1 column 96"
)]
#[case::fields_in_another_order(r#"{"then":[],"root":null}"#, "the field `then` comes before `root`")]
#[case::an_unknown_field(r#"{"rot":null}"#, "unknown field `rot`, expected `root` or `then`")]
#[case::a_missing_field(r#"{"root":null}"#, "missing field `then`")]
#[case::no_graph("[]", "invalid length 0, expected a graph: a struct with the fields `root` and `then`")]
fn a_mistake_in_a_graph_is_named(#[case] text: &str, #[case] message: &str) {
    paranoid(|m| match with_mutator(m, || serde_json::from_str::<Graph<Option<Gc<Person>>>>(text)) {
        Ok(Graph(person)) => {
            assert_eq!(message, "");
            assert_eq!(person.unwrap().pet.get().unwrap().legs, 4);
        }
        Err(error) => assert!(!message.is_empty() && error.to_string().contains(message), "{error}"),
    });
}

thread_local! {
    /// What `Hostile` does when it is serialized.
    static SERIALIZE: Cell<Mood> = const { Cell::new(Mood::Honest) };
}

#[derive(Clone, Copy, Debug)]
enum Mood {
    Honest,
    /// Leaves out a cell.
    Fewer,
    /// Serializes a lock twice.
    More,
    /// Serializes a cell of another type.
    Other,
    /// Serializes a cell that is not in the object.
    Temporary,
    /// Writes a graph inside this one.
    Graph,
    /// Holds the lock of the object.
    Locked,
    Panic,
}

/// An object whose `Serialize` may differ from its `Deserialize`.
#[derive(Trace, Deserialize)]
struct Hostile {
    one: GcCell<Option<Gc<Hostile>>>,
    other: GcMutex<GcVec<Gc<Pet>>>,
}

impl Serialize for Hostile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match SERIALIZE.get() {
            Mood::Honest => (&self.one, &self.other).serialize(serializer),
            Mood::Fewer => (&self.one, ()).serialize(serializer),
            Mood::More => (&self.one, &self.other, &self.other).serialize(serializer),
            Mood::Other => (GcCell::new(None::<Gc<Pet>>), &self.other).serialize(serializer),
            Mood::Temporary => (GcCell::new(self.one.get()), &self.other).serialize(serializer),
            Mood::Graph => {
                // The graph inside has its own numbers, and what it meets stays unknown outside.
                SERIALIZE.set(Mood::Honest);
                serde_json::to_string(&Graph(&self.one)).map_err(::serde::ser::Error::custom)?;
                (&self.one, &self.other).serialize(serializer)
            }
            Mood::Locked => {
                let _locked = self.other.try_lock();
                (&self.one, &self.other).serialize(serializer)
            }
            Mood::Panic => panic!("of the test"),
        }
    }
}

/// Reads a graph of two such objects while `Serialize` is not as it should be.
#[rstest]
#[case(Mood::Honest, "")]
#[case(
    Mood::Fewer,
    "Hostile` has no cell or lock in the field with the number 0: its `Serialize` and `Deserialize` do not agree"
)]
#[case(Mood::More, "")]
#[case(Mood::Other, "do not agree on the types of its cells and locks")]
#[case(Mood::Temporary, "")]
#[case(Mood::Locked, "this thread holds a `GcMutex` that is to be serialized")]
fn implementations_that_do_not_agree_are_an_error(#[case] mood: Mood, #[case] message: &str) {
    paranoid(|m| {
        let pets = GcVec::from_iter(m, [m.alloc(Pet { legs: 3 }).unwrap()]).unwrap();
        let object = m.alloc(Hostile { one: GcCell::new(None), other: GcMutex::new(pets) }).unwrap();
        object.one.set(Some(object));
        let bytes = with_mutator(m, || postcard::to_stdvec(&Graph(object))).unwrap();
        SERIALIZE.set(mood);
        let read = with_mutator(m, || postcard::from_bytes::<Graph<Gc<Hostile>>>(&bytes));
        let json = with_mutator(m, || {
            serde_json::from_str::<Graph<Gc<Hostile>>>(
                r#"{"root":{"object":[0,{"one":0,"other":0}]},"then":[{"same":0},[{"object":[1,{"legs":3}]}]]}"#,
            )
        });
        SERIALIZE.set(Mood::Honest);
        assert_eq!(read.is_ok(), message.is_empty());
        match json {
            Ok(Graph(object)) => {
                assert_eq!(message, "");
                assert_eq!(object.other.lock(m)[0].legs, 3);
            }
            Err(error) => assert!(!message.is_empty() && error.to_string().contains(message), "{error}"),
        }
    });
}

#[rstest]
#[case(Mood::Graph)]
#[case(Mood::Panic)]
#[case(Mood::More)]
fn whatever_serialize_does_the_next_graph_is_right(#[case] mood: Mood) {
    paranoid(|m| {
        let object = m.alloc(Hostile { one: GcCell::new(None), other: GcMutex::new(GcVec::new()) }).unwrap();
        object.one.set(Some(object));
        SERIALIZE.set(mood);
        with_mutator(m, || {
            let written =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| serde_json::to_string(&Graph(object))));
            SERIALIZE.set(Mood::Honest);
            assert_eq!(written.is_err(), matches!(mood, Mood::Panic));
            let text = serde_json::to_string(&Graph(object)).unwrap();
            assert_eq!(text, r#"{"root":{"object":[0,[0,0]]},"then":[{"same":0},[]]}"#);
        });
    });
}

/// A stop does not wait for a thread in a region: it gets no object there, although serde finds the mutator without naming it.
#[test]
fn nothing_is_read_in_a_blocking_region() {
    paranoid(|m| {
        with_mutator(m, || {
            let message = m.blocking(|| serde_json::from_str::<Gc<u64>>("5").unwrap_err().to_string());
            assert!(message.starts_with("this thread is in a blocking region"), "{message}");
            assert_eq!(*serde_json::from_str::<Gc<u64>>("5").unwrap(), 5);
        });
    });
}
