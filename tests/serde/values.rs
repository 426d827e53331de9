//! The form without numbers: as std's types.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::thread;

use ::serde::{Deserialize, Serialize};
use rstest::rstest;
use stopworld::serde::with_mutator;
use stopworld::{
    ByAddress, Gc, GcCell, GcDeque, GcHashMap, GcHashSet, GcMutex, GcString, GcVec, Leaf, Mutator, Root, Trace, World,
};

use crate::{attached, paranoid, there_and_back};

fn json<T: Serialize>(mutator: &Mutator, value: &T) -> String {
    with_mutator(mutator, || serde_json::to_string(value)).unwrap()
}

#[test]
fn collections_look_as_those_of_std_and_are_read_back() {
    paranoid(|mutator| {
        let numbers = [3, 1, 2];
        let vec = GcVec::from_iter(mutator, numbers).unwrap();
        assert_eq!(json(mutator, &vec), serde_json::to_string(&Vec::from(numbers)).unwrap());
        there_and_back(mutator, &vec, |back| assert_eq!(back, vec));

        let mut deque = GcDeque::from_iter(mutator, numbers).unwrap();
        deque.push_front(mutator, 0).unwrap();
        assert_eq!(json(mutator, &deque), serde_json::to_string(&VecDeque::from([0, 3, 1, 2])).unwrap());
        there_and_back(mutator, &deque, |back: GcDeque<i32>| assert!(back.iter().eq(deque.iter())));

        let set: GcHashSet<i32> = GcHashSet::from_iter(mutator, numbers).unwrap();
        let of_std: HashSet<i32> = serde_json::from_str(&json(mutator, &set)).unwrap();
        assert_eq!(of_std, HashSet::from(numbers));
        there_and_back(mutator, &set, |back| assert_eq!(back, set));

        let words = ["to", "be", "or", "not"];
        let mut map = GcHashMap::new();
        for (place, word) in words.iter().enumerate() {
            map.insert(mutator, mutator.alloc_str(word).unwrap(), GcVec::from_iter(mutator, [place]).unwrap()).unwrap();
        }
        let of_std: HashMap<String, Vec<usize>> = serde_json::from_str(&json(mutator, &map)).unwrap();
        assert_eq!(of_std.len(), 4);
        assert_eq!(of_std["or"], [2]);
        there_and_back(mutator, &map, |back: GcHashMap<Gc<str>, GcVec<usize>>| assert_eq!(back, map));

        let text = GcString::from_str(mutator, "a \"λ\"").unwrap();
        assert_eq!(json(mutator, &text), r#""a \"λ\"""#);
        there_and_back(mutator, &text, |back| assert_eq!(back, text));
    });
}

#[derive(Trace, Serialize, Deserialize, Debug, PartialEq)]
enum Shape {
    Nothing,
    Circle { radius: f64 },
    Group(Gc<[Shape]>),
    Named(Gc<str>, Gc<Shape>),
}

/// The same type with std's references.
#[derive(Serialize, Deserialize, Debug, PartialEq)]
#[serde(rename = "Shape")]
enum OfStd {
    Nothing,
    Circle { radius: f64 },
    Group(Box<[OfStd]>),
    Named(String, Box<OfStd>),
}

#[test]
fn objects_look_as_boxes_and_are_read_back() {
    paranoid(|mutator| {
        let circle = mutator.alloc(Shape::Circle { radius: 0.5 }).unwrap();
        let named = Shape::Named(mutator.alloc_str("dot").unwrap(), circle);
        let mut parts = GcVec::new();
        parts.push(mutator, named).unwrap();
        parts.push(mutator, Shape::Nothing).unwrap();
        let group = Shape::Group(parts.into_slice(mutator).unwrap());
        let of_std = OfStd::Group(Box::new([
            OfStd::Named("dot".to_owned(), Box::new(OfStd::Circle { radius: 0.5 })),
            OfStd::Nothing,
        ]));
        assert_eq!(json(mutator, &group), serde_json::to_string(&of_std).unwrap());
        assert_eq!(serde_json::from_str::<OfStd>(&json(mutator, &group)).unwrap(), of_std);
        there_and_back(mutator, &group, |back| assert_eq!(back, group));
    });
}

#[derive(Trace, Serialize, Deserialize)]
struct Places {
    number: GcCell<u32>,
    next: GcCell<Option<Gc<u64>>>,
    count: GcMutex<u8>,
    names: GcMutex<GcVec<Gc<str>>>,
    #[serde(skip)]
    skipped: GcCell<Option<Gc<u64>>>,
}

#[test]
fn cells_and_locks_look_as_their_values() {
    paranoid(|mutator| {
        let names = GcVec::from_iter(mutator, [mutator.alloc_str("a").unwrap()]).unwrap();
        let places = Places {
            number: GcCell::new(7),
            next: GcCell::new(Some(mutator.alloc(8).unwrap())),
            count: GcMutex::new(9),
            names: GcMutex::new(names),
            skipped: GcCell::new(Some(mutator.alloc(10).unwrap())),
        };
        assert_eq!(json(mutator, &places), r#"{"number":7,"next":8,"count":9,"names":["a"]}"#);
        there_and_back(mutator, &places, |back: Places| {
            assert_eq!((back.number.get(), back.next.get().map(|next| *next)), (7, Some(8)));
            assert_eq!((*back.count.lock(mutator), &*back.names.lock(mutator)[0]), (9, "a"));
            assert_eq!(back.skipped.get(), None);
        });
    });
}

#[test]
fn roots_are_read_into_memory_of_malloc() {
    paranoid(|mutator| {
        let all: Vec<Root<u64>> = (0..20).map(|number| mutator.root(mutator.alloc(number).unwrap())).collect();
        let by_name: BTreeMap<String, Root<u64>> = BTreeMap::from([("seven".to_owned(), all[7].clone())]);
        assert_eq!(json(mutator, &by_name), r#"{"seven":7}"#);
        there_and_back(mutator, &all, |back| {
            assert!(back.iter().map(|root| *root.get(mutator)).eq(0..20));
        });
    });
}

#[test]
fn leaves_and_keys_by_address_look_as_their_values() {
    paranoid(|mutator| {
        let leaf = mutator.alloc(Leaf("text".to_owned())).unwrap();
        assert_eq!(json(mutator, &leaf), r#""text""#);
        there_and_back(mutator, &leaf, |back: Gc<Leaf<String>>| assert_eq!(**back, "text"));
        let set: GcHashSet<ByAddress<Leaf<String>>> = GcHashSet::from_iter(mutator, [ByAddress(leaf)]).unwrap();
        assert_eq!(json(mutator, &set), r#"["text"]"#);
        there_and_back(mutator, &set, |back: GcHashSet<ByAddress<Leaf<String>>>| {
            assert_eq!(back.iter().map(|key| (**key).0.clone()).collect::<Vec<_>>(), ["text"]);
        });
    });
}

#[rstest]
#[case::object(&|| serde_json::from_str::<Gc<u64>>("1").map(drop))]
#[case::text(&|| serde_json::from_str::<Gc<str>>("\"a\"").map(drop))]
#[case::array(&|| serde_json::from_str::<Gc<[u8]>>("[1]").map(drop))]
#[case::vec(&|| serde_json::from_str::<GcVec<u8>>("[]").map(drop))]
#[case::map(&|| serde_json::from_str::<GcHashMap<u8, u8>>("{}").map(drop))]
#[case::graph(&|| serde_json::from_str::<stopworld::serde::Graph<u8>>("{}").map(drop))]
fn reading_needs_a_mutator(#[case] read: &dyn Fn() -> Result<(), serde_json::Error>) {
    let error = read().unwrap_err().to_string();
    assert!(
        error.starts_with("this thread has no mutator for collected objects: call serde in `stopworld::serde"),
        "{error}"
    );
}

#[test]
fn the_mutator_is_there_until_the_outer_call_ends() {
    let read = || serde_json::from_str::<Gc<u64>>("1");
    paranoid(|mutator| {
        with_mutator(mutator, || {
            let inner = with_mutator(mutator, || read().unwrap());
            let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                with_mutator(mutator, || panic!("of the test"));
            }));
            assert!(panics.is_err());
            assert_eq!((*read().unwrap(), *inner), (1, 1));
        });
        assert!(read().is_err());
    });
}

#[test]
fn a_full_heap_is_an_error() {
    let world = World::builder().heap_limit(1 << 20).build().unwrap();
    attached(&world, |mutator| {
        let text = format!("[{}0]", "0,".repeat(1 << 20));
        let error = with_mutator(mutator, || serde_json::from_str::<GcVec<u64>>(&text)).unwrap_err().to_string();
        assert!(error.contains("heap"), "{error}");
        assert_eq!(*with_mutator(mutator, || serde_json::from_str::<Gc<u64>>("5")).unwrap(), 5);
    });
}

#[test]
fn a_locked_mutex_is_waited_for_and_an_own_one_is_an_error() {
    let world = World::builder().build().unwrap();
    attached(&world, |mutator| {
        let mutex = mutator.alloc(GcMutex::new(GcVec::from_iter(mutator, [1_u8]).unwrap())).unwrap();
        let guard = mutex.lock(mutator);
        let error = with_mutator(mutator, || serde_json::to_string(&mutex)).unwrap_err().to_string();
        assert_eq!(error, "this thread holds a `GcMutex` that is to be serialized");
        let error = serde_json::to_string(&mutex).unwrap_err().to_string();
        assert!(error.starts_with("a `GcMutex` is locked"), "{error}");
        let root = mutator.root(mutex);
        // SAFETY: as in `attached`.
        let other = unsafe {
            world.spawn("other", move |mutator| with_mutator(mutator, || serde_json::to_string(&root)).unwrap())
        };
        let mut guard = guard;
        thread::sleep(std::time::Duration::from_millis(20));
        guard.push(mutator, 2).unwrap();
        drop(guard);
        assert_eq!(mutator.blocking(|| other.unwrap().join().unwrap()), "[1,2]");
    });
}
