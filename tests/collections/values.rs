//! References to types without a size, the usual traits, finalizers that are closures, guards out of blocking regions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use proptest::prelude::*;
use rstest::rstest;
use stopworld::{Gc, GcCell, Leaf, Mutator, OutOfMemory, Root, Trace, Weak, Word, World};

use super::for_each_case;
use super::hazard::{By, build, builder};

#[derive(Trace)]
struct Everything {
    text: Gc<str>,
    numbers: Gc<[u32]>,
    texts: Gc<[Gc<str>]>,
    shown: Option<Gc<dyn Display>>,
    weak: GcCell<Option<Weak<str>>>,
    changing: GcCell<Gc<[Gc<str>]>>,
}

/// A type whose functions have the names of those of `Gc`.
#[derive(Trace)]
struct Namesake(u64);

impl Namesake {
    fn addr(&self) -> u64 {
        self.0
    }

    fn type_info(&self) -> &'static str {
        "namesake"
    }
}

#[test]
fn the_functions_of_a_reference_hide_no_method_of_its_value() {
    let world = build(builder(), By::Signals);
    // SAFETY: this thread keeps every `Gc` in local variables.
    let m = unsafe { world.attach("main") }.unwrap();
    let (text, namesake) = (m.alloc_str("text").unwrap(), m.alloc(Namesake(7)).unwrap());
    assert_eq!(text.as_ptr(), text.as_bytes().as_ptr());
    assert_eq!((namesake.addr(), namesake.type_info()), (7, "namesake"));
    assert_eq!(Gc::as_ptr(namesake).addr(), Gc::addr(namesake));
}

#[rstest]
fn objects_without_a_size_live_as_long_as_they_are_referenced(
    #[values(By::Signals, By::Safepoints, By::Debugger)] by: By,
) {
    for_each_case(by, 20, proptest::collection::vec(".{0,40}", 1..8), |m, words| {
        let texts = m.try_alloc_array_with(words.len(), |index| m.alloc_str(&words[index])).unwrap();
        let object = m
            .alloc(Everything {
                text: texts[0],
                numbers: m.alloc_slice(&words.iter().map(|word| word.len() as u32).collect::<Vec<_>>()).unwrap(),
                texts,
                shown: Some(m.alloc_dyn(texts[0], |text| text as &dyn Display).unwrap()),
                weak: GcCell::new(Some(m.alloc_weak(texts[0]).unwrap())),
                changing: GcCell::new(m.alloc_slice(&[]).unwrap()),
            })
            .unwrap();
        object.changing.set(m.alloc_slice(&texts[1..]).unwrap());
        m.collect().unwrap();
        assert_eq!(*object.text, *words[0]);
        let mut lengths = Vec::new();
        for length in &object.numbers {
            lengths.push(*length as usize);
        }
        assert!(lengths.into_iter().eq(words.iter().map(String::len)));
        assert!(object.numbers.iter().zip(&words).all(|(len, word)| *len as usize == word.len()));
        assert!(object.texts.iter().zip(&words).all(|(text, word)| **text == **word));
        assert_eq!(object.shown.unwrap().to_string(), words[0]);
        assert!(Gc::ptr_eq(object.weak.get().unwrap().upgrade().unwrap(), object.text));
        assert!(object.changing.get().iter().map(|text| &**text).eq(words[1..].iter().map(|word| &**word)));
    });
}

#[test]
fn a_world_that_collects_every_0_bytes_collects_before_each_allocation() {
    let world = build(builder().collect_every(0), By::Signals);
    // SAFETY: this thread keeps every `Gc` in local variables.
    let m = unsafe { world.attach("main") }.unwrap();
    for expected in (1..100).step_by(3) {
        let small = m.alloc(u64::from(expected)).unwrap();
        let text = m.alloc_str("text").unwrap();
        let large = m.alloc_array(5000, |index| index).unwrap();
        assert_eq!(world.totals().collections, expected + 2);
        assert_eq!((*small, &*text, large[4999]), (u64::from(expected), "text", 4999));
    }
}

#[test]
fn a_root_keeps_and_a_weak_reference_does_not_keep_a_text() {
    let world = build(builder(), By::Signals);
    let make = |m: &Mutator| {
        let (kept, dead) = (m.alloc_str("kept").unwrap(), m.alloc_str("dead").unwrap());
        (m.root(kept), m.root(m.alloc_weak(kept).unwrap()), m.root(m.alloc_weak(dead).unwrap()))
    };
    // SAFETY: the threads keep every `Gc` in local variables.
    let (root, weak, dead) = unsafe { world.spawn("maker", make) }.unwrap().join().unwrap();
    world.collect().unwrap();
    // SAFETY: as above.
    let m = unsafe { world.attach("main") }.unwrap();
    assert_eq!(&*root.get(&m), "kept");
    assert_eq!(weak.get(&m).upgrade().as_deref(), Some("kept"));
    assert_eq!(dead.get(&m).upgrade(), None);
    assert_eq!(format!("{:?}", dead.get(&m)), "(Weak)");
}

#[test]
fn an_array_ends_at_the_first_error_of_its_function() {
    let world = build(builder(), By::Signals);
    // SAFETY: this thread keeps every `Gc` in local variables.
    let m = unsafe { world.attach("main") }.unwrap();
    #[derive(Debug, PartialEq)]
    enum Failure {
        Odd(usize),
        Memory,
    }
    impl From<OutOfMemory> for Failure {
        fn from(_: OutOfMemory) -> Self {
            Failure::Memory
        }
    }
    let even = |limit| move |index: usize| if index < limit { Ok(index * 2) } else { Err(Failure::Odd(index)) };
    assert_eq!(m.try_alloc_array_with(4, even(9)).as_deref(), Ok(&[0, 2, 4, 6][..]));
    assert_eq!(m.try_alloc_array_with(4, even(2)), Err(Failure::Odd(2)));
    assert_eq!(m.try_alloc_array_with(usize::MAX, even(2)), Err(Failure::Memory));
    assert!(m.alloc_array_with(usize::MAX / 4, |index| index as u64).is_err());
}

trait Area {
    fn area(&self) -> f64;
}

#[derive(Trace)]
struct Square(f64);

#[derive(Trace)]
struct Sum(Gc<dyn Area>, Gc<dyn Area>);

impl Area for Square {
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}

impl Area for Sum {
    fn area(&self) -> f64 {
        self.0.area() + self.1.area()
    }
}

#[rstest]
fn trait_objects_call_the_methods_of_their_values(#[values(By::Signals, By::Safepoints)] by: By) {
    for_each_case(by, 10, proptest::collection::vec(1.0..9.0_f64, 1..20), |m, sides| {
        let mut total: Gc<dyn Area> = m.alloc_dyn(Square(0.0), |square| square as &dyn Area).unwrap();
        for side in &sides {
            let square = m.alloc_dyn(Square(*side), |square| square as &dyn Area).unwrap();
            total = m.alloc_dyn(Sum(total, square), |sum| sum as &dyn Area).unwrap();
        }
        m.collect().unwrap();
        let expected = sides.iter().fold(0.0, |total, side| total + side * side);
        assert_eq!(total.area(), expected);
    });
}

#[test]
fn a_conversion_to_another_object_is_refused() {
    let world = build(builder(), By::Signals);
    // SAFETY: this thread keeps every `Gc` in local variables.
    let m = unsafe { world.attach("main") }.unwrap();
    static OTHER: u64 = 7;
    let convert = AssertUnwindSafe(|| m.alloc_dyn(8_u64, |_| &OTHER as &dyn Debug));
    let panic = catch_unwind(convert).unwrap_err();
    assert!(panic.downcast_ref::<&str>().unwrap().contains("something else than its argument"));
}

/// A value behind a trait object is dropped like any other.
#[test]
fn the_value_of_a_dead_trait_object_is_dropped_once() {
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    #[derive(Debug)]
    struct Counts;
    impl Drop for Counts {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
    let world = build(builder(), By::Signals);
    let make = |m: &Mutator| {
        for _ in 0..10 {
            m.alloc_dyn(Leaf(Counts), |counts| counts as &dyn Debug).unwrap();
        }
    };
    // SAFETY: the thread keeps every `Gc` in local variables.
    unsafe { world.spawn("maker", make) }.unwrap().join().unwrap();
    world.collect().unwrap();
    world.close(Duration::from_secs(60)).unwrap();
    assert_eq!(DROPPED.load(Ordering::Relaxed), 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn references_compare_hash_and_print_as_their_values(one in ".{0,5}", other in ".{0,5}", number in any::<i64>()) {
        let world = World::builder().heap_limit(16 << 20).build().unwrap();
        // SAFETY: this thread keeps every `Gc` in local variables; the map is used before they are gone.
        let m = unsafe { world.attach("main") }.unwrap();
        let (a, b) = (m.alloc_str(&one).unwrap(), m.alloc_str(&other).unwrap());
        prop_assert_eq!(a == b, one == other);
        prop_assert_eq!(a.cmp(&b), one.cmp(&other));
        prop_assert_eq!(a.partial_cmp(&b), one.partial_cmp(&other));
        prop_assert_eq!((format!("{a:?}"), format!("{a}")), (format!("{one:?}"), one.clone()));
        prop_assert_eq!(format!("{a:p}"), format!("{:#x}", Gc::addr(a)));
        prop_assert!(Gc::ptr_eq(a, a) && !Gc::ptr_eq(a, b));
        let map = HashMap::from([(a, 1)]);
        prop_assert_eq!(map.get(one.as_str()), Some(&1));
        prop_assert_eq!(map.contains_key(other.as_str()), one == other);
        let number_object = m.alloc(number).unwrap();
        prop_assert_eq!(format!("{number_object:>20}"), format!("{number:>20}"));
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Trace, Word)]
enum Color {
    #[default]
    White,
    Gray,
    Black,
}

#[derive(Clone, Copy, Debug, PartialEq, Word)]
#[repr(i64)]
enum Far {
    Low = i64::MIN,
    High = i64::MAX,
}

#[derive(Clone, Copy, Debug, PartialEq, Word)]
enum Only {
    One,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Trace)]
struct Node {
    color: GcCell<Color>,
    key: u64,
}

#[test]
fn an_enum_without_fields_is_a_word() {
    let colors = [const { GcCell::new(Color::Gray) }; 3];
    colors[1].set(Color::Black);
    assert_eq!(colors.each_ref().map(GcCell::get), [Color::Gray, Color::Black, Color::Gray]);
    assert_eq!(colors[0].compare_exchange(Color::Gray, Color::White), Ok(Color::Gray));
    let far = GcCell::new(Far::Low);
    assert_eq!((far.replace(Far::High), far.get()), (Far::Low, Far::High));
    assert_eq!(GcCell::new(Only::One).get(), Only::One);
    let node = Node { color: GcCell::new(Color::Black), key: 1 };
    assert_eq!(node, node.clone());
    assert!(node > Node::default());
}

#[test]
fn roots_of_the_same_object_are_equal() {
    let world = build(builder(), By::Signals);
    // SAFETY: this thread keeps every `Gc` in local variables.
    let m = unsafe { world.attach("main") }.unwrap();
    let (one, other) = (m.alloc_str("same").unwrap(), m.alloc_str("same").unwrap());
    let (root, clone): (Root<str>, _) = (m.root(one), m.root(one).clone());
    assert_eq!(root, clone);
    assert_ne!(root, m.root(other));
    assert_eq!(HashMap::from([(root, 1)]).get(&clone), Some(&1));
    // SAFETY: as above.
    let thread = unsafe { world.spawn("named", |_| ()) }.unwrap();
    assert!(format!("{thread:?}").contains("\"named\""));
    thread.join().unwrap();
}

/// Counts its drops.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_closure_of_a_finalizer_is_called_once_or_dropped_when_the_world_closes() {
    let world = build(builder(), By::Signals);
    let (dropped, called) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (send, receive) = mpsc::channel();
    let counted = || (Counted(Arc::clone(&dropped)), Arc::clone(&called), send.clone());
    let closures: Vec<_> = (0..20).map(|_| counted()).collect();
    let make = move |m: &Mutator| {
        let mut kept = Vec::new();
        for (number, (counted, called, send)) in closures.into_iter().enumerate() {
            let object = m.alloc_str(&number.to_string()).unwrap();
            if number % 2 == 0 {
                kept.push(m.root(object));
            }
            // The closure also has a root, which must not keep the world's memory for ever.
            let root = m.root(m.alloc(number as u64).unwrap());
            let finalizer = move |m: &Mutator, object: Gc<str>| {
                called.fetch_add(1, Ordering::Relaxed);
                assert_eq!(*object, root.get(m).to_string());
                drop(counted);
                if number == 7 {
                    panic!("a finalizer may panic");
                }
                send.send(object.parse::<usize>().unwrap()).unwrap();
            };
            m.set_finalizer(object, finalizer).unwrap();
        }
        kept
    };
    // SAFETY: the thread keeps every `Gc` in local variables and in roots.
    let kept = unsafe { world.spawn("maker", make) }.unwrap().join().unwrap();
    world.collect().unwrap();
    let mut seen: Vec<usize> = (0..9).map(|_| receive.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, [1, 3, 5, 9, 11, 13, 15, 17, 19]);
    assert_eq!(called.load(Ordering::Relaxed), 10);
    assert_eq!(dropped.load(Ordering::Relaxed), 10);
    let weak = world.downgrade();
    drop(kept);
    world.close(Duration::from_secs(60)).unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 20, "those of living objects too");
    drop(world);
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while weak.is_alive() {
        assert!(std::time::Instant::now() < deadline, "the world's memory was kept");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(called.load(Ordering::Relaxed), 10);
}

#[rstest]
fn a_guard_is_returned_from_a_blocking_region(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    let world = build(builder(), by);
    let total = Arc::new(Mutex::new(0_u64));
    let work = |total: Arc<Mutex<u64>>| {
        move |m: &Mutator| {
            for _ in 0..50 {
                let number = m.alloc(1_u64).unwrap();
                let mut total = m.blocking(|| total.lock()).unwrap();
                let sum = m.alloc(*total + *number).unwrap();
                m.safepoint();
                *total = *sum;
            }
        }
    };
    super::hazard::while_collecting(&world, || {
        // SAFETY: the threads keep every `Gc` in local variables.
        let threads: Vec<_> =
            (0..3).map(|_| unsafe { world.spawn("adder", work(Arc::clone(&total))) }.unwrap()).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(*total.lock().unwrap(), 150);
}

/// The types do not exclude a mutator in a thread-local: the contract of `attach` does.
#[test]
fn a_root_is_not_read_in_a_blocking_region() {
    thread_local! {
        static MUTATOR: RefCell<Option<Mutator>> = const { RefCell::new(None) };
    }
    let world = build(builder(), By::Signals);
    // SAFETY: this thread keeps no `Gc`.
    MUTATOR.set(Some(unsafe { world.attach("main") }.unwrap()));
    let with = |f: &dyn Fn(&Mutator)| MUTATOR.with_borrow(|mutator| f(mutator.as_ref().unwrap()));
    let root = MUTATOR.with_borrow(|m| m.as_ref().unwrap().root(m.as_ref().unwrap().alloc(7_u64).unwrap()));
    with(&|m| assert_eq!(*root.get(m), 7));
    let panic = catch_unwind(AssertUnwindSafe(|| {
        with(&|m| m.blocking(|| MUTATOR.with_borrow(|m| _ = root.get(m.as_ref().unwrap()))));
    }));
    let message = *panic.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.starts_with("a thread uses a root inside its own blocking region"), "{message}");
    with(&|m| assert_eq!(*root.get(m), 7));
    MUTATOR.take();
}
