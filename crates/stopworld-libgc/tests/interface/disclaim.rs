//! Functions of the program that are asked about each dead object of a kind.

use std::sync::atomic::{AtomicUsize, Ordering};

use rstest::rstest;

use super::*;

/// How often the function was called.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// How many of the objects' second words were not what the test wrote.
static DAMAGED: AtomicUsize = AtomicUsize::new(0);

/// What the second word of an object refers to begins with this number.
const MARK: usize = 0x1dea;

/// The third word of an object says how often it still refuses to be freed.
extern "C" fn disclaim(object: Pointer) -> c_int {
    CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: an object of three words, the second of which is 0 or the address of an object with a word.
    unsafe {
        let words = object.cast::<usize>();
        let other = words.add(1).read() as *const usize;
        if !other.is_null() && other.read() != MARK {
            DAMAGED.fetch_add(1, Ordering::Relaxed);
        }
        let refusals = words.add(2).read();
        words.add(2).write(refusals.saturating_sub(1));
        c_int::from(refusals > 0)
    }
}

/// A kind whose objects of 24 bytes are scanned whole.
fn kind(keeps_referents: bool) -> c_int {
    // SAFETY: as the interface has it: a descriptor of 24 bytes.
    unsafe {
        let kind = GC_new_kind(GC_new_free_list(), 24, 0, 1) as c_int;
        GC_register_disclaim_proc(kind, Some(disclaim), c_int::from(keeps_referents));
        kind
    }
}

/// An object that refers to another and refuses `refusals` times.
fn object(kind: c_int, refusals: usize) -> Pointer {
    // SAFETY: objects of these sizes.
    unsafe {
        let words = GC_generic_malloc(24, kind).cast::<usize>();
        words.add(2).write(refusals);
        let other = GC_malloc(16).cast::<usize>();
        other.write(MARK);
        words.add(1).write(other as usize);
        words.cast()
    }
}

/// Each dead object is asked about once in each collection until it agrees, and then it is freed.
#[rstest]
fn an_object_is_freed_when_its_function_agrees(#[values(false, true)] keeps_referents: bool) {
    let _alone = alone();
    let kind = kind(keeps_referents);
    let (calls, damaged) = (CALLS.load(Ordering::Relaxed), DAMAGED.load(Ordering::Relaxed));
    let objects = hidden(MANY, |index| object(kind, index % 2));
    collect();
    let called = CALLS.load(Ordering::Relaxed) - calls;
    assert!((MANY - FEW..=MANY).contains(&called), "{called}");
    assert!((MANY / 2..=MANY / 2 + FEW).contains(&alive(&objects)), "{} refused", alive(&objects));
    collect();
    assert!(alive(&objects) <= FEW, "{}", alive(&objects));
    let called = CALLS.load(Ordering::Relaxed) - calls;
    assert!((MANY / 2 * 3 - 2 * FEW..=MANY / 2 * 3).contains(&called), "{called}");
    // What an object refers to is not overwritten before it is asked about, whether that is guaranteed or not: this is the stopped world.
    assert_eq!(DAMAGED.load(Ordering::Relaxed), damaged);
    // SAFETY: as the interface has it.
    unsafe { GC_register_disclaim_proc(kind, None, 0) };
}

/// With the flag, what a dead object refers to is freed after it, so a list is freed from its head on, one object a collection.
#[rstest]
#[case::together(false, 1)]
#[case::one_after_the_other(true, 3)]
fn referents_are_freed_with_their_object_or_after_it(#[case] keeps_referents: bool, #[case] collections: usize) {
    let _alone = alone();
    let kind = kind(keeps_referents);
    let tails = hidden(MANY, |_| object(kind, 0));
    // SAFETY: objects of three words.
    let objects = unsafe {
        let middles = hidden(MANY, |_| object(kind, 0));
        let heads = hidden(MANY, |_| object(kind, 0));
        for index in 0..MANY {
            show(heads[index]).cast::<Pointer>().write(show(middles[index]));
            show(middles[index]).cast::<Pointer>().write(show(tails[index]));
        }
        [heads, middles, tails]
    };
    for round in 1..=collections {
        let still = alive(&objects[2]);
        assert!(still >= MANY - FEW, "{still} in round {round}");
        collect();
    }
    assert!(objects.iter().all(|objects| alive(objects) <= FEW));
    // SAFETY: as the interface has it.
    unsafe { GC_register_disclaim_proc(kind, None, 0) };
}
