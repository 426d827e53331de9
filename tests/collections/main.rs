//! References to types without a size, the usual traits, finalizers that are closures; the collections, compared with those of std.
//!
//! The worlds here are paranoid, and collect before each allocation; another thread collects all the time besides.

#![allow(clippy::duplicate_mod, reason = "the two modules of helpers include the same smaller ones")]

#[path = "../hazard/mod.rs"]
mod hazard;
#[path = "../heap_support/mod.rs"]
mod heap_support;
mod leaks;
mod maps;
mod queues;
mod sequences;
mod shared;
mod texts;
mod values;
mod weak_maps;

use hazard::{By, while_collecting};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use stopworld::Mutator;

/// Runs `check` with many values of a strategy, on a mutator of a world that collects before each of its allocations, while another thread
/// collects at any moment.
fn for_each_case<S: Strategy>(by: By, cases: u32, strategy: S, check: impl Fn(&Mutator, S::Value)) {
    let world = hazard::build(hazard::builder().collect_every(0), by);
    while_collecting(&world, || {
        // SAFETY: the checks keep every `Gc` and every collection in local variables and in collected objects. What std's collections have
        // of them, other local variables or collections have too.
        let mutator = unsafe { world.attach("main") }.unwrap();
        let mut runner = TestRunner::new(ProptestConfig::with_cases(cases));
        let result = runner.run(&strategy, |value| {
            check(&mutator, value);
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{error}"));
    });
    assert_eq!(world.damage(), None);
}
