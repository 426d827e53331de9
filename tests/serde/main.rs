//! Collected objects in serde's formats: serde_json, which describes itself, and postcard, which does not and needs the lengths of sequences.

#![allow(clippy::duplicate_mod, reason = "the two modules of helpers include the same smaller ones")]

mod damage;
mod graphs;
#[path = "../hazard/mod.rs"]
mod hazard;
#[path = "../heap_support/mod.rs"]
mod heap_support;
mod values;

use ::serde::Serialize;
use ::serde::de::DeserializeOwned;
use stopworld::serde::with_mutator;
use stopworld::{Mutator, World};

/// Calls `body` with a mutator of a world that collects before each allocation.
fn paranoid<R>(body: impl FnOnce(&Mutator) -> R) -> R {
    let world = hazard::builder().collect_every(0).build().unwrap();
    let result = attached(&world, body);
    assert_eq!(world.damage(), None);
    result
}

fn attached<R>(world: &World, body: impl FnOnce(&Mutator) -> R) -> R {
    // SAFETY: the tests keep every `Gc` and every collection in local variables, in collected objects, and in `Root`s.
    body(&unsafe { world.attach("test") }.unwrap())
}

/// Writes and reads a value in both formats, and calls `check` with each result.
fn there_and_back<T: Serialize + DeserializeOwned>(mutator: &Mutator, value: &T, check: impl Fn(T)) {
    let text = with_mutator(mutator, || serde_json::to_string(value)).unwrap();
    check(with_mutator(mutator, || serde_json::from_str(&text)).unwrap());
    let bytes = with_mutator(mutator, || postcard::to_stdvec(value)).unwrap();
    check(with_mutator(mutator, || postcard::from_bytes(&bytes)).unwrap());
}
