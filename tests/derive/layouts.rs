//! The layouts that the macro generates.

use std::cmp::{Ordering, Reverse};
use std::marker::PhantomData;
use std::mem::offset_of;
use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroU128, Wrapping};
use std::sync::atomic::{AtomicI64, AtomicPtr};

use proptest::prelude::*;
use stopworld::{Array, Gc, GcCell, Layout, Leaf, Trace, Weak, Word, World};

type Action = fn(u64) -> u64;

/// The description of a type, as an interpreter has it.
struct Kind {
    name: &'static str,
}

/// The crate with another name.
mod runtime {
    pub use stopworld as gc;
}

#[derive(Clone, Copy, PartialEq, Debug, Trace, Word)]
#[trace(crate = "self::runtime::gc")]
enum Color {
    White,
    Black,
}

/// One of everything that a field may be.
#[derive(Trace)]
#[allow(dead_code, reason = "only its layout is looked at")]
struct Everything {
    numbers: (u8, i128, f32, char, bool),
    count: AtomicI64,
    not_zero: Option<NonZeroU32>,
    function: fn(u32, &'static str) -> bool,
    text: &'static str,
    nothing: (),
    phantom: PhantomData<Gc<u8>>,
    reference: Gc<Everything>,
    maybe: Option<Gc<Everything>>,
    changing: GcCell<Option<Gc<Everything>>>,
    number: GcCell<f32>,
    weak: Weak<Everything>,
    array: Gc<Array<Option<Gc<Everything>>>>,
    pair: (u32, Gc<u64>),
    same: Wrapping<u32>,
    later: Reverse<Gc<u64>>,
    both: std::ops::Range<Gc<u64>>,
    foreign: unsafe extern "C" fn(*const u8) -> i32,
    compared: Leaf<fn(&str, &str) -> Ordering>,
    address: IpAddr,
    pointer: AtomicPtr<u8>,
    wide: Option<NonZeroU128>,
    order: GcCell<Option<Ordering>>,
    action: GcCell<Option<Action>>,
    kind: GcCell<&'static Kind>,
    answer: Result<u32, Ordering>,
    several: [Gc<u64>; 2],
    #[cfg(any())]
    absent: String,
    #[trace(skip = "a lock of the operating system, without references")]
    skipped: std::num::Wrapping<u32>,
}

#[test]
fn a_struct_has_exactly_the_references_of_its_fields() {
    let references = [
        offset_of!(Everything, reference),
        offset_of!(Everything, maybe),
        offset_of!(Everything, changing),
        offset_of!(Everything, weak),
        offset_of!(Everything, array),
        offset_of!(Everything, pair) + offset_of!((u32, Gc<u64>), 1),
        offset_of!(Everything, later),
        offset_of!(Everything, both) + offset_of!(std::ops::Range<Gc<u64>>, start),
        offset_of!(Everything, both) + offset_of!(std::ops::Range<Gc<u64>>, end),
        offset_of!(Everything, several),
        offset_of!(Everything, several) + 8,
    ];
    let expected = references.into_iter().fold(Layout::LEAF, |layout, offset| layout.with(offset, Layout::WORD));
    assert_eq!(Everything::LAYOUT, expected);
    const { assert!(Everything::MUTABLE) };
    assert_eq!(Everything::NAME, "derive::layouts::Everything");
}

#[derive(Trace)]
struct Unit;

#[derive(Trace)]
struct Tuple<T>(u32, T);

/// The bound of the attribute replaces `T: Trace`.
#[derive(Trace)]
#[trace(bound = "T: 'static")]
struct Tagged<T>(Option<Gc<u64>>, PhantomData<fn() -> T>);

struct NotTrace;

#[derive(Trace)]
enum Plain {
    A,
    B(u64),
    C { pair: (f64, bool) },
}

#[derive(Trace)]
#[allow(dead_code, reason = "only its layout is looked at")]
enum Mixed {
    None,
    One(u64),
    Two(Gc<Mixed>, f64),
}

/// An enum without a variant whose number is 0, and one that can never be in its first variant. Their values must not have a word cleared
/// that is then read as a number.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(u8)]
#[allow(dead_code, reason = "only some variants are made")]
enum FromFive {
    Five = 5,
    Six,
}

#[derive(Trace)]
enum OfFive {
    Value(Leaf<FromFive>, Gc<u64>),
    Nothing,
    Reference(Gc<u64>),
}

#[derive(Trace)]
#[allow(dead_code, reason = "only some variants are made")]
enum NeverFirst {
    Never(Leaf<std::convert::Infallible>, u64),
    Second(Gc<u64>, u64),
    Third(Gc<u64>),
}

#[derive(Trace)]
struct Skips {
    #[trace(skip = "an enum without references")]
    _number: FromFive,
    _reference: Gc<u64>,
}

#[test]
fn words_are_cleared_only_if_zero_can_be_read_as_the_number_of_a_variant() {
    const {
        assert!(Mixed::ZERO_IS_READABLE && !Everything::ZERO_IS_READABLE && Plain::ZERO_IS_READABLE);
        assert!(!OfFive::ZERO_IS_READABLE && !NeverFirst::ZERO_IS_READABLE && !Skips::ZERO_IS_READABLE);
        assert!(!<Option<Skips>>::ZERO_IS_READABLE && !<[OfFive; 2]>::ZERO_IS_READABLE);
        assert!(!<(u32, OfFive)>::ZERO_IS_READABLE && <Option<(Gc<u64>, bool)>>::ZERO_IS_READABLE);
    }
    let world = World::builder().build().unwrap();
    // SAFETY: this thread keeps every `Gc` in local variables.
    let m = unsafe { world.attach("main") }.unwrap();
    let number = m.alloc(3_u64).unwrap();
    let five = m.alloc(OfFive::Value(Leaf(FromFive::Six), number)).unwrap();
    let (nothing, reference) = (m.alloc(OfFive::Nothing).unwrap(), m.alloc(OfFive::Reference(number)).unwrap());
    assert!(matches!(&*five, OfFive::Value(Leaf(FromFive::Six), three) if **three == 3));
    assert!(matches!(&*nothing, OfFive::Nothing));
    assert!(matches!(&*reference, OfFive::Reference(three) if **three == 3));
    let (second, third) =
        (m.alloc(NeverFirst::Second(number, 1)).unwrap(), m.alloc(NeverFirst::Third(number)).unwrap());
    assert!(matches!(&*second, NeverFirst::Second(three, 1) if **three == 3));
    assert!(matches!(&*third, NeverFirst::Third(three) if **three == 3));
}

/// A type without references may be dropped, whatever it is made of.
#[derive(Trace)]
struct Owner {
    name: Leaf<String>,
    #[trace(skip = "owns plain bytes")]
    bytes: Vec<u8>,
}

#[test]
fn layouts_of_units_tuples_enums_and_generic_types() {
    assert_eq!(Unit::LAYOUT, Layout::LEAF);
    assert_eq!(Tuple::<f64>::LAYOUT, Layout::LEAF);
    assert_eq!(Tuple::<Gc<u64>>::LAYOUT, Layout::LEAF.with(offset_of!(Tuple<Gc<u64>>, 1), Layout::WORD));
    assert_eq!(Tagged::<NotTrace>::LAYOUT, Layout::WORD);
    assert_eq!(Plain::LAYOUT, Layout::LEAF);
    assert_eq!(Mixed::LAYOUT, Layout::any_word(size_of::<Mixed>()));
    assert_eq!(Owner::LAYOUT, Layout::LEAF);
    assert_eq!(format!("{:?}", Mixed::LAYOUT), "any word");
    assert_eq!(<Option<(Gc<u64>, Gc<u64>)>>::LAYOUT, Layout::any_word(16));
    assert_eq!(<Option<Tuple<Gc<u64>>>>::LAYOUT, Layout::any_word(size_of::<Option<Tuple<Gc<u64>>>>()));
    let _ = (Unit, Plain::A, Plain::B(1), Plain::C { pair: (1.0, true) }, Mixed::None, Mixed::One(1));
    let owner = Owner { name: Leaf("owner".into()), bytes: vec![1] };
    assert_eq!((owner.name.len(), owner.bytes.len()), (5, 1));
}

#[test]
fn a_reference_beyond_the_first_two_kibibytes_may_be_in_any_word() {
    assert_eq!(<[Gc<u64>; 256]>::LAYOUT, (0..256).fold(Layout::LEAF, |all, word| all.with(word * 8, Layout::WORD)));
    assert_eq!(format!("{:?}", <[Gc<u64>; 257]>::LAYOUT), "any word");
    assert_eq!(<[u64; 10_000]>::LAYOUT, Layout::LEAF);
}

/// Returns what a cell holds after a value was stored in it.
fn through_a_cell<W: Word>(first: W, value: W) -> W {
    let cell = GcCell::new(first);
    cell.set(value);
    cell.get()
}

fn add(a: u32, b: u32) -> u32 {
    a + b
}

proptest! {
    #[test]
    fn a_cell_returns_each_word_as_it_was(
        small in any::<(u8, i8, u16, i16)>(),
        large in any::<(u32, i32, u64, i64, usize, isize)>(),
        others in any::<(bool, char)>(),
        floats in any::<(u32, u64)>(),
    ) {
        prop_assert_eq!(through_a_cell(0, small.0), small.0);
        prop_assert_eq!(through_a_cell(0, small.1), small.1);
        prop_assert_eq!(through_a_cell(0, small.2), small.2);
        prop_assert_eq!(through_a_cell(0, small.3), small.3);
        prop_assert_eq!(through_a_cell(0, large.0), large.0);
        prop_assert_eq!(through_a_cell(0, large.1), large.1);
        prop_assert_eq!(through_a_cell(0, large.2), large.2);
        prop_assert_eq!(through_a_cell(0, large.3), large.3);
        prop_assert_eq!(through_a_cell(0, large.4), large.4);
        prop_assert_eq!(through_a_cell(0, large.5), large.5);
        prop_assert_eq!(through_a_cell(false, others.0), others.0);
        prop_assert_eq!(through_a_cell('a', others.1), others.1);
        prop_assert_eq!(through_a_cell(0.0, f32::from_bits(floats.0)).to_bits(), floats.0);
        prop_assert_eq!(through_a_cell(0.0, f64::from_bits(floats.1)).to_bits(), floats.1);
        prop_assert_eq!(through_a_cell(NonZeroU32::new(large.0), None), None);
        prop_assert_eq!(through_a_cell(None, NonZeroU32::new(large.0)), NonZeroU32::new(large.0));
        prop_assert_eq!(through_a_cell::<fn(u32, u32) -> u32>(u32::wrapping_mul, add)(2, 3), 5);
        let order = others.0.cmp(&true);
        for value in [None, Some(others)] {
            let (flag, letter) = value.unzip();
            prop_assert_eq!(through_a_cell(Some(true), flag), flag);
            prop_assert_eq!(through_a_cell(None, letter), letter);
            prop_assert_eq!(through_a_cell(Some(Ordering::Greater), flag.map(|_| order)), flag.map(|_| order));
            let function: Option<fn(u32, u32) -> u32> = flag.map(|_| add as fn(u32, u32) -> u32);
            prop_assert_eq!(through_a_cell(None, function).map(|add| add(2, 3)), flag.map(|_| 5));
            static KIND: Kind = Kind { name: "kind" };
            let kind = flag.map(|_| &KIND);
            prop_assert_eq!(through_a_cell(None, kind).map(|kind| kind.name), flag.map(|_| "kind"));
            prop_assert_eq!(through_a_cell(&Kind { name: "" }, &KIND).name, "kind");
        }
        prop_assert_eq!(through_a_cell(Ordering::Less, order), order);
        prop_assert_eq!(through_a_cell(Color::White, Color::Black), Color::Black);
    }
}

type Either = Result<([u64; 2], Gc<u64>), Gc<u64>>;

/// A `Result` with references: what its variant refers to lives, and a word that the variant does not use is cleared.
#[test]
fn a_result_keeps_what_its_variant_refers_to() {
    assert_eq!(<Result<u32, f64>>::LAYOUT, Layout::LEAF);
    assert_eq!(Either::LAYOUT, Layout::any_word(size_of::<Either>()));
    let world = World::builder().build().unwrap();
    // SAFETY: this thread keeps every `Gc` in local variables.
    let m = unsafe { world.attach("main") }.unwrap();
    let object = |number| m.alloc::<u64>(number).unwrap();
    let (good, bad): (Gc<Either>, Gc<Either>) =
        (m.alloc(Ok(([7; 2], object(1)))).unwrap(), m.alloc(Err(object(2))).unwrap());
    m.collect().unwrap();
    assert!(matches!(&*good, Ok(([7, 7], one)) if **one == 1));
    assert!(matches!(&*bad, Err(two) if **two == 2));

    let mut value: Either = Ok(([7; 2], object(3)));
    let Ok((numbers, _)) = &mut value else { unreachable!() };
    let numbers = numbers.each_mut().map(std::ptr::from_mut);
    value = Err(object(4));
    let reference = std::ptr::from_ref(value.as_ref().unwrap_err());
    let unused = *numbers.iter().rfind(|number| number.addr() != reference.addr()).unwrap();
    // SAFETY: a word of the value that its variant does not use, and a valid value.
    unsafe {
        unused.write(5);
        Either::clear_unused(&raw mut value);
        assert_eq!(unused.read(), 0);
    }
    assert!(matches!(value, Err(four) if *four == 4));
}
