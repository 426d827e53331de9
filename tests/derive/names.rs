//! Names of the program that the generated code must not take for its own.
#![allow(non_upper_case_globals, dead_code, reason = "the names are the test")]

use stopworld::{Gc, Trace, World};

const layout: u64 = 1;
const used: u64 = 2;
const value: u64 = 3;
const field_0: u64 = 4;
const is_leaf: u64 = 5;

/// Not `std::hash::Hash`, and no trait of `u8`.
trait Hash {}

#[derive(Trace)]
struct Keyed<T: Hash + Trace> {
    key: Gc<T>,
}

#[derive(Trace)]
struct Named(u64);

impl Hash for Named {}

#[derive(Trace)]
#[allow(clippy::upper_case_acronyms, reason = "as above")]
enum Constants {
    LAYOUT(Gc<u64>),
    MUTABLE,
    #[allow(non_camel_case_types, reason = "as above")]
    ZERO_IS_READABLE {
        layout: Gc<Keyed<Named>>,
        used: u64,
    },
}

impl Constants {
    /// The trait's constant has the same name, and another value.
    const ZERO_IS_READABLE: u8 = 7;
}

#[test]
fn the_names_of_a_program_are_its_own() {
    let world = World::builder().build().unwrap();
    // SAFETY: this thread keeps every `Gc` in local variables and in objects.
    let m = unsafe { world.attach("main") }.unwrap();
    let key = m.alloc(Keyed { key: m.alloc(Named(layout + used + value + field_0 + is_leaf)).unwrap() }).unwrap();
    let one = m.alloc(Constants::ZERO_IS_READABLE { layout: key, used }).unwrap();
    let other = m.alloc(Constants::LAYOUT(m.alloc(9_u64).unwrap())).unwrap();
    let none = m.alloc(Constants::MUTABLE).unwrap();
    m.collect().unwrap();
    assert!(matches!(&*one, Constants::ZERO_IS_READABLE { layout: key, used: 2 } if key.key.0 == 15));
    assert!(matches!(&*other, Constants::LAYOUT(number) if **number == 9));
    assert!(matches!(&*none, Constants::MUTABLE) && Constants::ZERO_IS_READABLE == 7);
}
